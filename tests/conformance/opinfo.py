"""Cases from PyTorch's own operator samples: what their calls come to, operator by operator.

Each sample of an OpInfo is called once with a recorder below it, which sees the
functional operators that a compiled program would have: an operator with a
kernel is taken as it is, another is decomposed as the compiler does. So one
sample gives the cases of several operators, with the values they have there.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import dense  # noqa: F401  (defines the operators that are Penlight's own)
import dim_order  # noqa: F401
import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from penlight.dialects.core import decompositions
from penlight.ir.dtypes import DType
from penlight.kernels.out_variants import by_naming_rule, out_variant
from penlight.kernels.table import OpRow, own_table

LIBRARIES = ("portable",)
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# Memory that nothing has written, or a place in memory: nothing to compare.
_UNDEFINED = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "_local_scalar_dense")


@dataclass(frozen=True)
class Recorded:
    """One call of one operator, as a sample came to it."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sample: str  # "nn.functional.conv2d, sample 3"

    @property
    def row(self) -> str:
        """Its name in the table of kernels."""
        found = row_name(self.op)
        assert found is not None
        return found

    @property
    def kind(self) -> tuple[object, ...]:
        """The operator, and the dtypes of its tensors."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return (self.row, *(leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)))

    @property
    def dtype(self) -> torch.dtype:
        """Of the first tensor; float32 where there is none."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return next((leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)), torch.float32)

    @property
    def id(self) -> str:
        return f"{self.row} {describe((self.args, self.kwargs))} of {self.sample}"


@dataclass
class Calls:
    """What one OpInfo gave for one dtype."""

    found: list[Recorded] = field(default_factory=list)
    missing: Counter[str] = field(
        default_factory=Counter
    )  # operators that no kernel and no decomposition has
    refused: int = 0  # samples that PyTorch itself does not run


@cache
def op_infos() -> dict[str, Any]:
    """Every OpInfo that can run on a CPU, by name and variant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core
    # For every iterator of samples PyTorch looks for a test case of its own kind on the stack, and has the
    # source of each frame read for it: nine tenths of what samples took. There is none of that kind here.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None
    named = {}
    for info in op_db:
        if not info.name.startswith("jiterator"):  # those run on GPUs alone
            named[info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")] = info
    return named


@cache
def row_name(op: OpOverload) -> str | None:
    """The operator's name in the table of kernels; None when it has no row."""
    name = (out_variant(op) or by_naming_rule(op)).op
    return name if name in own_table() else None


@cache
def _splits() -> Any:
    return decompositions("cpu", own_table(), LIBRARIES)


class _Recorder(TorchDispatchMode):
    """Sees each functional operator; decomposes those without a kernel."""

    def __init__(self, calls: Calls, sample: str) -> None:
        super().__init__()
        self.calls, self.sample = calls, sample
        self.splitting: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if row_name(func) is not None and not func._schema.is_mutable:
            if _is_comparable(func, args, kwargs):
                self.calls.found.append(Recorded(func, *copied((args, kwargs)), self.sample))
            return func(*args, **kwargs)
        # An operator of prims' is one of ATen's under another name, and some of ATen's are one of prims'.
        for split in (_splits().get(func), getattr(func, "impl_aten", None), func.decompose):
            if split is None or func in self.splitting:
                continue
            self.splitting.append(func)
            try:
                with self:
                    result = split(*args, **kwargs)
            finally:
                self.splitting.pop()
            if result is not NotImplemented:
                return result
        if not func.is_view and not func._schema.is_mutable and _is_comparable(func, args, kwargs):
            self.calls.missing[str(func)] += 1
        return func(*args, **kwargs)


def record(name: str, dtype: torch.dtype, limit: int | None = None) -> Calls:
    """The calls that the samples of one OpInfo come to, each once.

    Args:
        name: of the OpInfo.
        dtype: of its inputs.
        limit: how many samples at most; all when None.
    """
    info, calls = op_infos()[name], Calls()
    torch.manual_seed(0)
    samples = iter(info.sample_inputs("cpu", dtype, requires_grad=False))
    number = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while limit is None or number < limit:
            try:
                sample = next(samples, None)
            except (RuntimeError, ValueError, TypeError, NotImplementedError):
                break  # PyTorch cannot make the sample itself
            if sample is None:
                break
            number += 1

            def call(given: Any, args: Any, kwargs: Any) -> Any:
                return info.op(given, *args, **kwargs)

            functional = torch.func.functionalize(call, remove="mutations_and_views")
            try:
                with torch.no_grad(), _Recorder(calls, f"{name}, sample {number - 1}"):
                    functional(sample.input, sample.args, sample.kwargs)
            except Exception:  # whatever an operator of theirs says to what it does not take
                calls.refused += 1
    calls.found = list({_key(call): call for call in calls.found}.values())
    return calls


def takes(call: Recorded) -> OpRow | None:
    """The row that takes a call's dtypes; None when there is none."""
    names = [argument.name for argument in call.op._schema.arguments]
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    for row in own_table().rows(call.row, LIBRARIES):
        if all(
            row.takes(argument, _dtype(leaf.dtype))
            for argument, value in given.items()
            for leaf in pytree.tree_leaves(value)
            if isinstance(leaf, torch.Tensor)
        ):
            return row
    return None


def _dtype(dtype: torch.dtype) -> DType:
    return DType[str(dtype).removeprefix("torch.")]


def _is_comparable(func: OpOverload, args: Any, kwargs: Any) -> bool:
    """Can a program hold this call, and is its result determined?"""
    if torch.Tag.nondeterministic_seeded in func.tags or func._schema.name.split("::")[1] in _UNDEFINED:
        return False
    for argument, value in zip(func._schema.arguments, args, strict=False):
        # A number in a tensor's place has become one before a program is written.
        if "Tensor" in str(argument.real_type) and isinstance(value, bool | int | float):
            return False
    for leaf in pytree.tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and (leaf.layout != torch.strided or leaf.is_quantized):
            return False
        if isinstance(leaf, torch.Generator | complex):
            return False
    return True


def copied(value: Any) -> Any:
    """The same values in tensors of their own, in rows or channels-last as a program holds them."""
    return pytree.tree_map_only(torch.Tensor, _in_rows, value)


def _in_rows(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    last = (
        tensor.dim() == 4
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=torch.channels_last)
    )
    return tensor.clone(memory_format=torch.channels_last if last else torch.contiguous_format)


def describe(value: Any) -> str:
    """Arguments, without the values of tensors."""
    if isinstance(value, torch.Tensor):
        last = "" if value.is_contiguous() else " channels-last"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{last}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(describe, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {describe(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _key(call: Recorded) -> str:
    return f"{call.op} {describe((call.args, call.kwargs))}"


def all_groups(dtypes: tuple[torch.dtype, ...] = DTYPES) -> Iterator[tuple[str, torch.dtype]]:
    """Every OpInfo with every dtype that PyTorch's CPU has it for."""
    for name, info in op_infos().items():
        for dtype in dtypes:
            if dtype in info.supported_dtypes("cpu"):
                yield name, dtype
