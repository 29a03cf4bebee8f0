"""The kernel check: does every call have a kernel, for its dtypes, in the chosen libraries?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penlight.errors import NoKernel
from penlight.ir.plan import KernelCall, PlanProgram, TensorValue, tensors_in
from penlight.kernels.prims import PRIMS
from penlight.kernels.rows import describe_key
from penlight.kernels.table import OpRow, OpTable
from penlight.kernels.theirs import EXECUTORCH_OPS, NAMESPACES


def check_kernels(program: PlanProgram, table: OpTable, libraries: Sequence[str]) -> None:
    """Note in every call what its kernel may compute in place; all that is missing is one error.

    Raises:
        NoKernel: names each operator, its dtypes, node, and line in the user's model.
    """
    missing: dict[str, list[str]] = {}
    for plan in program.plans:
        for call in plan.calls():
            if call.op in PRIMS:
                continue
            row = find_row(call, table, libraries)
            if row is None:
                what = _describe(call, table, libraries)
                missing.setdefault(what, []).append(_where(call, plan.name, len(program.plans) > 1))
            else:
                call.inplace = _inplace(call, row)
    if missing:
        _raise(missing, libraries)


def missing_in_theirs(program: PlanProgram) -> str:
    """What ExecuTorch's runtime has no kernel for, with the first place of each; empty where it has all.

    The user's own operators are not looked at: ExecuTorch can be given kernels for them.
    """
    found: dict[str, str] = {}
    for plan in program.plans:
        for call in plan.calls():
            if call.op.split("::")[0] in NAMESPACES and call.op not in EXECUTORCH_OPS:
                found.setdefault(call.op, _where(call, plan.name, len(program.plans) > 1))
    return "; ".join(f"{op} ({where})" for op, where in found.items())


def _inplace(call: KernelCall, row: OpRow) -> list[TensorValue]:
    """What the row lets `out` take over, but for tensors that are other arguments of the call as well."""
    named: dict[bool, list[TensorValue]] = {True: [], False: []}
    for name, arg in zip(call.names, call.args, strict=True):
        named[name in row.inplace].extend(tensors_in(arg))
    return [tensor for tensor in named[True] if all(tensor is not other for other in named[False])]


def find_row(call: KernelCall, table: OpTable, libraries: Iterable[str]) -> OpRow | None:
    """The first kernel that takes all dtypes of a call, and its dim orders if it is for some only."""
    tensors = [(arg.dtype, arg.dim_order) for arg in call.args if isinstance(arg, TensorValue)]
    for row in table.rows(call.op, libraries):
        if row.fits(tensors) and all(
            row.takes(name, tensor.dtype)
            for name, arg in zip(call.names, call.args, strict=True)
            for tensor in tensors_in(arg)
        ):
            return row
    return None


def _describe(call: KernelCall, table: OpTable, libraries: Sequence[str]) -> str:
    dtypes = ", ".join(dict.fromkeys(tensor.dtype.name for arg in call.args for tensor in tensors_in(arg)))
    if rows := table.rows(call.op, libraries):
        what = f"{call.op} has no kernel for {dtypes}"
        keys = [describe_key(key) for row in rows for key in row.keys]
        if not all(row.keys for row in rows):
            return what
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        return f"{what} in these dim orders; its kernels are for {', '.join(keys[:3])}{more}"
    others = sorted({library for row in table.rows(call.op) for library in row.libraries})
    elsewhere = f"; there is one in {', '.join(others)}" if others else ""
    return f"{call.op} has no kernel ({dtypes}){elsewhere}"


def _where(call: KernelCall, method: str, several: bool) -> str:
    place = f"node {call.node}" + (f", from {call.source}" if call.source else "")
    return f"{place} (method {method})" if several else place


def _raise(missing: dict[str, list[str]], libraries: Sequence[str]) -> None:
    do = "register one (docs/how-to/custom-op.md), convert the dtype in the model, or leave this part out"
    if len(missing) == 1:
        ((what, places),) = missing.items()
        raise NoKernel(what, where=_some(places), got=f"libraries asked: {', '.join(libraries)}", do=do)
    lines = [f"{what}\n  {_some(places)}" for what, places in missing.items()]
    raise NoKernel(
        f"{len(missing)} operators have no kernel",
        where="\n".join(lines),
        got=f"libraries asked: {', '.join(libraries)}",
        do=do,
    )


def _some(places: list[str]) -> str:
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")
