"""Python of the user's own that a command runs: what it raises is shown short, at its line."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penlight.errors import InvalidInput, PenlightError

_PACKAGE = Path(__file__).resolve().parent.parent
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


@contextmanager
def running(what: str) -> Iterator[None]:
    """While code of the user's runs; `what` names it, such as `model.py:build`.

    Raises:
        InvalidInput: in place of what a line of theirs raises, unless it is an error of Penlight's.
    """
    try:
        yield
    except PenlightError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit() ends their program, not this command unsaid
        place = _place(error)
        if place is None and not isinstance(error, ImportError):
            raise  # nothing of theirs
        raise InvalidInput(
            f"{what} cannot be {'read' if isinstance(error, SyntaxError) else 'run'}",
            where=place,
            got="".join(traceback.format_exception_only(error)).strip().split("\n")[-1],
            do="correct it there; run in Python alone it shows the whole traceback",
        ) from error


def _place(error: BaseException) -> str | None:
    """The innermost line that the user wrote."""
    if isinstance(error, SyntaxError):
        text = (error.text or "").strip()
        return f"{error.filename}:{error.lineno}" + (f": {text}" if text else "")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_theirs(frame.filename):
            line = f": {frame.line}" if frame.line else ""
            name = f" in {frame.name}" if frame.name != "<module>" else ""
            return f"{frame.filename}:{frame.lineno}{name}{line}"
    return None


def _is_theirs(file: str) -> bool:
    installed = file.startswith("<") or file.startswith(_INSTALLED)
    return not installed and not Path(file).is_relative_to(_PACKAGE)
