"""OpenVINO's CPU plug-in, in float32; a key-value cache is state of the request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import Run
from .onnx_file import write_onnx

STATELESS = True


def warm() -> None:
    import openvino

    openvino.Core()


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    import openvino as engine
    from openvino._offline_transformations import apply_make_stateful_transformation

    onnx = write_onnx(module, args, folder)
    model = engine.convert_model(onnx)
    outputs, inputs = model.outputs[1:], model.inputs[len(model.inputs) - len(model.outputs) + 1 :]
    if outputs:
        pairs = {into.get_any_name(): out.get_any_name() for into, out in zip(inputs, outputs, strict=True)}
        apply_make_stateful_transformation(model, pairs)
    engine.save_model(model, folder / "model.xml", compress_to_fp16=False)
    for path in folder.glob("*.onnx*"):
        path.unlink()


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    import openvino as engine

    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    compiled = engine.Core().compile_model(str(folder / "model.xml"), "CPU", config)
    request = compiled.create_infer_request()
    names = [entry.get_any_name() for entry in compiled.inputs]
    feed = dict(zip(names, inputs, strict=False))
    states = inputs[len(names) :]  # what make() turned into state, in the order of its inputs' numbers
    for variable in request.query_state():
        number = re.match(r"\D*(\d+)", variable.name)
        assert number, variable.name
        variable.state = engine.Tensor(states[int(number[1])])

    def run() -> list[Any]:
        request.infer(feed, share_inputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return run
