"""EdgeProgram -> flat plan: out variants, control flow as jumps, mutations as notes."""

from __future__ import annotations

from penlight.flatten.kernels import check_kernels
from penlight.flatten.method import flatten

__all__ = ["check_kernels", "flatten"]
