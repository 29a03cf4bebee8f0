"""Inputs whose memory is theirs alone: a runtime may read them where the caller has them."""

from __future__ import annotations

from penlight.ir.plan import Kind, Label, Plan, TensorValue, tensors_in

_WORTH_IT = 4096  # bytes; fewer are copied in no time


def unshared_inputs(plan: Plan) -> list[int]:
    """Numbers of large inputs that nothing writes to, gives back or views.

    A view lies in the planned memory of what it views: without a copy there, it would hold nothing.
    Ask before memory is placed, which may give an input's memory to a result once it was read.
    """
    touched = {
        tensor.buffer for step in plan.steps if not isinstance(step, Label) for tensor in step.writes()
    }
    touched |= {tensor.buffer for value in plan.outputs for tensor in tensors_in(value)}
    for mutation in plan.mutations:
        touched |= {mutation.new.buffer, mutation.target.buffer}
    return [
        number
        for number, value in enumerate(plan.inputs)
        if isinstance(value, TensorValue)
        and value.buffer.kind is Kind.INPUT
        and value.buffer.planned
        and value.nbytes >= _WORTH_IT
        and value.buffer.tensors == [value]
        and value.buffer not in touched
    ]
