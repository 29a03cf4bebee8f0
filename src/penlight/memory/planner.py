"""Give every buffer of a program its place in memory.

Memory id 1 holds what lives during one call: inputs, outputs, activations. It
can be one and the same for all methods. Memory id 2 holds state, laid out alike
in every method, so that methods share it and it survives calls. More regions
(fast and slow memory of a device) come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penlight.errors import InvalidInput, InvalidPlan, OutOfMemory
from penlight.ir.plan import Buffer, Kind, Label, Plan, PlanProgram
from penlight.memory.inplace import share_memory
from penlight.memory.lifetimes import Lifetime, lifetimes
from penlight.memory.place import Algorithm, Request, arena_size, greedy

ACTIVATIONS, STATE = 1, 2


@dataclass(frozen=True)
class Region:
    """A memory of the device. `capacity` in bytes; None is unlimited."""

    memory_id: int
    name: str
    capacity: int | None = None


DEFAULT_REGIONS = (Region(ACTIVATIONS, "activations"), Region(STATE, "state"))


@dataclass
class Placement:
    """One buffer in the report."""

    name: str
    memory_id: int
    offset: int
    nbytes: int
    start: int
    end: int


@dataclass
class MemoryReport:
    """What a method's memory looks like over its steps, for `penlight inspect`.

    `alive[i]` is bytes in use at step i, whose name is `steps[i]`.
    """

    method: str
    arenas: list[int]
    steps: list[str]
    placements: list[Placement]
    in_place: int = 0
    alive: list[int] = field(default_factory=list)


def plan_memory(
    program: PlanProgram,
    *,
    algorithm: Algorithm = greedy,
    alignment: int = 16,
    regions: Sequence[Region] = DEFAULT_REGIONS,
    choose: Callable[[Buffer, Lifetime], int] | None = None,
) -> list[MemoryReport]:
    """Set `memory_id` and `offset` of every planned buffer, and each method's `arenas`.

    Args:
        algorithm: greedy, naive, or your own: it sets `offset` of each request it is given.
        alignment: in bytes, a power of two; applies to each offset.
        regions: the memories there are, with their capacities.
        choose: the memory id for a buffer; without it activations go to 1, state to 2.

    Raises:
        OutOfMemory: a region's capacity is exceeded; says at which step and by how much.
        InvalidPlan: the algorithm let two live buffers share bytes.
    """
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise InvalidInput(f"alignment is {alignment!r}, expected a power of two")
    in_place = [share_memory(plan) for plan in program.plans]
    lives = [lifetimes(plan) for plan in program.plans]
    for found in lives:
        for buffer, life in found.items():
            default = STATE if buffer.kind is Kind.STATE else ACTIVATIONS
            buffer.memory_id = 0 if not buffer.planned else choose(buffer, life) if choose else default
    _place_state(program, alignment)
    reports = []
    for plan, found, count in zip(program.plans, lives, in_place, strict=True):
        _place_method(plan, found, algorithm, alignment)
        verify(plan, found, alignment)
        _check_capacity(plan, found, regions)
        reports.append(_report(plan, found, count))
    return reports


def _place_state(program: PlanProgram, alignment: int) -> None:
    """One place for each state tensor, whatever method uses it."""
    places: dict[str, tuple[int, int]] = {}
    ends: dict[int, int] = {}
    for plan in program.plans:
        for tensor in plan.state:
            buffer = tensor.buffer
            assert buffer.key is not None
            if buffer.key not in places:
                offset = ends.get(buffer.memory_id, 0)
                places[buffer.key] = (buffer.memory_id, offset)
                ends[buffer.memory_id] = -(-(offset + buffer.nbytes) // alignment) * alignment
            buffer.memory_id, buffer.offset = places[buffer.key]
    for plan in program.plans:
        plan.arenas = []
        for tensor in plan.state:
            _reserve(plan, tensor.buffer.memory_id, ends[tensor.buffer.memory_id])


def _reserve(plan: Plan, memory_id: int, size: int) -> None:
    plan.arenas += [0] * (memory_id - len(plan.arenas))
    plan.arenas[memory_id - 1] = max(plan.arenas[memory_id - 1], size)


def _place_method(plan: Plan, lives: dict[Buffer, Lifetime], algorithm: Algorithm, alignment: int) -> None:
    groups: dict[int, list[Buffer]] = {}
    for buffer in lives:
        if buffer.planned and buffer.kind is not Kind.STATE:
            groups.setdefault(buffer.memory_id, []).append(buffer)
    states = {tensor.buffer.memory_id for tensor in plan.state}
    for memory_id, buffers in sorted(groups.items()):
        if memory_id in states:
            raise InvalidInput(
                f"memory {memory_id} holds state and cannot hold activations", got=buffers[0].name
            )
        requests = [Request(b.name, b.nbytes, lives[b].start, lives[b].end) for b in buffers]
        algorithm(requests, alignment)
        for buffer, request in zip(buffers, requests, strict=True):
            buffer.offset = request.offset
        _reserve(plan, memory_id, arena_size(requests, alignment))


def verify(plan: Plan, lives: dict[Buffer, Lifetime], alignment: int) -> None:
    """No two live buffers share a byte, and every one is aligned and in its arena."""
    active: list[tuple[int, Buffer]] = []
    planned = [(life, buffer) for buffer, life in lives.items() if buffer.planned and buffer.nbytes]
    for life, buffer in sorted(planned, key=lambda item: item[0].start):
        end = buffer.offset + buffer.nbytes
        if not 1 <= buffer.memory_id <= len(plan.arenas) or end > plan.arenas[buffer.memory_id - 1]:
            raise InvalidPlan(
                f"{buffer.name} ends at byte {end}, outside memory {buffer.memory_id}", where=plan.name
            )
        if buffer.offset < 0 or buffer.offset % alignment:
            raise InvalidPlan(
                f"{buffer.name} is at byte {buffer.offset}, not a multiple of {alignment}", where=plan.name
            )
        active = [(stop, other) for stop, other in active if stop >= life.start]
        for stop, other in active:
            apart = other.offset + other.nbytes <= buffer.offset or end <= other.offset
            if other.memory_id == buffer.memory_id and not apart:
                raise InvalidPlan(
                    f"{other.name} and {buffer.name} share bytes of memory {buffer.memory_id}",
                    where=f"method {plan.name}, step {life.start}; {other.name} is needed until step {stop}",
                    got=f"bytes {other.offset} to {other.offset + other.nbytes} and {buffer.offset} to {end}",
                )
        active.append((life.end, buffer))


def _check_capacity(plan: Plan, lives: dict[Buffer, Lifetime], regions: Sequence[Region]) -> None:
    known = {region.memory_id: region for region in regions}
    for memory_id, size in enumerate(plan.arenas, start=1):
        region = known.get(memory_id)
        if region is None or region.capacity is None or size <= region.capacity:
            continue
        inside = [(life, buffer) for buffer, life in lives.items() if buffer.memory_id == memory_id]
        life, largest = max(inside, key=lambda item: item[1].nbytes)
        raise OutOfMemory(
            f"memory {memory_id} ({region.name}) needs {size} bytes and has {region.capacity}",
            where=f"method {plan.name}; largest: {largest.name}, {largest.nbytes} bytes, "
            f"steps {life.start} to {life.end}",
            do="put some buffers in another memory (choose=), or compile for a smaller upper bound",
        )


def _report(plan: Plan, lives: dict[Buffer, Lifetime], in_place: int) -> MemoryReport:
    placements = [
        Placement(buffer.name, buffer.memory_id, buffer.offset, buffer.nbytes, life.start, life.end)
        for buffer, life in lives.items()
        if buffer.planned
    ]
    names = [step.name if isinstance(step, Label) else step.node for step in plan.steps]
    alive = [0] * (len(plan.steps) + 1)
    for place in placements:
        for step in range(max(place.start, 0), min(place.end, len(plan.steps)) + 1):
            alive[step] += place.nbytes
    return MemoryReport(plan.name, list(plan.arenas), names, placements, in_place, alive)
