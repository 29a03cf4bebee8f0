"""The edge graph of a model, run by torch, gives what the model gives."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from tests.pipeline.eager import run_edge
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils import _pytree as pytree

from penlight import pipeline
from penlight.ir.edge import EdgeProgram, InputKind, OutputKind
from penlight.passes.base import bodies


def clone(values: Any) -> Any:
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, values)


def check(model: nn.Module, args: tuple, *others: tuple, target: str = "cpu", **options: Any) -> EdgeProgram:
    """Compile to edge, compare on `args` and on other inputs."""
    model.eval()
    edge = pipeline.to_edge(pipeline.export(model, args, **options), target=target)
    for inputs in (args, *others):
        with torch.no_grad():
            want = model(*clone(inputs))
        torch.testing.assert_close(
            run_edge(edge, "forward", *clone(inputs)), want, rtol=1e-4, atol=1e-5, equal_nan=True
        )
    return edge


def targets(edge: EdgeProgram, method: str = "forward") -> list[str]:
    return [str(n.target) for n in edge.methods[method].graph.nodes if n.op == "call_function"]


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2, groups=2)
        self.norm2 = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(4 * 16 * 16, 5), nn.BatchNorm1d(5))
        for norm in (self.norm, self.norm2, self.head[3]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu6(self.norm(self.conv(x)), inplace=True)
        return self.head(self.norm2(self.up(nn.functional.max_pool2d(y, 2)))).softmax(-1)


# On cpu, the packed convolution, which reads its few channels as they are, and the pooling after it give
# images channels-last: one clone brings the pooled image back to rows for the transposed convolution, which
# is not packed. No other may stay: neither the dropout's, which does nothing here, nor one that a view or a
# norm leaves.
@pytest.mark.parametrize("target, clones", [("cpu", 1), ("portable", 0)])
def test_batch_norm_disappears(target: str, clones: int) -> None:
    edge = check(ConvNet(), (torch.randn(2, 3, 16, 16),), target=target)
    names = targets(edge)
    assert not [name for name in names if "batch_norm" in name]
    assert names.count("aten.clone.default") == clones == len([name for name in names if "clone" in name])
    assert not [name for name in edge.tensors if "running" in name], "dead constants stay"


def test_an_edge_program_is_readable() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return input * self.count

    text = str(pipeline.to_edge(pipeline.export(Counter(), (torch.ones(3, 2),))))
    assert "method forward" in text
    assert re.search(r"%\w+:float32\[2\] = state count\n", text)
    assert re.search(r"%\w+:float32\[3, 2\] = user input\n", text)
    assert re.search(
        r"(%\w+):float32\[3, 2\] = aten\.mul\.Tensor\(\w+, (\w+)\)\n  mutation count = \2\n", text
    )


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_recurrent(module: type[nn.Module], target: str) -> None:
    check(module(8, 16, 2, batch_first=True, bidirectional=True), (torch.randn(2, 5, 8),), target=target)


def test_attention_is_one_node() -> None:
    class Attention(nn.Module):
        def forward(self, q, k, v, mask):  # type: ignore[no-untyped-def]
            return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    q = torch.randn(2, 4, 5, 8)
    edge = check(Attention(), (q, q, q, torch.rand(5, 5) > 0.3))
    assert targets(edge) == ["penlight.scaled_dot_product_attention.default"]


@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_is_found(weighted: bool) -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.to(torch.float32)
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * y if weighted else y

    edge = check(Norm(), (torch.randn(2, 3, 8),))
    assert targets(edge) == ["penlight.rms_norm.default"]


# --- numbers and dtypes --------------------------------------------------------------------------


class Mixed(nn.Module):
    def forward(self, f: torch.Tensor, i: torch.Tensor, b: torch.Tensor) -> Any:
        return (
            f + i,
            i * 1.5,
            i / 2,
            b + b,
            i * b,
            torch.where(b, f, i),
            torch.where(b, f, 0),
            torch.cat([i, f]),
            2 - i,
            f.double() + f,
            f.half() * 2.5,
            f == i,
            f.pow(2),
            2**f,
            torch.maximum(f, i),
            i.clamp(min=0.5),
            i.float().mean() * i,
            torch.atan2(i, f),
            i**2,
            b.sum() + f,
        )


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_promotion(target: str) -> None:
    i = torch.randint(-5, 5, (4,))
    edge = check(Mixed(), (torch.randn(4), i, i > 0), target=target)
    for node in edge.methods["forward"].graph.nodes:
        if node.target in (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor, torch.ops.aten.where.self):
            tensors = [n.meta["val"] for n in node.all_input_nodes][-2:]
            assert len({t.dtype for t in tensors}) == 1, node.format_node()


# --- mutation ------------------------------------------------------------------------------------


class Cache(nn.Module):
    """Buffers, a plain tensor attribute, views, and methods that share them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 8, 4))
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))
        self.linear = nn.Linear(4, 4)
        self.hidden = torch.zeros(3)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> Any:
        self.cache[:, at] = self.linear(x)
        self.count.add_(1)
        self.hidden[1] += 2
        first = self.cache[0]
        first.mul_(0.5)
        self.cache.view(16, 4)[3] = 7
        return (self.cache * self.count).sum((0, 2)), first, self.hidden + 0

    def read(self, at: torch.Tensor) -> Any:
        return self.cache[:, at], self.count * 1

    def reset(self) -> torch.Tensor:
        self.cache.zero_()
        self.count.fill_(0)
        return self.count + 1


def test_methods_share_state() -> None:
    model = Cache()
    reference = copy.deepcopy(model)
    example = (torch.randn(2, 1, 4), torch.tensor([2]))
    methods = {
        "forward": (model, example),
        "read": (model.read, (torch.tensor([1]),)),
        "reset": (model.reset, ()),
    }
    edge = pipeline.to_edge(pipeline.export(methods))
    assert "forward" not in vars(model)
    assert {"cache", "count"} <= set(edge.tensors)
    state: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for at in range(3):
            inputs = (torch.randn(2, 1, 4), torch.tensor([at]))
            torch.testing.assert_close(run_edge(edge, "forward", *inputs, state=state), reference(*inputs))
        at = torch.tensor([1])
        torch.testing.assert_close(run_edge(edge, "read", at, state=state), reference.read(at))
        torch.testing.assert_close(run_edge(edge, "reset", state=state), reference.reset())
        torch.testing.assert_close(run_edge(edge, "read", at, state=state), reference.read(at))


def test_different_tensors_of_one_name_stay_apart() -> None:
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    x = torch.randn(2, 4)
    edge = pipeline.to_edge(pipeline.export({"a": (a, (x,)), "b": (b, (x,))}), target="portable")
    assert len(edge.tensors) == 4
    torch.testing.assert_close(run_edge(edge, "a", x), a(x).detach())
    torch.testing.assert_close(run_edge(edge, "b", x), b(x).detach())


def test_inputs_may_be_written() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            x.add_(y)
            x.t()[0] = 5
            _, right = x.split(2, 1)
            right.mul_(2)
            torch.add(x, 1, out=y)
            x.unbind(0)[1].copy_(torch.tensor(3))
            part = x[:, 1:3].permute(1, 0)
            part.add_(1)
            return x.sum(), part

    args = (torch.randn(3, 4), torch.randn(3, 4))
    edge = check(Model(), args)
    method = edge.methods["forward"]
    assert [(spec.kind, spec.target) for spec in method.outputs[:2]] == [
        (OutputKind.INPUT_MUTATION, "x"),
        (OutputKind.INPUT_MUTATION, "y"),
    ]
    constants = [edge.tensors[spec.target] for spec in method.inputs if spec.kind is not InputKind.USER]
    x, y, *_ = method.graph_module(*constants, *args)
    want = clone(args)
    Model()(*want)
    torch.testing.assert_close((x, y), want)


# --- dynamic shapes ------------------------------------------------------------------------------


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[0]
        z = x.new_zeros(n, n + 1)
        z[:, 1:] = x.sum(1)[:, None]
        return (
            torch.cat([x, x]).reshape(2, -1),
            torch.arange(n) * 2,
            z,
            x[: n - 1],
            nn.functional.pad(x, (0, n)),
            x.view(-1, 2).chunk(2, 1),
            x.mean(0),
        )


def test_dynamic_shapes() -> None:
    edge = check(
        Shapes(), (torch.randn(4, 6),), (torch.randn(7, 6),), dynamic_shapes=({0: Dim("n", min=3, max=20)},)
    )
    assert set(edge.methods["forward"].bounds.values()) == {(3, 20)}


def test_derived_dimension() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            half = nn.functional.max_pool2d(x, 2)
            return nn.functional.interpolate(half, size=x.shape[2:], mode="nearest") + x

    h = Dim("h", min=2, max=8)
    check(Model(), (torch.randn(1, 2, 8, 8),), (torch.randn(1, 2, 4, 8),), dynamic_shapes=({2: 2 * h},))


# --- control flow --------------------------------------------------------------------------------


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def positive(u: torch.Tensor) -> torch.Tensor:
            return torch.cond(u.max() > 2, lambda v: self.linear(v).relu(), lambda v: v + 1, (u,))

        return torch.cond(x.sum() > 0, positive, lambda u: nn.functional.silu(u) * 2, (x,))


class Loops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> Any:
        end = while_loop(
            lambda i, v: i < n.sum(), lambda i, v: (i + 1, self.linear(v).tanh()), (torch.tensor(0), x)
        )
        return (
            end,
            map_rows(lambda row, w: nn.functional.gelu(row) + w.sum(), x, n),
            scan(lambda carry, row: (carry + row, (carry * row).sin()), x[0], x),
        )


@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_control_flow(target: str) -> None:
    ones = torch.ones(2, 4)
    edge = check(Branches(), (ones,), (-ones,), (ones * 3,), target=target)
    assert len(list(bodies(edge.methods["forward"].graph_module))) == 4
    x = torch.randn(3, 4)
    check(Loops(), (torch.tensor([3]), x), (torch.tensor([5]), x), target=target)


def test_counter_that_is_an_int() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + i), (0, x))

    check(Model(), (torch.randn(4),))


def test_regions_are_inlined() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                y = x * 2
            with torch.no_grad():
                y.add_(1)
            with torch.autocast("cpu", enabled=False):
                return y @ y

    x = torch.randn(4, 4)
    check(Model(), (x,))
    exported = torch.export.export(Model(), (x,))
    torch.testing.assert_close(run_edge(pipeline.to_edge(exported), "forward", x), Model()(x).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_a_number_is_not_rounded_to_16_bits(dtype: torch.dtype) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, number: torch.Tensor) -> Any:
            return x * number, x / number, number * x, x + number

    x, number = torch.tensor([0.01, 6e4], dtype=torch.float16), torch.tensor(100_003, dtype=dtype)
    edge = check(Model(), (x, number), target="portable")
    assert targets(edge).count("aten._to_copy.default") == 1  # for number * x and x + number
    check(Model(), (x, number))
