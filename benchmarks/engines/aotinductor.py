"""PyTorch compiled ahead of time by Inductor, its weights frozen, its products tuned on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import Run

PER_THREADS = True  # the number is in the generated loops


def warm() -> None:
    import torch._inductor.package  # noqa: F401


def make(module: Any, args: tuple[Any, ...], folder: Path, threads: int) -> None:
    import torch
    from torch._inductor import aoti_compile_and_package

    torch.set_num_threads(threads)
    exported = torch.export.export(module, args)
    options = {"freezing": True, "max_autotune": True}
    aoti_compile_and_package(exported, package_path=str(folder / "model.pt2"), inductor_configs=options)


def load(folder: Path, inputs: list[Any], threads: int) -> Run:
    import torch
    from torch._inductor import aoti_load_package

    torch.set_num_threads(threads)
    loaded = aoti_load_package(str(folder / "model.pt2"))
    args = [torch.from_numpy(array) for array in inputs]

    def run() -> list[Any]:
        with torch.no_grad():
            found = loaded(*args)
        return list(found) if isinstance(found, tuple | list) else [found]

    return run
