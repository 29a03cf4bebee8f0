"""Drop calls that would copy bytes to where they could just as well be read from.

A view whose result is a dense part of its source gets the source's buffer and
no instruction. With dynamic sizes the view is set up at run time (`et_view`),
which costs a few nanoseconds and no bytes.
"""

from __future__ import annotations

from penlight.ir.plan import (
    Buffer,
    KernelCall,
    Kind,
    Label,
    Mutation,
    Number,
    NumberList,
    Plan,
    PlanProgram,
    Step,
    TensorValue,
    Value,
    View,
    tensors_in,
)

ET_VIEW = "executorch_prim::et_view.default"
_ALIGNMENT = 16  # of views within their source; kernels may expect it of every tensor


def elide_views(program: PlanProgram, *, plan_inputs: bool = True, plan_outputs: bool = True) -> int:
    """Rewrite all methods; return how many copies were dropped.

    Args:
        plan_inputs, plan_outputs: False leaves the memory of inputs or outputs to the caller.
            A view of memory that is not known before the run has to be set up during it.
    """
    dropped = 0
    for plan in program.plans:
        _leave_to_caller(plan, plan_inputs, plan_outputs)
        dropped += _elide(plan)
    return dropped


def _leave_to_caller(plan: Plan, plan_inputs: bool, plan_outputs: bool) -> None:
    if not plan_inputs:
        for value in plan.inputs:
            for tensor in tensors_in(value):
                tensor.buffer.planned = False
    if plan_outputs:
        return
    seen: set[TensorValue] = set()
    outputs: list[Value] = []
    for i, value in enumerate(plan.outputs):
        own = value
        if isinstance(value, TensorValue):
            if value.buffer.kind is not Kind.ACTIVATION or value in seen:
                own = copy_of(value, f"output{i}")
                plan.steps.append(clone(value, own))
            assert isinstance(own, TensorValue)
            own.buffer.planned = False
            seen.add(own)
        outputs.append(own)
    plan.outputs = outputs


def copy_of(value: TensorValue, name: str) -> TensorValue:
    """A new activation like `value`."""
    buffer = Buffer(Kind.ACTIVATION, name, value.nbytes)
    made = TensorValue(name, value.dtype, value.sizes, value.dim_order, buffer, value.shape, value.dynamic)
    buffer.tensors.append(made)
    return made


def clone(source: TensorValue, out: TensorValue) -> KernelCall:
    return KernelCall(
        "aten::clone.out",
        [source, None, out],
        ("self", "memory_format", "out"),
        [out],
        again=[out],
        node=out.name,
    )


def _elide(plan: Plan) -> int:
    writes: dict[Buffer, list[int]] = {}
    for i, step in enumerate(plan.steps):
        if not isinstance(step, Label):
            for tensor in step.writes():
                writes.setdefault(tensor.buffer, []).append(i)
    same: dict[TensorValue, TensorValue] = {}
    steps: list[Step] = []
    for i, step in enumerate(plan.steps):
        if isinstance(step, Label):
            steps.append(step)
            continue
        step.replace(same)
        if isinstance(step, KernelCall) and step.views and _allowed(step, i, writes):
            kept = _apply(step, same)
            # A buffer that took in others is written where they are: nowhere else, they have no steps.
            if kept is None:
                continue
            step = kept
        steps.append(step)
    dropped = len(plan.steps) - len(steps)
    plan.steps = steps
    plan.outputs = [same.get(v, v) if isinstance(v, TensorValue) else v for v in plan.outputs]
    plan.mutations = [Mutation(same.get(m.new, m.new), m.target) for m in plan.mutations]
    return dropped


def _allowed(call: KernelCall, at: int, writes: dict[Buffer, list[int]]) -> bool:
    """Are source and outputs such that they can share bytes?

    A source that is written again later (a value carried round a loop) must be
    copied now; an output written in several places (both branches of a cond) is
    no view in all of them.
    """
    source = call.views[0].source
    if len(call.views) != len(call.outs) or any(step > at for step in writes.get(source.buffer, ())):
        return False
    for view in call.views:
        out = view.output
        place = source.offset + view.offset
        if len(writes.get(out.buffer, ())) != 1 or not out.buffer.planned or len(out.buffer.tensors) != 1:
            return False
        if place % _ALIGNMENT or (source.buffer.kind is Kind.CONSTANT and place):
            return False
    return True


def _apply(call: KernelCall, same: dict[TensorValue, TensorValue]) -> KernelCall | None:
    """Let the outputs share the source; return what has to run in place of the call."""
    source = call.views[0].source
    if len(call.views) == 1 and source.same_layout(call.views[0].output):
        same[call.views[0].output] = source
        return None
    dynamic = source.dynamic or any(view.output.dynamic for view in call.views)
    if dynamic or not source.buffer.planned:
        return _at_run_time(call, dynamic)
    for view in call.views:
        _share(view)
    return None


def _at_run_time(call: KernelCall, dynamic: bool) -> KernelCall:
    view = call.views[0]
    sizes = call.view_sizes if dynamic else NumberList(tuple(map(Number, view.output.sizes)))
    whole = view.offset == 0 and view.source.offset == 0 and view.source.nbytes == view.output.nbytes
    if len(call.views) > 1 or not whole or sizes is None:
        return call
    _share(view)
    return KernelCall(
        ET_VIEW,
        [view.source, sizes, view.output],
        ("self", "size", "out"),
        [view.output],
        node=call.node,
        source=call.source,
    )


def _share(view: View) -> None:
    view.source.buffer.absorb(view.output.buffer, view.source.offset + view.offset)
