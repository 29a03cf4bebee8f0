"""The engines of benchmarks.race, a module each.

    warm()                                  import what loading imports, whatever the model
    make(module, args, folder, threads)     compile a model into files in `folder`; may use torch
    load(folder, inputs, threads) -> Run    open them, ready to run on `inputs`
    STATELESS                               true where state has to come in and go out
    PER_THREADS                             true where a file is for one number of threads
    FILES                                   the folder, where two engines share a file

A Run is called without arguments and gives the outputs as NumPy arrays or what can become one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

Run = Callable[[], Sequence[Any]]

OURS = "penlight"
PEERS = ("xnnpack", "onnxruntime", "openvino", "litert", "aotinductor")


class EngineModule(Protocol):
    def warm(self) -> None: ...

    def make(self, module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None: ...

    def load(self, folder: Path, inputs: list[Any], threads: int) -> Run: ...


def engine_module(name: str) -> EngineModule:
    return cast(EngineModule, importlib.import_module(f"{__name__}.{name}"))


def is_stateless(name: str) -> bool:
    return bool(getattr(engine_module(name), "STATELESS", False))


def files(name: str, case_folder: Path, threads: int) -> Path:
    """Where an engine keeps its files of a case."""
    module = engine_module(name)
    folder = str(getattr(module, "FILES", name))
    return case_folder / (f"{folder}-{threads}" if getattr(module, "PER_THREADS", False) else folder)
