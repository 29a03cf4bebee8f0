"""One kernel of one operator: what every spelling of the table becomes, and what each reader asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penlight.errors import InvalidInput
from penlight.ir.dtypes import DType
from penlight.kernels.places import Place
from penlight.kernels.schema import Schema

_FLOAT = frozenset({DType.float16, DType.bfloat16, DType.float32, DType.float64})
_INT = frozenset({DType.uint8, DType.int8, DType.int16, DType.int32, DType.int64})
_BOOL = frozenset({DType.bool})

DTYPE_SETS: Mapping[str, frozenset[DType]] = {
    "float": _FLOAT,
    "int": _INT,
    "real": _FLOAT | _INT,
    "bool": _BOOL,
    "all": _FLOAT | _INT | _BOOL,
    "index": frozenset({DType.int32, DType.int64}),
}

# A tensor's dtype and dim order: what a kernel can be specialised by.
Meta = tuple[DType, Sequence[int]]


def parse_dtypes(expression: str) -> frozenset[DType]:
    """The dtypes of an expression such as `float+int64`."""
    found: set[DType] = set()
    for word in expression.split("+"):
        word = word.strip()
        if word in DTYPE_SETS:
            found |= DTYPE_SETS[word]
        elif word in DType.__members__:
            found.add(DType[word])
        else:
            raise InvalidInput(
                f"unknown dtype or set of dtypes '{word}'",
                got=expression,
                do=f"use a set ({', '.join(DTYPE_SETS)}) or a dtype",
            )
    return frozenset(found)


def describe_dtypes(dtypes: frozenset[DType]) -> str:
    """The shortest expression for a set of dtypes."""
    for name in ("all", "real", "float", "int", "index", "bool"):
        if dtypes == DTYPE_SETS[name]:
            return name
    return "+".join(dtype.name for dtype in sorted(dtypes))


def specialisation_key(tensors: Iterable[Meta]) -> str:
    """`v1/6;0,1|6;0,1`: dtype and dim order of a call's tensor arguments, results not repeated."""
    return "v1/" + "|".join(f"{int(dtype)};{','.join(map(str, order))}" for dtype, order in tensors)


def describe_key(key: str) -> str:
    """A key in words: `float32 [0,1] | float32 [0,1]`."""
    parts = (part.split(";") for part in key.removeprefix("v1/").split("|"))
    return " | ".join(f"{DType(int(dtype)).name} [{order}]" for dtype, order in parts)


@dataclass(frozen=True)
class OpRow:
    """One kernel of one operator.

    Attributes:
        op: name in programs: "aten::add.out".
        kernel: the C++ function as its row names it, with its namespace where the row gives one.
        given: its first arguments that are the operator's own, not a program's: name and C++ constant.
        libraries: kernel libraries that have it.
        dtypes: argument name -> what the kernel takes there; `rest` stands for the tensors not named.
        inplace: arguments whose memory the result may take over.
        schema: of an operator that torch does not define: its functional form.
        every_target: the user's own, there whatever libraries a target names.
        keys: dtypes and dim orders it is for; none: a fallback, for any.
        signature: the out variant's schema, where it is known.
        place: where the row is written.
    """

    op: str
    kernel: str
    libraries: tuple[str, ...] = ("portable",)
    dtypes: Mapping[str, frozenset[DType]] = field(default_factory=lambda: {"rest": DTYPE_SETS["all"]})
    inplace: tuple[str, ...] = ()
    schema: str | None = None
    given: tuple[tuple[str, str], ...] = ()
    every_target: bool = False
    keys: tuple[str, ...] = ()
    signature: Schema | None = field(default=None, compare=False)
    place: Place | None = field(default=None, compare=False)

    def takes(self, argument: str, dtype: DType) -> bool:
        """May a tensor of this dtype stand there?"""
        allowed = self.dtypes.get(argument)
        if allowed is None:
            allowed = self.dtypes.get("rest", DTYPE_SETS["all"])
        return dtype in allowed

    def fits(self, tensors: Iterable[Meta]) -> bool:
        """Is the kernel for these dtypes and dim orders of all tensor arguments together?"""
        return not self.keys or specialisation_key(tensors) in self.keys
