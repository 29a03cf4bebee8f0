"""Element types, with PyTorch's names and the numbers they have in a program file."""

from __future__ import annotations

import builtins
from enum import IntEnum


class DType(IntEnum):
    """`DType.float32.name` is torch's name; the value is the file's scalar type."""

    uint8 = 0
    int8 = 1
    int16 = 2
    int32 = 3
    int64 = 4
    float16 = 5
    float32 = 6
    float64 = 7
    complex32 = 8
    complex64 = 9
    complex128 = 10
    bool = 11
    qint8 = 12
    quint8 = 13
    qint32 = 14
    bfloat16 = 15
    quint4x2 = 16
    quint2x4 = 17
    bits1x8 = 18
    bits2x4 = 19
    bits4x2 = 20
    bits8 = 21
    bits16 = 22
    float8_e5m2 = 23
    float8_e4m3fn = 24
    float8_e5m2fnuz = 25
    float8_e4m3fnuz = 26
    uint16 = 27
    uint32 = 28
    uint64 = 29

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE.get(self, 1)

    @property
    def is_floating(self) -> builtins.bool:  # `bool` is a member here
        return self.name.startswith(("float", "bfloat"))


_ITEMSIZE = {
    DType.int16: 2,
    DType.float16: 2,
    DType.bfloat16: 2,
    DType.uint16: 2,
    DType.bits16: 2,
    DType.int32: 4,
    DType.float32: 4,
    DType.uint32: 4,
    DType.qint32: 4,
    DType.complex32: 4,
    DType.int64: 8,
    DType.float64: 8,
    DType.uint64: 8,
    DType.complex64: 8,
    DType.complex128: 16,
}
