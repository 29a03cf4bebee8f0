"""The instruction sets that this processor has, and computing with one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penlight.errors import NotSupported
from penlight.runtime.isa import INSTRUCTION_SETS, instruction_set, select_instruction_set


@contextmanager
def computing_with(name: str) -> Iterator[None]:
    """Kernels compute with this instruction set meanwhile."""
    best = instruction_set()
    select_instruction_set(name)
    yield
    select_instruction_set(best)


def _is_available(name: str) -> bool:
    try:
        with computing_with(name):
            return True
    except NotSupported:
        return False


#: Those that this processor has. Cases of the others are not made: without AVX-512 they would be more than
#: half of all tests. test_choosing_kernels.py says which those are.
AVAILABLE = tuple(name for name in INSTRUCTION_SETS if _is_available(name))
