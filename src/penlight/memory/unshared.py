"""Inputs and outputs whose memory is theirs alone: the caller's may take its place for a run."""

from __future__ import annotations

from typing import TypeGuard

from penlight.ir.plan import Kind, Label, Plan, TensorValue, Value, tensors_in

_WORTH_IT = 4096  # bytes; fewer are copied in no time


def find_unshared(plan: Plan) -> None:
    """List large inputs that nothing writes to, gives back or views, and outputs that nothing views.

    A view lies in the planned memory of what it views: it would not see what is elsewhere. Ask before
    memory is placed, which may give an input's memory to a result once it was read.
    """
    written = {
        tensor.buffer for step in plan.steps if not isinstance(step, Label) for tensor in step.writes()
    }
    given = [tensor.buffer for value in plan.outputs for tensor in tensors_in(value)]
    kept = {buffer for change in plan.mutations for buffer in (change.new.buffer, change.target.buffer)}
    plan.unshared_inputs = [
        number
        for number, value in enumerate(plan.inputs)
        if _is_alone(value, Kind.INPUT) and value.buffer not in {*written, *given, *kept}
    ]
    plan.unshared_outputs = [
        number
        for number, value in enumerate(plan.outputs)
        if _is_alone(value, Kind.ACTIVATION)
        and value.buffer in written - kept
        and given.count(value.buffer) == 1
    ]


def _is_alone(value: Value, kind: Kind) -> TypeGuard[TensorValue]:
    """Is this a large tensor with planned memory that it shares with no other?"""
    return (
        isinstance(value, TensorValue)
        and value.buffer.kind is kind
        and value.buffer.planned
        and value.nbytes >= _WORTH_IT
        and value.buffer.tensors == [value]
    )
