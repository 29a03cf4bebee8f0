"""Names and source lines that a program keeps for messages and tools.

They lie under "penlight.debug" in the file's named data, as JSON; files that were
made without them simply have none. Read when a message or a tool asks.
"""

from __future__ import annotations

from typing import Any

KEY = "penlight.debug"


class DebugInfo:
    """What the compiler knew of a program's inputs and instructions."""

    def __init__(self, text: bytes | None) -> None:
        self._root: dict[str, Any] = {}
        if text:
            import json

            try:
                root = json.loads(text)
                self._root = root if root.get("version") == 1 else {}
            except (ValueError, AttributeError):
                self._root = {}

    def input_names(self, method: str, count: int) -> list[str] | None:
        """Names of a method's inputs; None when they are not known."""
        names = self._method(method).get("inputs")
        known = (
            isinstance(names, list) and len(names) == count and all(isinstance(name, str) for name in names)
        )
        return names if known else None

    def text(self, method: str, index: int) -> str | None:
        """What an input was that is a string, which a program can only be compiled for."""
        texts = self._method(method).get("texts")
        found = texts.get(str(index)) if isinstance(texts, dict) else None
        return found if isinstance(found, str) else None

    def node(self, method: str, instruction: int) -> str | None:
        """Name of the graph node that an instruction was made of."""
        found = _item(self._method(method).get("nodes"), instruction)
        return found if isinstance(found, str) else None

    def place(self, method: str, instruction: int) -> str | None:
        """`model.py:41 in encoder.layers.0`, where the user wrote what an instruction does."""
        entry = _item(self._method(method).get("lines"), instruction)
        if not isinstance(entry, list) or len(entry) != 3:
            return None
        file, module = _item(self._root.get("files"), entry[0]), _item(self._root.get("modules"), entry[2])
        if file is None:
            return None
        return f"{file}:{entry[1]}" + (f" in {module}" if module else "")

    def file_of(self, operator: str) -> str | None:
        """The file that an operator of the user came from when the program was compiled."""
        operators = self._root.get("operators")
        found = operators.get(operator) if isinstance(operators, dict) else None
        return found if isinstance(found, str) else None

    def _method(self, name: str) -> dict[str, Any]:
        methods = self._root.get("methods")
        found = methods.get(name) if isinstance(methods, dict) else None
        return found if isinstance(found, dict) else {}


def _item(items: Any, index: Any) -> Any:
    inside = isinstance(items, list) and isinstance(index, int) and 0 <= index < len(items)
    return items[index] if inside else None
