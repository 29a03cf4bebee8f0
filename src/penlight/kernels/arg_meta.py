"""What a kernel of functions.yaml is specialised for: `type_alias`, `dim_order_alias`, `arg_meta`.

    type_alias: {T0: [Float, Double]}
    dim_order_alias: {D0: [[0, 1], [1, 0]]}
    arg_meta: {self: [T0, D0], other: [T0, D0], out: [T0, D0]}

says four keys: an alias has one of its values in all arguments at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import TypeVar

from penlight.ir.dtypes import DType
from penlight.kernels.places import Faults, Item, nearest
from penlight.kernels.rows import specialisation_key
from penlight.kernels.schema import Schema

# The names that C++ has for dtypes, beside torch's.
_SCALAR_TYPES: Mapping[str, DType] = {
    "Byte": DType.uint8,
    "Char": DType.int8,
    "Short": DType.int16,
    "Int": DType.int32,
    "Long": DType.int64,
    "Half": DType.float16,
    "Float": DType.float32,
    "Double": DType.float64,
    "ComplexHalf": DType.complex32,
    "ComplexFloat": DType.complex64,
    "ComplexDouble": DType.complex128,
    "Bool": DType.bool,
    "QInt8": DType.qint8,
    "QUInt8": DType.quint8,
    "QInt32": DType.qint32,
    "BFloat16": DType.bfloat16,
    "UInt16": DType.uint16,
    "UInt32": DType.uint32,
    "UInt64": DType.uint64,
    **{dtype.name: dtype for dtype in DType},
}
_MAX_RANK = 16


_T = TypeVar("_T")


class Aliases:
    """The aliases of one operator's entry."""

    def __init__(self, keys: Mapping[str, tuple[Item, Item]], faults: Faults) -> None:
        self.faults = faults
        self.types = self.aliases(keys, "type_alias", self.dtype_choices)
        self.orders = self.aliases(keys, "dim_order_alias", self.order_choices)

    def aliases(
        self,
        keys: Mapping[str, tuple[Item, Item]],
        name: str,
        choices: Callable[[Item, str], list[_T]],
    ) -> dict[str, list[_T]]:
        if name not in keys or keys[name][1].kind == "null":
            return {}
        item = keys[name][1]
        if item.kind != "mapping":
            self.faults.add(item.place, f"`{name}` must be a mapping from alias to a list")
            return {}
        return {alias: choices(value, alias) for alias, (_, value) in item.entries(self.faults).items()}

    def dtype_choices(self, item: Item, alias: str) -> list[DType]:
        if item.kind == "list" and not item.items():
            self.faults.add(item.place, f"type alias {alias} lists no dtype")
        found = []
        for name in item.texts(self.faults, f"type alias {alias}"):
            dtype = _SCALAR_TYPES.get(name.text)
            if dtype is None:
                self.faults.add(name.place, f"unknown dtype {name.text!r}{nearest(name.text, _SCALAR_TYPES)}")
            else:
                found.append(dtype)
        return found

    def order_choices(self, item: Item, alias: str) -> list[tuple[int, ...]]:
        """A list of dim orders, or a single one."""
        if item.kind != "list" or not item.items():
            self.faults.add(
                item.place, f"dim order alias {alias} must list dim orders, such as [[0, 1], [0, 1, 2]]"
            )
            return []
        orders = item.items() if item.items()[0].kind == "list" else [item]
        found = []
        for order in orders:
            dims = [dim.text for dim in order.items()] if order.kind == "list" else []
            numbers = tuple(int(dim) for dim in dims if dim.isdigit())
            if (
                order.kind != "list"
                or len(numbers) != len(dims)
                or sorted(numbers) != list(range(len(dims)))
                or len(dims) > _MAX_RANK
            ):
                self.faults.add(
                    order.place,
                    f"dim order alias {alias}: [{', '.join(dims)}] does not name each dimension from 0 once",
                )
            else:
                found.append(numbers)
        return found

    def specialisations(
        self,
        meta: Item,
        op: str,
        signature: Schema | None,
    ) -> tuple[tuple[str, ...], dict[str, frozenset[DType]]] | None:
        """The keys of one `arg_meta`, and the dtypes by argument; None where it is wrong."""
        before = len(self.faults.found)
        if meta.kind != "mapping" or not meta.node.value:
            self.faults.add(
                meta.place,
                "`arg_meta` must map every tensor argument to [type alias, dim order alias], or be null "
                "for a fallback kernel",
            )
            return None
        chosen: dict[str, tuple[str, str]] = {}
        for argument, (key, value) in meta.entries(self.faults).items():
            if signature is not None:
                self.check_argument(argument, key, op, signature)
            names = [item.text for item in value.texts(self.faults, f"arg_meta of {argument}")]
            if value.kind != "list":
                continue
            if len(names) != 2:
                self.faults.add(
                    value.place, f"arg_meta of {argument} must be [type alias, dim order alias], got {names}"
                )
                continue
            alias, order = names
            self.check_alias(alias, value.items()[0], "type_alias", self.types, self.orders)
            self.check_alias(order, value.items()[1], "dim_order_alias", self.orders, self.types)
            chosen[argument] = (alias, order)
        if signature is not None:
            missing = [
                argument.name
                for argument in signature.arguments
                if argument.type == "Tensor" and argument.name not in chosen
            ]
            if missing and len(self.faults.found) == before:
                self.faults.add(
                    meta.place, f"arg_meta of {op} does not say what {', '.join(missing)} must be"
                )
        if len(self.faults.found) > before:
            return None
        arguments: Iterable[str] = chosen
        if signature is not None:
            arguments = [argument.name for argument in signature.arguments if argument.name in chosen]
        return self.expand([chosen[argument] for argument in arguments]), {
            argument: frozenset(self.types[alias]) for argument, (alias, _) in chosen.items()
        }

    def check_argument(self, argument: str, key: Item, op: str, signature: Schema) -> None:
        found = next((a for a in signature.arguments if a.name == argument), None)
        if found is None:
            names = [a.name for a in signature.arguments if a.is_tensor]
            hint = f"{nearest(argument, names)} (tensors are {', '.join(names)})"
            self.faults.add(key.place, f"{op} has no argument {argument!r}{hint}")
        elif not found.is_tensor:
            self.faults.add(
                key.place,
                f"argument {argument} of {op} is {found.type}: only tensors have dtype and dim order",
            )

    def check_alias(
        self,
        alias: str,
        item: Item,
        kind: str,
        known: Mapping[str, object],
        other: Mapping[str, object],
    ) -> None:
        if alias in known:
            return
        if alias in other:
            self.faults.add(item.place, f"{alias} is no {kind}: write [type alias, dim order alias]")
        else:
            hint = nearest(alias, known) or (f" (there are {', '.join(known)})" if known else "")
            self.faults.add(item.place, f"unknown {kind} {alias!r}{hint}")

    def expand(self, arguments: list[tuple[str, str]]) -> tuple[str, ...]:
        """Every choice of dtypes and dim orders; one alias has one choice in all arguments."""
        type_names = list(dict.fromkeys(alias for alias, _ in arguments))
        order_names = list(dict.fromkeys(order for _, order in arguments))
        keys = []
        for dtypes in product(*(self.types[name] for name in type_names)):
            for dims in product(*(self.orders[name] for name in order_names)):
                dtype_of = dict(zip(type_names, dtypes, strict=True))
                dims_of = dict(zip(order_names, dims, strict=True))
                keys.append(specialisation_key([(dtype_of[a], dims_of[b]) for a, b in arguments]))
        return tuple(dict.fromkeys(keys))
