"""Folders of files that can be made again: found by name, dropped when they are long unused.

Whoever looks for a file holds the folder's lock shared while it finds and marks it;
who drops files holds it alone. So a file that one process was given is not dropped
by another before the first has had time to open it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: files that are open cannot be removed there anyway
    fcntl = None  # type: ignore[assignment]

_JUST_USED = 600.0  # seconds in which whoever asked for a file opens it


def cache_folder() -> Path:
    """Penlight's folder for what can be made again: PENLIGHT_CACHE, or one in the user's cache."""
    given = os.environ.get("PENLIGHT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penlight"


@contextlib.contextmanager
def looking(folder: Path) -> Iterator[None]:
    """While files are looked for, and marked by mark_used(); nothing of the folder is dropped meanwhile."""
    with _locked(folder, alone=False):
        yield


def mark_used(paths: Iterable[Path]) -> None:
    """Files that were found: the last to be dropped.

    Raises:
        FileNotFoundError: one is not there.
    """
    for path in paths:
        os.utime(path)


def drop_unused(folder: Path, limit: int) -> int:
    """Remove the files unused for longest until `limit` bytes are left; what was just used stays.

    Another process that looks or drops at this moment is not waited for: the next build drops.

    Returns: how many files went.
    """
    with _locked(folder, alone=True) as mine:
        if not mine:
            return 0
        files = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    if entry.is_file() and entry.name != _LOCK:
                        files.append((status.st_mtime, status.st_size, entry.path))
        total, dropped = sum(size for _, size, _ in files), 0
        recent = time.time() - _JUST_USED
        for used, size, path in sorted(files):
            if total <= limit or used > recent:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                dropped += 1
            total -= size
        return dropped


_LOCK = ".lock"


@contextlib.contextmanager
def _locked(folder: Path, *, alone: bool) -> Iterator[bool]:
    if fcntl is None:
        yield True
        return
    file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except OSError:  # busy; or a file system without locks
            yield False
            return
        yield True
    finally:
        os.close(file)
