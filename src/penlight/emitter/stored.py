"""Bytes of torch tensors, each content once.

Nothing is copied that is dense in memory already: the file is written straight
from the model's own weights. What is not, or is computed from them, goes to the
file piece by piece.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import torch

from penlight.ir.tensors import PIECE, Derived, bytes_of, pieces_of
from penlight.program.structs import Blob

_SAMPLE = 1 << 14


def blob_of(tensor: torch.Tensor | Derived, dim_order: Sequence[int]) -> Blob:
    """The elements in the order they have in memory; what is derived is so in the order of its dimensions."""
    if isinstance(tensor, Derived):
        like = tensor.like
        return _streamed(like.numel() * like.element_size(), tensor.pieces)
    ordered = tensor.detach().permute(*dim_order) if tensor.dim() > 1 else tensor.detach()
    nbytes = tensor.numel() * tensor.element_size()
    if ordered.is_contiguous() and not ordered.is_conj() and not ordered.is_neg():
        return Blob(nbytes, lambda: _raw(ordered))
    return _streamed(nbytes, lambda: iter((ordered,)))


def _raw(tensor: torch.Tensor) -> memoryview:
    return bytes_of(tensor).numpy().data


def _streamed(nbytes: int, pieces: Callable[[], Iterator[torch.Tensor]]) -> Blob:
    def stream() -> Iterator[memoryview]:
        return (_raw(part) for piece in pieces() for part in _parts(piece))

    return Blob(nbytes, lambda: memoryview(b"".join(stream())), stream=stream)


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of what is small enough to be brought in order, in the order of the elements."""
    if tensor.dim() == 0 or tensor.numel() * tensor.element_size() <= PIECE or tensor.is_contiguous():
        yield tensor
        return
    for rows in pieces_of(tensor):
        if rows.shape[0] > 1:
            yield rows
        else:
            yield from _parts(rows[0])


class Store:
    """Numbered blobs; index 0 stands for no bytes."""

    def __init__(self) -> None:
        self.blobs: list[Blob] = [Blob.of(b"")]
        self._same: dict[Hashable, int] = {}
        self._alike: dict[tuple[int, bytes], list[int]] = {}
        self._alive: list[Derived] = []  # so that no two have one id

    def add(self, tensor: torch.Tensor | Derived, dim_order: Sequence[int]) -> int:
        """The index of the tensor's bytes."""
        if isinstance(tensor, Derived):
            self._alive.append(tensor)
            key: Hashable = id(tensor) if tensor.recipe is None else tensor.recipe
        elif tensor.numel():
            key = (tensor.data_ptr(), *tensor.shape, *tensor.stride(), tensor.element_size(), *dim_order)
        else:
            key = (0,)
        if key not in self._same:
            self._same[key] = self._find_or_append(blob_of(tensor, dim_order))
        return self._same[key]

    def _find_or_append(self, blob: Blob) -> int:
        alike = self._alike.setdefault((blob.nbytes, _sample(blob)), [])
        for index in alike:
            if _equal(self.blobs[index], blob):
                return index
        self.blobs.append(blob)
        alike.append(len(self.blobs) - 1)
        return len(self.blobs) - 1


def _sample(blob: Blob) -> bytes:
    """Equal for equal content of the same kind; of what is computed, only the beginning is."""
    if blob.stream is not None:
        first = next(blob.stream(), memoryview(b""))
        return hashlib.blake2b(first[:_SAMPLE], digest_size=16, person=b"streamed").digest()
    view = blob.view()
    digest = hashlib.blake2b(view[:_SAMPLE], digest_size=16)
    digest.update(view[-_SAMPLE:])
    return digest.digest()


def _equal(one: Blob, other: Blob) -> bool:
    if one.stream is not None or other.stream is not None:
        return one.digest() == other.digest()
    return np.array_equal(np.asarray(one.view()), np.asarray(other.view()))
