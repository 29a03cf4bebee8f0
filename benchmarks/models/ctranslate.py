"""Read a CTranslate2 model.bin: named arrays, and names that stand for others."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

_KINDS = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def read(path: Path) -> dict[str, Tensor]:
    """Every array by name; halves become float32."""
    arrays = {}
    with path.open("rb") as file:
        version = _number(file, "I")
        if version < 6:
            raise ValueError(f"{path} has format {version}; 6 is read here")
        _string(file), _number(file, "I")  # the model's kind and its revision
        for _ in range(_number(file, "I")):
            name = _string(file)
            sizes = [_number(file, "I") for _ in range(_number(file, "B"))]
            kind = _KINDS[_number(file, "B")]
            flat = np.frombuffer(file.read(_number(file, "I")), kind)
            arrays[name] = torch.from_numpy(flat.astype(np.float32 if flat.dtype.kind == "f" else kind))
            arrays[name] = arrays[name].reshape(sizes)
        for _ in range(_number(file, "I")):
            name, original = _string(file), _string(file)
            arrays[name] = arrays[original]
    return arrays


def _number(file: BinaryIO, code: str) -> int:
    return int(struct.unpack("<" + code, file.read(struct.calcsize(code)))[0])


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "H")).rstrip(b"\0").decode()
