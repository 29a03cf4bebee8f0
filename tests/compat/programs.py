"""Small programs exchanged with ExecuTorch, one for each thing a file can hold.

Every value type, constants of every dtype, state, dynamic shapes, control flow,
several methods, memory formats. This file imports torch alone, because it is
read in two environments: ours, and the one where the `executorch` wheel lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F


@dataclass
class Exchange:
    """One program: how to export it, and the calls that are compared in order.

    `initialized` are the names of buffers whose first value must be in the file
    (ExecuTorch drops it unless asked by name).
    """

    methods: dict[str, nn.Module]
    calls: list[tuple[str, tuple[Any, ...]]]
    dynamic: dict[str, Any] = field(default_factory=dict)
    initialized: list[str] = field(default_factory=list)
    constant_methods: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5

    def example(self, method: str) -> tuple[Any, ...]:
        return next(args for name, args in self.calls if name == method)


PROGRAMS: dict[str, Callable[[], Exchange]] = {}


def program(build: Callable[[], Exchange]) -> Callable[[], Exchange]:
    """Register `build`; the weights and inputs it draws are seeded by `make`."""
    PROGRAMS[build.__name__] = build
    return build


def make(name: str) -> Exchange:
    torch.manual_seed(0)
    exchange = PROGRAMS[name]()
    for module in exchange.methods.values():
        module.eval()
    return exchange


class Lambda(nn.Module):
    """A module that computes `function`; parts given by keyword become its attributes."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, Tensor):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def one(function: Callable[..., Any], *args: Any, dynamic: Any = None, **parts: Any) -> Exchange:
    """A program of one method, called once with `args`."""
    shapes = {} if dynamic is None else {"forward": (dynamic,)}
    return Exchange({"forward": Lambda(function, **parts)}, [("forward", args)], shapes)


# --- plain networks -----------------------------------------------------------


@program
def add() -> Exchange:
    return one(lambda m, x, y: x + y, torch.randn(2, 3), torch.randn(2, 3))


@program
def mlp() -> Exchange:
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
    return Exchange({"forward": net}, [("forward", (torch.randn(4, 10),))])


@program
def conv_net() -> Exchange:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Hardswish(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
        nn.Softmax(dim=-1),
    )
    return Exchange({"forward": net}, [("forward", (torch.randn(1, 3, 32, 32),))])


@program
def conv_channels_last() -> Exchange:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 12, 12).to(memory_format=torch.channels_last)
    return Exchange({"forward": net}, [("forward", (x,))])


@program
def conv_1d_and_transposed() -> Exchange:
    net = nn.Sequential(
        nn.Conv1d(2, 4, 5, dilation=2), nn.LeakyReLU(0.1), nn.ConvTranspose1d(4, 3, 4, stride=2)
    )
    return Exchange({"forward": net}, [("forward", (torch.randn(2, 2, 30),))])


@program
def attention() -> Exchange:
    net = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    return Exchange({"forward": net}, [("forward", (torch.randn(1, 6, 16),))])


@program
def norms() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        return m.layer(x), m.bare(x), m.group(x.transpose(1, 2))

    layer, bare, group = nn.LayerNorm(8), nn.LayerNorm(8, elementwise_affine=False), nn.GroupNorm(2, 8)
    return one(run, torch.randn(2, 5, 8), layer=layer, bare=bare, group=group)


@program
def recurrent_cell() -> Exchange:
    return one(
        lambda m, x, h, c: m.cell(x, (h, c)), *(torch.randn(2, 6) for _ in range(3)), cell=nn.LSTMCell(6, 6)
    )


# --- value types ----------------------------------------------------------------


@program
def strings() -> Exchange:
    def run(m: Any, x: Tensor, y: Tensor) -> Any:
        return (
            F.gelu(x, approximate="tanh"),
            F.gelu(x),
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
        )

    return one(run, torch.randn(3, 4) * 3, torch.randn(3, 4))


@program
def scalars() -> Exchange:
    def run(m: Any, x: Tensor, i: Tensor) -> Any:
        return (
            torch.add(x, x, alpha=2),
            x * 0.25,
            i * 3,
            F.elu(x, 0.5),
            torch.clamp(x, -0.5),
            torch.clamp(x, max=0.5),
            x.pow(3),
            torch.full((2, 2), 7),
            torch.full((2,), True),
            torch.full_like(x, 1.5),
            i > 2,
        )

    return one(run, torch.randn(3, 4), torch.arange(6))


@program
def int_lists() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        return (
            x.permute(2, 0, 1).clone(),
            x.sum((0, 2)),
            x.mean((-1,), True),
            F.pad(x, (1, 2), value=0.5),
            x.flip((0, 2)),
        )

    return one(run, torch.randn(2, 3, 4))


@program
def optional_lists() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        return (
            F.interpolate(x, scale_factor=2.0, mode="nearest"),
            F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=False),
            F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, (3, 2), stride=1, divisor_override=4),
        )

    return one(run, torch.randn(1, 2, 5, 4))


@program
def optional_tensors() -> Exchange:
    def run(m: Any, x: Tensor, w: Tensor, low: Tensor) -> Any:
        return F.conv2d(x, w), torch.clamp(x, min=low), torch.clamp(x, max=low)

    return one(run, torch.randn(1, 2, 5, 5), torch.randn(3, 2, 2, 2), torch.randn(5))


@program
def tensor_lists() -> Exchange:
    def run(m: Any, x: Tensor, y: Tensor) -> Any:
        first, second, third = torch.split(torch.cat([x, y, x], 1), [2, 5, 1], 1)
        return torch.stack([x, x + 1], 0), first + 1, second * 2, third, torch.chunk(y, 2, 0)[1] + 1

    return one(run, torch.randn(4, 2), torch.randn(4, 4))


@program
def index_with_none() -> Exchange:
    def run(m: Any, x: Tensor, i: Tensor, v: Tensor) -> Any:
        return x[:, i], x[i[:1], :, i[1:2]], torch.index_put(x, (i,), v), x.index_select(1, i)

    return one(run, torch.randn(4, 4, 3), torch.tensor([2, 0, 1]), torch.randn(4, 3))


@program
def several_outs() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        values, indices = torch.topk(x, 2)
        best, where = torch.max(x, dim=1)
        return values, indices, best, where, x.argmax(1), x.amin(0)

    return one(run, torch.randn(3, 7))


@program
def dtype_arguments() -> Exchange:
    def run(m: Any, x: Tensor, i: Tensor) -> Any:
        return (
            x.to(torch.float64),
            x.to(torch.float16),
            x.to(torch.int32),
            i.to(torch.float32),
            i.to(torch.bool),
            x.sum(dtype=torch.float64),
            i.cumsum(0),
            torch.arange(5, dtype=torch.float32),
            torch.zeros(2, 3, dtype=torch.int64),
        )

    return one(run, torch.randn(3, 4) * 5, torch.arange(6) - 2)


@program
def logic() -> Exchange:
    def run(m: Any, x: Tensor, y: Tensor) -> Any:
        mask = (x > 0) & ~(y < 0)
        return (
            mask,
            torch.where(mask, x, y),
            x.masked_fill(mask, -1.0),
            mask.any(),
            mask.any(1),
            torch.logical_not(mask),
        )

    return one(run, torch.randn(3, 4), torch.randn(3, 4))


@program
def shapes_of_nothing() -> Exchange:
    return one(
        lambda m, x, e: (x * 2, x.reshape(1), e + 1, torch.cat([e, e], 1)),
        torch.tensor(3.0),
        torch.zeros(0, 4),
    )


@program
def special_values() -> Exchange:
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0])
    return one(
        lambda m, x: (F.relu(x), x.exp(), torch.isnan(x), torch.maximum(x, x.flip(0)), x.clamp(-1, 1)), x
    )


@program
def embedding() -> Exchange:
    return Exchange({"forward": nn.Embedding(9, 4)}, [("forward", (torch.tensor([[1, 8, 0]]),))])


# --- constants ---------------------------------------------------------------------


@program
def constants_of_every_dtype() -> Exchange:
    integers = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    parts = {f"constant_{i}": torch.tensor([1, 2, 3], dtype=dtype) for i, dtype in enumerate(integers)}
    parts |= {f"real_{i}": torch.tensor([0.5, -1.25, 3.0], dtype=dtype) for i, dtype in enumerate(floats)}
    parts["flags"] = torch.tensor([True, False, True])

    def run(m: Any, x: Tensor) -> Any:
        return (
            *tuple(getattr(m, name) * x.to(getattr(m, name).dtype) for name in parts if name != "flags"),
            m.flags & (x > 0),
        )

    return one(run, torch.tensor([1.0, 0.0, 2.0]), **parts)


@program
def shared_constants() -> Exchange:
    weight = torch.randn(8, 8)
    return one(lambda m, x: (x @ m.a) @ m.b, torch.randn(2, 8), a=weight, b=weight.clone())


@program
def constant_in_code() -> Exchange:
    return one(lambda m, x: x + torch.tensor([1.0, 2.0, 3.0]), torch.randn(3))


# --- state ---------------------------------------------------------------------------


class Counter(nn.Module):
    def __init__(self, start: float) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((2,), start))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class Cache(nn.Module):
    """A key cache as language models keep it: written at a position, read whole."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 6, 4))

    def forward(self, position: Tensor, key: Tensor) -> Tensor:
        self.keys.index_copy_(1, position, key)
        return self.keys.sum(1)


@program
def state_from_zero() -> Exchange:
    return Exchange({"forward": Counter(0.0)}, [("forward", (torch.full((2,), float(i)),)) for i in range(3)])


@program
def state_with_initial_value() -> Exchange:
    calls = [("forward", (torch.full((2,), float(i)),)) for i in range(3)]
    return Exchange({"forward": Counter(5.0)}, calls, initialized=["total"])


@program
def state_cache() -> Exchange:
    calls = [("forward", (torch.tensor([i]), torch.randn(1, 1, 4))) for i in (0, 1, 5, 1)]
    return Exchange({"forward": Cache()}, calls)


@program
def split_for_theirs() -> Exchange:
    """Operators that their kernels lack, or compute otherwise for one element."""

    def run(m: Any, x: Tensor, y: Tensor) -> Any:
        image = x.reshape(1, 4, 3, 5)
        return (
            *torch.var_mean(x[:1, :1], 0, correction=0),
            torch.copysign(x, y),
            torch.copysign(x, -2.0),  # of -0.0 their exporter takes no notice
            torch.hypot(x, y),
            F.local_response_norm(image, 3),
            F.avg_pool3d(image[None], (2, 3, 3), (1, 2, 1), (1, 1, 0), divisor_override=5),
        )

    x, y = torch.randn(4, 15), torch.randn(4, 15)
    y[0, :4] = torch.tensor([0.0, -0.0, float("inf"), -3e38])
    x[0, :4] = torch.tensor([3e38, 0.0, 1.0, 2e38])
    return Exchange({"forward": Lambda(run)}, [("forward", (x, y))])


@program
def ordering() -> Exchange:
    """Sorting and what follows from it, of which ExecuTorch's kernels have top k: equal elements, NaN."""

    def run(m: Any, x: Tensor, n: Tensor) -> Any:
        return (
            *x.sort(dim=1, stable=True),
            *x.sort(dim=0, stable=True, descending=True),
            x.to(torch.uint8).argsort(dim=1, stable=True),
            *(x > 1).sort(dim=1, stable=True),
            *n.median(1),
            n.nanmedian(),
            x.T.kthvalue(2, 1, True)[0],
            torch.searchsorted(x[0].sort()[0], x, right=True),
            torch.searchsorted(torch.arange(3.0), n),
            torch.searchsorted(x[0].sort()[0], 2.0),
            torch.bucketize(1.0, x[0].sort()[0], right=True, out_int32=True),
        )

    x = torch.randint(0, 4, (3, 20)).float()
    n = torch.randperm(15).reshape(3, 5) / 2
    n[0, 1] = n[0, 2] = float("nan")
    n[1, 0], n[2, 3] = float("inf"), -float("inf")
    return Exchange(
        {"forward": Lambda(run)},
        [
            ("forward", (x[:, [0, 0, *range(20)]], n)),
            ("forward", (x.fliplr()[:, [*range(20), 3, 3]], n.flipud())),
        ],
    )


@program
def ordering_of_any_length() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        kept = x.softmax(1).sort(dim=1, descending=True, stable=True)
        return *kept, x.median(1)[0], x.argsort(dim=0, stable=True)

    calls = [("forward", (torch.randn(n, 2 * n),)) for n in (3, 1, 5)]
    shapes = {"forward": (({0: Dim("n", min=1, max=5), 1: 2 * Dim("n", min=1, max=5)},),)}
    return Exchange({"forward": Lambda(run)}, calls, shapes)


@program
def made_of_others() -> Exchange:
    """Sums at places, means over boxes, angles of numbers: from operators that ExecuTorch's kernels have."""

    def run(m: Any, x: Tensor, at: Tensor) -> Any:
        boxes = x.reshape(1, 2, 3, 2, 5)
        return (
            x.scatter_reduce(0, at, x, "sum"),
            x.scatter_reduce(0, at, x, "sum", include_self=False),
            x.scatter(1, at, x, reduce="add"),
            F.adaptive_avg_pool3d(boxes, (2, 1, 3)),
            (x - 1).angle(),
            at.angle(),
        )

    return Exchange(
        {"forward": Lambda(run)}, [("forward", (torch.randn(4, 15), torch.randint(0, 4, (4, 15))))]
    )


# --- dynamic shapes --------------------------------------------------------------------


@program
def dynamic_batch() -> Exchange:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    calls = [("forward", (torch.randn(n, 4),)) for n in (3, 1, 8)]
    return Exchange({"forward": net}, calls, {"forward": ({0: Dim("batch", min=1, max=8)},)})


@program
def dynamic_length_attention() -> Exchange:
    def run(m: Any, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).chunk(3, -1)
        heads = [t.view(1, x.shape[1], 2, 4).transpose(1, 2) for t in (q, k, v)]
        return F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(1, x.shape[1], 8)

    calls = [("forward", (torch.randn(1, n, 8),)) for n in (5, 2, 16)]
    shapes = {"forward": (({1: Dim("length", min=2, max=16)},),)}
    return Exchange({"forward": Lambda(run, qkv=nn.Linear(8, 24))}, calls, shapes, tolerance=1e-4)


@program
def dynamic_arithmetic() -> Exchange:
    def run(m: Any, x: Tensor) -> Any:
        n = x.shape[0]
        return torch.cat([x, x], 0), x.reshape(n * 3), torch.zeros(n + 1), x.sum() / n

    calls = [("forward", (torch.randn(n, 3),)) for n in (4, 2, 9)]
    return Exchange({"forward": Lambda(run)}, calls, {"forward": (({0: Dim("n", min=2, max=10)},),)})


@program
def dynamic_parts() -> Exchange:
    """Operators with several outputs, all smaller than they may become."""

    def run(m: Any, x: Tensor) -> Any:
        return *x.unbind(1), *x.split([1, 2], 1), *x.chunk(3, 1)

    calls = [("forward", (torch.randn(n, 3, 2 * n),)) for n in (2, 1, 4)]
    shapes = {"forward": (({0: Dim("n", max=4), 2: 2 * Dim("n", max=4)},),)}
    return Exchange({"forward": Lambda(run)}, calls, shapes)


@program
def dynamic_size_as_output() -> Exchange:
    calls = [("forward", (torch.randn(n, 2),)) for n in (4, 7)]
    shapes = {"forward": (({0: Dim("n", min=2, max=10)},),)}
    return Exchange({"forward": Lambda(lambda m, x: (x + 1, x.shape[0] * 2))}, calls, shapes)


# --- control flow ----------------------------------------------------------------------


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, flag: Tensor, x: Tensor) -> Tensor:
        return torch.cond(flag, lambda t: self.linear(t) + 1, lambda t: t.sin() * 2, (x,)) - 0.5


@program
def control_cond() -> Exchange:
    x = torch.randn(2, 3)
    return Exchange({"forward": Branch()}, [("forward", (torch.tensor(flag), x)) for flag in (True, False)])


@program
def control_map() -> Exchange:
    from functorch.experimental.control_flow import map as over

    return one(lambda m, xs, y: over(lambda x, y: x * 2 + y, xs, y) + 1, torch.randn(4, 3), torch.randn(3))


@program
def control_scan() -> Exchange:
    from torch._higher_order_ops.scan import scan

    def step(carry: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = carry * 0.5 + x
        return new, new + 1

    return one(lambda m, start, xs: scan(step, start, xs), torch.randn(3), torch.randn(5, 3))


# --- methods and containers ------------------------------------------------------------


class Encode(nn.Module):
    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(x).relu()


class Decode(nn.Module):
    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.shared.weight


@program
def several_methods() -> Exchange:
    shared = nn.Linear(6, 3)
    calls = [
        ("encode", (torch.randn(2, 6),)),
        ("decode", (torch.randn(2, 3),)),
        ("encode", (torch.randn(2, 6),)),
    ]
    return Exchange({"encode": Encode(shared), "decode": Decode(shared)}, calls)


@program
def constant_methods() -> Exchange:
    exchange = one(lambda m, x: x + 1, torch.randn(2))
    exchange.constant_methods = {"vocabulary": 32000, "scale": 0.5, "ready": True, "table": torch.arange(4)}
    return exchange


@program
def containers() -> Exchange:
    def run(m: Any, batch: dict[str, Tensor], pair: list[Tensor]) -> Any:
        return {"sum": batch["a"] + batch["b"], "rest": (pair[0] * 2, [pair[1]])}

    batch = {"a": torch.randn(2), "b": torch.randn(2)}
    return one(run, batch, [torch.randn(3), torch.randn(1)])


@program
def unused_and_passed_through() -> Exchange:
    return one(lambda m, x, unused, y: (y, x + 1), torch.randn(2), torch.randn(2), torch.randn(3))
