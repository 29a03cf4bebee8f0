"""Where in the user's model a node comes from.

torch.export keeps, for every node, the Python stack that called the operator
and the modules it was called in. The line a user wants to see is the innermost
one that is theirs: not torch's own layers, not a library's wrapper around them.
"""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.fx import Node

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_TORCH = str(Path(torch.__file__).parent)
_LIBRARY = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}


@dataclass(frozen=True)
class Source:
    """A line of the user's code and the module whose method runs there."""

    file: str
    line: int
    function: str
    module: str = ""  # class of the innermost module, such as Encoder
    path: str = ""  # its place in the model, such as encoder.layers.3

    def __str__(self) -> str:
        function = f"{self.module}.{self.function}" if self.module else self.function
        return f"{Path(self.file).name}:{self.line} in {function}" + (f" ({self.path})" if self.path else "")


def _is_users(file: str) -> bool:
    return not file.startswith("<") and not any(file.startswith(folder) for folder in _LIBRARY)


def user_frame(stack: str) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame that is the user's, else the last outside torch."""
    frames: list[tuple[str, int, str]] = [
        (file, int(line), function) for file, line, function in _FRAME.findall(stack)
    ]
    for accept in (_is_users, _is_not_torchs):
        for frame in reversed(frames):
            if accept(frame[0]):
                return frame
    return frames[-1] if frames else None


def _is_not_torchs(file: str) -> bool:
    return not file.startswith((_TORCH, "<"))


def modules_of(node: Node) -> list[tuple[str, str]]:
    """(path, class name) of the modules around a node, outermost first."""
    stack = node.meta.get("nn_module_stack") or {}
    return [(path, str(kind).rsplit(".", 1)[-1]) for path, kind in stack.values()]


def source_of(node: Node) -> Source | None:
    """The user's line that made `node`; None for inputs and for nodes a pass invented."""
    frame = user_frame(node.meta.get("stack_trace") or "")
    if frame is None:
        return None
    file, line, function = frame
    modules = modules_of(node)
    # The innermost module may be torch's own (Linear); its caller's class owns the line then.
    owner = next(
        ((p, c) for p, c in reversed(modules) if not _is_torch_layer(c)), modules[0] if modules else ("", "")
    )
    path, kind = owner
    return Source(file, line, function, kind, modules[-1][0] if modules else path)


def _is_torch_layer(kind: str) -> bool:
    return hasattr(torch.nn, kind)


def describe(node: Node) -> str:
    """`node relu_1, from speech.py:41 in Encoder.forward`, for messages."""
    source = source_of(node)
    return f"node {node.name}" + (f", from {source}" if source else "")
