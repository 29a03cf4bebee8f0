"""Penlight: a PyTorch model in your pocket.

    program = penlight.compile(model, (x,))     # nn.Module or ExportedProgram -> program
    program.save("model.pte")
    y = penlight.load("model.pte")(x)           # needs neither torch nor the compiler

Names are imported when they are first used, so that a process which only runs
programs loads neither torch nor the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.errors import PenlightError as PenlightError
    from penlight.ops import op as op
    from penlight.pipeline import compile as compile
    from penlight.pipeline import export as export
    from penlight.pipeline import to_edge as to_edge
    from penlight.program import Program as Program
    from penlight.runtime import load as load

__version__ = "0.1.0"

# Public name: module that defines it.
_HOMES = {
    "PenlightError": "penlight.errors",
    "Program": "penlight.program",
    "compile": "penlight.pipeline",
    "emit": "penlight.pipeline",
    "export": "penlight.pipeline",
    "load": "penlight.runtime",
    "op": "penlight.ops",
    "plan_memory": "penlight.pipeline",
    "to_edge": "penlight.pipeline",
}
_MODULES = ("errors", "kernels", "ops", "passes", "runtime")

__all__ = [*_HOMES, *_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"penlight.{name}")
    else:
        raise AttributeError(f"module 'penlight' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
