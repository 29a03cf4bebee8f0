"""ExecuTorch's side of each measurement, without a delegate; runs in the peers' environment."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

# Weights of the models, after everything of this environment itself.
sys.path += os.environ.get("PENLIGHT_PACKAGES", "").split(os.pathsep)

from .engine import serve, shortest

logging.disable(logging.WARNING)
_modules: dict[str, Any] = {}


def write(name: str, file: str) -> float:
    """Lower a graph of graphs.build() to a file; seconds, export included."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge

    from .graphs import build

    module, args = build(name)
    start = time.perf_counter()
    exported = torch.export.export(module, args)
    config = EdgeCompileConfig(_check_ir_validity=False)
    Path(file).write_bytes(to_edge(exported, compile_config=config).to_executorch().buffer)
    return time.perf_counter() - start


def run(name: str, file: str) -> float:
    from executorch.extension.pybindings import portable_lib

    from .graphs import build

    portable_lib._unsafe_reset_threadpool(1)
    if file not in _modules:
        _modules[file] = portable_lib._load_for_executorch(file), list(build(name)[1])
    module, args = _modules[file]
    return shortest(lambda: module.run_method("forward", args))


def load(file: str) -> float:
    from executorch.extension.pybindings import portable_lib

    # Keeps the program while its method is made: the method reads from it.
    return shortest(lambda: [p := portable_lib._load_program(file), p.load_method("forward")])


if __name__ == "__main__":
    serve(write=write, run=run, load=load)
