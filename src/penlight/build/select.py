"""What programs need of a binary: operators, the dtypes each is used with, backends.

Read from .pte files, from lists of operators and from YAML, and joined. A kernel
file is compiled for the dtypes that are collected here and for no others, so an
instruction counts with everything its kernel may come to compute in: the dtypes
of its tensors, what two of them promote to, and float32 where a floating scalar
meets integers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penlight.errors import InvalidInput
from penlight.ir.dtypes import DType
from penlight.kernels.elementwise import ALONE, STEP_WORDS
from penlight.kernels.places import Fault, Faults, Item, Place, nearest, read_root, table_error
from penlight.kernels.prims import PRIMS
from penlight.kernels.table import DTYPE_SETS, own_table, parse_dtypes
from penlight.program import Contents, read
from penlight.program.structs import (
    DelegateCall,
    Double,
    Int,
    IntList,
    KernelCall,
    Method,
    OptionalTensorList,
    Tensor,
    TensorList,
    Value,
)

ALL_DTYPES = DTYPE_SETS["all"]
_COMPLEX = frozenset({DType.complex32, DType.complex64, DType.complex128})
_INTEGERS = DTYPE_SETS["int"] | DTYPE_SETS["bool"]


@dataclass
class Use:
    """How one operator is used."""

    dtypes: set[DType] = field(default_factory=set)
    # Dim orders and dtypes of the tensors of a call, as the keys of specialised kernels spell them.
    keys: set[str] = field(default_factory=set)
    # Values of the argument `activation` of kernels that fuse one; all when None.
    activations: set[int] | None = field(default_factory=set)
    # Operations of elementwise programs; all when None.
    elements: set[int] | None = field(default_factory=set)
    needed_by: list[str] = field(default_factory=list)  # "model.pte, method forward"

    @classmethod
    def of_any(cls, dtypes: set[DType], needed_by: str) -> Use:
        """Of an operator of which only its name is known."""
        return cls(dtypes, activations=None, elements=None, needed_by=[needed_by])

    def join(self, other: Use) -> None:
        self.dtypes |= other.dtypes
        self.keys |= other.keys
        self.activations = _joined(self.activations, other.activations)
        self.elements = _joined(self.elements, other.elements)
        self.needed_by += [name for name in other.needed_by if name not in self.needed_by]


def _joined(one: set[int] | None, other: set[int] | None) -> set[int] | None:
    return None if one is None or other is None else one | other


@dataclass
class Selection:
    """Operators and backends, with who needs them; `prims` are those that the runtime computes itself."""

    operators: dict[str, Use] = field(default_factory=dict)
    backends: dict[str, list[str]] = field(default_factory=dict)
    prims: set[str] = field(default_factory=set)

    def add(self, operator: str, use: Use) -> None:
        if operator in PRIMS:
            self.prims.add(operator)
        else:
            self.operators.setdefault(operator, Use()).join(use)

    def join(self, other: Selection) -> None:
        for operator, use in other.operators.items():
            self.add(operator, use)
        self.prims |= other.prims
        for backend, needed_by in other.backends.items():
            listed = self.backends.setdefault(backend, [])
            listed += [name for name in needed_by if name not in listed]

    def every_dtype(self) -> Selection:
        """The same operators with dtype selection off."""
        wide = Selection(backends=dict(self.backends), prims=set(self.prims))
        for operator, use in self.operators.items():
            wide.add(operator, replace(use, dtypes=set(ALL_DTYPES)))
        return wide

    def to_rows(self) -> list[dict[str, Any]]:
        """Rows that select_from_yaml() reads."""
        return [
            {"op": operator, "dtypes": "+".join(dtype.name for dtype in sorted(use.dtypes))}
            for operator, use in sorted(self.operators.items())
        ]


def select_from_models(paths: Iterable[str | os.PathLike[str]]) -> Selection:
    """The union of what .pte files need.

    Raises:
        InvalidProgram: a file is damaged or no program.
    """
    selection = Selection()
    for path in paths:
        selection.join(select_from_contents(read(path), Path(path).name))
    return selection


def select_from_contents(contents: Contents, name: str) -> Selection:
    """What one program needs; `name` is for messages."""
    selection = Selection()
    for method in contents.methods:
        where = f"{name}, method {method.name}"
        for instruction in method.instructions:
            if isinstance(instruction, KernelCall):
                tensors = list(_tensors(method, instruction.args))
                operator = str(method.operators[instruction.op])
                use = Use(
                    _dtypes_of_call(method, instruction, tensors),
                    {key_of(tensors)},
                    _activations_of_call(operator, method, instruction),
                    _elements_of_call(operator, method, instruction),
                    [where],
                )
                selection.add(operator, use)
            elif isinstance(instruction, DelegateCall):
                backend = method.delegates[instruction.delegate].backend
                selection.join(Selection(backends={backend: [where]}))
    return selection


def key_of(tensors: Iterable[Tensor]) -> str:
    """Dtypes and dim orders of a call's tensors: `v1/6;0,1|6;0,1`."""
    return "v1/" + "|".join(
        f"{int(tensor.dtype)};{','.join(map(str, tensor.dim_order))}" for tensor in tensors
    )


def _tensors(method: Method, args: Iterable[int]) -> Iterator[Tensor]:
    for index in args:
        value: Value = method.values[index]
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (TensorList, OptionalTensorList)):
            yield from _tensors(method, (item for item in value.items if item >= 0))


def _dtypes_of_call(method: Method, call: KernelCall, tensors: list[Tensor]) -> set[DType]:
    dtypes = {tensor.dtype for tensor in tensors}
    dtypes |= {promote(a, b) for a in dtypes for b in dtypes}
    if dtypes & _INTEGERS and any(isinstance(method.values[index], Double) for index in call.args):
        dtypes.add(DType.float32)
    return dtypes


def _activations_of_call(operator: str, method: Method, call: KernelCall) -> set[int] | None:
    schema = next((row.schema for row in own_table().rows(operator) if row.schema), None)
    names = re.findall(r"(\w+)(?=[,)=])", schema.partition("->")[0]) if schema else []
    values = [method.values[call.args[i]] for i, name in enumerate(names) if name.endswith("activation")]
    numbers = {value.value for value in values if isinstance(value, Int)}
    return numbers if all(isinstance(value, Int) for value in values) else None


def _elements_of_call(operator: str, method: Method, call: KernelCall) -> set[int] | None:
    if operator != "penlight::elementwise.out":
        return set(map(int, ALONE.get(operator, ())))
    program = method.values[call.args[3]]
    if not isinstance(program, IntList):
        return None
    numbers = [method.values[item] for item in program.items[::STEP_WORDS]]
    return {number.value for number in numbers if isinstance(number, Int)}


def promote(a: DType, b: DType) -> DType:
    """What tensors of two dtypes are computed in together."""

    def kind(dtype: DType) -> int:
        return (
            3 if dtype in _COMPLEX else 0 if dtype is DType.bool else 2 if dtype in DTYPE_SETS["float"] else 1
        )

    low, high = sorted((a, b), key=lambda dtype: (kind(dtype), dtype.itemsize))
    if kind(high) == 3:
        wide = low in (DType.float64, DType.complex128)
        return DType.complex128 if wide else high
    if kind(low) != kind(high) or low is high or low.itemsize != high.itemsize:
        return high
    if kind(high) == 2:
        return DType.float32  # float16 and bfloat16
    return DType.int16 if high.itemsize == 1 else high


def select_from_list(operators: Iterable[str]) -> Selection:
    """Operators by name, `aten::add.out`, or with dtypes, `aten::add.out=float32+int64`."""
    selection = Selection()
    for text in operators:
        operator, _, dtypes = text.strip().partition("=")
        selection.add(operator.strip(), Use.of_any(_parse(dtypes, text), "--ops"))
    return selection


def select_from_yaml(path: Path) -> Selection:
    """Operators from a YAML file.

    A list of names or of rows `{op: aten::add.out, dtypes: float32+int64}`, as `penlight build --list`
    prints it; or ExecuTorch's selected_operators.yaml, with `operators` and `et_kernel_metadata`.

    Raises:
        FileMissing: there is no such file.
        InvalidTable: everything that is wrong in it, with line and column.
    """
    faults = Faults()
    root = read_root(path, faults)
    faults.check()
    selection = Selection()
    if root is not None and root.kind in ("list", "mapping"):
        read = _rows_of_list if root.kind == "list" else _rows_of_metadata
        for operator, dtypes in read(root, faults):
            selection.add(operator, Use.of_any(dtypes, path.name))
    faults.check()
    if not selection.operators and not selection.prims:
        place = root.place if root is not None else Place(str(path), 1)
        what = "the file names no operators: write a list of names such as aten::add.out, "
        raise table_error([Fault(place, what + "or of {op: NAME, dtypes: float32}")])
    return selection


def _rows_of_list(root: Item, faults: Faults) -> Iterator[tuple[str, set[DType]]]:
    for row in root.items():
        if row.kind == "text":
            yield row.text, set(ALL_DTYPES)
            continue
        keys = row.entries(faults) if row.kind == "mapping" else {}
        if "op" not in keys or keys["op"][1].kind != "text":
            faults.add(row.place, "a row of selected operators is a name or {op: NAME, dtypes: ...}")
            continue
        for name, (key, _) in keys.items():
            if name not in ("op", "dtypes"):
                faults.add(key.place, f"unknown key {name!r}{nearest(name, ('op', 'dtypes'))}")
        given = keys["dtypes"][1] if "dtypes" in keys else None
        dtypes = set(ALL_DTYPES)
        if given is not None and given.kind == "mapping":
            faults.add(given.place, "dtypes are an expression such as float32+int64, or a list")
        elif given is not None:
            names = given.texts(faults, "dtypes") if given.kind == "list" else [given]
            text = "+".join(name.text for name in names)
            try:
                dtypes = _parse(text, str(given.place))
            except InvalidInput as error:
                faults.add(given.place, error.what + (f": {error.do}" if error.do else ""))
        yield keys["op"][1].text, dtypes


def _rows_of_metadata(root: Item, faults: Faults) -> Iterator[tuple[str, set[DType]]]:
    """ExecuTorch's selected_operators.yaml: names, and with them keys of dtypes and dim orders."""
    parts = root.entries(faults)
    found: dict[str, set[DType]] = {}
    for part in ("operators", "et_kernel_metadata"):
        if part not in parts or parts[part][1].kind == "null":
            continue
        item = parts[part][1]
        if item.kind != "mapping":
            faults.add(item.place, f"`{part}` must be a mapping from operators")
            continue
        for name, (_, value) in item.entries(faults).items():
            if part == "operators":
                found.setdefault(name, set(ALL_DTYPES))
                continue
            dtypes: set[DType] = set()
            for key in value.texts(faults, f"the keys of {name}") if value.kind != "null" else []:
                dtypes |= _dtypes_of_key(key, name, faults)
            found[name] = dtypes or set(ALL_DTYPES)
    yield from found.items()


def _dtypes_of_key(key: Item, operator: str, faults: Faults) -> set[DType]:
    if key.text == "default":
        return set(ALL_DTYPES)
    try:
        found = {DType(int(part.partition(";")[0])) for part in key.text.removeprefix("v1/").split("|")}
    except ValueError:
        faults.add(key.place, f"{operator} has a key that cannot be read: keys look like v1/6;0,1|6;0,1")
        return set()
    return found | {promote(a, b) for a in found for b in found}


def _parse(text: str, where: str) -> set[DType]:
    try:
        return set(parse_dtypes(text)) if text.strip() else set(ALL_DTYPES)
    except InvalidInput as error:
        raise InvalidInput(error.what, where=where, got=error.got, do=error.do) from error
