"""Runs a program that was built for another machine, and gives back its outputs.

Linux programs run under qemu's user mode, Windows' under wine, WebAssembly in wasmtime,
boards in qemu's system mode and, apart from the M55, in unicorn with semihosting of our own.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penlight.build.targets import Target

Array = np.ndarray[Any, Any]
_LINE = re.compile(r"^output (\d+) (\w+)(?: \[([\d, ]*)\])? ([0-9a-f]*)$", re.MULTILINE)
_NUMPY = {"int": "int64", "double": "float64"}
# Numbers of element types in the file.
_DTYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 6: "float32", 7: "float64", 11: "bool"}


def run(target: Target, program: Path, inputs: Sequence[Array], folder: Path) -> list[Array]:
    """Outputs of `program`; skips the test where nothing here runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not target.runner:
        pytest.skip(f"nothing here runs programs for {target.name}")
    kind = target.runner[0]
    if target.memory:
        return parse(run_board(target, program, inputs, folder))
    if target.name == "wasm32-browser":
        return run_module(program, inputs)
    words = [str(program)]
    for index, array in enumerate(inputs):
        np.save(folder / f"input{index}.npy", array)
        words += ["-i", f"input{index}.npy"]
    words += ["-o", "output"]
    if kind == "wasmtime":
        run_wasi(program, words, folder)
    else:
        command = [*launcher(target), *words]
        quiet = {**os.environ, "WINEDEBUG": "-all"}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=quiet)
        assert done.returncode == 0, done.stderr
    return [np.load(folder / f"output.{i}.npy") for i in range(len(list(folder.glob("output.*.npy"))))]


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def launcher(target: Target) -> list[str]:
    """What runs a target's programs here, and where they find the C library that they share."""
    kind = target.runner[0]
    if kind == "native":
        return []
    words = [need(kind)]
    if "gnu" in target.name.rpartition("-")[2]:
        root = Path("/usr") / target.triple
        if not (root / "lib" / "libc.so.6").exists():
            pytest.skip(f"no C library for {target.name} in {root} (Debian has libc6-*-cross)")
        words += ["-L", str(root)]
    return words


def parse(text: str) -> list[Array]:
    """Arrays of the lines that platforms/bare/main.cpp writes."""
    found = []
    for _, dtype, sizes, content in _LINE.findall(text):
        shape = [int(size) for size in sizes.split(",") if size.strip()]
        found.append(np.frombuffer(bytes.fromhex(content), _NUMPY.get(dtype, dtype)).reshape(shape))
    assert found, f"no output:\n{text}"
    return found


def write_inputs(inputs: Sequence[Array], folder: Path) -> None:
    for index, array in enumerate(inputs):
        (folder / f"penlight-input-{index:02}.bin").write_bytes(np.ascontiguousarray(array).tobytes())


def run_board(target: Target, program: Path, inputs: Sequence[Array], folder: Path) -> str:
    """What the program writes, under qemu."""
    command = [need(target.runner[0]), *target.runner[1:], "-nographic", "-monitor", "none"]
    command += ["-serial", "null", "-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
    write_inputs(inputs, folder)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    return text


def interrupted(wasmtime: Any, seconds: float = 300) -> tuple[Any, Any]:
    """An engine and a store whose programs trap when they take longer."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    engine = wasmtime.Engine(config)
    store = wasmtime.Store(engine)
    store.set_epoch_deadline(1)
    timer = threading.Timer(seconds, engine.increment_epoch)
    timer.daemon = True
    timer.start()
    return engine, store


def run_wasi(program: Path, words: list[str], folder: Path) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    engine, store = interrupted(wasmtime)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    wasi = wasmtime.WasiConfig()
    wasi.argv = words
    wasi.preopen_dir(str(folder), ".")
    wasi.stderr_file = str(folder / "stderr")
    wasi.stdout_file = str(folder / "stdout")
    store.set_wasi(wasi)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as error:
        assert error.code == 0, (folder / "stderr").read_text()


def run_module(program: Path, inputs: Sequence[Array], file: bytes | None = None) -> list[Array]:
    """As a page does: through exported functions and the module's memory."""
    wasmtime = pytest.importorskip("wasmtime")
    engine, store = interrupted(wasmtime)
    module = wasmtime.Module.from_file(engine, str(program))
    assert not module.imports
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory = exports["memory"]

    def call(name: str, *words: int) -> int:
        result: int = exports[f"penlight_{name}"](store, *words)
        return result

    def why() -> str:
        start = call("message")
        return memory.read(store, start, start + 256).split(b"\0")[0].decode()

    at = 0
    if file is not None:
        at = call("reserve", len(file))
        memory.write(store, file, at)
    assert call("load", at, len(file or b"")) == 0, why()
    for index, array in enumerate(inputs):
        content = np.ascontiguousarray(array).tobytes()
        assert call("input_bytes", index) == len(content)
        memory.write(store, content, call("input", index))
    assert call("run") == 0, why()
    found = []
    while (start := call("output", len(found))) and call("output_dtype", len(found)) >= 0:
        index = len(found)
        content = memory.read(store, start, start + call("output_bytes", index))
        shape = [call("output_size", index, d) for d in range(call("output_rank", index))]
        found.append(np.frombuffer(bytes(content), _DTYPES[call("output_dtype", index)]).reshape(shape))
    return found


def run_unicorn(target: Target, program: Path, inputs: Sequence[Array], folder: Path) -> str:
    """The same as run_board(), one instruction after the other, with semihosting of our own."""
    unicorn = pytest.importorskip("unicorn")
    from unicorn import arm_const as arm

    models = {"cortex-m3": "CORTEX_M3", "cortex-m4f": "CORTEX_M4", "cortex-m7": "CORTEX_M7"}
    assert target.memory
    board = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    board.ctl_set_cpu_model(getattr(arm, f"UC_CPU_ARM_{models[target.name]}"))
    board.mem_map(target.memory.flash_at, target.memory.flash)
    board.mem_map(target.memory.ram_at, target.memory.ram)
    board.mem_map(0xE0000000, 1 << 20)  # system registers, as plain memory
    image = program.read_bytes()
    offset, count = struct.unpack_from("<I", image, 28)[0], struct.unpack_from("<H", image, 44)[0]
    for i in range(count):
        kind, at, _, physical, size = struct.unpack_from("<5I", image, offset + 32 * i)
        if kind == 1 and size:
            board.mem_write(physical, image[at : at + size])
    stack, reset = struct.unpack("<II", bytes(board.mem_read(target.memory.flash_at, 8)))
    board.reg_write(arm.UC_ARM_REG_SP, stack)
    write_inputs(inputs, folder)
    text: list[bytes] = []
    files: list[Any] = []
    code: list[int] = []

    def words(at: int, number: int) -> tuple[int, ...]:
        return struct.unpack(f"<{number}I", bytes(board.mem_read(at, 4 * number)))

    def serve(operation: int, block: int) -> int:
        if operation == 0x01:  # open
            name, _, length = words(block, 3)
            path = folder / bytes(board.mem_read(name, length)).decode()
            if not path.exists():
                return 0xFFFFFFFF
            files.append(path.open("rb"))
            return len(files)
        if operation == 0x02:  # close
            files[words(block, 1)[0] - 1].close()
            return 0
        if operation == 0x04:  # write a string
            while (byte := bytes(board.mem_read(block, 1))) != b"\0":
                text.append(byte)
                block += 1
            return 0
        if operation == 0x06:  # read
            file, into, size = words(block, 3)
            content = files[file - 1].read(size)
            board.mem_write(into, content)
            return size - len(content)
        assert operation == 0x20, f"semihosting operation {operation:#x}"
        code.append(words(block, 2)[1])
        board.emu_stop()
        return 0

    def interrupt(_: Any, number: int, __: Any) -> None:
        pc = board.reg_read(arm.UC_ARM_REG_PC)
        assert bytes(board.mem_read(pc, 2)) == b"\xab\xbe", f"exception {number} at {pc:#x}"
        result = serve(board.reg_read(arm.UC_ARM_REG_R0), board.reg_read(arm.UC_ARM_REG_R1))
        board.reg_write(arm.UC_ARM_REG_R0, result)
        board.reg_write(arm.UC_ARM_REG_PC, (pc + 2) | 1)

    board.hook_add(unicorn.UC_HOOK_INTR, interrupt)
    board.emu_start(reset | 1, 0xFFFFFFFE)
    output = b"".join(text).decode()
    assert code == [0], f"exit code {code}\n{output}"
    return output
