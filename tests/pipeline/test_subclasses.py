"""Parameters of classes of their own: those made of several tensors, and those that hide their values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import penlight
from penlight.errors import NotSupported


class Opaque(torch.Tensor):
    """int8 values and a scale for each row, which it does not say that it is made of."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.values_, self.scale = values, scale

    def __repr__(self, **_: Any) -> str:
        return type(self).__name__

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values_, args[0].scale)
        plain = pytree.tree_map_only(
            Opaque, lambda t: t.values_.to(t.scale.dtype) * t.scale, (args, kwargs or {})
        )
        return func(*plain[0], **plain[1])


class Scaled(Opaque):
    """The same as quantized weights are kept."""

    def __tensor_flatten__(self) -> Any:
        return ["values_", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["values_"], inner["scale"])


class Named(torch.Tensor):
    """A tensor like any other."""


def quantized(kind: Any, seed: int) -> nn.Parameter:
    torch.manual_seed(seed)
    values = torch.randint(-9, 9, (4, 4), dtype=torch.int8)
    return nn.Parameter(kind(values, torch.rand(4, 1)), requires_grad=False)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("exported", [False, True])
def test_parameters_made_of_tensors(target: str, exported: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
    # Of one shape, and without memory of their own: not to be taken for one tensor.
    model[0].weight, model[2].weight = quantized(Scaled, 0), quantized(Scaled, 1)
    x = torch.randn(3, 4)
    given = torch.export.export(model, (x,)) if exported else model
    program = penlight.load(penlight.compile(given, (x,), target=target).to_bytes())
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


def test_parameter_of_a_class_of_its_own() -> None:
    model = nn.Linear(4, 4)
    model.weight = nn.Parameter(torch.randn(4, 4).as_subclass(Named))  # type: ignore[arg-type]
    x = torch.randn(3, 4)
    torch.testing.assert_close(
        penlight.load(penlight.compile(model, (x,)).to_bytes())(x), model(x).as_subclass(torch.Tensor)
    )


def test_parameter_that_hides_its_values() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].weight = quantized(Opaque, 0)
    with pytest.raises(
        NotSupported, match=r"the tensor '0.weight' is a Opaque, whose values the compiler cannot"
    ):
        penlight.compile(model, (torch.randn(3, 4),))


def test_result_made_of_tensors() -> None:
    class Returned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = quantized(Scaled, 0)

        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, self.weight

    with pytest.raises(NotSupported, match=r"'weight' is a Scaled.*returns such a tensor"):
        penlight.compile(Returned(), (torch.randn(3, 4),))
