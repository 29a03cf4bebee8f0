"""Bytes of torch tensors, each content once.

Nothing is copied that is dense in memory already: the file is written straight
from the model's own weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from penlight.program.structs import Blob

_SAMPLE = 1 << 14


def dense(tensor: torch.Tensor, dim_order: Sequence[int]) -> torch.Tensor:
    """The elements in the order they have in memory, as a flat tensor of bytes; a copy only if needed."""
    ordered = tensor.detach().permute(*dim_order) if tensor.dim() > 1 else tensor.detach()
    if ordered.is_conj() or ordered.is_neg():
        ordered = ordered.resolve_conj().resolve_neg()
    return ordered.cpu().contiguous().reshape(-1).view(torch.uint8)


def blob_of(tensor: torch.Tensor, dim_order: Sequence[int]) -> Blob:
    nbytes = tensor.numel() * tensor.element_size()
    return Blob(nbytes, lambda: dense(tensor, dim_order).numpy().data)


class Store:
    """Numbered blobs; index 0 stands for no bytes."""

    def __init__(self) -> None:
        self.blobs: list[Blob] = [Blob.of(b"")]
        self._same_memory: dict[tuple[int, ...], int] = {}
        self._alike: dict[tuple[int, bytes], list[int]] = {}

    def add(self, tensor: torch.Tensor, dim_order: Sequence[int]) -> int:
        """The index of the tensor's bytes."""
        key = (tensor.data_ptr(), *tensor.shape, *tensor.stride(), tensor.element_size(), *dim_order)
        if tensor.numel() and key in self._same_memory:
            return self._same_memory[key]
        index = self._same_memory[key] = self._find_or_append(blob_of(tensor, dim_order))
        return index

    def _find_or_append(self, blob: Blob) -> int:
        view = blob.view()
        digest = hashlib.blake2b(view[:_SAMPLE], digest_size=16)
        digest.update(view[-_SAMPLE:])
        alike = self._alike.setdefault((blob.nbytes, digest.digest()), [])
        for index in alike:
            if np.array_equal(np.asarray(self.blobs[index].view()), np.asarray(view)):
                return index
        self.blobs.append(blob)
        alike.append(len(self.blobs) - 1)
        return len(self.blobs) - 1
