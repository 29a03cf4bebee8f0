"""Arguments to test an operator with: from its schema and shape rule, or from the user's own function.

Each name of a size gets a number; the cases then differ in what kernels get wrong:
sizes of 1 and 0, dimensions in front, None, tensors with gaps, other dtypes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from penlight.errors import PenlightError
from penlight.ops.calls import Kernel
from penlight.ops.declared import Operator
from penlight.ops.fences import WroteOutside, call_between_fences
from penlight.ops.shapes import Pattern
from penlight.ops.signature import Argument

_NUMBERS: dict[str, Any] = {
    "Scalar": 2.0, "int": 2, "SymInt": 2, "float": 0.5, "bool": True, "str": "",
    "int[]": [2, 3], "SymInt[]": [2, 3], "float[]": [0.5, 1.5], "bool[]": [True, False],
    "ScalarType": torch.float32, "Layout": torch.strided, "MemoryFormat": torch.contiguous_format,
    "Device": torch.device("cpu"),
}  # fmt: skip
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """`args` in the schema's order; `name` says what it is a case of."""

    name: str
    args: tuple[Any, ...]

    def fresh(self) -> tuple[Any, ...]:
        """The arguments again, with tensors of their own, for operators that change them."""
        return tuple(_copied(value) for value in self.args)


def samples(kernel: Kernel, said: Operator) -> list[Sample]:
    """Cases, the plainest first.

    Raises:
        PenlightError: the user's function failed.
    """
    if said.sample_function is not None:
        given = said.sample_function()
        items = list(given) if inspect.isgenerator(given) or isinstance(given, list) else [given]
        return [
            Sample(f"sample {i}", tuple(item) if isinstance(item, tuple | list) else (item,))
            for i, item in enumerate(items)
        ]
    return list(_generated(kernel))


def _generated(kernel: Kernel) -> Iterator[Sample]:
    if not _names(kernel) and not _has_prefix(kernel):
        yield from _without_names(kernel)
        return
    dtype = next((d for d in DTYPES if _takes(kernel, d)), torch.float32)
    names = _names(kernel)
    sizes = {name: 3 + index for index, name in enumerate(names)}
    yield Sample("plain", _make(kernel, sizes, dtype, prefix=(2,)))
    if any(argument.type.endswith("?") for argument in kernel.signature.arguments):
        yield Sample("without optional arguments", _make(kernel, sizes, dtype, prefix=(2,), optional=False))
    yield Sample("sizes of 1", _make(kernel, dict.fromkeys(names, 1), dtype, prefix=(1,)))
    for name in names:
        yield Sample(f"empty: {name} is 0", _make(kernel, {**sizes, name: 0}, dtype, prefix=(2,)))
    if _has_prefix(kernel):
        yield Sample("no dimension in front", _make(kernel, sizes, dtype, prefix=()))
        yield Sample("three dimensions in front", _make(kernel, sizes, dtype, prefix=(2, 1, 3)))
        yield Sample("empty in front", _make(kernel, sizes, dtype, prefix=(0,)))
    yield Sample("with gaps", _make(kernel, sizes, dtype, prefix=(2,), strided=True))


def _without_names(kernel: Kernel) -> Iterator[Sample]:
    """Sizes that no rule names: some are taken and some are not."""
    for shape in ((2, 3), (4,), (2, 3, 4), (1, 2, 5, 6)):
        dtype = next((d for d in DTYPES if _takes(kernel, d, shape)), None)
        if dtype is None:
            continue
        for name, sizes in (
            ("plain", shape),
            ("sizes of 1", (1,) * len(shape)),
            ("empty", (0, *shape[1:])),
            ("no dimension", ()),
        ):
            yield Sample(name, _make(kernel, {}, dtype, prefix=(), unknown=sizes))
        yield Sample("with gaps", _make(kernel, {}, dtype, prefix=(), unknown=shape, strided=True))
        if any(argument.type.endswith("?") for argument in kernel.signature.arguments):
            given = _make(kernel, {}, dtype, prefix=(), unknown=shape, optional=False)
            yield Sample("without optional arguments", given)
        return


def of_dtype(kernel: Kernel, dtype: torch.dtype, unknown: tuple[int, ...] = (2, 3)) -> Sample:
    """The plain case in another dtype."""
    sizes = {name: 3 + index for index, name in enumerate(_names(kernel))}
    made = _make(kernel, sizes, dtype, prefix=(2,), unknown=unknown)
    return Sample(str(dtype).removeprefix("torch."), made)


def _takes(kernel: Kernel, dtype: torch.dtype, unknown: tuple[int, ...] = (2, 3)) -> bool:
    sample = of_dtype(kernel, dtype, unknown)
    names = (argument.name for argument in kernel.signature.arguments)
    try:
        call_between_fences(kernel, dict(zip(names, sample.args, strict=True)))
    except (PenlightError, RuntimeError, WroteOutside):
        return False
    return True


def _names(kernel: Kernel) -> list[str]:
    patterns = kernel.rule.patterns if kernel.rule is not None else []
    words = [word for pattern in patterns for word in pattern.sizes or ()]
    free = [word for word in words if not word.isdigit() and word != "_" and not word.startswith((".", "*"))]
    arguments = {argument.name for argument in kernel.signature.arguments}
    return [name for name in dict.fromkeys(free) if name not in arguments]


def _has_prefix(kernel: Kernel) -> bool:
    patterns = kernel.rule.patterns if kernel.rule is not None else []
    return any(word.startswith((".", "*")) for pattern in patterns for word in pattern.sizes or ())


def _make(
    kernel: Kernel,
    sizes: dict[str, int],
    dtype: torch.dtype,
    *,
    prefix: tuple[int, ...],
    optional: bool = True,
    strided: bool = False,
    unknown: tuple[int, ...] = (2, 3),
) -> tuple[Any, ...]:
    """Arguments; tensors that no rule says anything about get the sizes `unknown`."""
    generator = torch.Generator().manual_seed(0)
    patterns = dict(zip((a.name for a in kernel.signature.tensors),
                        kernel.rule.patterns if kernel.rule is not None else [], strict=False))  # fmt: skip

    def tensor(pattern: Pattern | None) -> torch.Tensor:
        shape: list[int] = []
        if pattern is None or pattern.sizes is None:
            shape = list(unknown)
        for word in (pattern.sizes if pattern is not None else None) or ():
            if word.startswith((".", "*")):
                shape += prefix
            else:
                shape.append(int(word) if word.isdigit() else sizes.get(word, 2))
        return _random(tuple(shape), dtype, generator, strided)

    def value(argument: Argument) -> Any:
        if argument.type.endswith("?") and not optional:
            return None
        kind = argument.type.removesuffix("?")
        if argument.holds_tensors:
            pattern = patterns.get(argument.name)
            if "[]" in kind:
                return [tensor(pattern), tensor(pattern)]
            return tensor(pattern)
        default = kernel.default_of(argument.name)
        return _NUMBERS[kind] if default is None else default

    return tuple(value(argument) for argument in kernel.signature.arguments)


def _random(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, strided: bool
) -> torch.Tensor:
    wide = tuple(reversed([2 * size for size in shape])) if strided else shape
    if dtype.is_floating_point:
        made = torch.randn(wide, generator=generator).to(dtype)
    else:
        made = torch.randint(0, 2 if dtype == torch.bool else 5, wide, generator=generator).to(dtype)
    if strided:
        made = made.permute(list(reversed(range(len(shape)))))
        made = made[tuple(slice(None, None, 2) for _ in shape)]
    return made


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        return made.copy_(value.detach())
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
