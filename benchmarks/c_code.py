"""Small programs and libraries in C beside the benchmarks, compiled when they are needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .engine import ROOT


def compiled(source: str, *flags: str) -> Path:
    """benchmarks/SOURCE.c as build/SOURCE, compiled anew where it is older than its source."""
    code, made = Path(__file__).with_name(f"{source}.c"), ROOT / "build" / source
    if not made.exists() or made.stat().st_mtime < code.stat().st_mtime:
        made.parent.mkdir(exist_ok=True)
        subprocess.run([os.environ.get("CC", "cc"), *flags, code, "-o", made], check=True)
    return made
