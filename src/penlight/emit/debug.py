"""Where instructions come from: kept as JSON under "penlight.debug" in the file's named data.

    {"version": 1,
     "files": [...], "modules": [...],          shared strings
     "methods": {"forward": {
        "inputs": ["x"],                        names, for messages
        "nodes": ["conv2d", ...],               one for each instruction
        "lines": [[file, line, module], ...]    the same; indices into the lists above, null if unknown
     }}}

It is a segment of its own, so that a runtime that does not ask for it never loads it.
"""

from __future__ import annotations

import json
from typing import Any

from penlight.ir.plan import Instruction, PlanProgram


def debug_data(program: PlanProgram, sources: list[list[Instruction]]) -> bytes:
    """The JSON text."""
    files: dict[str, int] = {}
    modules: dict[str, int] = {}
    methods: dict[str, Any] = {}
    for plan, steps in zip(program.plans, sources, strict=True):
        lines: list[list[int] | None] = []
        for step in steps:
            if step.source is None:
                lines.append(None)
                continue
            file = files.setdefault(step.source.file, len(files))
            module = modules.setdefault(step.source.path, len(modules))
            lines.append([file, step.source.line, module])
        methods[plan.name] = {
            "inputs": plan.input_names,
            **({"texts": {str(index): text for index, text in plan.texts.items()}} if plan.texts else {}),
            "nodes": [step.node for step in steps],
            "lines": lines,
        }
    root = {"version": 1, "files": list(files), "modules": list(modules), "methods": methods}
    return json.dumps(root, separators=(",", ":")).encode()
