"""The row type of the conformance tables, and the cases a row stands for.

One row names a functional operator and the shapes of its tensor arguments; each
of its shape lists is tried with every dtype of the row, and more comes for free:
NaN and infinities for floating dtypes, channels-last for rank 4::

    Op("aten::relu", [(VEC,), (MAT,), (EMPTY,), (SCALAR,)], FLOATS + (torch.int32,)),
    Op("aten::add.Tensor", [(MAT, MAT), (MAT, (5,)), (MAT, SCALAR)], kwargs={"alpha": 2}),
    Op("aten::sum.dim_IntList", [(MAT,)], args=([1], True), tol=1e-3),
    Op("aten::gather", [(MAT, 0, In((3, 5), torch.int64, 0, 4))]),

An entry of a shape list is a shape (a tensor of the row's dtype), an `In` (when
dtype or range matter), a list of those (a Tensor list), or anything else that is
passed as it is (None, numbers, lists of ints inside `Raw`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
REAL = FLOATS + INTS
ALL = (*REAL, torch.bool)
INDEX = (torch.int64, torch.int32)
F32 = (torch.float32,)
COMPLEX = (torch.complex64, torch.complex128)

SCALAR: tuple[int, ...] = ()
EMPTY = (0,)
VEC = (7,)
LONG = (1000,)
MAT = (4, 5)
CUBE = (2, 3, 5)
IMAGE = (2, 3, 5, 7)

#: rtol, atol by dtype, those of torch.testing.assert_close.
TOLERANCE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


@dataclass(frozen=True)
class In:
    """A tensor argument: values uniform in [low, high) unless `values` are given.

    `low` and `high` None stand for the row's domain.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Raw:
    """An argument passed as it is (a list that holds no tensors)."""

    value: Any


@dataclass(frozen=True)
class Op:
    """One row.

    Args:
        name: functional name, "aten::add.Tensor"; the default overload has no suffix.
        inputs: shape lists, each the leading positional arguments of one call.
        dtypes: dtypes of the tensors that do not name their own.
        args, kwargs: the arguments after them.
        tol: rtol and atol for floating results, in place of TOLERANCE.
        domain: [low, high) of the values; None: by dtype.
        special: also try NaN, infinities and extreme values (floats; integers get their limits).
        layouts: also try rank-4 tensors channels-last.
        exact: results must be equal bit for bit.
    """

    name: str
    inputs: Sequence[tuple[Any, ...]]
    dtypes: tuple[torch.dtype, ...] = F32
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    tol: float | None = None
    domain: tuple[float, float] | None = None
    special: bool = True
    layouts: bool = True
    exact: bool = False


@dataclass(frozen=True)
class Case:
    """One call: a row, one of its shape lists, a dtype and a way to fill and lay out."""

    op: Op
    inputs: tuple[Any, ...]
    dtype: torch.dtype
    values: str = "random"  # or "special"
    layout: str = "contiguous"  # or "channels_last"

    @property
    def id(self) -> str:
        shapes = ",".join(_shape_text(entry) for entry in self.inputs)
        parts = [self.op.name.removeprefix("aten::"), str(self.dtype).removeprefix("torch."), f"({shapes})"]
        rest = [repr(value) for value in self.op.args]
        rest += [f"{key}={value}" for key, value in self.op.kwargs.items()]
        if rest:
            parts.append(",".join(rest))
        parts += [part for part in (self.values, self.layout) if part not in ("random", "contiguous")]
        return "-".join(parts)

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Fresh inputs; the same for every call of the same case."""
        generator = torch.Generator().manual_seed(hash_of(self.id))
        leading = [self._make(entry, generator) for entry in self.inputs]
        return leading + list(self.op.args), dict(self.op.kwargs)

    def _make(self, entry: Any, generator: torch.Generator) -> Any:
        if isinstance(entry, list):
            return [self._make(item, generator) for item in entry]
        if isinstance(entry, Raw):
            return entry.value
        if isinstance(entry, tuple):
            entry = In(entry)
        if not isinstance(entry, In):
            return entry
        dtype = entry.dtype or self.dtype
        if entry.values is not None:
            tensor = torch.tensor(entry.values, dtype=dtype).reshape(entry.shape)
        else:
            tensor = _random(entry, dtype, self.op.domain, generator)
            if self.values == "special" and entry.low is None and dtype != torch.bool:
                _sprinkle(tensor, dtype, generator)
        if self.layout == "channels_last" and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor


def cases(op: Op) -> Iterator[Case]:
    """Every case of one row."""
    for dtype in op.dtypes:
        for inputs in op.inputs:
            yield Case(op, inputs, dtype)
            if op.layouts and any(_rank(entry) == 4 for entry in inputs):
                yield Case(op, inputs, dtype, layout="channels_last")
        if op.special and dtype != torch.bool:
            yield Case(op, op.inputs[0], dtype, values="special")


def hash_of(text: str) -> int:
    """A seed that is the same in every process, unlike hash()."""
    seed = 1469598103934665603
    for byte in text.encode():
        seed = ((seed ^ byte) * 1099511628211) % 2**63
    return seed


def _shape_text(entry: Any) -> str:
    if isinstance(entry, In):
        suffix = str(entry.dtype).removeprefix("torch.") if entry.dtype else ""
        return "x".join(map(str, entry.shape)) + suffix
    if isinstance(entry, list):
        return "[" + ",".join(map(_shape_text, entry)) + "]"
    if isinstance(entry, tuple):
        return "x".join(map(str, entry)) or "scalar"
    return repr(entry.value if isinstance(entry, Raw) else entry)


def _rank(entry: Any) -> int:
    if isinstance(entry, In):
        return len(entry.shape)
    return len(entry) if isinstance(entry, tuple) else -1


def _random(
    entry: In, dtype: torch.dtype, domain: tuple[float, float] | None, generator: torch.Generator
) -> torch.Tensor:
    low, high = entry.low, entry.high
    if low is None or high is None:
        default = (0, 2) if dtype == torch.bool else (-9, 10)
        if dtype.is_floating_point or dtype.is_complex:
            default = (-3, 3)
        if dtype == torch.uint8:
            default = (0, 10)
        low, high = domain if domain is not None and dtype != torch.bool else default
    if dtype == torch.bool:
        return torch.randint(0, 2, entry.shape, generator=generator).to(torch.bool)
    if dtype.is_complex:
        parts = torch.rand((*entry.shape, 2), generator=generator, dtype=torch.float64)
        return torch.view_as_complex(parts * (high - low) + low).to(dtype)
    if not dtype.is_floating_point:
        return torch.randint(int(low), int(high), entry.shape, generator=generator).to(dtype)
    uniform = torch.rand(entry.shape, generator=generator, dtype=torch.float64)
    return (uniform * (high - low) + low).to(dtype)


def _sprinkle(tensor: torch.Tensor, dtype: torch.dtype, generator: torch.Generator) -> None:
    """Overwrites about half of the elements with values that kernels get wrong."""
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, limits.max, limits.min, limits.tiny]
        values += [0.5, -0.5, 1.5, 2.5, -1.5, 1.0, -1.0, 100.0, -100.0]
    else:
        info = torch.iinfo(dtype)
        values = [info.min, info.max, 0, 1, info.max - 1]
    flat = tensor.view(-1)
    for i in range(flat.numel()):
        if torch.rand((), generator=generator) < 0.5:
            flat[i] = values[int(torch.randint(0, len(values), (), generator=generator))]
