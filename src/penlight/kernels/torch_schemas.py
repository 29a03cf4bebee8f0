"""Schemas of the operators torch knows, for files that name an operator without its schema."""

from __future__ import annotations

from dataclasses import replace

import torch

from penlight.kernels.places import nearest
from penlight.kernels.schema import Argument, Schema, parse_schema


class TorchSchemas:
    """Answers for ATen in full, and for other namespaces as far as they are registered."""

    def schema(self, op: str) -> Schema | None:
        """The schema of an out variant, also of those that only a naming rule gives.

        Raises:
            LookupError: ATen has no such operator.
        """
        namespace, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        overloads = self._overloads(f"{namespace}::{name}")
        if overload in overloads:
            return overloads[overload]
        functional = overloads.get(overload.removesuffix("out").removesuffix("_"))
        if functional is not None and overload.endswith("out") and not functional.outs:
            return _with_outs(functional, overload)
        if namespace != "aten":
            return None
        if not overloads:
            names = {schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas()}
            raise LookupError(f"ATen has no operator {name!r}{nearest(name, sorted(names))}")
        written = [f"{name}.{key}" for key, schema in overloads.items() if schema.outs]
        hint = nearest(rest, written)
        raise LookupError(
            f"ATen's {name} has no overload {overload or 'default'!r}"
            + (hint or (f" (out variants are {', '.join(written)})" if written else ""))
        )

    def is_aten(self, name: str) -> bool:
        """Has ATen an operator of that name?"""
        return bool(self._overloads(f"aten::{name}"))

    @staticmethod
    def _overloads(name: str) -> dict[str, Schema]:
        found = torch._C._jit_get_schemas_for_operator(name)
        return {schema.overload_name: parse_schema(str(schema)) for schema in found}


def _with_outs(functional: Schema, overload: str) -> Schema:
    """What the out variant is where torch has none: the same arguments, then the results."""
    count = len(functional.returns)
    names = ["out"] if count == 1 else [f"out{index}" for index in range(count)]
    outs = tuple(
        Argument(name, type_, True, True, None, "O" if type_ == "Tensor" else "L")
        for name, type_ in zip(names, functional.returns, strict=True)
    )
    inner = functional.text[functional.text.index("(") + 1 : functional.text.index(") ->")]
    written = ", ".join(f"{out.type} {out.name}" for out in outs)
    star = "" if "*, " in inner else "*, "
    text = (
        f"{functional.namespace}::{functional.name}.{overload}({inner}, {star}{written}) -> "
        f"{functional.text.split('-> ')[1]}"
    )
    return replace(functional, overload=overload, arguments=(*functional.arguments, *outs), text=text)
