"""Programs for other machines give the same outputs there as the runtime does here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.targets import machines
from tests.targets.conftest import MAKE, Case

from penlight.build.build import BuildOptions, Built, build
from penlight.build.image import read_symbols
from penlight.build.registration import own_library
from penlight.build.select import select_from_list
from penlight.build.targets import TARGETS, Target, find_target
from penlight.build.toolchain import source_root, zig_command

Cases = Callable[[str], Case]

# zig builds musl and the C library of Windows once, in a minute each: for `make test-all`.
QUICK = {"cortex-m4f", "wasm32-browser"}
BOARDS = [target for target in TARGETS if target.memory]

# Each compiles kernels for another machine, most of a minute.
pytestmark = pytest.mark.slow

HEAP_AND_CXX = re.compile(
    r"^_?(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|_?sbrk|_Zn[wa].*|_Zd[la].*|__cxa_.*|__gxx_.*"
    r"|_Unwind.*|_ZSt.*|_ZTI.*|_ZTS.*)$"
)


@pytest.fixture(autouse=True)
def zig() -> None:
    if zig_command() is None:
        pytest.skip("ziglang is not installed (pip install 'penlight[cross]')")


def runnable() -> list[object]:
    return [
        pytest.param(target, id=target.name, marks=[] if target.name in QUICK else [pytest.mark.slow])
        for target in TARGETS
        if target.triple and target.runner
    ]


def make(case: Case, target: Target, folder: Path, **more: object) -> Built:
    options = BuildOptions(models=[case.program], sources=case.sources, target=target, output=folder / "out")
    return build(replace(options, **more))  # type: ignore[arg-type]


def same(got: list[machines.Array], case: Case) -> None:
    assert len(got) == len(case.want)
    for mine, here in zip(got, case.want, strict=True):
        assert mine.dtype == here.dtype and mine.shape == here.shape
        if case.exact:
            assert mine.tobytes() == here.tobytes()
        else:
            np.testing.assert_allclose(mine, here, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", runnable())
@pytest.mark.parametrize("name", MAKE)
def test_same_outputs_as_here(target: Target, name: str, case: Cases, tmp_path: Path) -> None:
    if target.runner[0] != "wasmtime" and not target.memory:
        machines.launcher(target)
    elif target.memory:
        machines.need(target.runner[0])
    built = make(case(name), target, tmp_path)
    got = machines.run(target, built.files[0], case(name).inputs, tmp_path / "run")
    same(got, case(name))
    bits = all(a.tobytes() == b.tobytes() for a, b in zip(got, case(name).want, strict=True))
    print(
        f"| {target.name} | {name} | {built.sizes.sizes.total:,} | {'same bits' if bits else 'within 1e-5'} |"
    )


@pytest.mark.parametrize(
    "board", ["cortex-m4f", *(pytest.param(n, marks=pytest.mark.slow) for n in ("cortex-m3", "cortex-m7"))]
)
def test_unicorn_agrees_with_qemu(board: str, case: Cases, tmp_path: Path) -> None:
    target, program = find_target(board), case("keywords")
    built = make(program, target, tmp_path)
    same(machines.parse(machines.run_unicorn(target, built.files[0], program.inputs, tmp_path)), program)


@pytest.mark.parametrize("target", [t for t in TARGETS if not t.runner], ids=lambda t: t.name)
@pytest.mark.slow
def test_links(target: Target, case: Cases, tmp_path: Path) -> None:
    """What nothing here can run is at least complete."""
    built = make(case("keywords"), target, tmp_path)
    assert built.files[0].read_bytes()[:4] == b"\xcf\xfa\xed\xfe"
    assert built.sizes.sizes.total > 50_000
    print(f"| {target.name} | keywords | {built.sizes.sizes.total:,} | linked |")


def test_board_has_no_heap_and_no_cxx_runtime(case: Cases, tmp_path: Path) -> None:
    """By the symbols of the image before it is stripped; and what runs is counted."""
    from penlight.build import build as module

    images: list[Path] = []
    report = module.report_sizes

    def keep(image: Path, *rest: object) -> object:
        copy = tmp_path / "whole.elf"
        shutil.copyfile(image, copy)
        images.append(copy)
        return report(image, *rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "report_sizes", keep)
        built = make(case("keywords"), find_target("cortex-m4f"), tmp_path, messages=False)
    symbols = read_symbols(images[0])
    names = {symbol.name for symbol in symbols}
    assert {"Reset_Handler", "penlight_vectors", "penlight_arena_start", "memcpy"} <= names
    # Index tables of the compiler's name an unwinder; compiler_rt has one that does nothing, and the
    # linker script leaves the tables out.
    unwinder = [symbol for symbol in symbols if symbol.name.startswith("__aeabi_unwind")]
    assert all(symbol.size <= 4 for symbol in unwinder)
    assert not [name for name in names if HEAP_AND_CXX.match(name)]
    assert not [symbol.name for symbol in symbols if not symbol.defined]
    model = case("keywords").program.stat().st_size
    code = built.sizes.sizes.total - model
    print(f"cortex-m4f, keywords: {code:,} bytes of code, runtime and kernels")
    assert code <= 48 << 10


def test_model_stays_in_flash(case: Cases, tmp_path: Path) -> None:
    """Constants are used in place: RAM that a program takes is far less than its weights. With errors in
    words, too, its code is small, and so is the stack that it takes."""
    target = find_target("cortex-m4f")
    built = make(case("keywords"), target, tmp_path)
    assert built.sizes.sizes.data < 1024
    text = machines.run_unicorn(target, built.files[0], case("keywords").inputs, tmp_path)
    used = re.search(r"memory: method (\d+), arenas (\d+), scratch (\d+), .* stack (\d+) of", text)
    assert used and int(used[1]) < 8192
    assert int(used[4]) < 6144  # some boards have 8 KB for it
    code = built.sizes.sizes.total - case("keywords").program.stat().st_size
    print(f"cortex-m4f, keywords, with messages: {code:,} bytes of code; {used[4]} bytes of stack")
    assert code <= 48 << 10


def test_ram_too_small_for_a_method_says_so(case: Cases, tmp_path: Path) -> None:
    """The arena fits, what the method keeps beside it does not: the board's own message."""
    target = find_target("cortex-m3").with_memory(ram=75 << 10)
    built = make(case("keywords"), target, tmp_path)
    with pytest.raises(AssertionError, match=r"OutOfMemory: .* needs \d+ bytes, \d+ of RAM are left"):
        machines.run_unicorn(target, built.files[0], case("keywords").inputs, tmp_path)


def test_module_loads_a_file_from_its_host(case: Cases, tmp_path: Path) -> None:
    """A page fetches the program and hands it over; a damaged one is refused, and the next is welcome."""
    one = case("keywords")
    built = make(one, find_target("wasm32-browser"), tmp_path, embed=False)
    file = one.program.read_bytes()
    with pytest.raises(AssertionError, match="file"):
        machines.run_module(built.files[0], one.inputs, file[:100])
    same(machines.run_module(built.files[0], one.inputs, file), one)


def test_every_portable_kernel_links_for_a_board(tmp_path: Path) -> None:
    """Nothing of the portable library calls what a board without a C library lacks."""
    table, faults = own_library(source_root() / "kernels" / "ops.yaml", "portable")
    assert not faults
    operators = select_from_list([entry.op for entry in table.entries])
    board = find_target("cortex-m4f").with_memory(flash=16 << 20)
    options = BuildOptions(operators=operators, kernel_libraries=["portable"], target=board)
    built = build(replace(options, output=tmp_path / "out"))
    assert built.sizes.sizes.total > 400_000
    print(f"cortex-m4f, {len(table.entries)} operators: {built.sizes.sizes.total:,} bytes")
