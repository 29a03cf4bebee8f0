"""Element types by PyTorch's number, as numpy and torch have them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# Number: (name, numpy's type, or None where numpy has none; name in ml_dtypes, raw type).
NAMES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 12: "qint8", 13: "quint8", 14: "qint32",
    15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz",
    27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
# Types that numpy lacks, with the type that shows their bits.
_RAW = {8: "uint32", 12: "int8", 13: "uint8", 14: "int32", 15: "uint16", 22: "uint16"} | dict.fromkeys(
    range(23, 27), "uint8"
)
_FROM_ML_DTYPES = {15, 23, 24, 25, 26}
_known: dict[int, np.dtype[Any]] = {}


def name_of(number: int) -> str:
    return NAMES.get(number, f"dtype {number}")


def raw_dtype(number: int) -> np.dtype[Any] | None:
    """The numpy type of the same size that shows the bits; None where numpy has the type itself."""
    raw = _RAW.get(number)
    return None if raw is None else np.dtype(raw)


def numpy_dtype(number: int) -> np.dtype[Any]:
    """numpy's type; for bfloat16 and the float8 kinds that of ml_dtypes, or raw bits without it."""
    found = _known.get(number)
    if found is None:
        if number in _FROM_ML_DTYPES:
            try:
                import ml_dtypes

                found = np.dtype(getattr(ml_dtypes, NAMES[number]))
            except ImportError:
                found = np.dtype(_RAW[number])
        else:
            found = np.dtype(_RAW.get(number) or NAMES.get(number, "uint8"))
        _known[number] = found
    return found


def torch_dtype(number: int) -> Any:
    """torch's type, where torch is in the process; else None."""
    torch = sys.modules.get("torch")
    return getattr(torch, NAMES.get(number, ""), None) if torch else None


def number_of(dtype: np.dtype[Any]) -> int | None:
    """PyTorch's number of a numpy type; None when there is none."""
    name = dtype.name if dtype.isnative else ""
    return next((number for number, known in NAMES.items() if known == name), None)
