"""Let outputs take over memory: that of an input that dies, or of the state they are the new value of.

A kernel's row says of which arguments `out` may be the same memory. For state
this saves the copy at the end: the new value of a KV cache is computed in the
cache. What cannot be computed in place is written back by `aten::copy_`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penlight.ir.plan import Buffer, KernelCall, Kind, Label, Mutation, Number, Plan, TensorValue, tensors_in
from penlight.memory.lifetimes import jumps, lifetimes
from penlight.memory.views import clone, copy_of


def share_memory(plan: Plan) -> int:
    """Merge buffers where that is safe; return how many calls compute in place."""
    left = [i for i in range(len(plan.mutations)) if not _claim_state(plan, plan.mutations[i])]
    plan.mutations = [plan.mutations[i] for i in left]
    _write_back(plan)
    return _take_over(plan)


def _uses(plan: Plan, buffer: Buffer) -> tuple[list[int], list[int]]:
    """Steps that read a buffer and steps that write it."""
    reads, writes = [], []
    for i, step in enumerate(plan.steps):
        if isinstance(step, Label):
            continue
        if any(tensor.buffer is buffer for tensor in step.reads()):
            reads.append(i)
        if any(tensor.buffer is buffer for tensor in step.writes()):
            writes.append(i)
    return reads, writes


# --- state ---------------------------------------------------------------------------------------


def _claim_state(plan: Plan, mutation: Mutation) -> bool:
    """Compute the new value of a state tensor in its memory, if nothing needs the old one afterwards."""
    target = mutation.target.buffer
    if mutation.new.buffer is target:
        return mutation.new.offset == mutation.target.offset and mutation.new.same_layout(mutation.target)
    others = [m.new.buffer for m in plan.mutations if m is not mutation] + [
        tensor.buffer for value in plan.outputs for tensor in tensors_in(value)
    ]
    if target in others or any(
        m.new.buffer is mutation.new.buffer for m in plan.mutations if m is not mutation
    ):
        return False
    return _claim(plan, mutation.new, mutation.target, _conditional(plan), len(plan.steps))


def _claim(
    plan: Plan, new: TensorValue, target: TensorValue, conditional: list[tuple[int, int]], before: int
) -> bool:
    """Let `new` be `target`. From step `before` on, the target holds what is computed from `new`."""
    buffer = new.buffer
    if buffer.kind is not Kind.ACTIVATION or not buffer.planned or new.offset or not new.same_layout(target):
        return False
    _, writes = _uses(plan, buffer)
    reads, earlier = ([step for step in steps if step < before] for steps in _uses(plan, target.buffer))
    if len(writes) != 1 or buffer.nbytes != target.buffer.nbytes:
        return False
    if not target.buffer.planned and len(buffer.tensors) > 1:
        return False  # where a view of the caller's memory is, nobody knows before the run
    at = writes[0]
    call = plan.steps[at]
    if any(begin < at < end for begin, end in conditional) or not isinstance(call, KernelCall):
        return False
    if any(step >= at for step in earlier) or any(step > at for step in reads):
        return False
    if at in reads and not _may_overwrite(call, target.buffer, new):
        return False
    sources = [tensor for tensor in call.inplace if tensor.buffer is not target.buffer]
    buffer.tensors.remove(new)
    target.buffer.absorb(buffer)
    _replace(plan, new, target)
    if at not in reads:
        # The argument this was computed from may live in the state's memory as well, and so on backwards.
        for tensor in sources:
            if max(_uses(plan, tensor.buffer)[0]) == at and _claim(plan, tensor, target, conditional, at):
                break
    return True


def _replace(plan: Plan, old: TensorValue, new: TensorValue) -> None:
    for step in plan.steps:
        if not isinstance(step, Label):
            step.replace({old: new})
    plan.outputs = [new if value is old else value for value in plan.outputs]
    plan.mutations = [Mutation(new if m.new is old else m.new, m.target) for m in plan.mutations]


def _may_overwrite(call: KernelCall, buffer: Buffer, out: TensorValue) -> bool:
    """Is every argument in `buffer` one that `out` may be the same memory as?"""
    return all(
        any(tensor is allowed for allowed in call.inplace) and tensor.same_layout(out) and tensor.offset == 0
        for tensor in call.reads()
        if tensor.buffer is buffer
    )


def _conditional(plan: Plan) -> list[tuple[int, int]]:
    """Ranges of steps that may run never, or more than once."""
    return [(min(jump, target), max(jump, target)) for jump, target in jumps(plan)]


def _write_back(plan: Plan) -> None:
    """Copies at the end for what is left; values that a copy would overwrite are saved before."""
    targets = {mutation.target.buffer for mutation in plan.mutations}
    written = set(targets)

    def saved(tensor: TensorValue) -> TensorValue:
        copy = copy_of(tensor, f"{tensor.name}.before")
        plan.steps.append(clone(tensor, copy))
        return copy

    plan.outputs = [
        saved(value) if isinstance(value, TensorValue) and value.buffer in written else value
        for value in plan.outputs
    ]
    news = [
        saved(mutation.new) if mutation.new.buffer in targets else mutation.new for mutation in plan.mutations
    ]
    for new, mutation in zip(news, plan.mutations, strict=True):
        target = mutation.target
        plan.steps.append(
            KernelCall(
                "aten::copy_",
                [target, new, Number(False)],
                ("self", "src", "non_blocking"),
                [target],
                again=[target],
                out_args=0,
                node=target.name,
            )
        )
    plan.mutations = []


# --- activations ---------------------------------------------------------------------------------


def _take_over(plan: Plan) -> int:
    lives = lifetimes(plan)
    count = 0
    for at, call in enumerate(plan.steps):
        if not isinstance(call, KernelCall) or not call.inplace or not call.outs:
            continue
        out = call.outs[0]
        if (
            not isinstance(out, TensorValue)
            or out.buffer.kind is not Kind.ACTIVATION
            or not out.buffer.planned
        ):
            continue
        life = lives[out.buffer]
        if life.start != at:
            continue
        for tensor in _dying(call, out):
            if lives[tensor.buffer].end == at:
                lives[tensor.buffer].end = life.end
                del lives[out.buffer]
                tensor.buffer.absorb(out.buffer)
                count += 1
                break
    return count


def _dying(call: KernelCall, out: TensorValue) -> Iterator[TensorValue]:
    """Arguments whose whole buffer `out` could have."""
    for tensor in call.inplace:
        buffer = tensor.buffer
        if (
            buffer.kind in (Kind.ACTIVATION, Kind.INPUT)
            and buffer.planned
            and buffer is not out.buffer
            and buffer.nbytes == out.buffer.nbytes
            and out.offset == 0
            and tensor.same_layout(out)
            and _may_overwrite(call, buffer, out)
        ):
            yield tensor
