"""Let outputs take over memory: that of an input that dies, or of the state they are the new value of.

A kernel's row says of which arguments `out` may be the same memory. For state
this saves the copy at the end: the new value of a KV cache is computed in the
cache. What cannot be computed in place is written back by `aten::copy_`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penlight.ir.plan import (
    Buffer,
    KernelCall,
    Kind,
    Label,
    Mutation,
    Number,
    Plan,
    Step,
    TensorValue,
    tensors_in,
)
from penlight.memory.lifetimes import jumps, lifetimes
from penlight.memory.views import clone, copy_of


def share_memory(plan: Plan) -> int:
    """Merge buffers where that is safe; return how many calls compute in place."""
    _Claims(plan).run()
    _write_back(plan)
    return _take_over(plan)


# --- state ---------------------------------------------------------------------------------------


class _Claims:
    """New values of state that are computed in its memory, because nothing needs the old one afterwards."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reads: dict[Buffer, list[int]] = {}  # steps that read a buffer
        self.writes: dict[Buffer, list[int]] = {}
        for i, step in enumerate(plan.steps):
            if not isinstance(step, Label):
                for tensor in step.reads():
                    self.reads.setdefault(tensor.buffer, []).append(i)
                for tensor in step.writes():
                    self.writes.setdefault(tensor.buffer, []).append(i)
        # Ranges of steps that may run never, or more than once.
        self.conditional = [(min(jump, target), max(jump, target)) for jump, target in jumps(plan)]
        self.same: dict[TensorValue, TensorValue] = {}  # value -> the state it is
        # What is needed after the last step.
        self.kept = {tensor.buffer for value in plan.outputs for tensor in tensors_in(value)}
        self.kept |= {mutation.new.buffer for mutation in plan.mutations}

    def run(self) -> None:
        plan = self.plan
        plan.mutations = [mutation for mutation in plan.mutations if not self.done(mutation)]
        if not self.same:
            return
        for step in plan.steps:
            if not isinstance(step, Label):
                step.replace(self.same)
        plan.steps = [step for step in plan.steps if not _copies_to_itself(step)]
        plan.outputs = [self.same.get(v, v) if isinstance(v, TensorValue) else v for v in plan.outputs]
        plan.mutations = [Mutation(self.same.get(m.new, m.new), m.target) for m in plan.mutations]

    def done(self, mutation: Mutation) -> bool:
        target, new = mutation.target.buffer, mutation.new
        if new.buffer is target:
            return new.offset == mutation.target.offset and new.same_layout(mutation.target)
        others = [m.new.buffer for m in self.plan.mutations if m is not mutation]
        returned = [tensor.buffer for value in self.plan.outputs for tensor in tensors_in(value)]
        if target in others or target in returned or new.buffer in others:
            return False
        return self.claim(new, mutation.target, len(self.plan.steps))

    def claim(self, new: TensorValue, target: TensorValue, before: int) -> bool:
        """Let `new` be `target`. From step `before` on, the target holds what is computed from `new`."""
        buffer, state = new.buffer, target.buffer
        if (
            buffer.kind is not Kind.ACTIVATION
            or not buffer.planned
            or new.offset
            or not new.same_layout(target)
        ):
            return False
        # Written more than once: a copy that a kernel of the user's then changes.
        writes = sorted(self.writes.get(buffer, []))
        if not writes or buffer.nbytes != state.nbytes or writes[-1] >= before:
            return False
        if not state.planned and len(buffer.tensors) > 1:
            return False  # where a view of the caller's memory is, nobody knows before the run
        at = writes[0]
        call = self.plan.steps[at]
        inside = any(begin < write < end for begin, end in self.conditional for write in writes)
        if inside or not isinstance(call, KernelCall):
            return False
        reads = [step for step in self.reads.get(state, []) if step < before]
        if any(at <= step < before for step in self.writes.get(state, [])) or any(
            step > at for step in reads
        ):
            return False
        if at in reads and not _may_overwrite(call, state, new):
            return False
        self.merge(new, target)
        if at not in reads:
            # The argument this was computed from may live in the state's memory as well, and so on backwards.
            for tensor in call.inplace:
                dies = tensor.buffer is not state and max(self.reads.get(tensor.buffer, [at])) == at
                if dies and tensor.buffer not in self.kept and self.claim(tensor, target, at):
                    break
        return True

    def merge(self, new: TensorValue, target: TensorValue) -> None:
        buffer, state = new.buffer, target.buffer
        self.reads.setdefault(state, []).extend(self.reads.pop(buffer, []))
        self.writes.setdefault(state, []).extend(self.writes.pop(buffer, []))
        buffer.tensors.remove(new)
        state.absorb(buffer)
        new.buffer = state
        self.same[new] = target


def _copies_to_itself(step: Step) -> bool:
    return isinstance(step, KernelCall) and step.op == "aten::clone.out" and step.args[0] is step.outs[0]


def _may_overwrite(call: KernelCall, buffer: Buffer, out: TensorValue) -> bool:
    """Is every argument in `buffer` one that `out` may be the same memory as?"""
    return all(
        any(tensor is allowed for allowed in call.inplace) and tensor.same_layout(out) and tensor.offset == 0
        for tensor in call.reads()
        if tensor.buffer is buffer
    )


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
