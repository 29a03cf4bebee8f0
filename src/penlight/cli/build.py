from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penlight.cli.console import Json, err, out, print_json, progress, size_text, table

if TYPE_CHECKING:
    from penlight.build.build import Built
    from penlight.build.registration import LibraryFiles
    from penlight.build.select import Selection
    from penlight.build.size import Part
    from penlight.build.targets import Target


def build(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Programs (.pte), kernels of your own (.cpp), their tables ([NAME=]FILE.yaml)."),
    ] = None,
    target: Annotated[
        str, typer.Option("--target", "-t", help="What to build for; `penlight build --targets` lists them.")
    ] = "host",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("out"),
    name: Annotated[
        str | None, typer.Option("--name", help="Of the binary; the first model's when left out.")
    ] = None,
    lib: Annotated[
        bool, typer.Option("--lib", help="A static library, one header and a CMake package.")
    ] = False,
    beside: Annotated[
        bool, typer.Option("--beside", help="Leave models as files, not as data of the binary.")
    ] = False,
    ops: Annotated[
        list[str] | None,
        typer.Option("--ops", help="More operators: aten::add.out,aten::mul.out=float32+int64; repeat."),
    ] = None,
    ops_yaml: Annotated[
        list[Path] | None, typer.Option("--ops-yaml", help="The same from a YAML file; repeat.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Operators that must not be needed; repeat.")
    ] = None,
    dtype_selection: Annotated[
        str, typer.Option("--dtype-selection", help="on, or off: kernels for every dtype.")
    ] = "on",
    messages: Annotated[
        bool, typer.Option("--messages/--no-messages", help="Errors in words, or as codes alone.")
    ] = True,
    opt: Annotated[str, typer.Option("--opt", help="Optimization for the compiler: s, 2, 3, z.")] = "s",
    libraries: Annotated[
        str | None, typer.Option("--libraries", help="Kernel libraries to take from, in this order: 'a,b'.")
    ] = None,
    compiler: Annotated[
        str | None, typer.Option("--compiler", help="Command of a C++ compiler, such as arm-none-eabi-g++.")
    ] = None,
    toolchain_file: Annotated[
        Path | None, typer.Option("--toolchain-file", help="A CMake toolchain file.")
    ] = None,
    flash: Annotated[str | None, typer.Option("--flash", help="Of a board: bytes, or 512K, 1M.")] = None,
    ram: Annotated[str | None, typer.Option("--ram", help="Of a board: bytes, or 192K, 1M.")] = None,
    size: Annotated[bool, typer.Option("--size", help="Show where every byte went.")] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="Print the operators and dtypes as YAML; build nothing.")
    ] = False,
    targets: Annotated[bool, typer.Option("--targets", help="List what can be built for.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at once.")] = None,
    json: Json = False,
) -> None:
    """Build a binary with the kernels and dtypes that programs use, and no others."""
    from penlight.build.build import BuildOptions
    from penlight.build.build import build as run_build
    from penlight.build.checks import check_known, check_left_out
    from penlight.build.select import select_from_models

    if targets:
        return _show_targets(json)
    models, sources, own_libraries = _split(files or [])
    selected = _operators(ops or [], ops_yaml or [])
    left_out = [operator for text in without or [] for operator in text.split(",")]
    if list_only:
        if not own_libraries:  # which may have operators of any name
            check_known(selected, sources)
        selected.join(select_from_models(models))
        check_left_out(selected, left_out)
        return _show_selection(selected, json)
    options = BuildOptions(
        models=models,
        sources=sources,
        libraries=own_libraries,
        operators=selected,
        without=left_out,
        target=_target(target, flash, ram),
        compiler=compiler,
        toolchain_file=toolchain_file,
        output=output,
        name=name,
        library=lib,
        embed=not beside,
        select_dtypes=_on(dtype_selection),
        messages=messages,
        optimize=f"-O{opt.removeprefix('-').removeprefix('O')}",
        kernel_libraries=libraries.split(",") if libraries else None,
        jobs=jobs,
    )
    with progress("build", quiet=json):
        built = run_build(options)
    if json:
        print_json(_as_json(built))
        return None
    for warning in built.warnings:
        err.print(f"[yellow]warning[/yellow]: {warning}")
    operators = len(built.selection.operators)
    out.print(f"wrote {built.files[0]}  {size_text(built.sizes.file_bytes)}", markup=False)
    for path in built.files[1:]:
        out.print(f"      {path}", markup=False)
    err.print(
        f"{operators} operators for {built.target.name}, {built.compiler}: "
        f"{built.compiled} files compiled, {built.seconds:.1f} s",
        markup=False,
    )
    if size:
        _show_sizes(built)
    return None


def _split(files: list[Path]) -> tuple[list[Path], list[Path], list[LibraryFiles]]:
    from penlight.build.toolchain import SOURCE_SUFFIXES
    from penlight.build.user_libraries import is_table, library_files
    from penlight.errors import InvalidInput

    models = [path for path in files if path.suffix == ".pte"]
    sources = [path for path in files if path.suffix in SOURCE_SUFFIXES]
    tables = [path for path in files if is_table(path)]
    for path in files:
        if path not in models and path not in sources and path not in tables:
            raise InvalidInput(
                f"{path} is neither a program (.pte), a C++ file (.cpp), nor a table of kernels (.yaml)"
            )
    return models, sources, library_files([str(path) for path in tables])


def _operators(names: list[str], files: list[Path]) -> Selection:
    from penlight.build.select import select_from_list, select_from_yaml

    selection = select_from_list(name for text in names for name in text.split(","))
    for path in files:
        selection.join(select_from_yaml(path))
    return selection


def _target(name: str, flash: str | None, ram: str | None) -> Target:
    from penlight.build.targets import find_target

    target = find_target(name)
    if flash or ram:
        target = target.with_memory(flash=_bytes("--flash", flash), ram=_bytes("--ram", ram))
    return target


def _bytes(option: str, text: str | None) -> int | None:
    from penlight.errors import InvalidInput

    if text is None:
        return None
    units = {"K": 1 << 10, "M": 1 << 20}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    try:
        return int(number, 0) * unit
    except ValueError:
        raise InvalidInput(f"{option} is a number of bytes, or such as 512K or 1M", got=text) from None


def _on(text: str) -> bool:
    from penlight.errors import InvalidInput

    if text not in ("on", "off"):
        raise InvalidInput("--dtype-selection is on or off", got=text)
    return text == "on"


def _show_targets(json: bool) -> None:
    from penlight.build.targets import TARGETS

    if json:
        print_json([{"name": t.name, "about": t.about, "kind": t.kind} for t in TARGETS])
        return
    shown = table("target", "", "also called")
    for target in TARGETS:
        shown.add_row(target.name, target.about, ", ".join(target.aliases))
    out.print(shown)


def _show_selection(selection: Selection, json: bool) -> None:
    if json:
        print_json(
            {
                operator: {
                    "dtypes": [dtype.name for dtype in sorted(use.dtypes)],
                    "keys": sorted(use.keys),
                    "needed_by": use.needed_by,
                }
                for operator, use in sorted(selection.operators.items())
            }
        )
        return
    for row in selection.to_rows():
        out.print(f'- {{op: "{row["op"]}", dtypes: {row["dtypes"]}}}', markup=False)


def _show_sizes(built: Built) -> None:
    sizes = built.sizes
    total = max(1, sizes.file_bytes)
    shown = table("part", ">bytes", ">%", title=f"\n{built.files[0].name}: {size_text(total)}")
    for part in (*sizes.parts, _headers(built)):
        if part.nbytes:
            shown.add_row(part.name, f"{part.nbytes:,}", f"{part.nbytes * 100 / total:.1f}")
    out.print(shown)
    if not sizes.operators:
        return
    shown = table("kernels", ">bytes", ">%", title="\nkernels, by operator")
    for part in sizes.operators:
        shown.add_row(part.name, f"{part.nbytes:,}", f"{part.nbytes * 100 / total:.1f}")
    out.print(shown)
    if built.target.kind == "bare":
        out.print(f"\nRAM before the arena: {sizes.sizes.ram:,} bytes", markup=False)


def _headers(built: Built) -> Part:
    from penlight.build.size import Part

    return Part("headers of the file", max(0, built.sizes.file_bytes - built.sizes.sizes.total))


def _as_json(built: Built) -> dict[str, Any]:
    sizes = built.sizes
    return {
        "files": built.files,
        "target": built.target.name,
        "compiler": built.compiler,
        "operators": {
            operator: [dtype.name for dtype in sorted(use.dtypes)]
            for operator, use in sorted(built.selection.operators.items())
        },
        "kernel_files": built.masks,
        "compiled": built.compiled,
        "warnings": built.warnings,
        "seconds": round(built.seconds, 3),
        "bytes": {"file": sizes.file_bytes, **vars(sizes.sizes)},
        "parts": [vars(part) for part in (*sizes.parts, _headers(built))],
        "by_operator": [vars(part) for part in sizes.operators],
    }
