"""Every error that Penlight raises: what happened, where, what to do.

One class per decision a caller can take, not per place that raises it. The
message has one line for each part that is known::

    NoKernel: aten::special_bessel_j0.out has no kernel (float32)
      where   node special_bessel_j0_default, from waves.py:6 in Drum.forward
      got     libraries asked: optimized, portable
      do      register one (docs/how-to/custom-op.md), convert the dtype in the model, or leave this part out
"""

from __future__ import annotations

import typing


class PenlightError(Exception):
    """Base of all errors below.

    Args:
        what: what happened, one line.
        where: the place in the user's file, model or program.
        got: what was found there.
        do: what the user can do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: str | None = None,
        do: str | None = None,
    ) -> None:
        self.what, self.where, self.got, self.do = what, where, got, do
        parts = [what]
        for label, text in (("where", where), ("got", got), ("do", do)):
            if text:
                parts.append(f"  {label:<8}" + text.replace("\n", "\n" + " " * 10))
        super().__init__("\n".join(parts))


class ExportError(PenlightError):
    """torch.export could not trace the model."""


class IllegalGraph(PenlightError):
    """A graph breaks a rule of its dialect; names the node and the pass before."""


class NoKernel(PenlightError):
    """Operators, or dtypes of operators, that no chosen kernel library has."""


class UnboundedShape(PenlightError):
    """A dynamic dimension has no upper bound."""


class InvalidPlan(PenlightError):
    """A memory plan lets two live tensors share bytes, or leaves one without."""


class InvalidTable(PenlightError, ValueError):
    """YAML files of operators, or the kernel sources they name, do not hold together; lists every fault."""

    faults: tuple[typing.Any, ...] = ()  # each with its place


class FileMissing(PenlightError, FileNotFoundError):
    """There is no file at the path that was given."""


class InvalidProgram(PenlightError):
    """The file is damaged, truncated, or not a program."""


class WriteFailed(PenlightError, OSError):
    """The file could not be written; nothing is left of it."""


class NotSupported(PenlightError):
    """A valid request that this version or this build cannot serve."""


class InvalidInput(PenlightError, ValueError):
    """Wrong number, dtype, rank or size of inputs or arguments."""


class MethodNotFound(PenlightError, KeyError):
    """No method of that name; offers the nearest one."""

    def __str__(self) -> str:  # KeyError would print the repr
        return Exception.__str__(self)


class StateNotFound(PenlightError, KeyError):
    """The program keeps no tensor of that name; offers the nearest one."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class InvalidState(PenlightError):
    """Called in the wrong order, such as an output read before a run."""


class OutOfMemory(PenlightError, MemoryError):
    """An arena or a scratch region is too small; says by how much."""


class RuntimeFailure(PenlightError, RuntimeError):
    """A kernel or delegate failed while a method ran."""


class TargetNotFound(PenlightError, KeyError):
    """No machine of that name to compile for; offers the nearest ones."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class NoToolchain(PenlightError):
    """No compiler for a target; says what to install."""


class BuildFailed(PenlightError):
    """A compiler, linker or CMake refused; holds what it said."""


class InvalidOperator(PenlightError):
    """An operator's schema, its function and its rule for sizes do not agree, or one is not possible."""
