"""LiteRT with its XNNPACK delegate, from PyTorch by its own converter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import Run

STATELESS = True
FRESH = 2  # inputs before a model's caches


def warm() -> None:
    import ai_edge_litert.interpreter  # noqa: F401


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    import litert_torch

    litert_torch.convert(module, args).export(str(folder / "model.tflite"))


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(folder / "model.tflite"), num_threads=threads)
    interpreter.allocate_tensors()
    tensors = {_number(entry["name"]): entry for entry in interpreter.get_input_details()}
    for place, array in enumerate(inputs):
        interpreter.set_tensor(tensors[place]["index"], array.astype(tensors[place]["dtype"]))
    # Caches stay where they are; what changes from run to run is given anew.
    fresh = [
        (tensors[place]["index"], array.astype(tensors[place]["dtype"]))
        for place, array in enumerate(inputs[:FRESH] if len(inputs) > FRESH else inputs)
    ]
    first = min(interpreter.get_output_details(), key=lambda entry: _number(entry["name"]))["index"]

    def run() -> list[Any]:
        for index, array in fresh:
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(first)]

    return run


def _number(name: str) -> int:
    """Of an input or output: serving_default_args_3, serving_default_output_0_output."""
    found = re.search(r"_(\d+)", name)
    return int(found[1]) if found else 0
