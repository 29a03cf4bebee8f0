"""torch's own transformers, whose forward asks for values of masks that tracing does not have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fused import check
from torch import Tensor, nn
from torch.export import Dim

import penlight

WIDTH, LENGTH = 16, 8
CAUSAL = nn.Transformer.generate_square_subsequent_mask(LENGTH)


def encoder(**options: Any) -> nn.TransformerEncoder:
    norm = nn.LayerNorm(WIDTH) if options.pop("norm", False) else None
    if norm is not None:
        nn.init.normal_(norm.bias)
    checks = options.pop("mask_check", True)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, **{"batch_first": True, **options})
    nested = not layer.norm_first and layer.self_attn.batch_first
    return nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=nested, mask_check=checks)


def decoder() -> nn.TransformerDecoder:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 4, 32, batch_first=True), 2)


class Buffered(nn.Module):
    """The mask is a buffer, or made when it is needed."""

    def __init__(self, inner: nn.Module, mask: Tensor | None, *places: str, **more: Any) -> None:
        super().__init__()
        self.inner, self.places, self.more = inner, places, more
        self.register_buffer("mask", mask)

    def forward(self, *args: Tensor) -> Any:
        mask = self.mask
        if mask is None:
            mask = nn.Transformer.generate_square_subsequent_mask(args[0].shape[1])
        return self.inner(*args, **dict.fromkeys(self.places, mask), **self.more)


X = torch.randn(2, LENGTH, WIDTH)
ENCODERS = {
    "buffer": Buffered(encoder(), CAUSAL, "mask"),
    "made when needed": Buffered(encoder(), None, "mask"),
    "said to be causal": Buffered(encoder(), None, "mask", is_causal=True),
    "of bools": Buffered(encoder(activation="gelu"), CAUSAL < 0, "mask"),
    "norm first": Buffered(encoder(norm_first=True), CAUSAL, "mask"),
    "another norm": Buffered(encoder(norm=True), CAUSAL, "mask"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_causal_masks_are_found(name: str) -> None:
    model = ENCODERS[name].eval()
    check(model, X)
    graph = penlight.to_edge(penlight.export(model, (X,))).methods["forward"].graph
    attention = [node for node in graph.nodes if "attention_in_rows" in str(node.target)]
    assert [node.args[8] for node in attention] == [True, True], "causal, and no mask is read"


def test_batches_second() -> None:
    check(Buffered(encoder(batch_first=False), CAUSAL, "mask"), X.transpose(0, 1).contiguous())


def test_another_mask_is_taken_as_it_is() -> None:
    band = torch.zeros(LENGTH, LENGTH).masked_fill(torch.ones(LENGTH, LENGTH).tril(-3) > 0, -torch.inf)
    check(Buffered(encoder(), band, "mask"), X)


class WithMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = encoder()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.inner(x, mask=mask)


def test_a_mask_that_is_given() -> None:
    model = WithMask().eval()
    program = penlight.load(penlight.compile(model, (X, CAUSAL)).to_bytes())
    for mask in (CAUSAL, CAUSAL.T.contiguous(), torch.zeros_like(CAUSAL)):
        with torch.no_grad():
            torch.testing.assert_close(program(X, mask), model(X, mask), rtol=1e-5, atol=1e-5)


def test_dynamic_length() -> None:
    model = Buffered(encoder(), None, "mask").eval()
    shapes = {"args": ({1: Dim("length", min=2, max=32)},)}
    program = penlight.load(penlight.compile(model, (X,), dynamic_shapes=shapes).to_bytes())
    for length in (2, 19, 32):
        x = torch.randn(2, length, WIDTH)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_decoders() -> None:
    check(Buffered(decoder(), CAUSAL, "tgt_mask"), X, torch.randn(2, 5, WIDTH))
    both = nn.Transformer(WIDTH, 4, 1, 1, 32, batch_first=True)
    check(Buffered(both, CAUSAL, "tgt_mask"), torch.randn(2, 5, WIDTH), X)


class Padded(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.inner(x, src_key_padding_mask=padding)


# Which places of two sequences of four are padded.
PADDED = [
    [[0, 0, 0, 0], [0, 0, 1, 1]],
    [[0, 0, 0, 0], [0, 0, 0, 0]],
    [[0, 1, 1, 1], [1, 1, 1, 1]],
    [[1, 1, 0, 0], [0, 0, 0, 0]],
    [[0, 1, 0, 1], [0, 0, 1, 1]],
]


@pytest.mark.parametrize("as_numbers", [False, True])
@pytest.mark.parametrize("options", [{}, {"norm": True}, {"norm_first": True}], ids=str)
def test_padded_places(options: dict[str, Any], as_numbers: bool) -> None:
    """Zeros where eager mode gives zeros: all of it if what is padded comes last."""
    model, x = Padded(encoder(**options)).eval(), torch.randn(2, 4, WIDTH)

    def mask_of(padded: list[list[int]]) -> Tensor:
        mask = torch.tensor(padded, dtype=torch.bool)
        return torch.zeros(2, 4).masked_fill(mask, -torch.inf) if as_numbers else mask

    program = penlight.load(penlight.compile(model, (x, mask_of(PADDED[0]))).to_bytes())
    for padded in PADDED:
        if options.get("norm_first") and all(padded[1]):
            continue  # eager mode makes NaN of a sequence without places, but not with gradients
        mask = mask_of(padded)
        with torch.no_grad():
            torch.testing.assert_close(program(x, mask), model(x, mask), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_padded_places_without_a_check() -> None:
    model, x = Padded(encoder(mask_check=False, norm=True)).eval(), torch.randn(2, 4, WIDTH)
    mask = torch.tensor(PADDED[0], dtype=torch.bool)
    check(model, x, mask)
    assert not model.inner.mask_check and model.inner.norm is not None, "as it was"


def test_padded_places_and_a_mask() -> None:
    class Both(Padded):
        def forward(self, x: Tensor, padding: Tensor) -> Tensor:
            return self.inner(x, mask=CAUSAL[:4, :4], src_key_padding_mask=padding < 0)

    padding = torch.zeros(2, 4).masked_fill(torch.tensor(PADDED[0], dtype=torch.bool), -torch.inf)
    check(Both(encoder()), torch.randn(2, 4, WIDTH), padding)


def test_training_mode_keeps_padded_places() -> None:
    model, x = Padded(encoder(dropout=0.0)).train(), torch.randn(2, 4, WIDTH)
    mask = torch.tensor(PADDED[0], dtype=torch.bool)
    with pytest.warns(UserWarning, match="training mode"):
        program = penlight.load(penlight.compile(model, (x, mask)).to_bytes())
    with torch.no_grad():
        torch.testing.assert_close(program(x, mask), model(x, mask), rtol=1e-5, atol=1e-5)
