"""Documents that list what the code has list all of it."""

from __future__ import annotations

import re
from pathlib import Path

from penlight import errors

ROOT = Path(__file__).resolve().parents[2]


def test_every_error_is_documented() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    names = [name for name, value in vars(errors).items() if isinstance(value, type)]
    assert [name for name in names if f"`{name}" not in text] == []


def test_every_status_is_documented_with_its_number() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    header = (ROOT / "runtime" / "include" / "penlight" / "status.h").read_text()
    statuses = re.findall(r"^  (\w+) = (\d+),", header, re.MULTILINE)
    assert statuses
    assert [name for name, number in statuses if f"| {number} | `{name}`" not in text] == []


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for words in re.findall(r"`make((?: [a-z-]+)+)`", path.read_text()):
            named |= set(words.split())
    assert named <= targets
