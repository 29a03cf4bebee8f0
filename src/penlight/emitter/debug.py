"""Where instructions come from: kept as JSON under "penlight.debug" in the file's named data.

    {"version": 1,
     "files": [...], "modules": [...],          shared strings
     "methods": {"forward": {
        "inputs": ["x"],                        names, for messages
        "nodes": ["conv2d", ...],               one for each instruction
        "lines": [[file, line, module], ...]    the same; indices into the lists above, null if unknown
     }},
     "operators": {"myop::linear.out": "linear.cpp"}   the user's, and the file to load for each
    }

It is a segment of its own, so that a runtime that does not ask for it never loads it.
"""

from __future__ import annotations

import json
from typing import Any

from penlight.ir.plan import Instruction, PlanProgram
from penlight.kernels.table import default_table


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
    if own := _files_of_operators(program):
        root["operators"] = own
    return json.dumps(root, separators=(",", ":")).encode()


def _files_of_operators(program: PlanProgram) -> dict[str, str]:
    """The user's operators that are called; their library is called after its file."""
    table = default_table()
    names = {call.op for plan in program.plans for call in plan.calls()}
    rows = {name: table.rows(name, ()) for name in sorted(names)}
    return {name: found[0].libraries[0] for name, found in rows.items() if found and found[0].libraries}
