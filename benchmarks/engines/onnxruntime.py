"""ONNX Runtime's CPU provider, all optimisations on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import Run
from .onnx_file import write_onnx

STATELESS = True
FILES = "onnx"


def warm() -> None:
    import onnxruntime  # noqa: F401


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    write_onnx(module, args, folder)


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    file = str(folder / "model.onnx")
    session = engine.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    # Inputs and outputs keep their memory, so that no cache is copied on its way out.
    binding, values = session.io_binding(), [engine.OrtValue.ortvalue_from_numpy(array) for array in inputs]
    for entry, value in zip(session.get_inputs(), values, strict=True):
        binding.bind_ortvalue_input(entry.name, value)
    for entry in session.get_outputs():
        binding.bind_output(entry.name)
    session.run_with_iobinding(binding)
    for entry, value in zip(session.get_outputs(), binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(entry.name, value)

    def run() -> list[Any]:
        session.run_with_iobinding(binding)
        return [binding.get_outputs()[0].numpy()]

    return run
