"""The application: its commands, and what it says to a name that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penlight.cli.console import show_error
from penlight.errors import FileMissing

# Command: line of help. Each is the function of its name in the module of its name.
COMMANDS = {
    "compile": "Compile a model into a .pte file.",
    "run": "Run a program with given or random inputs.",
    "inspect": "Show methods, inputs, operators and memory of a program.",
    "size": "Show what is in a program file, by operator and weight.",
    "profile": "Show the time of each instruction of a program.",
    "bench": "Time programs side by side.",
    "view": "Draw a program as a page for the browser.",
    "build": "Build a binary with only the kernels that programs use.",
    "op": "Build and test operators of your own.",
    "ops": "List operators that have a kernel; check and register kernels from YAML.",
    "doctor": "Check that this environment is complete.",
    "demo": "Compile a pretrained network and recognise a photo with it.",
    "version": "Print the version.",
}


class Commands(TyperGroup):
    """Imports the file of a command when it is asked for, not before."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        made = getattr(import_module(f"penlight.cli.{name}"), name)
        if isinstance(made, typer.Typer):  # it has commands of its own
            return typer.main.get_command(made)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        function: Callable[..., Any] = made
        single.command(name, help=function.__doc__, short_help=COMMANDS[name])(function)
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            close = get_close_matches(args[0], COMMANDS, 1, 0.5)
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_cmake_dir(asked: bool) -> None:
    """Of an installed wheel, or of the checkout that this is part of."""
    if not asked:
        return
    package = Path(__file__).resolve().parent.parent
    for root in (package / "share", package.parent.parent):
        if (root / "cmake" / "penlight-config.cmake").is_file():
            typer.echo(root / "cmake")
            raise typer.Exit
    error = FileMissing(
        "the CMake package is not where Penlight is installed", where=str(package), do="reinstall penlight"
    )
    show_error(error, as_json=False)
    raise typer.Exit(1)


@app.callback()
def penlight(
    cmake_dir: Annotated[
        bool,
        typer.Option(
            "--cmake-dir",
            callback=_print_cmake_dir,
            is_eager=True,
            help="Print the folder for find_package(penlight) in CMake: -Dpenlight_DIR=...",
        ),
    ] = False,
) -> None:
    """A PyTorch model in your pocket: compile it to one small file, run it anywhere."""
