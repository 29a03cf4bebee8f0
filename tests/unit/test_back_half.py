"""From a model to a planned program, executed by the reference interpreter in its planned memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from interpreter import Machine
from torch import nn
from torch._higher_order_ops.map import map as rows_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils import _pytree as pytree

from penlight import pipeline
from penlight.emitter import emit
from penlight.flatten import flatten
from penlight.ir.edge import EdgeProgram
from penlight.ir.plan import KernelCall, PlanProgram, TensorValue
from penlight.memory import elide_views, naive, plan_memory
from penlight.program import Program, from_bytes, structs
from penlight.program.weights import read_weights

# What these tests let kernels compute in place, as rows of kernels/ops.yaml do.
_IN_PLACE = {
    "aten::relu.out": ("self",),
    "aten::sigmoid.out": ("self",),
    "aten::add.out": ("self", "other"),
    "aten::add.Scalar_out": ("self",),
    "aten::mul.out": ("self", "other"),
    "aten::mul.Scalar_out": ("self",),
    "aten::sub.out": ("self", "other"),
    "aten::index_put.out": ("self",),
    "aten::slice_scatter.out": ("self",),
    "aten::_softmax.out": ("self",),
}


def allow_in_place(program: PlanProgram) -> None:
    for plan in program.plans:
        for call in plan.calls():
            allowed = _IN_PLACE.get(call.op, ())
            call.inplace = [
                arg
                for name, arg in zip(call.names, call.args, strict=True)
                if name in allowed and isinstance(arg, TensorValue)
            ]


def planned(edge: EdgeProgram, **options: Any) -> PlanProgram:
    flags = {key: options.pop(key) for key in ("plan_inputs", "plan_outputs") if key in options}
    program = flatten(edge)
    elide_views(program, **flags)
    allow_in_place(program)
    plan_memory(program, **options)
    return program


def compiled(model: Any, args: Any, dynamic_shapes: Any = None, **options: Any) -> Program:
    exported = pipeline.export(model, args, dynamic_shapes=dynamic_shapes)
    program = emit(planned(pipeline.to_edge(exported, target="portable"), **options))
    return Program(from_bytes(program.to_bytes()))


def check(model: nn.Module, *calls: Any, dynamic_shapes: Any = None, **options: Any) -> Program:
    """Compile with the first call's arguments; every call must give what eager gives, in order."""
    program = compiled(model, calls[0], dynamic_shapes, **options)
    machine = Machine(program.contents)
    for args in calls:
        want = model(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))
        got = machine.run("forward", *args)
    for mine, theirs in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5, equal_nan=True)
    return program


def operators(program: Program, method: str = "forward") -> list[str]:
    found = program.methods[method]
    return [
        str(found.operators[step.op]) for step in found.instructions if isinstance(step, structs.KernelCall)
    ]


def F(function: Any) -> nn.Module:
    """A module that computes a function."""

    class Model(nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    Model.forward = _with_signature(function)  # type: ignore[method-assign]
    return Model()


def _with_signature(function: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    scope = {"function": function}
    exec(f"def forward(self, {', '.join(names)}): return function({', '.join(names)})", scope)
    return scope["forward"]


X = torch.arange(24.0).reshape(4, 6) / 7 - 1.5


# --- straight lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.relu() + x) * 2,
        lambda x: torch.cat([x, x.relu()]).sigmoid(),
        lambda x: x.reshape(2, 12).t().reshape(6, 4) + 1,
        lambda x: x[1:3] * x[0],
        lambda x: torch.split(x, 2)[1].relu() + x[:2],
        lambda x: x.unbind(0)[2] + x.select(0, 1),
        lambda x: x.unsqueeze(0).expand(2, 4, 6).sum(0),
        lambda x: x.topk(2),
        lambda x: (x, x),
        lambda x: {"a": [x.relu(), 3, None], "b": (x.sum(),)},
        lambda x: x.view(24)[4:8] + x.view(24)[8:12],
        lambda x: torch.ones(3) + x.sum(),
        lambda x: x.max(dim=1),
        lambda x: x.permute(1, 0).contiguous().view(4, 6) + x,
        lambda x: x.clone(),
        lambda x: x.reshape(1, 4, 1, 6).squeeze(0).transpose(1, 2)[..., 0],
        lambda x: (x * x) + (x + x),
        lambda x: x.to(torch.int32).to(torch.float64),
        lambda x: x[torch.tensor([3, 1])],
        lambda x: torch.full((2, 2), float("-inf")).softmax(-1) + x[0, 0],
        lambda x: (-0.0 * x.abs(), x * 0.0),
    ],
)
@pytest.mark.parametrize("options", [{}, {"plan_inputs": False, "plan_outputs": False}, {"algorithm": naive}])
def test_functions(function: Any, options: Any) -> None:
    check(F(function), (X,), (-X,), **options)


def test_channels_last_input() -> None:
    x = torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last)
    program = check(F(lambda x: x + 1), (x,))
    (index,) = program.methods["forward"].inputs
    tensor = program.methods["forward"].values[index]
    assert isinstance(tensor, structs.Tensor) and tensor.dim_order == (0, 2, 3, 1)


def test_views_cost_nothing() -> None:
    program = check(F(lambda x: x.view(2, 12).unsqueeze(0)[:, 1:].reshape(12)[4:] + 1), (X,))
    assert operators(program) == ["aten::add.Scalar_out"]


def test_in_place_chain_needs_one_buffer() -> None:
    program = check(F(lambda x: (x.relu().sigmoid() + 1).relu()), (X,))
    assert program.methods["forward"].arenas == [96]


def test_output_may_be_an_input_or_a_constant() -> None:
    constant = torch.arange(3.0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("constant", constant)

        def forward(self, x: torch.Tensor) -> Any:
            return x, self.constant, x.view(24)

    for flags in ({}, {"plan_inputs": False}, {"plan_outputs": False}):
        check(Model(), (X,), **flags)


# --- dynamic shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.reshape(-1) * 2).view(x.shape[0], 2, 3),
        lambda x: x.unsqueeze(1) + torch.arange(x.shape[0]).view(-1, 1, 1),
        lambda x: torch.cat([x, x], 0) * (x.shape[0] * 2 + 1),
        lambda x: x.new_zeros(x.shape[0], 3) + x[:, :3],
        lambda x: x[:, 2:].sum(0) + x.shape[0] // 2,
        lambda x: (x + 1, x.shape[0] * 3),
        lambda x: x.flatten().unsqueeze(0).relu(),
        lambda x: x.clone().relu() + x,
    ],
)
@pytest.mark.parametrize("options", [{}, {"plan_inputs": False, "plan_outputs": False}])
def test_dynamic(function: Any, options: Any) -> None:
    dim = Dim("rows", min=2, max=9)
    calls = [(torch.randn(rows, 6),) for rows in (4, 9, 2, 3)]
    check(F(function), *calls, dynamic_shapes={"x": {0: dim}}, **options)


# --- control flow --------------------------------------------------------------------------------


def _branches(p: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.cond(p, lambda x: (x + 1, x.clone()), lambda x: (x.relu() * 2, x.sin()), (x,))


def _nested(p: torch.Tensor, x: torch.Tensor) -> Any:
    def inner(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 5, (x,))

    return torch.cond(p, inner, lambda x: x.cos(), (x,)).relu() + x


def _swap(x: torch.Tensor, n: torch.Tensor) -> Any:
    return while_loop(lambda x, y, n: n > 0, lambda x, y, n: (y.clone(), x + y, n - 1), (x, x * 2, n))


def _loop_in_branch(p: torch.Tensor, x: torch.Tensor) -> Any:
    def loop(x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() < 100, lambda x: (x * 2 + 1,), (x,))[0]

    return torch.cond(p, loop, lambda x: x + 0.5, (x,))


def _views_in_loop(x: torch.Tensor, n: torch.Tensor) -> Any:
    def body(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> Any:
        return y.view(4, 6) + 1, x.view(24).clone(), n - 1

    return while_loop(lambda x, y, n: n > 0, body, (x, x.view(24) * 3, n))


TRUE, FALSE, THREE, ZERO = torch.tensor(True), torch.tensor(False), torch.tensor(3), torch.tensor(0)


@pytest.mark.parametrize("function", [_branches, _nested, _loop_in_branch])
def test_cond(function: Any) -> None:
    check(F(function), (TRUE, X), (FALSE, X), (TRUE, -X), (FALSE, -X), (TRUE, X))


@pytest.mark.parametrize("function", [_swap, _views_in_loop])
def test_while_loop(function: Any) -> None:
    check(F(function), (X, THREE), (X, ZERO), (-X, torch.tensor(7)))


def _scanned(x: torch.Tensor) -> Any:
    return scan(lambda c, x: (c + x, c * x), torch.zeros(6), x)


def _scan_two(x: torch.Tensor) -> Any:
    def step(carry: Any, row: Any) -> Any:
        a, b = carry
        return (b.clone(), a + row), (a - b, row.relu())

    return scan(step, (x[0], x[1]), x)


def _mapped(x: torch.Tensor) -> Any:
    return rows_map(lambda row: row.relu() + row.sum(), x) * 2


def _map_of_cond(x: torch.Tensor) -> Any:
    def body(row: torch.Tensor) -> Any:
        return torch.cond(row.sum() > 0, lambda r: r * 2, lambda r: r - 1, (row,))

    return rows_map(body, x)


@pytest.mark.parametrize("function", [_scanned, _scan_two, _mapped, _map_of_cond])
def test_rows(function: Any) -> None:
    check(F(function), (X,), (-X,), (X * 3,))


@pytest.mark.parametrize("function", [_scanned, _mapped])
def test_rows_dynamic(function: Any) -> None:
    dim = Dim("rows", min=2, max=9)
    check(F(function), *[(torch.randn(n, 6),) for n in (4, 9, 2)], dynamic_shapes={"x": {0: dim}})


# --- state ---------------------------------------------------------------------------------------


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 6))
        self.register_buffer("count", torch.tensor([3]))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> Any:
        self.keys.index_copy_(0, at, x)
        self.count.add_(1)
        return self.keys.sum(0) * 2, self.count.clone()


def test_state_is_updated_in_place() -> None:
    calls = [(torch.randn(1, 6), torch.tensor([i])) for i in (3, 0, 7, 3)]
    program = compiled(Cache(), calls[0])
    machine, eager = Machine(program.contents), Cache()
    for args in calls:
        torch.testing.assert_close(machine.run("forward", *args), eager(*args))
    assert "aten::copy_" not in operators(program)
    names = {value.name for value in program.methods["forward"].values if isinstance(value, structs.Tensor)}
    assert names == {None, "keys", "count"}


class Old(nn.Module):
    """Returns what the state was before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("s", torch.tensor([1.0, 2.0]))
        self.register_buffer("t", torch.tensor([3.0, 4.0]))

    def forward(self, x: torch.Tensor) -> Any:
        old = self.s.clone()
        new = self.s + x
        self.s.copy_(self.t)
        self.t.copy_(old)
        return old, new, self.s.clone(), self.t * 2


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("s", torch.zeros(6))

    def forward(self, p: torch.Tensor, x: torch.Tensor) -> Any:
        self.s.copy_(torch.cond(p, lambda s, x: s + x, lambda s, x: s * 2, (self.s.clone(), x)))
        return self.s * 1


@pytest.mark.parametrize(
    "model, calls",
    [
        (Old, [(torch.ones(2) * i,) for i in range(4)]),
        (Branch, [(TRUE, X[0]), (TRUE, X[1]), (FALSE, X[2]), (TRUE, X[3])]),
    ],
)
def test_state(model: Any, calls: Any) -> None:
    program = compiled(model(), calls[0])
    machine, eager = Machine(program.contents), model()
    for args in calls:
        torch.testing.assert_close(machine.run("forward", *args), eager(*args))


class TwoMethods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("s", torch.ones(6))

    def forward(self, x: torch.Tensor) -> Any:
        self.s.add_(self.linear(x).sum(0))
        return self.s.clone()

    def read(self, x: torch.Tensor) -> Any:
        return self.s * x


def test_methods_share_state_and_constants() -> None:
    model = TwoMethods().eval().requires_grad_(False)
    exported = pipeline.export({"write": (model.forward, (X,)), "read": (model.read, (X[0],))})
    program = emit(planned(pipeline.to_edge(exported, target="portable")))
    machine = Machine(from_bytes(program.to_bytes()))
    with torch.no_grad():
        torch.testing.assert_close(machine.run("read", X[0]), X[0])
        machine.run("write", X)
        model(X)
        torch.testing.assert_close(machine.run("read", X[1]), model.read(X[1]))


def test_equal_constants_are_stored_once() -> None:
    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.arange(600.0))
            self.b = nn.Parameter(torch.arange(600.0))
            self.c = nn.Parameter(torch.arange(600.0) + 1)

        def forward(self, x: torch.Tensor) -> Any:
            return x * self.a + self.b * self.c

    program = check(Twins().requires_grad_(False), (torch.ones(600),))
    assert len(program.contents.constants) == 3  # the placeholder and two


def test_equal_numbers_are_written_once() -> None:
    program = check(F(lambda x: x[1:3].sum(1).unsqueeze(1) + x[1:3, 1:3]), (X,))
    ints = [v.value for v in program.methods["forward"].values if isinstance(v, structs.Int)]
    assert len(ints) == len(set(ints))


def test_debug_data_names_inputs_and_lines() -> None:
    class Model(nn.Module):
        def forward(self, p: torch.Tensor, x: torch.Tensor) -> Any:
            return x.relu() * p

    program = check(Model(), (TRUE, X), (FALSE, X))
    text = bytes(program.contents.named_data["penlight.debug"].view()).decode()
    assert '"inputs":["p","x"]' in text and "test_back_half.py" in text


def test_plan_prints() -> None:
    edge = pipeline.to_edge(pipeline.export(F(_branches), (TRUE, X)), target="portable")
    text = str(planned(edge))
    assert "jump else1 unless %p:bool[]" in text and "return" in text


def test_every_call_has_its_schema() -> None:
    edge = pipeline.to_edge(pipeline.export(F(lambda x: x.topk(2)[0] + 1), (X,)), target="portable")
    for plan in planned(edge).plans:
        assert all(
            isinstance(call, KernelCall) and len(call.args) == len(call.names) for call in plan.calls()
        )


def test_external_weights(tmp_path: Path) -> None:
    model = nn.Linear(6, 3).requires_grad_(False)
    edge = pipeline.to_edge(pipeline.export(model, (X,)), target="portable")
    program = emit(planned(edge), external=lambda name: "weight" in name)
    program.save(tmp_path / "model.pte")
    stored = read_weights(tmp_path / "model.ptd")
    assert bytes(stored["weight"].data.view()) == bytes(model.weight.contiguous().numpy().tobytes())
    outside = [
        v.name for v in program.methods["forward"].values if isinstance(v, structs.Tensor) and v.external
    ]
    assert outside == ["weight"]
