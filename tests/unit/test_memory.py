"""Memory planning: lifetimes, placement, what must never share bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penlight.errors import InvalidInput, InvalidPlan, OutOfMemory
from penlight.ir.dtypes import DType
from penlight.ir.plan import (
    Buffer,
    JumpFalse,
    KernelCall,
    Kind,
    Label,
    Number,
    Plan,
    PlanProgram,
    TensorValue,
)
from penlight.memory import Region, Request, greedy, naive, plan_memory
from penlight.memory.lifetimes import lifetimes
from penlight.memory.place import arena_size, lower_bound


@st.composite
def requests(draw: Any) -> list[Request]:
    found = []
    last, longest = draw(st.sampled_from([(30, 12), (500, 12), (500, 300)]))
    for i in range(draw(st.integers(0, 40))):
        start = draw(st.integers(-1, last))
        found.append(
            Request(str(i), draw(st.integers(0, 5000)), start, start + draw(st.integers(0, longest)))
        )
    return found


def overlapping(items: list[Request]) -> list[tuple[Request, Request]]:
    return [
        (a, b)
        for i, a in enumerate(items)
        for b in items[:i]
        if a.lifetime.overlaps(b.lifetime)
        and a.nbytes
        and b.nbytes
        and a.offset < b.offset + b.nbytes
        and b.offset < a.offset + a.nbytes
    ]


@given(requests(), st.sampled_from([1, 16, 64]), st.sampled_from([greedy, naive]))
def test_no_live_bytes_are_shared(items: list[Request], alignment: int, algorithm: Any) -> None:
    algorithm(items, alignment)
    assert not overlapping(items)
    assert all(item.offset % alignment == 0 and item.offset >= 0 for item in items)
    size = arena_size(items, alignment)
    assert lower_bound(items, alignment) <= size <= sum(-(-i.nbytes // alignment) * alignment for i in items)


@given(requests())
def test_greedy_is_never_worse_than_naive(items: list[Request]) -> None:
    greedy(items, 16)
    size = arena_size(items, 16)
    naive(items, 16)
    assert size <= arena_size(items, 16)


def test_holes_are_used() -> None:
    items = [Request("a", 64, 0, 1), Request("b", 32, 0, 3), Request("c", 64, 2, 3)]
    greedy(items, 16)
    assert arena_size(items, 16) == 96


# --- plans made by hand --------------------------------------------------------------------------


def tensor(name: str, size: int = 4, kind: Kind = Kind.ACTIVATION) -> TensorValue:
    buffer = Buffer(kind, name, size * 4, key=name if kind in (Kind.STATE, Kind.CONSTANT) else None)
    value = TensorValue(name, DType.float32, (size,), (0,), buffer, (size,))
    buffer.tensors.append(value)
    return value


def call(out: TensorValue, *args: TensorValue, inplace: bool = False) -> KernelCall:
    names = (*(f"a{i}" for i in range(len(args))), "out")
    return KernelCall(
        "aten::some.out", [*args, out], names, [out], again=[out], inplace=list(args) if inplace else []
    )


def plan(steps: list[Any], inputs: list[TensorValue], outputs: list[TensorValue], **rest: Any) -> Plan:
    return Plan("forward", steps, list(inputs), list(outputs), ["x"], "", "", **rest)


def program(one: Plan) -> PlanProgram:
    return PlanProgram([one], {})


def test_dead_input_gives_its_bytes() -> None:
    x, a, b = tensor("x"), tensor("a"), tensor("b")
    x.buffer.kind = Kind.INPUT
    one = plan([call(a, x, inplace=True), call(b, a, inplace=True)], [x], [b])
    (report,) = plan_memory(program(one))
    assert one.arenas == [16] and report.in_place == 2 and b.buffer is x.buffer


def test_living_input_keeps_its_bytes() -> None:
    x, a, b = tensor("x", kind=Kind.INPUT), tensor("a"), tensor("b")
    one = plan([call(a, x, inplace=True), call(b, a, x, inplace=True)], [x], [b])
    plan_memory(program(one))
    assert one.arenas == [32] and a.buffer is not x.buffer


def test_another_layout_is_no_place() -> None:
    x, a = tensor("x", kind=Kind.INPUT), tensor("a")
    a.dtype = DType.int32
    one = plan([call(a, x, inplace=True)], [x], [a])
    plan_memory(program(one))
    assert a.buffer is not x.buffer


def test_callers_memory_is_not_overwritten() -> None:
    x, a = tensor("x", kind=Kind.INPUT), tensor("a")
    x.buffer.planned = False
    one = plan([call(a, x, inplace=True)], [x], [a])
    plan_memory(program(one))
    assert a.buffer is not x.buffer and one.arenas == [16]


def test_a_loop_keeps_what_the_next_round_reads() -> None:
    x, a, b = tensor("x", kind=Kind.INPUT), tensor("a"), tensor("b")
    loop = Label("loop")
    steps = [loop, call(a, x, inplace=True), call(b, a, inplace=True), JumpFalse(Number(False), loop)]
    one = plan(steps, [x], [])
    lives = lifetimes(one)
    assert lives[x.buffer].end == 3 and lives[a.buffer].end == 2
    plan_memory(program(one))
    assert a.buffer is not x.buffer and b.buffer is a.buffer


def test_state_is_computed_in_place_only_if_the_old_value_is_dead() -> None:
    def run(read_later: bool) -> Plan:
        s, x, new, later = (
            tensor("s", kind=Kind.STATE),
            tensor("x", kind=Kind.INPUT),
            tensor("new"),
            tensor("later"),
        )
        steps = [call(new, s, x, inplace=True), call(later, s if read_later else new)]
        from penlight.ir.plan import Mutation

        one = plan(steps, [x], [later], state=[s], mutations=[Mutation(new, s)])
        plan_memory(program(one))
        return one

    assert [step.op for step in run(False).calls()] == ["aten::some.out"] * 2
    assert [step.op for step in run(True).calls()] == ["aten::some.out"] * 2 + ["aten::copy_"]


def test_state_has_memory_of_its_own() -> None:
    s, x, out = tensor("s", 8, Kind.STATE), tensor("x", kind=Kind.INPUT), tensor("out")
    one = plan([call(out, s, x)], [x], [out], state=[s])
    plan_memory(program(one))
    assert s.buffer.memory_id == 2 and one.arenas == [32, 32]


def test_own_algorithm_is_verified() -> None:
    def all_at_zero(items: Any, alignment: int) -> None:
        for item in items:
            item.offset = 0

    def crooked(items: Any, alignment: int) -> None:
        naive(items, 4)

    x, a = tensor("x", 3, Kind.INPUT), tensor("a", 3)
    with pytest.raises(InvalidPlan, match="share bytes"):
        plan_memory(program(plan([call(a, x)], [x], [a])), algorithm=all_at_zero)
    with pytest.raises(InvalidPlan, match="not a multiple of 16"):
        plan_memory(program(plan([call(a, x)], [x], [a])), algorithm=crooked)


def test_regions_and_capacities() -> None:
    x, a, b = tensor("x", kind=Kind.INPUT), tensor("a", 100), tensor("b")
    one = plan([call(a, x), call(b, a)], [x], [b])
    fast, slow = Region(1, "sram", 64), Region(3, "dram")
    plan_memory(program(one), regions=(fast, slow), choose=lambda buffer, _: 3 if buffer.nbytes > 64 else 1)
    assert a.buffer.memory_id == 3 and one.arenas == [16, 0, 400]
    with pytest.raises(OutOfMemory, match=r"sram.* needs 4\d\d bytes and has 64"):
        plan_memory(program(plan([call(tensor("c", 100), x)], [x], [])), regions=(fast, slow))


def test_alignment_must_be_a_power_of_two() -> None:
    with pytest.raises(InvalidInput):
        plan_memory(PlanProgram([], {}), alignment=24)


def test_report_shows_bytes_over_time() -> None:
    x, a, b = tensor("x", kind=Kind.INPUT), tensor("a", 8), tensor("b")
    (report,) = plan_memory(program(plan([call(a, x), call(b, a)], [x], [b])))
    assert report.alive == [48, 48, 16] and report.arenas == [48]


def test_a_chain_of_updates_stays_in_the_state() -> None:
    from penlight.ir.plan import Mutation

    s, x, first, second = tensor("s", kind=Kind.STATE), tensor("x", kind=Kind.INPUT), tensor("f"), tensor("g")
    one = call(first, s, x)
    two = call(second, first, x)
    one.inplace, two.inplace = [s], [first]
    whole = plan([one, two], [x], [], state=[s], mutations=[Mutation(second, s)])
    plan_memory(program(whole))
    assert whole.arenas == [16, 16] and one.outs == two.outs == [s]
