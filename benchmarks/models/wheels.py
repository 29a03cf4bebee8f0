"""Find what a model needs inside an installed package, without importing the package.

Several of these packages import libraries that would bring another torch; a
network's own source file and weights are all that is wanted.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.packages import PackageMissing, folder

__all__ = ["PackageMissing", "folder", "safetensors", "source"]


def source(package: str, file: str, **stand_ins: Any) -> types.ModuleType:
    """Run one source file of `package`; its imports of the package see `stand_ins` only."""
    path = folder(package) / file
    spec = importlib.util.spec_from_file_location(f"_{package}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    fakes = {package: types.ModuleType(package)}
    for name, value in stand_ins.items():
        setattr(fakes[package], name, value)
    before = {name: sys.modules.get(name) for name in fakes}
    sys.modules.update(fakes)
    try:
        spec.loader.exec_module(module)
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
    return module


def safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file: a length, a JSON header, then the bytes."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    kinds = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(flat.copy())
    return tensors
