from __future__ import annotations

import platform
import shutil
import sys
from importlib import metadata

import typer

from penlight.cli.console import Json, out, print_json, table


def doctor(json: Json = False) -> None:
    """Check that this environment is complete: Python, packages, the compiled runtime, its kernels."""
    checks = [_python(), _package("numpy", True), _runtime(), _kernels(), _torch(), *map(_optional, OPTIONAL)]
    failed = any(check["state"] == "missing" for check in checks)
    if json:
        print_json({"ok": not failed, "checks": checks})
    else:
        shown = table("", "part", "found", "needed for")
        for check in checks:
            mark = {"ok": "[green]ok[/green]", "optional": "[yellow]--[/yellow]"}.get(
                check["state"], "[red]missing[/red]"
            )
            shown.add_row(mark, check["part"], check["found"], check["for"])
        out.print(shown)
    if failed:
        raise typer.Exit(1)


OPTIONAL = {
    "ml_dtypes": "bfloat16 and float8 arrays in numpy",
    "torchao": "quantization",
    "ziglang": "a C++ compiler from PyPI, where the system has none",
}


def _check(part: str, found: str | None, needed_for: str, *, required: bool = True) -> dict[str, str]:
    state = "ok" if found else "missing" if required else "optional"
    return {"part": part, "state": state, "found": found or "not found", "for": needed_for}


def _python() -> dict[str, str]:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return _check("Python", found if sys.version_info >= (3, 11) else None, "everything (3.11 or newer)")


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, required: bool) -> dict[str, str]:
    return _check(name, _version_of(name), "running programs", required=required)


def _torch() -> dict[str, str]:
    found = _version_of("torch")
    return _check("torch", found, "compiling models; 2.13 is the tested version", required=False)


def _optional(name: str) -> dict[str, str]:
    found = _version_of(name)
    if name == "ziglang" and not found and (compiler := shutil.which("c++") or shutil.which("g++")):
        return _check("C++ compiler", compiler, "building kernels of your own", required=False)
    return _check(name, found, OPTIONAL[name], required=False)


def _runtime() -> dict[str, str]:
    from penlight.errors import PenlightError
    from penlight.runtime import library

    try:
        loaded = library.library()
        found = f"{loaded.pl_version().decode()}, {library.library_path()}"
    except PenlightError as error:
        return _check("runtime", None, error.do or error.what)
    return _check("runtime", found, "running programs")


def _kernels() -> dict[str, str]:
    from penlight.errors import PenlightError
    from penlight.runtime.operators import operators

    try:
        listed = operators()
    except PenlightError:
        return _check("kernels", None, "running programs")
    counts: dict[str, int] = {}
    for operator in listed:
        counts[operator.library] = counts.get(operator.library, 0) + 1
    found = ", ".join(f"{library} {count}" for library, count in counts.items())
    return _check("kernels", found or None, "running programs")
