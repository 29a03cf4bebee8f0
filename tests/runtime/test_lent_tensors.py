"""Large inputs are read where the caller has them, and outputs written where the caller wants them.

What would then be read or written wrongly is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import penlight
from penlight.program import Program
from penlight.runtime import library
from penlight.runtime.program import LoadedProgram

SIZES = (32, 64)  # 8 KB
KEY = "penlight.unshared:forward"
OUTPUTS_KEY = "penlight.unshared-outputs:forward"


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.zeros(SIZES))

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def compiled(function: Callable[..., Any], inputs: int = 1, **options: Any) -> Program:
    return penlight.compile(Model(function), tuple(torch.randn(SIZES) for _ in range(inputs)), **options)


def is_lent(program: Program) -> bool:
    return KEY in program.contents.named_data


def addresses(model: LoadedProgram, *args: Any) -> tuple[Any, list[list[int]]]:
    """What a call gives, and where the arguments of its instructions lay."""
    method: Any = model["forward"]
    method.instruction_names()
    found: dict[int, list[int]] = {}

    def look(_: Any, instruction: int, __: bytes, arguments: Any, count: int) -> None:
        found.setdefault(instruction, [arguments[i].data or 0 for i in range(count)])

    observer = library.OBSERVER(look)
    lib = library.library()
    lib.pl_trace_values(method._call.method, observer, None)
    given = method(*args)
    lib.pl_trace_values(method._call.method, library.OBSERVER(), None)
    return given, [found[key] for key in sorted(found)]


def first_address(model: LoadedProgram, *args: Any) -> int:
    """Where the first argument of the first instruction lay."""
    return addresses(model, *args)[1][0][0]


def address_of(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def aligned(sizes: tuple[int, ...] = SIZES, shift: int = 0) -> np.ndarray[Any, Any]:
    """Random numbers, `shift` bytes behind a multiple of 64."""
    count = int(np.prod(sizes)) * 4
    memory = np.zeros(count + 128, np.uint8)
    start = -address_of(memory) % 64 + shift
    array = memory[start : start + count].view(np.float32).reshape(sizes)
    array[...] = np.random.default_rng().standard_normal(sizes, np.float32)
    return array


def softmax(_: Any, x: Tensor) -> Tensor:
    return x.softmax(-1)


def test_a_large_input_is_not_copied() -> None:
    program = compiled(softmax)
    assert is_lent(program)
    model = penlight.load(program)
    for _ in range(3):
        x = aligned()
        x.setflags(write=False)
        assert first_address(model, x) == address_of(x)
        np.testing.assert_allclose(model(x), torch.from_numpy(x.copy()).softmax(-1), rtol=1e-5)


def test_what_is_not_aligned_is_copied() -> None:
    model = penlight.load(compiled(softmax))
    inside = first_address(model, aligned(shift=4))
    for shift in (4, 8, 60):
        x = aligned(shift=shift)
        assert first_address(model, x) == inside
        np.testing.assert_allclose(model(x), torch.from_numpy(x).softmax(-1), rtol=1e-5)
    x = aligned()
    assert first_address(model, x) == address_of(x)


def test_a_result_may_be_the_next_input() -> None:
    """It lies where the run writes what it computes."""
    model = penlight.load(compiled(lambda _, x: (x @ x.mT @ x).tanh() + x), copy=False)
    x = aligned()
    want = torch.from_numpy(x.copy())
    for _ in range(4):
        x = model(x)
        want = (want @ want.mT @ want).tanh() + want
    np.testing.assert_allclose(x, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: x.flatten().softmax(0),
        lambda _, x: (x.view(64, 32) @ x, x),
        lambda _, x: x,
        lambda _, x: x.unsqueeze(0),
        lambda self, x: self.kept.copy_(x),
        lambda _, x: x.add_(1),
        lambda _, x: x.mul_(2).sum(),
        lambda _, x: torch.cat([x, x.flip(0)]),
        lambda _, x: x.relu(),
        lambda _, x: x.index_put((torch.tensor([1, 3]),), torch.zeros(2, 64)),
        lambda _, x: torch.cond(x.sum() > 0, lambda y: y.clone(), lambda y: y * 2, (x,)),
        lambda _, x: torch._higher_order_ops.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y.tanh()), (torch.tensor(0), x)
        )[1],
    ],
)
def test_each_run_reads_its_own_input(function: Callable[..., Any]) -> None:
    """Views, inputs that are given back or written to, results in an input's memory, branches and loops."""
    eager, model = Model(function), penlight.load(compiled(function))
    for _ in range(3):
        x = aligned()
        before = torch.from_numpy(x.copy())
        want = eager(before)
        got = model(x)
        for one, other in zip(
            got if isinstance(got, tuple) else (got,),
            want if isinstance(want, tuple) else (want,),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(x, before)  # as eager mode left it


def test_inputs_beside_each_other() -> None:
    """One in place, one copied, both the same array, sizes below the bound."""
    rows = torch.export.Dim("rows", min=2, max=32)
    program = compiled(lambda _, x, y: x.softmax(-1) - y.exp(), 2, dynamic_shapes={"args": ({0: rows},) * 2})
    model = penlight.load(program)
    for count in (32, 5, 2, 32):
        x, y = aligned((count, 64)), aligned((count, 64), shift=4)
        for first, second in ((x, y), (y, x), (x, x), (y, y)):
            want = torch.from_numpy(first).softmax(-1) - torch.from_numpy(second).exp()
            np.testing.assert_allclose(model(first, second), want, rtol=1e-5, atol=1e-6)


def test_a_run_that_fails_gives_the_memory_back() -> None:
    model = penlight.load(compiled(lambda _, x, i: x[i.long()[:, 0].clamp(max=99)], 2))
    x, bad, good = aligned(), np.full(SIZES, 50, np.float32), np.zeros(SIZES, np.float32)
    with pytest.raises(penlight.errors.PenlightError, match="out of range"):
        model(x, bad)
    del bad
    np.testing.assert_array_equal(model(x, good), np.repeat(x[:1], 32, 0))


@pytest.mark.parametrize("key", [KEY, OUTPUTS_KEY])
@pytest.mark.parametrize("words", [[-1], [7], [2**40, 0], [0, 0]])
def test_a_damaged_list_is_no_harm(key: str, words: list[int]) -> None:
    program = compiled(softmax)
    program.contents.named_data[key] = type(program.contents.named_data[key]).of(
        np.array(words, np.int64).tobytes() + b"\0\1"
    )
    model = penlight.load(program.to_bytes())
    x = aligned()
    np.testing.assert_allclose(model(x), torch.from_numpy(x).softmax(-1), rtol=1e-5)


def test_small_ones_are_not_listed() -> None:
    program = penlight.compile(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    assert not is_lent(program)
    assert OUTPUTS_KEY not in program.contents.named_data


@pytest.mark.parametrize("rows", [4, 32, 1000])
def test_a_large_output_is_not_copied(rows: int) -> None:
    model = penlight.load(penlight.compile(Model(softmax), (torch.randn(rows, 256),)))
    kept, wanted = [], []
    for _ in range(5):
        x = torch.randn(rows, 256)
        y, places = addresses(model, x.numpy())
        assert address_of(y) in places[-1]
        assert y.flags.c_contiguous and y.flags.writeable
        assert address_of(y) % 64 == 0
        kept.append(y)
        wanted.append(x.softmax(-1))
        tensor, places = addresses(model, x)
        assert tensor.data_ptr() in places[-1]
        kept.append(tensor)
        wanted.append(x.softmax(-1))
    for got, want in zip(kept, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)  # no later call wrote there


def test_memory_of_results_is_used_again() -> None:
    model = penlight.load(penlight.compile(Model(softmax), (torch.randn(1000, 256),)))
    x = aligned((1000, 256))
    seen = set()
    for _ in range(9):
        y = model(x)
        seen.add(address_of(y))
    assert len(seen) <= 2
    part = y[3:5]
    want = part.copy()
    del y
    for _ in range(4):
        model(aligned((1000, 256)))
    np.testing.assert_array_equal(part, want)


def test_outputs_stay_where_they_are_without_copies() -> None:
    model = penlight.load(compiled(softmax), copy=False)
    first = model(aligned())
    assert address_of(model(aligned())) == address_of(first)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: (x.exp(), x.softmax(-1), x.sum()),
        lambda _, x: (y := x.softmax(-1), y),
        lambda _, x: (y := x.softmax(-1), y.flatten(), y[3:]),
        lambda _, x: (y := x.softmax(-1), y @ y.mT),
        lambda _, x: (x, x.exp()),
        lambda _, x: torch.cat([x.exp(), x.softmax(-1)]),
        lambda self, x: (self.kept.add_(x), x.exp()),
        lambda self, x: self.kept.mul_(0.5).add_(x),
        lambda _, x: x.softmax(-1).to(torch.bfloat16).float().to(torch.bfloat16),
        lambda _, x: (x * 100).long(),
        lambda _, x: x.softmax(-1).reshape(1, 8, 16, 16).to(memory_format=torch.channels_last),
        lambda _, x: x.mT.contiguous().relu_(),
        lambda _, x: torch.cond(x.sum() > 0, lambda y: y.exp(), lambda y: y * 2, (x,)),
        lambda _, x: torch._higher_order_ops.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y.tanh()), (torch.tensor(0), x)
        )[1],
        lambda _, x: torch._higher_order_ops.while_loop(
            lambda i, y: i < 0, lambda i, y: (i + 1, y.tanh()), (torch.tensor(0), x)
        )[1],
        lambda _, x: torch.full((40, 40), 3.0),
        lambda _, x: x.index_put((torch.tensor([1, 3]),), torch.zeros(2, 64)),
        lambda _, x: x[x[:, 0] > 0],
    ],
)
def test_each_result_is_its_own(function: Callable[..., Any]) -> None:
    """Returned twice, viewed, read on, beside state, of other types and orders, from branches and loops."""
    eager, model = Model(function), penlight.load(compiled(function))
    results: list[Tensor] = []
    wanted: list[Tensor] = []
    for _ in range(4):
        x = torch.randn(SIZES)
        want, got = eager(x.clone()), model(x)
        results += got if isinstance(got, tuple) else (got,)
        wanted += [one.clone() for one in (want if isinstance(want, tuple) else (want,))]
    for one, other in zip(results, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, check_stride=False)


def test_results_of_other_sizes() -> None:
    """Much smaller ones do not keep the memory of the largest."""
    rows = torch.export.Dim("rows", min=2, max=400)
    program = penlight.compile(Model(softmax), (torch.randn(400, 64),), dynamic_shapes={"args": ({0: rows},)})
    model = penlight.load(program)
    kept = []
    for count in (400, 390, 5, 4, 3, 400, 400, 200, 199, 198):
        x = torch.randn(count, 64)
        kept.append((model(x.numpy()), x.softmax(-1)))
    for got, want in kept:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
    rooms = []
    for count in (400, 400, 3, 3, 3):
        y = model(aligned((count, 64)))
        rooms.append(len(y.base) if isinstance(y.base, ctypes.Array) else y.nbytes)
    assert rooms[1] == 400 * 64 * 4
    assert rooms[3:] == [3 * 64 * 4] * 2
    fresh = penlight.load(program)(aligned((3, 64)))
    assert not isinstance(fresh.base, ctypes.Array), "nothing is known of its size"


def test_a_run_that_fails_leaves_results_alone() -> None:
    model = penlight.load(compiled(lambda _, x, i: x[i.long()[:, 0]], 2))
    x, bad, good = aligned(), np.full(SIZES, 50, np.float32), np.zeros(SIZES, np.float32)
    before = model(x, good)
    for _ in range(3):
        with pytest.raises(penlight.errors.PenlightError, match="out of range"):
            model(x, bad)
        np.testing.assert_array_equal(model(x, good), before)
    np.testing.assert_array_equal(before, np.repeat(x[:1], 32, 0))
