"""The other side: make ExecuTorch's files, and run any file in its runtime.

Runs in the peers' environment (`make peers`), never in ours:

    python make_executorch.py serve                   one JSON job a line on stdin, one answer a line
    python make_executorch.py write FOLDER [NAME...]  NAME.pte and NAME.npz of the exchanged programs

Jobs: {"do": "write", "name", "folder"}, {"do": "lower", "exported": {method: .pt2}, "file"},
{"do": "run", "file", "inputs", "result"}, the last two paths of .npz files. Those hold `calls`, the
method of each call K, and `K.in.I` (channels-last where there is a `K.last.I`), `K.out.J` (eager),
`K.peer.J` (their runtime).
"""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
sys.path.insert(0, str(Path(__file__).parent))

import programs  # noqa: E402


def array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor or number as numpy; bfloat16 travels as its bits with a marker dtype."""
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        return value.view(torch.int16).numpy().view("V2") if value.dtype == torch.bfloat16 else value.numpy()
    return np.asarray(value)


def tensor(value: np.ndarray[Any, Any]) -> torch.Tensor:
    if value.dtype.kind == "V":
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    # Of an empty array, numpy gives strides that the peer refuses: make the tensor anew.
    return torch.empty(value.shape, dtype=torch.from_numpy(value).dtype).copy_(torch.from_numpy(value.copy()))


def lower(exchange: programs.Exchange) -> bytes:
    """The program as ExecuTorch 1.5.1 writes it, with no delegate."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    exported = {
        name: torch.export.export(module, exchange.example(name), dynamic_shapes=exchange.dynamic.get(name))
        for name, module in exchange.methods.items()
    }
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge(exported, constant_methods=exchange.constant_methods or None, compile_config=config)
    passes = [InitializedMutableBufferPass(exchange.initialized)] if exchange.initialized else []
    return edge.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer


def call_peer(module: Any, method: str, leaves: list[Any]) -> list[Any]:
    return list(module.run_method(method, leaves))


def write(name: str, folder: Path) -> dict[str, Any]:
    from executorch.extension.pybindings import portable_lib

    exchange = programs.make(name)
    data = lower(exchange)
    (folder / f"{name}.pte").write_bytes(data)
    eager = {key: copy.deepcopy(module) for key, module in exchange.methods.items()}
    arrays: dict[str, Any] = {"calls": np.array([method for method, _ in exchange.calls])}
    peer_note = ""
    try:
        module = portable_lib._load_for_executorch_from_buffer(data)
    except Exception as error:
        module, peer_note = None, f"peer does not load its own file: {error}"
    for k, (method, args) in enumerate(exchange.calls):
        leaves = pytree.tree_leaves(args)
        arrays |= {f"{k}.in.{i}": array(leaf) for i, leaf in enumerate(leaves)}
        inputs = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if module is not None:
            try:
                arrays |= {f"{k}.peer.{j}": array(v) for j, v in enumerate(call_peer(module, method, inputs))}
            except Exception as error:
                module, peer_note = None, f"peer fails on its own file: {error}"
        with torch.no_grad():
            results = pytree.tree_leaves(eager[method](*args))
        arrays |= {f"{k}.out.{j}": array(leaf) for j, leaf in enumerate(results)}
    np.savez(folder / f"{name}.npz", **arrays)
    return {"ok": True, "bytes": len(data), "peer": peer_note, "tolerance": exchange.tolerance}


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run a file with the inputs of an .npz; write `K.peer.J` beside it as `result`."""
    from executorch.extension.pybindings import portable_lib

    start = time.perf_counter()
    module = portable_lib._load_for_executorch(job["file"])
    loaded = time.perf_counter()
    results: dict[str, Any] = {}
    times = []
    with np.load(job["inputs"]) as given:
        for k, method in enumerate(str(m) for m in given["calls"]):
            inputs: list[Any] = []
            while (key := f"{k}.in.{len(inputs)}") in given.files:
                inputs.append(tensor(given[key]))
                if f"{k}.last.{len(inputs) - 1}" in given.files:
                    inputs[-1] = inputs[-1].to(memory_format=torch.channels_last)
            begin = time.perf_counter()
            outputs = call_peer(module, method, inputs)
            times.append(1e3 * (time.perf_counter() - begin))
            results |= {f"{k}.peer.{j}": array(v) for j, v in enumerate(outputs)}
    np.savez(job["result"], **results)
    return {"ok": True, "load_ms": 1e3 * (loaded - start), "run_ms": times}


def lower_exported(job: dict[str, Any]) -> dict[str, Any]:
    """A file of theirs from programs that our environment exported."""
    from executorch.exir import EdgeCompileConfig, to_edge

    start = time.perf_counter()
    exported = {method: torch.export.load(path) for method, path in job["exported"].items()}
    loaded = time.perf_counter()
    program = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).to_executorch()
    Path(job["file"]).write_bytes(program.buffer)
    return {"ok": True, "read_s": loaded - start, "lower_s": time.perf_counter() - loaded}


def do(job: dict[str, Any]) -> dict[str, Any]:
    if job["do"] == "write":
        return write(job["name"], Path(job["folder"]))
    return {"lower": lower_exported, "run": run}[job["do"]](job)


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return do(job)
    except Exception as error:
        if "--trace" in sys.argv:
            traceback.print_exc()
        return {"ok": False, "error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}


def main() -> None:
    command, *rest = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    # Libraries print to stdout as they please: answers keep the real one to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if command == "serve":
        jobs = (json.loads(line) for line in sys.stdin)
    else:
        Path(rest[0]).mkdir(parents=True, exist_ok=True)
        names = rest[1:] or list(programs.PROGRAMS)
        jobs = ({"do": "write", "name": name, "folder": rest[0]} for name in names)
    for job in jobs:
        print(json.dumps({"name": job.get("name", "")} | attempt(job)), file=answers, flush=True)


if __name__ == "__main__":
    main()
