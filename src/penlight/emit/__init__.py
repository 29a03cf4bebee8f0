"""Planned program -> contents of a program file."""

from __future__ import annotations

from penlight.emit.emit import emit

__all__ = ["emit"]
