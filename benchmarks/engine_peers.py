"""Other engines at their best, each in a process of its own in the peers' environment; see engine.py.

    python -m benchmarks.engine_peers xnnpack | onnxruntime | openvino

Each makes its own file of a model once, and then answers how long a run takes.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Weights of the models, after everything of this environment itself.
sys.path += os.environ.get("PENLIGHT_PACKAGES", "").split(os.pathsep)

from .engine import serve, shortest

logging.disable(logging.WARNING)
Run = Callable[[], list[Any]]


def _built(name: str) -> tuple[Any, tuple[Any, ...]]:
    from .graphs import build

    module, args = build(name)
    return module.eval(), args


def _onnx(name: str, folder: str) -> str:
    """The model as ONNX, which two of the engines read."""
    import torch

    path = Path(folder) / f"{name}.onnx"
    if not path.exists():
        module, args = _built(name)
        torch.onnx.export(module, args, str(path), dynamo=True, verbose=False, optimize=True)
    return str(path)


def xnnpack(name: str, folder: str, threads: int) -> Run:
    """ExecuTorch with the XNNPACK delegate."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.extension.pybindings import portable_lib

    path = Path(folder) / f"{name}-xnnpack.pte"
    module, args = _built(name)
    if not path.exists():
        exported = torch.export.export(module, args)
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        path.write_bytes(lowered.to_executorch().buffer)
    portable_lib._unsafe_reset_threadpool(threads)
    loaded = portable_lib._load_for_executorch(str(path))
    return lambda: list(loaded.run_method("forward", list(args)))


def onnxruntime(name: str, folder: str, threads: int) -> Run:
    """ONNX Runtime's CPU provider, all optimisations on."""
    import onnxruntime as engine

    options = engine.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = engine.InferenceSession(_onnx(name, folder), options, providers=["CPUExecutionProvider"])
    inputs = _feed([entry.name for entry in session.get_inputs()], name)
    return lambda: list(session.run(None, inputs))


def openvino(name: str, folder: str, threads: int) -> Run:
    """OpenVINO's CPU plug-in, in float32."""
    import openvino as engine

    core = engine.Core()
    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    compiled = core.compile_model(_onnx(name, folder), "CPU", config)
    request = compiled.create_infer_request()
    inputs = _feed([entry.get_any_name() for entry in compiled.inputs], name)

    def run() -> list[Any]:
        request.infer(inputs, share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run


def _feed(names: list[str], model: str) -> dict[str, Any]:
    return {name: arg.numpy() for name, arg in zip(names, _built(model)[1], strict=True)}


ENGINES = {"xnnpack": xnnpack, "onnxruntime": onnxruntime, "openvino": openvino}
_runs: dict[tuple[str, int], Run] = {}


def main(engine: str) -> None:
    def prepare(name: str, folder: str, threads: int) -> None:
        import torch

        with torch.no_grad():
            _runs[name, threads] = ENGINES[engine](name, folder, threads)

    def run(name: str, threads: int) -> float:
        return shortest(_runs[name, threads])

    def error(name: str, threads: int) -> float:
        """Largest difference from eager, beside the range of its outputs."""
        import numpy as np
        import torch

        module, args = _built(name)
        with torch.no_grad():
            want = module(*args)
        first = np.asarray((want[0] if isinstance(want, tuple | list) else want).numpy())
        got = np.asarray(_runs[name, threads]()[0]).reshape(first.shape)
        return float(np.abs(got - first).max() / np.ptp(first))

    serve(prepare=prepare, run=run, error=error)


if __name__ == "__main__":
    main(sys.argv[1])
