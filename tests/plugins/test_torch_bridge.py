"""Kernels of plug-ins called by eager PyTorch, without Python in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from tests.ops.owners import owners_after  # noqa: E402

from penlight.errors import InvalidState  # noqa: E402
from penlight.runtime.plugin import OperatorInfo  # noqa: E402
from penlight.runtime.torch_bridge import register_torch_operator  # noqa: E402

Load = Callable[[str], dict[str, OperatorInfo]]
REPORT = (
    "report(Tensor x, Tensor? maybe, Tensor[] tensors, Tensor?[] holes, int i, float f, bool b, "
    "int[] ints, float[] floats, bool[] bools, str text, ScalarType dtype, int? oi=None, float? of=None, "
    "bool? ob=None, int[]? oints=None, str? otext=None, ScalarType? odtype=None, *, Layout layout, "
    "MemoryFormat format=contiguous_format, Device? device=None) -> Tensor"
)


@pytest.fixture(scope="module")
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("bridged", "DEF")
    for schema in (
        "linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor",
        "linear.out(Tensor weight, Tensor input, Tensor? bias, *, Tensor(a!) out) -> Tensor(a!)",
        "split(Tensor x) -> (Tensor, Tensor)",
        "split.out(Tensor x, *, Tensor(a!) whole, Tensor(b!) fraction) -> (Tensor(a!), Tensor(b!))",
        "step(Tensor(a!) state, Tensor x) -> Tensor",
        "add_to_(Tensor(a!) state, float value) -> ()",
        "scale(Tensor x, Scalar factor) -> Tensor",
        "forgets(Tensor x) -> Tensor",
        "min_max(Tensor x) -> (Tensor, Tensor)",
        REPORT,
    ):
        made.define(schema)
    yield made


@pytest.fixture
def linear(load: Load, library: torch.library.Library) -> Callable[..., torch.Tensor]:
    load("custom_linear")
    for name, results in (("linear", 1), ("linear.out", 0)):
        assert register_torch_operator("testing::custom_linear.out", f"bridged::{name}", results=results)
    return torch.ops.bridged.linear


W, X, B = torch.randn(3, 4), torch.randn(2, 4), torch.randn(3)


def test_functional_form(linear: Callable[..., torch.Tensor]) -> None:
    torch.testing.assert_close(linear(W, X, B), torch.nn.functional.linear(X, W, B))
    torch.testing.assert_close(linear(W, X, None), X @ W.T)
    assert linear(W, X[:0], None).shape == (0, 3)


def test_strided_inputs(linear: Callable[..., torch.Tensor]) -> None:
    want = torch.nn.functional.linear(X, W, B)
    torch.testing.assert_close(linear(W.T.contiguous().T, X, B), want)
    torch.testing.assert_close(linear(W, torch.stack([X, X], 2)[:, :, 1], B), want)
    torch.testing.assert_close(
        linear(W, X, B[:1].expand(3)), torch.nn.functional.linear(X, W, B[:1].expand(3))
    )


def test_out_form(linear: Callable[..., torch.Tensor]) -> None:
    want = linear(W, X, B)
    out = torch.empty(2, 3)
    assert torch.ops.bridged.linear.out(W, X, B, out=out) is out
    assert torch.equal(out, want)
    resized = torch.empty(0)
    torch.ops.bridged.linear.out(W, X, B, out=resized)
    assert torch.equal(resized, want)
    gaps = torch.zeros(2, 6)
    torch.ops.bridged.linear.out(W, X, B, out=gaps[:, ::2])
    assert torch.equal(gaps[:, ::2], want) and not gaps[:, 1::2].any()


def test_several_results_of_other_dtypes(load: Load, library: torch.library.Library) -> None:
    load("all_types")
    assert register_torch_operator("testing::split.out", "bridged::split", results=2, dtypes=[4, -1])
    assert register_torch_operator("testing::split.out", "bridged::split.out")
    x = torch.tensor([[1.5, -2.25], [3.0, 0.75]])
    whole, fraction = torch.ops.bridged.split(x)
    assert torch.equal(whole, x.trunc().long().flatten()) and torch.equal(fraction, x.frac())
    outs = torch.empty(0, dtype=torch.int64), torch.empty(2, 2)
    given = torch.ops.bridged.split.out(x, whole=outs[0], fraction=outs[1])
    assert given[0] is outs[0] and given[1] is outs[1] and torch.equal(outs[0], whole)
    assert torch.ops.bridged.split(torch.tensor(1.5))[1].shape == ()


def test_arguments_that_are_written_to(load: Load, library: torch.library.Library) -> None:
    load("all_types")
    assert register_torch_operator("testing::step.out", "bridged::step", results=1)
    assert register_torch_operator("testing::add_to_", "bridged::add_to_")
    state, x = torch.ones(3), torch.full((3,), 5.0)
    assert torch.ops.bridged.step(state, x).tolist() == [1, 1, 1] and state.tolist() == [6, 6, 6]
    wide = torch.zeros(3, 2)
    torch.ops.bridged.step(wide[:, 1], x)  # with gaps: copied back
    assert wide.tolist() == [[0, 5]] * 3
    assert torch.ops.bridged.add_to_(state, 0.5) is None and state.tolist() == [6.5] * 3


def test_every_type_arrives(load: Load, library: torch.library.Library) -> None:
    load("all_types")
    assert register_torch_operator("testing::report.out", "bridged::report", results=1)
    x = torch.ones(2, 3, dtype=torch.float64)
    given = (x, None, [x, x], [None, x, x], 7, 0.5, True, [1, 2, 3], [0.5, 0.25], [True, False, True])
    got = torch.ops.bridged.report(*given, "abc", torch.int64, of=2.5, oints=[4, 5], odtype=torch.float32,
                                   layout=torch.strided, format=torch.channels_last)  # fmt: skip
    assert got.tolist() == [6, -1, 12, 3, 7, 0.5, 1, 123, 0.75, 5, 3097, 4, -1, 2.5, -1, 2, -1, 6, 2, 0]
    rest = (-7, -0.5, False, [], [], [], "", torch.bool, 3, None, True, None, "four")
    got = torch.ops.bridged.report(x, x, [], [], *rest, layout=torch.strided)
    assert got.tolist() == [6, 6, 0, 0, -7, -0.5, 0, 0, 0, 0, 0, 11, 3, -1, 1, -1, 4, -1, 0, 0]


def test_what_only_python_can_serve(load: Load, library: torch.library.Library) -> None:
    load("all_types")
    assert not register_torch_operator("testing::scale.out", "bridged::scale", results=1)
    with pytest.raises(InvalidState, match="no kernel testing::nothing"):
        register_torch_operator("testing::nothing", "bridged::scale", results=1)


def test_errors(linear: Callable[..., torch.Tensor], load: Load) -> None:
    with pytest.raises(RuntimeError, match=r"testing::custom_linear\.out: custom_linear takes \[o, i\] and"):
        linear(W, torch.ones(2, 5), None)
    with pytest.raises(RuntimeError, match="takes float32, got float64"):
        linear(W, X.double(), None)
    load("all_types")
    assert register_torch_operator("testing::forgets.out", "bridged::forgets", results=1)
    with pytest.raises(RuntimeError, match="gave a result no sizes"):
        torch.ops.bridged.forgets(X)
    with pytest.raises(RuntimeError, match="no kernel takes tensors of these dtypes"):
        torch.ops.bridged.forgets(X.long())


def test_executorch_kernels(load: Load, library: torch.library.Library) -> None:
    load("executorch_kernels")
    assert register_torch_operator("etop::min_max.out", "bridged::min_max", results=2)
    low, high = torch.ops.bridged.min_max(X)
    assert torch.equal(low, X.min()) and torch.equal(high, X.max())


def test_nothing_is_leaked(linear: Callable[..., torch.Tensor]) -> None:
    def refuse(x: torch.Tensor) -> None:
        with pytest.raises(RuntimeError):
            linear(W, x, None)

    out = torch.ops.bridged.linear.out
    # Not within assert, which would keep the tensors to show them.
    owners = {
        "nothing": owners_after(lambda x: None, lambda: torch.ones(2, 4)),
        "argument": owners_after(lambda x: linear(W, x, B), lambda: torch.ones(2, 4)),
        "with gaps": owners_after(lambda x: linear(W, x.T.contiguous().T, B), lambda: torch.ones(2, 4)),
        "optional": owners_after(lambda x: linear(W, X, x), lambda: torch.ones(3)),
        "failure": owners_after(refuse, lambda: torch.ones(2, 5)),
        "out": owners_after(lambda x: out(W, X, B, out=x), lambda: torch.ones(2, 3)),
        "out with gaps": owners_after(lambda x: out(W, X, B, out=x.T), lambda: torch.ones(3, 2)),
        "result": owners_after(lambda x: x, lambda: linear(W, X, B)),
    }
    assert owners == dict.fromkeys(owners, 1)


def test_threads(linear: Callable[..., torch.Tensor]) -> None:
    want, failed = linear(W, X, B), []

    def work() -> None:
        for _ in range(300):
            if not torch.equal(linear(W, X, B), want):
                failed.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed
