"""ExecuTorch with the XNNPACK delegate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import Run


def warm() -> None:
    from executorch.extension.pybindings import portable_lib  # noqa: F401


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    exported = torch.export.export(module, args)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["cache"])])
    (folder / "model.pte").write_bytes(lowered.to_executorch(config).buffer)


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    import torch
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    program = portable_lib._load_program(str(folder / "model.pte"))
    method = program.load_method("forward")
    args = [torch.from_numpy(array) for array in inputs]
    # The program stays with its method, which reads from it.
    return lambda program=program: method.call(args, clone_outputs=False)
