"""The RAM that a program's methods need, and the tensors that take most of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penlight.program.structs import Contents, KernelCall, Method, Tensor


def memory_needs(programs: Mapping[Path, Contents]) -> dict[str, int]:
    """Bytes of the arenas of the largest method of each program: one method runs at a time."""
    needs = {}
    for path, contents in programs.items():
        largest = max(contents.methods, key=lambda method: sum(method.arenas), default=None)
        if largest:
            needs[f"arena of {path.name}, method {largest.name}"] = sum(largest.arenas)
    return needs


def largest_tensors(programs: Mapping[Path, Contents], count: int = 5) -> list[tuple[str, int]]:
    """The planned tensors that take most bytes, each with the operator that writes or reads it first."""
    found: dict[tuple[Path, str, int, int], tuple[str, int]] = {}
    for path, contents in programs.items():
        for method in contents.methods:
            users = _first_users(method)
            for index, tensor in enumerate(method.values):
                if isinstance(tensor, Tensor) and tensor.allocation:
                    place = (path, method.name, tensor.allocation.memory_id, tensor.allocation.offset)
                    text = f"{tensor.dtype.name} {list(tensor.sizes)}"
                    text += f" of {users[index]}" if index in users else ""
                    if place not in found or found[place][1] < tensor.nbytes:
                        found[place] = (text, tensor.nbytes)
    return sorted(found.values(), key=lambda item: -item[1])[:count]


def _first_users(method: Method) -> dict[int, str]:
    users: dict[int, str] = {}
    for number, instruction in enumerate(method.instructions):
        if isinstance(instruction, KernelCall):
            for index in instruction.args:
                users.setdefault(index, f"{method.operators[instruction.op]} (instruction {number})")
    return users
