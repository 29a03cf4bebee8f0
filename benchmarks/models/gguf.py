"""Read a GGUF file: its metadata, and its tensors as float32."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_F32, _F16, _Q4_1, _Q8_0 = 0, 1, 3, 8


class Gguf:
    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            magic, self.version = file.read(4), _number(file, "I")
            if magic != b"GGUF":
                raise ValueError(f"{path} is not a GGUF file: it begins with {magic!r}")
            tensors, keys = _number(file, "Q"), _number(file, "Q")
            self.metadata = {_string(file): _value(file, _number(file, "I")) for _ in range(keys)}
            self._entries = {}
            for _ in range(tensors):
                name = _string(file)
                sizes = [_number(file, "Q") for _ in range(_number(file, "I"))]
                self._entries[name] = (sizes[::-1], _number(file, "I"), _number(file, "Q"))
            alignment = int(self.metadata.get("general.alignment", 32))
            self._base = -(-file.tell() // alignment) * alignment
        self._bytes = np.memmap(path, np.uint8, "r")

    def tensor(self, name: str) -> Tensor:
        sizes, kind, offset = self._entries[name]
        count = int(np.prod(sizes))
        raw = self._bytes[self._base + offset :]
        if kind == _F32:
            flat = raw[: 4 * count].view(np.float32)
        elif kind == _F16:
            flat = raw[: 2 * count].view(np.float16).astype(np.float32)
        elif kind == _Q8_0:  # blocks of 32: f16 scale, 32 x int8
            blocks = raw[: count // 32 * 34].reshape(-1, 34)
            flat = blocks[:, 2:].view(np.int8) * blocks[:, :2].copy().view(np.float16).astype(np.float32)
        elif kind == _Q4_1:  # blocks of 32: f16 scale, f16 minimum, 16 bytes of nibbles, low ones first
            blocks = raw[: count // 32 * 20].reshape(-1, 20)
            scale, least = (blocks[:, i : i + 2].copy().view(np.float16).astype(np.float32) for i in (0, 2))
            nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], 1)
            flat = nibbles * scale + least
        else:
            raise ValueError(f"{name} of {self.path.name} has GGUF type {kind}, which is not read here")
        return torch.from_numpy(np.array(flat, np.float32).reshape(sizes))


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack("<" + code, file.read(struct.calcsize(code)))[0]


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = _number(file, "I"), _number(file, "Q")
        return [_value(file, inner) for _ in range(count)]
    return _number(file, _NUMBERS[kind])
