"""Models of 16-bit floats: computed in float32, stored and given in 16 bits, rounded where they say so."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tests.pipeline.fused import Calls, operators
from tests.pipeline.running import as_torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import penlight
from penlight.pipeline import export, to_edge

SHORT = (torch.float16, torch.bfloat16)
EPSILON = {torch.float16: 2**-11, torch.bfloat16: 2**-8}


def run(model: nn.Module, *args: Tensor, **options: Any) -> Any:
    with torch.no_grad():
        return penlight.load(penlight.compile(model.eval(), args, **options).to_bytes())(*args)


def check_rounded_once(model: nn.Module, *args: Tensor) -> None:
    """The result is that of the same weights and inputs in float64, rounded."""
    result = run(model, *args)
    wide = [x.double() if x.is_floating_point() else x for x in args]
    with torch.no_grad():
        truth = model.double().eval()(*wide)
    assert result.dtype in SHORT
    scale = float(truth[truth.isfinite()].abs().max())
    torch.testing.assert_close(
        result.double(), truth, rtol=1.01 * EPSILON[result.dtype], atol=2e-6 * scale, equal_nan=True
    )


def short_results(model: nn.Module, *args: Tensor, **options: Any) -> list[str]:
    """Operators that give 16 bits."""
    graph = to_edge(export(model.eval(), args), **options).methods["forward"].graph
    return [
        str(node.target).split(".")[-2]
        for node in graph.nodes
        if node.op == "call_function" and getattr(node.meta["val"], "dtype", None) in SHORT
    ]


class Transformer(nn.Module):
    """With all that a layer of a language model has, norms that go to float32 and back among it."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.head = nn.Embedding(50, width), nn.Linear(width, 50, bias=False)
        self.head.weight = self.words.weight
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale, self.norm = nn.Parameter(torch.rand(width) + 0.5), nn.LayerNorm(width)

    def rms(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return self.scale * wide.to(x.dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        q, k, v = self.qkv(self.rms(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        x = x + self.out(
            functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        x = x + self.down(functional.gelu(self.up(self.norm(x))))
        return self.head(x).softmax(-1)


def convolutions() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Hardswish(), nn.Upsample(scale_factor=2)),
        *(nn.Conv2d(16, 8, 1), nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)),
    )


@pytest.mark.parametrize("dtype", SHORT)
def test_whole_models(dtype: torch.dtype) -> None:
    tokens = torch.randint(50, (2, 9))
    assert not short_results(Transformer().to(dtype), tokens)[:-1], "nothing but the result is rounded"
    check_rounded_once(Transformer().to(dtype), tokens)
    images = torch.randn(2, 3, 16, 16).to(dtype)
    found = operators(convolutions().to(dtype), images)
    assert found.count("conv2d_packed") == 3 and found.count("_to_copy") == 2, found
    check_rounded_once(convolutions().to(dtype), images)


@pytest.mark.parametrize("dtype", SHORT)
def test_norms_that_go_to_float32_are_one_operator(dtype: torch.dtype) -> None:
    found = operators(Transformer().to(dtype), torch.randint(50, (2, 9)))
    assert found.count("rms_norm") == 1 and found.count("_to_copy") == 1, found


@pytest.mark.parametrize("dtype", SHORT)
def test_sums_beyond_the_range(dtype: torch.dtype) -> None:
    x = torch.full((3, 100), 300.0, dtype=dtype)
    x[1, 3], x[2, 5] = torch.inf, torch.nan
    check_rounded_once(Calls(lambda x: (x * x).mean(-1).sqrt()), x)
    result = run(Calls(lambda x: x * x), torch.tensor([300.0, -300.0, 200.0]).to(dtype))
    assert result.isinf().tolist() == [dtype == torch.float16] * 2 + [False], "a result is of 16 bits"


def test_the_model_rounds() -> None:
    """A cast of float32 that the model makes rounds, and so does one to or from integers."""
    x = torch.randn(4, 50)
    model = Calls(lambda x: x.half().float() * 3)
    assert operators(model, x) == ["_to_copy", "_to_copy", "mul"]
    torch.testing.assert_close(run(model, x), model(x), rtol=0, atol=0)
    model = Calls(lambda x: x.half() * 2)
    torch.testing.assert_close(run(model, x), model(x), rtol=0, atol=0)
    large = torch.arange(2040, 2060)
    model = Calls(lambda x: (x.half() * 1.0, x.bfloat16() + 1))
    for mine, other in zip(run(model, large), model(large), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
    model, x = Calls(lambda x: (x * 3).to(torch.int32)), torch.tensor([0.33325, 0.3335, 1.0]).half()
    assert run(model, x).tolist() == model(x).tolist()


@pytest.mark.parametrize("dtype", SHORT)
def test_bits_are_those_of_16(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Any:
        y = x * 2
        return torch.nextafter(y, torch.zeros_like(y)), y.view(torch.int16), y

    x = torch.tensor([1.0, 0.1, -3.0]).to(dtype)
    for mine, other in zip(run(Calls(function), x), function(x), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


class Cache(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 16, dtype=dtype))
        self.project = nn.Linear(16, 16).to(dtype)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.keys.index_copy_(2, at, self.project(x))
        return functional.scaled_dot_product_attention(x, self.keys, self.keys)

    def read(self) -> Tensor:
        return self.keys + 0


@pytest.mark.parametrize("dtype", SHORT)
def test_state_stays_short(dtype: torch.dtype) -> None:
    model, x = Cache(dtype), torch.randn(1, 2, 1, 16).to(dtype)
    assert "index_copy" in short_results(model, x, torch.tensor([0]))
    methods = {"forward": (model, (x, torch.tensor([0]))), "read": (model.read, ())}
    program = penlight.load(penlight.compile(methods).to_bytes())
    for at in range(3):
        x = torch.randn(1, 2, 1, 16).to(dtype)
        with torch.no_grad():
            expected = model(x, torch.tensor([at]))
        torch.testing.assert_close(program(x, torch.tensor([at])), expected, rtol=3e-2, atol=1e-2)
    kept = as_torch(program["read"]())
    torch.testing.assert_close(kept, model.keys, rtol=0, atol=2 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", SHORT)
def test_heads_that_share_a_cache(dtype: torch.dtype) -> None:
    """It is converted before it is repeated for them, which is less."""

    class Shared(Cache):
        def forward(self, x: Tensor, at: Tensor) -> Tensor:
            self.keys.index_copy_(2, at, self.project(x[:, ::2]))
            keys = self.keys[:, :, None].expand(-1, -1, 2, -1, -1).reshape(1, 4, 8, 16)
            return functional.scaled_dot_product_attention(x, keys, keys)

    model, args = Shared(dtype), (torch.randn(1, 4, 1, 16).to(dtype), torch.tensor([3]))
    assert "expand_copy" not in short_results(model, *args)
    with torch.no_grad():
        expected = copy.deepcopy(model)(*args)
    torch.testing.assert_close(run(model, *args), expected, rtol=3e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", SHORT)
def test_an_input_that_is_written(dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(y).add_(1)
        return x.sum()

    x, y = torch.rand(5).to(dtype), torch.rand(5).to(dtype)
    program = penlight.load(penlight.compile(Calls(function), (x.clone(), y)).to_bytes())
    mine, other = x.clone(), x.clone()
    torch.testing.assert_close(program(mine, y), function(other, y), rtol=4 * EPSILON[dtype], atol=0)
    torch.testing.assert_close(mine, other, rtol=2 * EPSILON[dtype], atol=0)


@pytest.mark.parametrize("dtype", SHORT)
def test_joined_with_what_was_kept(dtype: torch.dtype) -> None:
    """Keys of before, an input and a result, are not converted to be joined."""

    def function(past: Tensor, x: Tensor, weight: Tensor) -> Any:
        keys = torch.cat([past, x @ weight], 1)
        return keys, (x @ keys.mT).softmax(-1) @ keys

    args = [torch.randn(2, 30, 8).to(dtype), torch.randn(2, 1, 8).to(dtype), torch.randn(8, 8).to(dtype)]
    assert short_results(Calls(function), *args).count("cat") == 1
    shapes = ({1: Dim("past", min=2, max=64)}, None, None)
    for options in ({}, {"dynamic_shapes": (shapes,)}):
        program = penlight.load(penlight.compile(Calls(function), tuple(args), **options).to_bytes())
        for mine, other in zip(program(*args), function(*args), strict=True):
            torch.testing.assert_close(mine, other, rtol=8 * EPSILON[dtype], atol=8 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", SHORT)
def test_loops_and_conditions(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x + 1,))
        return y.exp()

    for x in (torch.rand(6), -torch.rand(6)):
        x = x.to(dtype)
        torch.testing.assert_close(run(Calls(function), x), function(x), rtol=8 * EPSILON[dtype], atol=0)


def test_autocast() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.second(functional.gelu(self.first(x))).softmax(-1)

    model, x = Mixed().eval(), torch.randn(3, 32)
    found = operators(model, x)
    assert found.count("linear_packed") == 2, found
    with torch.no_grad():
        torch.testing.assert_close(run(model, x), model(x), rtol=3e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", SHORT)
def test_left_out(dtype: torch.dtype) -> None:
    model, x = Calls(lambda x: x * 3 + 0.5), torch.randn(40).to(dtype)
    assert "_to_copy" not in operators(model, x, without=["compute_in_float32"])
    result = run(model, x, without=["compute_in_float32"])
    torch.testing.assert_close(result, model(x), rtol=0, atol=0)
    assert "_to_copy" not in operators(model, x, target="portable")


# --- weights -------------------------------------------------------------------------------------


def size(model: nn.Module, *args: Tensor) -> int:
    return len(penlight.compile(model.eval(), args).to_bytes())


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("rows", [1, 2, 13, 40])
@pytest.mark.parametrize("outputs, depth", [(40, 128), (130, 65), (256, 1000)])
def test_weights_that_16_bits_hold(dtype: torch.dtype, rows: int, outputs: int, depth: int) -> None:
    """Kept so in models of float32 too, and nothing is lost."""
    layer = nn.Sequential(nn.Linear(depth, outputs), nn.SiLU()).to(dtype).float()
    x = torch.randn(rows, depth)
    result = run(layer, x)
    content = penlight.compile(layer, (x,)).to_bytes()
    assert len(content) < 2.6 * (outputs + 16) * depth + 4000
    layer[0].weight.data[0, 0] += 1e-3 / 3  # that no 16 bits hold
    program = penlight.load(penlight.compile(layer, (x,), without=["use_strassen"]).to_bytes())
    assert size(layer, x) > 3.9 * outputs * depth
    other = program(x)
    torch.testing.assert_close(result[:, 1:], other[:, 1:], rtol=0, atol=0)
    for threads in (2, 3):
        again = penlight.load(content, threads=threads)(x)
        torch.testing.assert_close(again, result, rtol=0, atol=0)


LAYERS = {
    "tiles": (nn.Conv2d(48, 48, 3, padding=1), 0.6),
    "pixels": (nn.Conv2d(48, 200, 1), 0.6),
    "groups": (nn.Conv2d(64, 64, 3, 2, 1, groups=2), 0.6),
    "signal": (nn.Conv1d(48, 64, 5), 0.6),
    "few channels": (nn.Conv2d(4, 256, 3), 1.1),
    "depthwise": (nn.Conv2d(512, 512, 3, groups=512), 1.1),
}


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("name", LAYERS)
def test_convolutions_that_16_bits_hold(name: str, dtype: torch.dtype) -> None:
    layer, share = LAYERS[name]
    layer = copy.deepcopy(layer).to(dtype).float()
    x = torch.randn(2, layer.in_channels, 12, 14) if isinstance(layer, nn.Conv2d) else torch.randn(2, 48, 30)
    with torch.no_grad():
        torch.testing.assert_close(run(layer, x), layer(x), rtol=1e-4, atol=1e-4)
    assert size(layer, x) < share * 4 * sum(p.numel() for p in layer.parameters()) + 4000


def test_an_expansion_that_16_bits_hold() -> None:
    """It stays a layer of its own before a depthwise one, whose kernel for both is of float32."""
    layers = nn.Conv2d(32, 192, 1), nn.ReLU(), nn.Conv2d(192, 192, 3, 1, 1, groups=192)
    model, x = nn.Sequential(*layers), torch.randn(1, 32, 120, 120)
    assert "expand_depthwise_packed" in operators(model, x)
    model, x = model.bfloat16(), x.bfloat16()
    assert operators(model, x).count("conv2d_packed") == 2
    check_rounded_once(model, x)


def test_which_16_bits() -> None:
    """bfloat16 has the range of float32, float16 more digits; a bias counts as well."""
    x, layer = torch.randn(2, 128), nn.Linear(128, 64)
    values = {
        "bfloat16": (torch.full((64, 128), 1e30).bfloat16().float(), torch.zeros(64)),
        "float16": (torch.full((64, 128), 1 + 2**-10), torch.full((64,), 3.5)),
        "bias": (torch.ones(64, 128), torch.full((64,), 1 / 3)),
        "not finite": (torch.full((64, 128), torch.inf), torch.full((64,), -torch.inf)),
        "no numbers": (torch.full((64, 128), torch.nan), torch.zeros(64)),
    }
    for name, (weight, bias) in values.items():
        layer.weight.data, layer.bias.data = weight, bias
        with torch.no_grad():
            torch.testing.assert_close(run(layer, x), layer(x), rtol=1e-5, atol=1e-3, equal_nan=True)
        assert (size(layer, x) < 3 * 64 * 128) == (name not in ("bias", "no numbers")), name


@pytest.mark.parametrize("dtype", [torch.float32, *SHORT])
@pytest.mark.parametrize("bias", [False, True])
def test_an_embedding_that_is_the_last_layer(dtype: torch.dtype, bias: bool) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(203, 48), nn.Linear(48, 203, bias=bias)
            self.head.weight = self.words.weight

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.words(tokens))

    model, tokens = Tied().to(dtype), torch.randint(203, (2, 3, 4))
    assert operators(model, tokens)[:2] == ["embedding_packed", "linear_packed"]
    assert size(model, tokens) < 1.3 * 203 * 48 * dtype.itemsize + 4000
    program = penlight.load(penlight.compile(model, (tokens,)).to_bytes())
    for wrong in (-1, 203):
        with pytest.raises(penlight.errors.RuntimeFailure, match=f"index {wrong} is out of range"):
            program(torch.full((2, 3, 4), wrong))
    with torch.no_grad():
        expected = model(tokens)
    torch.testing.assert_close(
        program(tokens), expected, rtol=4 * EPSILON.get(dtype, 1e-6), atol=1e-2 if dtype in SHORT else 1e-5
    )
    again = run(model, tokens.to(torch.int32))
    torch.testing.assert_close(again, program(tokens), rtol=0, atol=0)
