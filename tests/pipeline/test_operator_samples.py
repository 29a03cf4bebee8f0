"""PyTorch's samples of every operator through the public API, beside eager mode.

The table of conformance records what samples come to below their decompositions, and runs kernels one by
one. Here each sample is a model of its own, which goes through all passes of its target.
"""

from __future__ import annotations

import random
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

pytest.importorskip("expecttest", reason="PyTorch's samples need it")

import penlight
from penlight.errors import NoKernel, NotSupported, UnboundedShape

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from opinfo import DTYPES, copied, op_infos

_WIDER = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    torch.complex64: torch.complex128,
}
# Whose results are drawn, of no one value (signs of vectors), or memory that nothing has written.
_NO_VALUES = {
    *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "uniform"),
    *("rand_like", "randint", "randint_like", "randn", "randn_like", "pca_lowrank", "svd_lowrank"),
    *(
        f"nn.functional.{name}dropout{dims}"
        for name in ("", "alpha_", "feature_alpha_")
        for dims in ("", "2d", "3d")
    ),
    *("nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"),
    *("nn.functional.multi_head_attention_forward", "nn.functional.scaled_dot_product_attention"),
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    *(
        "svd",
        "linalg.svd",
        "linalg.eig",
        "linalg.eigh",
        "mode",
        "sort",
        "topk",
        "kthvalue",
        "msort",
        "argsort",
    ),
}
# ATen's own result is that of rounded arguments: poles of integers, a power in bfloat16, a mean of 16 bits;
# or has seven digits of float64 near a zero of the function.
_ROUNDED_BY_ATEN = (
    *("polygamma", "special.polygamma", "logspace", "nn.functional.triplet_margin", "special.bessel"),
    "nn.functional.bilinear",
)
# Torch's decompositions for target "portable" cut what ATen rounds.
_CUT = ("nn.functional.interpolate", "nn.functional.upsample")
# Why a program cannot be made.
_REFUSED: dict[str, tuple[type[Exception], str]] = {
    "bincount": (UnboundedShape, "depends on values"),
    "combinations": (UnboundedShape, "depends on values"),
    "repeat_interleave": (UnboundedShape, "depends on values"),
    "unique_consecutive": (NotSupported, "counts from the end"),
    **dict.fromkeys(("to_sparse", "sparse.mm.reduce", "sparse.sampled_addmm"), (Exception, "[Ss]parse")),
}
# Factorisations of complex matrices, and what else has no kernel for complex numbers, nor parts.
_NO_COMPLEX = (
    r"(_linalg_(det|slogdet|svd|eigh)|geqrf|lu_unpack|logcumsumexp|uniform|normal_functional|"
    r"linalg_(cholesky_ex|householder_product|ldl_\w+|lu_factor_ex|qr))\S* has no kernel for complex|"
    r"complex32"
)


class Call(torch.nn.Module):
    def __init__(self, op: Any, given: Any) -> None:
        super().__init__()
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten(given)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(copied(self.leaves[place]) for place in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)

    def in_wider(self) -> list[torch.Tensor]:
        """Results of the same numbers with more digits."""
        kept = self.leaves
        self.leaves = [_WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf for leaf in kept]
        try:
            found = self(*(tensor.to(_WIDER.get(tensor.dtype, tensor.dtype)) for tensor in self.tensors()))
        finally:
            self.leaves = kept
        return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]


def compare(model: Call, got: list[torch.Tensor], want: list[torch.Tensor], valued: bool) -> None:
    """What ATen gives, or what is as close to the result of wider numbers."""
    assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in want]
    for place, (have, expected) in enumerate(zip(got, want, strict=True) if valued else ()):
        try:
            torch.testing.assert_close(have, expected, equal_nan=True, check_stride=False)
        except AssertionError:
            if expected.dtype not in _WIDER:
                raise
            true = model.in_wider()[place]
            wide = have.to(true.dtype)
            finite = true.abs()[true.abs().isfinite()]
            size = float(finite.max()) if finite.numel() else 0.0
            eps = torch.finfo(expected.dtype).eps
            limit = 1.5 * (expected.to(true.dtype) - true).abs() + eps * true.abs() + 16e-8 * size
            close = ((wide - true).abs() <= limit) | (wide == true) | (have == true.to(have.dtype))
            if not bool((close | (wide.isnan() & true.isnan())).all()):
                raise


def as_tensor(result: Any) -> torch.Tensor:
    """Without tensors among its arguments a program gives arrays; torch takes none of bfloat16."""
    if isinstance(result, torch.Tensor):
        return result
    if result.dtype.name == "bfloat16":
        return torch.from_numpy(result.view("int16")).view(torch.bfloat16)
    return torch.as_tensor(result)


def samples(info: Any, dtype: torch.dtype) -> list[Any]:
    torch.manual_seed(0)
    found = [
        sample
        for sample in info.sample_inputs("cpu", dtype, requires_grad=False)
        if all(
            leaf.numel() <= 20_000
            for leaf in pytree.tree_leaves((sample.input, sample.args))
            if isinstance(leaf, torch.Tensor)
        )
    ]
    return random.Random(f"{info.name} {dtype}").sample(found, min(2, len(found)))


def check(name: str, dtype: torch.dtype, target: str) -> None:
    info = op_infos()[name]
    for sample in samples(info, dtype):
        model = Call(info.op, ((sample.input, *sample.args), sample.kwargs))
        try:
            want = pytree.tree_leaves(model(*model.tensors()))
            exported = torch.export.export(model, model.tensors())
        except Exception:
            continue  # eager mode or torch.export refuses it
        try:
            loaded = penlight.load(penlight.compile(exported, target=target))
        except Exception as error:
            kind, reason = _REFUSED.get(name, (NoKernel, _NO_COMPLEX))
            if isinstance(error, kind) and re.search(reason, str(error)):
                continue
            raise
        got = pytree.tree_leaves(loaded(*model.tensors()))
        tensors = [
            [as_tensor(x) for x in found if not isinstance(x, bool | int | float)] for found in (got, want)
        ]
        valued = info.name not in _NO_VALUES and not info.name.startswith(_ROUNDED_BY_ATEN)
        compare(model, *tensors, valued)


CASES = [
    pytest.param(name, marks=() if number % 80 == 0 else pytest.mark.slow)
    for number, name in enumerate(sorted(op_infos()))
]


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", CASES)
def test_as_eager_mode(name: str, target: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if name.startswith(_CUT) and (target, dtype) == ("portable", torch.uint8):
                continue
            if dtype in op_infos()[name].supported_dtypes("cpu"):
                check(name, dtype, target)
