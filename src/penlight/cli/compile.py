from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penlight.cli.console import Json, err, out, print_json, progress, size_text
from penlight.cli.user_code import running
from penlight.errors import FileMissing, InvalidInput, InvalidProgram, NotSupported

if TYPE_CHECKING:
    from penlight.program import Program


def compile(
    model: Annotated[
        str, typer.Argument(help="FILE.py:FUNCTION, MODULE:FUNCTION, or a .pt2 saved by torch.export.")
    ],
    output: Annotated[str | None, typer.Option("--output", "-o", help="Where to write the program.")] = None,
    target: Annotated[str, typer.Option(help="cpu, or portable.")] = "cpu",
    method: Annotated[str, typer.Option("--method", "-m", help="Name of the method.")] = "forward",
    external: Annotated[
        bool, typer.Option("--external", help="Write the weights to a .ptd file beside the program.")
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="An optimisation to leave out; may be repeated.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Measure here which algorithm each layer is fastest with.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each stage did, and what it left as it was.")
    ] = False,
    json: Json = False,
) -> None:
    """Compile a model into a .pte file.

    FUNCTION takes nothing and returns what penlight.compile takes: `(model, args)`,
    `(model, args, options)` with its keyword arguments in a dict, a dict from method
    name to `(model, args)`, or an ExportedProgram.
    """
    from penlight.cli.inspect import show_memory
    from penlight.devtools.contents import report_method

    _need_torch()
    with progress("loading the model", quiet=json):
        arguments, options = _read_model(model)
    if method != "forward":
        if isinstance(arguments[0], dict):
            raise InvalidInput(
                "--method names one method; this model has several", got=", ".join(arguments[0])
            )
        shapes = options.pop("dynamic_shapes", None)
        entry = (arguments[0], *arguments[1:], *([options.pop("kwargs")] if options.get("kwargs") else []))
        arguments = [{method: entry if len(entry) > 1 else entry[0]}]
        if shapes is not None:
            options["dynamic_shapes"] = {method: shapes}

    import penlight

    with progress(f"compiling for {target}", quiet=json):
        given = {"target": target, "external": external, "without": without or (), "tune": tune}
        program = penlight.compile(*arguments, **{**given, **options})
    path = program.save(output or _default_output(model))
    report = _report(program, path)
    if json:
        print_json(report)
        return
    if explain and program.report is not None:
        out.print(str(program.report), markup=False)
        if program.report.left:
            out.print(f"\n{program.report.explain_left()}", markup=False, soft_wrap=True)
        for one in program.methods.values():
            show_memory(report_method(program.contents, one))
    arenas = ", ".join(f"{name} {size_text(size)}" for name, size in report["arena_bytes"].items())
    out.print(
        f"wrote {path}   {size_text(report['file_bytes'])}: weights {size_text(report['weight_bytes'])}, "
        f"program {size_text(report['program_bytes'])}; arena {arenas}",
        markup=False,
    )
    data = ""
    if "external_file" in report:
        out.print(f"wrote {report['external_file']}   {size_text(report['external_bytes'])}", markup=False)
        data = f" --data {report['external_file']}"
    err.print(f"next: penlight run {path}{data}", markup=False)


def _report(program: Program, path: Path) -> dict[str, Any]:
    stages = getattr(program.report, "stages", ())
    beside = path.with_suffix(".ptd")
    outside = bool(program.contents.external)
    return {
        "file": str(path),
        **({"external_file": str(beside), "external_bytes": beside.stat().st_size} if outside else {}),
        "file_bytes": path.stat().st_size,
        "program_bytes": program.program_size,
        "weight_bytes": sum(blob.nbytes for blob in (*program.contents.constants, *program.contents.initial)),
        "arena_bytes": {name: sum(method.arenas) for name, method in program.methods.items()},
        "instructions": {name: len(method.instructions) for name, method in program.methods.items()},
        "left": [vars(one) for one in getattr(program.report, "left", ())],
        "stages": [vars(stage) if hasattr(stage, "__dict__") else str(stage) for stage in stages],
    }


def _need_torch() -> None:
    try:
        found = importlib.util.find_spec("torch")
    except ValueError:  # put in sys.modules by hand
        found = sys.modules.get("torch")  # type: ignore[assignment]
    if found is None:
        raise NotSupported(
            "compiling a model needs PyTorch, which is not installed",
            do="pip install 'penlight[compile]'; running programs does not need it",
        )


def _default_output(model: str) -> str:
    """The model's own name, in the present folder."""
    return Path(model.rpartition(":")[0] or model).stem + ".pte"


def _read_model(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for penlight.compile."""
    source, _, function = text.rpartition(":")
    if not source:
        if not text.endswith(".pt2"):
            raise InvalidInput(
                "a model is FILE.py:FUNCTION, MODULE:FUNCTION, or a .pt2 file",
                got=text,
                do=f"name the function that makes it: {text}:build" if text.endswith(".py") else None,
            )
        return [_read_exported(text)], {}
    made = _call(_import(source), source, function)
    if not isinstance(made, tuple):
        return [made], {}
    options: dict[str, Any] = {}
    given = list(made)
    if len(given) > 2 and isinstance(given[-1], dict):
        options = dict(given.pop())
    if not 1 <= len(given) <= 2:
        raise InvalidInput(
            f"{text} returned {len(made)} values: {', '.join(type(value).__name__ for value in made)}",
            do="return the model and a tuple of example inputs, and a dict of options where there are any",
        )
    _check_options(options, text)
    return given, options


def _check_options(options: dict[Any, Any], where: str) -> None:
    import penlight
    from penlight.runtime.nearest import nearest

    parameters = inspect.signature(penlight.compile).parameters.values()
    known = ["kwargs", *(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)]
    for name in options:
        if name not in known:
            do = nearest(str(name), known)
            raise InvalidInput(f"penlight.compile has no option {name!r}", where=where, do=do)


def _read_exported(path: str) -> Any:
    if not os.path.exists(path):
        raise FileMissing(f"no such file: {path}")
    import torch

    try:
        return torch.export.load(path)
    except Exception as error:  # torch raises whatever its own parts do
        raise InvalidProgram(f"{path} is not an exported program", got=str(error).split("\n")[0]) from error


def _import(source: str) -> Any:
    if not source.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            with running(source):
                return importlib.import_module(source)
        except InvalidInput as error:
            missing = error.__cause__
            if isinstance(missing, ModuleNotFoundError) and f"{source}.".startswith(f"{missing.name}."):
                raise InvalidInput(f"module {source} cannot be imported", got=str(missing)) from missing
            raise
    path = Path(source)
    if not path.exists():
        raise FileMissing(f"no such file: {source}")
    # As if the file were run: its neighbours can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with running(source):
        spec.loader.exec_module(module)
    return module


def _call(module: Any, source: str, function: str) -> Any:
    from penlight.runtime.nearest import nearest

    with running(f"{source}:{function}"):  # a module may make its names when they are asked for
        found = getattr(module, function, None)
    if not callable(found):
        own = {name: value for name, value in vars(module).items() if callable(value) and name[0] != "_"}
        made_here = [
            name for name, value in own.items() if getattr(value, "__module__", "") == module.__name__
        ]
        raise InvalidInput(f"{source} has no function {function!r}", do=nearest(function, made_here))
    if hasattr(found, "state_dict") and not isinstance(found, type):
        raise InvalidInput(
            f"{source}:{function} is a model, of which the inputs are not known",
            do="name a function that returns the model and a tuple of example inputs",
        )
    _check_takes_nothing(found, f"{source}:{function}")
    with running(f"{source}:{function}"):
        return found()


def _check_takes_nothing(function: Any, name: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not known, as of some that are written in C
        return
    try:
        signature.bind()
    except TypeError:
        raise InvalidInput(
            f"{name} needs arguments, and is called without",
            got=f"{function.__name__}{signature}",
            do="name a function without, that returns the model and a tuple of example inputs",
        ) from None
