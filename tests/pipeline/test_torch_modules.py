"""Every module of torch.nn, built and called as torch's own tests do, against eager mode."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

import penlight
from penlight.errors import ExportError

# What torch.export cannot trace, or shapes of torch's own that differ from what it computes.
REFUSED = {
    "nn.CTCLoss": "how many values it gives depends on its targets",
    "nn.GaussianNLLLoss": "it asks whether a variance is negative",
}
LEFT_OUT = {
    "nn.FractionalMaxPool2d": "torch's samples are float64, which eager mode refuses",
    "nn.FractionalMaxPool3d": "torch's samples are float64, which eager mode refuses",
    "nn.MultiLabelMarginLoss": "torch's shape of one sample without reduction is not eager mode's",
}
FEW = 3  # samples of a module that are always tried; `make test-all` tries all


class Called(nn.Module):
    """A module whose arguments are tensors alone; the others are as the sample has them."""

    def __init__(self, inner: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.inner = inner
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.leaves[i].detach() for i in self.places)

    def forward(self, *tensors: Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.inner(*args, **kwargs)


def samples(info: Any, training: bool) -> Iterator[Called]:
    """Modules that compute the same each time, with their arguments, as far as eager mode takes them."""
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": training}
    for sample in info.module_inputs_func(info, **options):
        if sample.forward_input is None:
            continue
        torch.manual_seed(0)
        inner = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        inner.train(training)
        if training and any(_is_random(part) or _counts_batches(part) for part in inner.modules()):
            continue
        yield Called(inner, sample.forward_input.args, sample.forward_input.kwargs).train(training)


def _is_random(part: nn.Module) -> bool:
    return isinstance(part, nn.RReLU) or (isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0)


def _counts_batches(part: nn.Module) -> bool:
    """Is its momentum a value that tracing does not have?"""
    return isinstance(part, nn.modules.batchnorm._BatchNorm) and part.momentum is None


def check(model: Called) -> None:
    tensors, state = model.tensors(), model.inner.state_dict()
    lazy = any(isinstance(value, UninitializedTensorMixin) for value in state.values())
    before = {} if lazy else {name: value.clone() for name, value in state.items()}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of prototypes in torch
        want = model(*(tensor.clone() for tensor in tensors))
    if before:
        model.inner.load_state_dict(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of training mode
        program = penlight.load(penlight.compile(model, tensors).to_bytes())
    got = program(*tensors)
    wanted = [one for one in pytree.tree_leaves(want) if isinstance(one, Tensor)]
    found = [torch.as_tensor(one) for one in pytree.tree_leaves(got) if one is not None]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def _parameters() -> Iterator[Any]:
    for info, training in itertools.product(module_db, (False, True)):
        name = f"{info.name}-{'training' if training else 'evaluation'}"
        if info.name not in REFUSED and info.name not in LEFT_OUT:
            yield pytest.param(info, training, FEW, id=name)
            yield pytest.param(info, training, None, id=f"{name}-all", marks=pytest.mark.slow)


@pytest.mark.parametrize("info, training, count", _parameters())
def test_modules(info: Any, training: bool, count: int | None) -> None:
    models = list(itertools.islice(samples(info, training), count))
    assert models, "no sample of it computes the same each time"
    for model in models:
        check(model)


@pytest.mark.parametrize(
    "info", [info for info in module_db if info.name in REFUSED], ids=lambda info: info.name
)
def test_what_cannot_be_traced_says_so(info: Any) -> None:
    model = next(samples(info, training=False))
    with pytest.raises(ExportError, match="could not trace"):
        penlight.compile(model, model.tensors())
