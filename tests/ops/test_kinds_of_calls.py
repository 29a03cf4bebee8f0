"""Calls of every kind of signature: without Python, and with the results and errors that Python gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.operator_kinds import calls
from owners import owners_after
from test_dispatch import python_functions

import penlight
from penlight.errors import InvalidInput, InvalidOperator, InvalidState, PenlightError
from penlight.ops import definition

KERNELS = Path(__file__).parent / "kernels" / "kinds.cpp"
FAKES = """
import torch, penlight

@penlight.op("kinds::cut").fake
def _(x, n, dtype):
    torch._check(n >= 0, lambda: f"n is {n}")
    return x.new_empty([n], dtype=dtype)

@penlight.op("kinds::pieces").fake
def _(x, lengths, mode=""):
    return [x.new_empty([n], dtype=torch.float64 if mode else None) for n in lengths]
"""


def test_no_python_in_any_kind_of_call(tmp_path: Path) -> None:
    for name, call in calls(tmp_path).items():
        call()  # a fake function is asked once
        assert python_functions(call) == [], name


def load(folder: Path, namespace: str) -> Any:
    source = folder / f"{namespace}.cpp"
    source.write_text(re.sub(r"\bkinds,", f"{namespace},", KERNELS.read_text()))
    source.with_suffix(".py").write_text(FAKES.replace("kinds::", f"{namespace}::"))
    penlight.ops.load(source)
    return getattr(torch.ops, namespace)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The same operators, called from C++ and by way of Python."""
    folder = tmp_path_factory.mktemp("kinds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definition, "register_kernel", lambda *args, **kwargs: False)
        slow = load(folder, "kindsinpython")
    yield load(folder, "kindsincpp"), slow


X = torch.arange(20.0)
TABLE = torch.arange(12.0).reshape(4, 3)
SCALARS = [2, 2.5, True, False, -(2**63), 2**63 - 1, float("inf"), float("nan"), -0.0, 1 + 2j, 2**64]
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *(("numbers", (X[:2], value), {}) for value in SCALARS),
    *(("numbers", (X[:2], 1, value), {"c": value}) for value in (*SCALARS, None)),
    ("numbers", (X[:0], 3), {}),
    ("numbers", (X[::4], 3), {}),
    ("numbers", (X[:2].double(), 3), {}),
    ("numbers", (TABLE, 3), {}),
    ("numbers", (X[0], 3), {}),
    ("numbers", (X[:2], "3"), {}),
    ("numbers.out", (X[:2], 3, True), {"out": torch.empty(0, dtype=torch.float64)}),
    ("numbers.out", (X[:2], 3, True), {"out": torch.empty(3, 2, dtype=torch.float64)}),
    ("numbers.out", (X[:2], 3.5), {"out": torch.empty(8)}),
    ("numbers.out", (X[:2], 1j), {"out": torch.empty(8)}),
    ("joined", ([TABLE, TABLE[:1], TABLE[:0]],), {}),
    ("joined", ([TABLE.t().contiguous().t(), TABLE[:, [0, 0, 1]][::2]],), {}),
    ("joined", ([TABLE.to(torch.int8), TABLE.to(torch.int8)],), {}),
    ("joined", ([],), {}),
    ("joined", ([TABLE, TABLE[:, :2]],), {}),
    ("joined", ([TABLE, X],), {}),
    ("joined.out", ([TABLE, TABLE],), {"out": torch.empty(8, 6)[:, ::2]}),
    ("copies", ([],), {}),
    ("copies", ([X, TABLE.to(torch.int8), X[0], X[:0], TABLE.t()],), {}),
    (
        "copies.out",
        ([X, TABLE.to(torch.int8)],),
        {"out": [torch.empty(0), torch.empty(2, dtype=torch.int64)]},
    ),
    ("copies.out", ([X, X],), {"out": [torch.empty(20), torch.empty(3, 3)]}),
    ("copies.out", ([X, X],), {"out": [torch.empty(20)]}),
    ("copies.out", ([X],), {"out": [torch.empty(20), torch.empty(20)]}),
    ("copies.out", ([],), {"out": []}),
    ("first", ([None, TABLE, TABLE + 1],), {}),
    ("first", ([TABLE.to(torch.int16).t()],), {}),
    ("first", ([None, TABLE, TABLE.t()],), {}),
    ("first", ([],), {}),
    ("first", ([None],), {}),
    ("padded", (X[:3], 2), {}),
    ("padded", (X[:3], 2, 1), {}),
    ("padded", (X[:3], 2, 1, "left"), {}),
    ("padded", (X[:3], 0, 4), {}),
    ("padded", (X[:3], 2, None, "both", 2.9), {}),
    ("padded", (X[:3], -4), {}),
    ("padded", (X[:3], 1, -9), {}),
    ("cut", (X, 4, torch.float32), {}),
    ("cut", (X, 4, torch.int64), {}),
    ("cut", (X, 0, torch.float16), {}),
    ("cut", (X[::2], 3, torch.bool), {}),
    ("cut", (X, 30, torch.float32), {}),
    ("cut", (X, -1, torch.float32), {}),
    ("cut.out", (X, 5, torch.float32), {"out": torch.empty(0)}),
    ("cut.out", (X, 5, torch.float32), {"out": torch.empty(9, dtype=torch.float64)}),
    ("cut.out", (X, 5, torch.float32), {"out": torch.empty(5, 2)[:, 0]}),
    ("pieces", (X, [2, 0, 5]), {}),
    ("pieces", (X.to(torch.uint8), [1]), {}),
    ("pieces", (X, []), {}),
    ("pieces", (X.double(), [2, 3], "wide"), {}),
    ("pieces.out", (X, [2, 3]), {"out": [torch.empty(0), torch.empty(7)]}),
    ("pieces.out", (X, [2, 3]), {"out": [torch.empty(0)]}),
    ("add_all_", ([TABLE, X],), {"value": 2}),
    ("add_all_", ([TABLE.t(), X[::3]],), {"value": 0.5}),
    ("add_all_", ([],), {"value": True}),
]


def copied(value: Any) -> Any:
    """With tensors of its own, which lie as the given ones do."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, torch.Tensor):
        whole = value.new_empty(value.untyped_storage().nbytes() // value.element_size())
        whole.untyped_storage().copy_(value.untyped_storage())
        return whole.as_strided(value.shape, value.stride(), value.storage_offset())
    return value


def outcome(ops: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    args, options = tuple(map(copied, args)), {key: copied(value) for key, value in options.items()}
    op, _, overload = name.partition(".")
    try:
        result = getattr(getattr(ops, op), overload or "default")(*args, **options)
    except Exception as error:
        text = re.sub(r"kindsin\w+", "kinds", str(error))
        return type(error), text if isinstance(error, PenlightError) else text.splitlines()[0]
    return result, args, list(options.values())


def assert_same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    elif isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    else:
        assert got == want or got != got


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_as_python_does(both: tuple[Any, Any], case: tuple[str, Any, Any]) -> None:
    fast, slow = both
    want = outcome(slow, *case)
    assert_same(outcome(fast, *case), want)
    assert_same(outcome(fast, *case), want)  # what a fake function said is remembered by now


def test_a_fake_function_and_a_kernel_that_disagree(both: tuple[Any, Any]) -> None:
    for ops in both:
        with pytest.raises(InvalidOperator, match=r"the fake function of .*cut.out and its kernel") as caught:
            ops.cut(X, 13, torch.float32)
        assert "[13]" in str(caught.value) and "[14]" in str(caught.value)


def asking(namespace: str, folder: Path, asked: list[Any]) -> Any:
    """The operators, with a fake function that writes down what it is asked."""
    ops = load(folder, namespace)

    @penlight.op(f"{namespace}::cut").fake
    def _(x: torch.Tensor, n: int, dtype: torch.dtype) -> torch.Tensor:
        asked.append((tuple(x.shape), x.stride(), x.dtype, n, dtype))
        return x.new_empty([n], dtype=dtype if n else torch.get_default_dtype())

    return ops


def test_a_fake_function_is_asked_once_for_each_of_what_it_can_see(tmp_path: Path) -> None:
    asked: list[Any] = []
    op = asking("kindsasked", tmp_path, asked).cut
    for args in (
        (X, 4, torch.float32),
        (X, 5, torch.float32),
        (X, 5, torch.int32),
        (X[:10], 5, torch.int32),
        (X[::2], 5, torch.int32),
    ):
        before = len(asked)
        want = args[0][: args[1]].to(args[2])
        for _ in range(3):
            got = op(*args)
            assert got.dtype == want.dtype and torch.equal(got, want)
        assert len(asked) == before + 1
    # What it can see without being given it.
    assert op(X, 0, torch.int8).dtype == op(X, 0, torch.int8).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert op(X, 0, torch.int8).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_another_fake_function_is_asked_anew(tmp_path: Path) -> None:
    op = asking("kindsanew", tmp_path, []).cut
    assert op(X, 3, torch.int32).dtype == op(X, 3, torch.int32).dtype == torch.int32

    @penlight.op("kindsanew::cut").fake
    def _(x: torch.Tensor, n: int, dtype: torch.dtype) -> torch.Tensor:
        return x.new_empty([n], dtype=torch.float64)

    assert torch.ops.kindsanew.cut(X, 3, torch.int32).dtype == torch.float64


def test_more_than_is_remembered(both: tuple[Any, Any]) -> None:
    fast, _ = both
    long = [1] * 200  # no key is as long
    x = torch.arange(200.0)
    for _ in range(2):
        assert [piece.item() for piece in fast.pieces(x, long)] == x.tolist()
    for n in range(20, 600):  # more than there are places
        assert fast.cut(torch.arange(600.0), n, torch.float32).tolist() == list(range(n))


def test_a_refused_call_that_is_too_long_to_be_told(both: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="sizes do not fit the shape rule"):
        both[0].padded(TABLE, 1, None, "both" * 5000)


def test_what_stands_behind_is_for_nobody_else(both: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidState, match="stands behind another operator"):
        both[0]._behind_numbers(X, 1, None, c=2)


def test_changes_of_lists_are_counted(both: tuple[Any, Any]) -> None:
    for ops in both:
        x, y = torch.ones(2), torch.ones(3)
        ops.add_all_([x, y], 1)
        assert x._version == y._version == 1
        outs = [torch.empty(1), torch.empty(1)]
        ops.copies.out([x[:1], y[:1]], out=outs)
        assert all(out._version > 0 for out in outs)


def test_gradients_through_lists_and_numbers(tmp_path: Path) -> None:
    ops = load(tmp_path, "kindsgrad")

    @penlight.op("kindsgrad::joined").backward
    def _(ctx: Any, grad: torch.Tensor) -> Any:
        return [list(grad.split([x.shape[0] for x in ctx.inputs.xs]))]

    @penlight.op("kindsgrad::numbers").backward
    def _(ctx: Any, grad: torch.Tensor) -> Any:
        return grad[:-6].float() * ctx.inputs.a, None, None, None

    x = TABLE.clone().requires_grad_()
    ops = torch.ops.kindsgrad
    (ops.joined([TABLE, x]) * 2).sum().backward()
    assert x.grad is not None and x.grad.eq(2).all()
    assert not ops.joined([TABLE, x.detach()]).requires_grad
    y = X[:2].clone().requires_grad_()
    ops.numbers(y, 3).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [3, 3]
    rows = torch.func.vmap(lambda row: ops.numbers(row, True))(TABLE)
    assert torch.equal(rows, torch.stack([ops.numbers(row, True) for row in TABLE]))


def test_nothing_is_leaked(both: tuple[Any, Any]) -> None:
    fast, _ = both

    def fails(call: Callable[[], object]) -> None:
        with pytest.raises(PenlightError):
            call()

    owners = {
        "nothing": owners_after(lambda x: None, lambda: torch.ones(2, 3)),
        "number": owners_after(lambda x: fast.numbers(x, 2), lambda: torch.ones(2)),
        "complex": owners_after(lambda x: fails(lambda: fast.numbers(x, 2j)), lambda: torch.ones(2)),
        "list": owners_after(lambda x: fast.joined([x, x]), lambda: torch.ones(2, 3)),
        "list, refused": owners_after(
            lambda x: fails(lambda: fast.joined([x, x[0]])), lambda: torch.ones(2, 3)
        ),
        "results": owners_after(lambda x: x, lambda: fast.copies([TABLE])[0]),
        "given": owners_after(lambda x: fast.copies.out([TABLE], out=[x]), lambda: torch.ones(2, 3)),
        "given, too many": owners_after(
            lambda x: fails(lambda: fast.copies.out([TABLE], out=[x, x])), lambda: torch.ones(2, 3)
        ),
        "given, refused": owners_after(
            lambda x: fails(lambda: fast.joined.out([TABLE, X], out=x)), lambda: torch.ones(2, 3)
        ),
        "faked": owners_after(
            lambda x: [fast.cut(x, 3, torch.int8) for _ in range(2)], lambda: torch.ones(4)
        ),
        "faked, refused": owners_after(
            lambda x: [fails(lambda: fast.cut(x, 13, torch.int8)) for _ in range(2)], lambda: torch.ones(20)
        ),
        "changed": owners_after(lambda x: fast.add_all_([x.t()], 1), lambda: torch.ones(2, 3)),
    }
    assert owners == dict.fromkeys(owners, 1)


def test_threads(both: tuple[Any, Any]) -> None:
    fast, _ = both
    failed: list[Any] = []

    def work(first: int) -> None:
        for i in range(400):
            n = (first + i) % 12
            number, kind = (n, 3) if i % 2 else (n + 0.5, 2)
            made = fast.cut(X, n, torch.float32), fast.numbers(X[:1], number)
            if made[0].tolist() != list(range(n)) or made[1][1:3].tolist() != [kind, number]:
                failed.append((n, made))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not failed


def test_a_signature_that_was_changed(tmp_path: Path) -> None:
    """What stood before the operator stays where it is, for good."""
    source = tmp_path / "kindschanged.cpp"
    text = re.sub(r"\bkinds,", "kindschanged,", KERNELS.read_text())
    source.write_text(text)
    penlight.ops.load(source)
    assert torch.ops.kindschanged.numbers(X[:0], 2.5).tolist() == [2, 2.5, 0, 0, 3, 2]
    plain = text.replace("Scalar a, Scalar? b=None, *, Scalar c=2", "float a, float? b=None, *, float c=2")
    plain = plain.replace("const Scalar& a, const Optional<Scalar>& b", "double a, Optional<double> b")
    plain = re.sub(r"const Scalar& c,", "double c,", plain).replace("b->to<double>()", "*b")
    source.write_text(plain.replace("a.to<double>()", "a").replace("c.to<double>()", "c"))
    penlight.ops.load(source)
    for _ in range(2):
        assert torch.ops.kindschanged.numbers(X[:0], 2).tolist() == [2, 2, 0, 0, 2, 2]
    source.write_text(text)
    penlight.ops.load(source)
    assert torch.ops.kindschanged.numbers(X[:0], 2).tolist() == [3, 2, 0, 0, 3, 2]
