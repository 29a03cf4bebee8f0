"""From which step to which step each buffer is needed.

Steps are numbered in program order. That order is safe for branches: a buffer
that lives across a jump forward lives in all that is between. A loop runs its
steps again, so a buffer that is alive on one side of the loop and used inside
is needed during the whole loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penlight.ir.plan import Buffer, JumpFalse, Kind, Label, Plan, tensors_in


@dataclass
class Lifetime:
    """First and last step, both included. -1 is before the first step."""

    start: int
    end: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.start <= other.end and other.start <= self.end


def jumps(plan: Plan) -> Iterator[tuple[int, int]]:
    """Each jump as (its step, the step of its target)."""
    places = {step: i for i, step in enumerate(plan.steps) if isinstance(step, Label)}
    for i, step in enumerate(plan.steps):
        if isinstance(step, JumpFalse):
            yield i, places[step.target]


def lifetimes(plan: Plan) -> dict[Buffer, Lifetime]:
    """The lifetime of every buffer except constants."""
    found: dict[Buffer, Lifetime] = {}
    last = len(plan.steps)

    def use(buffer: Buffer, step: int) -> None:
        if buffer.kind is Kind.CONSTANT:
            return
        life = found.setdefault(buffer, Lifetime(step, step))
        life.start, life.end = min(life.start, step), max(life.end, step)

    for value in plan.inputs:
        for tensor in tensors_in(value):
            use(tensor.buffer, -1)
    for i, step in enumerate(plan.steps):
        if isinstance(step, Label):
            continue
        for tensor in step.reads():
            use(tensor.buffer, i)
        for tensor in step.writes():
            use(tensor.buffer, i)
    for value in plan.outputs:
        for tensor in tensors_in(value):
            use(tensor.buffer, last)
    for mutation in plan.mutations:
        use(mutation.new.buffer, last)
        use(mutation.target.buffer, last)
    for tensor in plan.state:
        use(tensor.buffer, -1)
        use(tensor.buffer, last)
    _extend_over_loops(plan, found)
    return found


def _extend_over_loops(plan: Plan, found: dict[Buffer, Lifetime]) -> None:
    loops = sorted(
        ((head, jump) for jump, head in jumps(plan) if head < jump), key=lambda loop: loop[1] - loop[0]
    )
    for head, jump in loops:  # inner loops are shorter and come first
        for life in found.values():
            inside = head <= life.start and life.end <= jump
            if not inside and life.start <= jump and life.end >= head:
                life.start, life.end = min(life.start, head), max(life.end, jump)
