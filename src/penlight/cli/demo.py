from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from penlight.cli.console import Json, out, print_json
from penlight.errors import InvalidInput, NotSupported


def demo(
    name: Annotated[str, typer.Argument(help="Which example; `list` names them.")] = "photo",
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on, such as photos.")] = None,
    json: Json = False,
) -> None:
    """Compile a pretrained network and run it on real input; the examples of a checkout."""
    examples = find_examples()
    if name == "list":
        if json:
            print_json({key: str(path) for key, path in examples.items()})
        else:
            for key, path in examples.items():
                out.print(f"{key:<12} {_first_line(path)}", markup=False)
        return
    if name not in examples:
        from penlight.runtime.nearest import nearest

        raise InvalidInput(f"there is no example {name!r}", do=nearest(name, examples))
    command = [sys.executable, str(examples[name]), *(arguments or ())]
    done = subprocess.run(command, check=False, capture_output=json, text=True)
    if json:
        print_json({"example": name, "exit_code": done.returncode, "output": done.stdout.splitlines()})
        sys.stderr.write(done.stderr)
    raise typer.Exit(1 if done.returncode else 0)


def find_examples() -> dict[str, Path]:
    """Numbered examples by name: `photo` is examples/01_photo.py."""
    folder = Path(__file__).resolve().parents[3] / "examples"
    found = {path.stem.partition("_")[2]: path for path in sorted(folder.glob("[0-9]*_*.py"))}
    if not found:
        raise NotSupported(
            "the examples come with a checkout, not with the installed package",
            do="clone the repository and run `make demo` there",
        )
    return found


def _first_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").split("\n", 1)
    return lines[0].strip('"# ')
