"""Documents that list what the code has list all of it."""

from __future__ import annotations

import re
import subprocess
import sys
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


def test_the_error_that_the_page_shows(tmp_path: Path) -> None:
    """Word for word, from the model that it speaks of."""
    shown = (ROOT / "docs" / "errors.md").read_text().partition("```text\n")[2].partition("```")[0]
    name, line = re.findall(r"from (\w+\.py):(\d+) in Drum\.forward", shown)[0]
    source = ["import torch", "", "class Drum(torch.nn.Module):", "    def forward(self, x):"]
    source += ["        x = x * 2"] * (int(line) - len(source) - 1)
    source += ["        return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)"]
    (tmp_path / name).write_text("\n".join(source))
    code = (
        f"import torch, penlight, {Path(name).stem} as made\n"
        "try:\n    penlight.compile(made.Drum(), (torch.ones(2),))\n"
        "except penlight.PenlightError as error:\n    print(f'{type(error).__name__}: {error}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == shown


def test_every_document_that_a_message_names_exists() -> None:
    named = {
        found
        for path in (ROOT / "src").rglob("*.py")
        for found in re.findall(r"docs/[\w/-]+\.md", path.read_text())
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for words in re.findall(r"`make((?: [a-z-]+)+)`", path.read_text()):
            named |= set(words.split())
    assert named <= targets
