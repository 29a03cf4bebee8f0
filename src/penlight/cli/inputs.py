"""Inputs of a method from the command line: files, numbers, or made up."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import InvalidInput
from penlight.runtime import dtypes
from penlight.runtime.arguments import TensorSpec

if TYPE_CHECKING:
    from penlight.runtime.method import LoadedMethod


def make_inputs(
    method: LoadedMethod, given: Iterable[str], sizes: Iterable[str], fill: str, seed: int
) -> list[Any]:
    """One leaf for each input of `method`.

    Args:
        given: `FILE.npy` or a number (which fills a tensor), for the inputs in order;
            `NAME=...` for one of them.
        sizes: `NAME=2,3,4` for inputs with dynamic sizes that are made up.
        fill: "random", "ones" or "zeros", for inputs that are not given.
    """
    names = method.input_names
    texts = _by_index(given, names, method.name)
    shapes = {
        index: _parse_sizes(text) for index, text in _by_index(sizes, names, method.name, named=True).items()
    }
    generator = np.random.default_rng(seed)
    leaves = []
    for index, spec in enumerate(method.inputs):
        shape = shapes.get(index, getattr(spec, "shape", ()))
        if isinstance(spec, TensorSpec) and index in shapes and not _fits(shape, spec):
            leaves.append(np.broadcast_to(np.zeros((), dtypes.numpy_dtype(spec.dtype_number)), shape))
        elif index in texts:
            leaves.append(_read(texts[index], spec, names[index], shape))
        elif isinstance(spec, TensorSpec):
            leaves.append(_make_up(spec, shape, fill, generator))
        else:
            leaves.append(method.traced_values[index])
    return leaves


def _by_index(given: Iterable[str], names: list[str], method: str, *, named: bool = False) -> dict[int, str]:
    found: dict[int, str] = {}
    position = 0
    for text in given:
        name, equals, rest = text.partition("=")
        if equals and name.isdigit() and int(name) < len(names):
            found[int(name)] = rest
        elif equals and (name in names or named or not Path(text).exists()):
            if name not in names:
                raise InvalidInput(
                    f"method {method} has no input {name!r}", got=text, do=f"there are: {', '.join(names)}"
                )
            found[names.index(name)] = rest
        else:
            found[position] = text
            position += 1
    if len(found) > len(names) or any(index >= len(names) for index in found):
        takes = f"{len(names)} input{'s' * (len(names) != 1)}"
        raise InvalidInput(f"method {method} takes {takes}", got=f"{len(found)}", do=", ".join(names) or None)
    return found


def _fits(shape: tuple[int, ...], spec: TensorSpec) -> bool:
    """If not, the call says what is wrong: of a tensor that takes no memory."""
    return len(shape) == len(spec.shape) and all(map(operator.le, shape, spec.shape))


def _parse_sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in text.split(",") if size)
    except ValueError:
        raise InvalidInput("sizes are whole numbers with commas between", got=text) from None
    if any(not 0 <= size < 1 << 31 for size in sizes) or math.prod(sizes) >= 1 << 48:
        raise InvalidInput("a tensor of these sizes cannot be", got=text)
    return sizes


def _read(text: str, spec: TensorSpec | str, name: str, shape: tuple[int, ...]) -> Any:
    if not isinstance(spec, TensorSpec):
        try:
            if spec == "bool":
                return {"true": True, "false": False}[text]
            return int(text) if spec == "int" else float(text)
        except (KeyError, ValueError):
            raise InvalidInput(f"input {name} should be a {spec}", got=text) from None
    path = Path(text)
    if not path.exists():
        try:
            return np.full(shape, float(text)).astype(dtypes.numpy_dtype(spec.dtype_number))
        except ValueError:
            raise InvalidInput(f"no such file: {text}", where=f"input {name}") from None
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput(f"{text} is not a .npy file", where=f"input {name}", got=str(error)) from error
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{text} holds several arrays", where=f"input {name}", do="save one array as .npy")
    known = dtypes.numpy_dtype(spec.dtype_number)
    # ml_dtypes saves its types as bytes without a meaning.
    return array.view(known) if array.dtype.kind == "V" and array.dtype.itemsize == known.itemsize else array


def _make_up(spec: TensorSpec, shape: tuple[int, ...], fill: str, generator: np.random.Generator) -> Any:
    dtype = dtypes.numpy_dtype(spec.dtype_number)
    if fill == "ones":
        return np.ones(shape, dtype)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if "float" in spec.dtype:
        return generator.uniform(-1, 1, shape).astype(dtype)
    if "complex" in spec.dtype:
        return (generator.uniform(-1, 1, shape) + 1j * generator.uniform(-1, 1, shape)).astype(dtype)
    # 0 and 1 index whatever they may index.
    return generator.integers(0, 2, shape).astype(dtype)
