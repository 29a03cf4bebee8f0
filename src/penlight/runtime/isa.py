"""The instruction set of the optimized kernels.

Found out when the first of them runs; the same program file serves all. Measured
and tested is one after the other, on a processor that has them.
"""

from __future__ import annotations

from penlight.errors import NotSupported
from penlight.runtime.library import library

# "avx512-zen5" and "avx512-intel" are "avx512" with the algorithms that are faster on AMD's processors from
# Zen 5 on, and on Intel's; "amx" is the latter, and has their matrix unit multiply.
INSTRUCTION_SETS = ("base", "avx2", "avx512", "avx512-zen5", "avx512-intel", "amx")


def instruction_set() -> str:
    """What kernels compute with: one of INSTRUCTION_SETS."""
    return str(library().pl_isa().decode())


def select_instruction_set(name: str) -> None:
    """Compute with another one from now on, in the whole process, while nothing runs.

    Raises:
        NotSupported: it was not built, or this processor has it not.
    """
    if not library().pl_select_isa(name.encode()):
        raise NotSupported(
            f"this machine cannot compute with '{name}'",
            got=f"kernels use {instruction_set()}",
            do=f"choose one that the processor has, of {', '.join(INSTRUCTION_SETS)}",
        )
