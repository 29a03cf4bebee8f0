"""What a name that does not exist may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """A line of advice: the nearest known name, and all there are."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, 1, 0.5)
    listed = ", ".join(names) or "none"
    return f"did you mean {close[0]!r}? There are: {listed}" if close else f"there are: {listed}"
