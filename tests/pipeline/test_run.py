"""Whole models of many kinds, compiled for both targets and run: each has found a fault once."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.pipeline.running import check
from torch import nn
from torch.export import Dim

import penlight


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, other: dict[str, torch.Tensor]) -> Any:
        return (q @ k.mT).softmax(-1) @ other["v"]


def test_one_tensor_as_several_example_inputs() -> None:
    q, k, v = torch.randn(3, 2, 4, 8)
    check(Attention(), (q, q, {"v": q}), (q, k, {"v": v}))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.rnn = kind(4, 3, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.rnn(x)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layer_over_any_length(kind: type[nn.Module]) -> None:
    """Whole where there is a kernel, elsewhere as a loop."""
    shapes = ({0: Dim("batch", max=4), 1: Dim("length", max=9)},)
    calls = [(torch.randn(batch, length, 4),) for batch, length in ((2, 5), (4, 9), (1, 1), (3, 2))]
    check(Recurrent(kind), *calls, dynamic_shapes=shapes)


class Cells(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.then = kind(4, 6), kind(4, 6, bias=False)

    def forward(self, x: torch.Tensor) -> object:
        return self.then(x, self.first(x))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cell_of_any_batch(kind: type[nn.Module]) -> None:
    calls = [(torch.randn(n, 4),) for n in (3, 1, 8)]
    check(Cells(kind), *calls, dynamic_shapes={"x": {0: Dim("n", min=1, max=8)}})


def test_long_sequence_is_a_loop() -> None:
    model = nn.LSTM(4, 6, proj_size=3, bias=False)
    for loaded in check(model, (torch.randn(64, 2, 4),)):
        assert loaded["forward"].instruction_count < 50  # unrolled they would be several hundred


@pytest.mark.parametrize(
    "model",
    [nn.RNN(4, 6, 2, bidirectional=True), nn.RNN(4, 6, nonlinearity="relu"), nn.LSTM(4, 6, proj_size=3)],
    ids=["tanh", "relu", "projected"],
)
def test_a_loop_transposes_no_weights(model: nn.Module) -> None:
    """They are the same in every step; the input comes with its steps first."""
    for loaded in check(model, (torch.randn(40, 2, 4),)):
        names = loaded["forward"].instruction_names()
        assert any(name in ("aten::mm.out", "aten::addmm.out") for name in names), names
        assert not [name for name in names if "permute" in name or "::t_copy" in name], names


class Spectrum(nn.Module):
    """There, and back again with half of it."""

    def forward(self, x: torch.Tensor) -> Any:
        window = torch.hann_window(16)
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        open_ended = torch.stft(x[0], 16, 4, window=window, center=False, onesided=False, return_complex=True)
        return spectrum.abs(), open_ended.real, torch.istft(spectrum * 0.5, 16, 4, window=window)


def test_spectrum_of_any_length() -> None:
    shapes = ({1: Dim("length", min=33, max=96)},)
    check(Spectrum(), *((torch.randn(2, length),) for length in (64, 96, 33)), dynamic_shapes=shapes)


class Rotated(nn.Module):
    """Complex operators that decompose into writes through views."""

    def forward(self, x: torch.Tensor) -> Any:
        turns = torch.polar(torch.ones(3, 4), x[..., 0])
        return torch.view_as_real(torch.view_as_complex(x) * turns), torch.complex(x, x.sin()).abs()


def test_complex_operators_stay_whole() -> None:
    check(Rotated(), (torch.randn(3, 4, 2),))


class ComplexNumbers(nn.Module):
    """A number where an operator takes one, beside tensors of real and of complex numbers."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> Any:
        made = torch.full_like(x, 1j, dtype=torch.complex64), z.new_full((x.shape[0], 2), 2j)
        taken = torch.pow(x, 2j), 1j / z, z**1j, 1j - z, torch.add(z, x, alpha=2j), torch.sub(z, 1, alpha=1j)
        chosen = torch.where(x > 0.5, z, 1j), z.masked_fill(x > 0.5, 1 + 1j), z == 1j, z.clone().fill_(3j)
        return made, taken, chosen


def test_complex_numbers() -> None:
    inputs = [(torch.rand(n), torch.randn(n, dtype=torch.complex64)) for n in (4, 7)]
    check(
        ComplexNumbers(), *inputs, dynamic_shapes=({0: Dim("n", min=2, max=8)}, {0: Dim("n", min=2, max=8)})
    )


def test_complex_convolution() -> None:
    with torch.no_grad():
        check(nn.Conv2d(2, 4, 3, dtype=torch.complex64), (torch.randn(1, 2, 5, 5, dtype=torch.complex64),))


class ComplexSystems(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        solutions = (
            torch.linalg.solve(a, b),
            torch.linalg.solve(a, b[..., 0]),
            torch.linalg.solve(a, b.mT, left=False),
        )
        failed = torch.linalg.inv_ex(a - a[:, :1]).info  # a row of zeros: it has none
        return solutions, torch.linalg.inv(a), failed


def test_complex_systems() -> None:
    draw = [
        (torch.randn(n, 3, 3, dtype=torch.complex64), torch.randn(n, 3, 2, dtype=torch.complex64))
        for n in (2, 5)
    ]
    batch = Dim("batch", min=2, max=6)
    check(ComplexSystems(), *draw, dynamic_shapes=({0: batch}, {0: batch}))


class CountedWhere(nn.Module):
    """The number of results is a size of others."""

    def forward(self, x: torch.Tensor) -> Any:
        rows, columns = torch.where(x > 0)
        return x[rows, columns] + torch.arange(rows.shape[0]), torch.argwhere(x > 1).shape[0]


def test_count_of_true_elements() -> None:
    x = torch.randn(4, 5)
    check(CountedWhere(), (x,), (-x,), (torch.ones(4, 5),))


class Shifts(nn.Module):
    def forward(self, x: torch.Tensor, by: torch.Tensor) -> Any:
        return x << 2, x >> 1, x << by, x >> by


def test_shifts_by_name_in_portable_programs() -> None:
    x, by = torch.tensor([-7, 3, 100]), torch.tensor([1, 2, 3])
    check(Shifts(), (x, by))
    edge = penlight.to_edge(penlight.export(Shifts(), (x, by)), target="portable")
    assert "shift__" not in str(edge)


class Constants(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, "a name", {"more": ("", 3, None, 1.5, True)}


def test_constant_results() -> None:
    check(Constants(), (torch.ones(2),))


def test_least_multiple() -> None:
    """torch takes the factor of a multiple for 2 or more."""
    shapes = ({0: 4 * Dim("n", min=1, max=3)},)
    check(nn.Linear(2, 2), (torch.randn(8, 2),), (torch.randn(4, 2),), dynamic_shapes=shapes)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layer(kind: type[nn.Module]) -> None:
    check(Recurrent(kind), (torch.randn(2, 5, 4),), (torch.randn(2, 5, 4),))


def test_bilinear() -> None:
    check(nn.Bilinear(3, 4, 5), (torch.randn(2, 3), torch.randn(2, 4)))
    batch = {0: Dim("n", max=9)}
    for bias in (False, True):
        layer = nn.Bilinear(6, 4, 3, bias=bias)
        given, others = ((torch.randn(n, 7, 6), torch.randn(n, 7, 4)) for n in (2, 9))
        check(layer, given, others, dynamic_shapes=(batch, batch))
    check(nn.Bilinear(5, 1, 1), (torch.randn(5), torch.randn(1)))


class Spread(nn.Module):
    """Overloads whose name is that of another's out variant."""

    def forward(self, x: torch.Tensor) -> Any:
        return x.std(unbiased=False), x.var(unbiased=False), x.std(), x.var(0), x.std(1, unbiased=False)


def test_spread() -> None:
    check(Spread(), (torch.randn(4, 6),))


class Transposed(nn.Module):
    """Weights that are folded piece by piece, in another order than they are kept in."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(70, 90))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight.t()[:80]
        return torch.bmm(x[None], w[None]) * (self.weight * 2).exp().sum(1)


def test_folded_weights_in_another_order() -> None:
    check(Transposed(), (torch.randn(2, 80),))


@pytest.mark.parametrize("last", [False, True])
def test_channels_last(last: bool) -> None:
    order = torch.channels_last if last else torch.contiguous_format
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish(), nn.Upsample(scale_factor=2)]
    layers += [nn.ConvTranspose2d(8, 4, 2), nn.BatchNorm2d(4)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    for norm in (model[1], model[8]):
        norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.bias)
    x = torch.randn(2, 3, 8, 12)
    others = [
        torch.randn(2, 3, 8, 12),
        torch.randn(2, 3, 8, 12).contiguous(memory_format=torch.channels_last),
    ]
    check(model, (x.contiguous(memory_format=order),), *((other,) for other in others))


class Sizes(nn.Module):
    """Sizes that are calculated in fractions, and numbers that come from sizes."""

    def forward(self, x: torch.Tensor) -> Any:
        length = x.shape[1]
        longer = nn.functional.interpolate(x.mT, scale_factor=2)
        other = nn.functional.interpolate(x.mT, size=length * 2 + 1, mode="linear")
        return longer, other, x / length**0.5, length != x.shape[0], torch.ones(math.ceil(length / 2) + 2)


def test_calculated_sizes() -> None:
    shapes = ({0: Dim("batch", max=6), 1: Dim("length", min=2, max=16)},)
    calls = [(torch.randn(batch, length, 4),) for batch, length in ((2, 5), (8 - 2, 16), (2, 2), (1, 7))]
    check(Sizes(), *calls, dynamic_shapes=shapes)


def test_rounded_sizes() -> None:
    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ones(round(x.shape[0] / 4) + 2)  # halves go to the even one

    check(
        Rounded(),
        *((torch.ones(size),) for size in range(6, 41)),
        dynamic_shapes=({0: Dim("n", min=6, max=40)},),
    )


def test_embedding_with_longest_rows() -> None:
    table = nn.Embedding(5, 3, max_norm=1.0)
    check(table, (torch.tensor([1, 2]),), (torch.tensor([4, 1]),), (torch.tensor([0, 0]),))


def test_pooling_of_any_length() -> None:
    model = nn.Sequential(nn.MaxPool1d(2), nn.MaxPool1d(3, 2, padding=1))
    length = Dim("length", min=8, max=40)
    check(model, *((torch.randn(2, 3, size),) for size in (16, 9, 40)), dynamic_shapes=({2: length},))
