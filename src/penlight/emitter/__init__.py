"""Planned program -> contents of a program file."""

from __future__ import annotations

from penlight.emitter.emit import emit

__all__ = ["emit"]
