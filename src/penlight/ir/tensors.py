"""The tensors of a program by name: the model's own, and those that are computed from them.

Folding makes new weights out of old ones. Kept in memory they would double what a
model needs while it is compiled, so a `Derived` tensor is computed when its bytes
are wanted, some rows at a time, and not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping

import torch

# Bytes that a piece of a large tensor has, about.
PIECE = 1 << 20
_SMALL = 1 << 14


class Derived:
    """A contiguous tensor that is computed each time it is asked for.

    Args:
        like: its dtype and shape; any tensor, best one without bytes.
        pieces: gives its content as consecutive parts along dimension 0 (a 0-d tensor as one).
        recipe: what it is made of and how, see `recipe`: equal ones have equal content.
    """

    def __init__(
        self, like: torch.Tensor, pieces: Callable[[], Iterator[torch.Tensor]], recipe: Hashable = None
    ) -> None:
        self.like = torch.empty(like.shape, dtype=like.dtype, device="meta")
        self.pieces, self.recipe = pieces, recipe
        self.source: torch.Tensor | None = None  # the tensor that is there, of any strides, if that is all

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Derived:
        """A tensor that is there, whatever its strides, as one made of pieces; nothing is copied."""
        made = cls(tensor, lambda: pieces_of(tensor), recipe("as it is", tensor))
        made.source = tensor
        return made

    @classmethod
    def whole(
        cls, like: torch.Tensor, compute: Callable[[], torch.Tensor], recipe: Hashable = None
    ) -> Derived:
        """One that can only be computed at once."""
        return cls(like, lambda: iter((compute(),)), recipe)

    def to(self, dtype: torch.dtype) -> Derived:
        """The same numbers in another dtype."""

        def pieces() -> Iterator[torch.Tensor]:
            return (piece.to(dtype) for piece in self.pieces())

        like = torch.empty(self.like.shape, dtype=dtype, device="meta")
        return Derived(like, pieces, recipe("to", self, dtype))

    def tensor(self) -> torch.Tensor:
        parts = list(self.pieces())
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).contiguous()


def recipe(how: str, *sources: object) -> Hashable:
    """Tells what is computed by `how` from `sources` (tensors, derived ones, other values) from all else.

    With it, methods that fold and pack the same weights are seen to have the same ones, uncomputed.
    None when a source cannot be told.
    """
    parts: list[Hashable] = [how]
    for source in sources:
        if isinstance(source, Derived):
            if source.recipe is None:
                return None
            parts.append(source.recipe)
        elif isinstance(source, torch.Tensor):
            parts.append(_identity(source))
        else:
            parts.append((type(source), source))
    return tuple(parts)


def _identity(tensor: torch.Tensor) -> Hashable:
    """By content where that is small, else by place in memory."""
    kind = (tensor.dtype, tuple(tensor.shape))
    if tensor.numel() * tensor.element_size() <= _SMALL and tensor.layout is torch.strided:
        return *kind, hashlib.blake2b(bytes_of(tensor).numpy().data, digest_size=20).digest()
    return *kind, tensor.data_ptr(), tensor.stride()


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of its elements, on the CPU: where those lie, if they are dense there."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    # A single element may have any stride, which a view of other elements is not made of.
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8)


def pieces_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of consecutive rows, each of about a megabyte."""
    nbytes = tensor.numel() * tensor.element_size()
    if tensor.dim() == 0 or nbytes <= PIECE:
        yield tensor
        return
    rows = max(1, PIECE * tensor.shape[0] // nbytes)
    for start in range(0, tensor.shape[0], rows):
        yield tensor[start : start + rows]


class Tensors(MutableMapping[str, torch.Tensor]):
    """Name -> tensor. What is derived is computed whenever it is looked up: ask for no more than needed."""

    def __init__(self, tensors: Mapping[str, torch.Tensor] | None = None) -> None:
        self._kept: dict[str, torch.Tensor | Derived] = {}
        if isinstance(tensors, Tensors):
            self._kept.update(tensors._kept)
        else:
            self._kept.update(tensors or {})

    def __getitem__(self, name: str) -> torch.Tensor:
        found = self._kept[name]
        return found.tensor() if isinstance(found, Derived) else found

    def __setitem__(self, name: str, tensor: torch.Tensor | Derived) -> None:
        self._kept[name] = tensor

    def __delitem__(self, name: str) -> None:
        del self._kept[name]

    def __contains__(self, name: object) -> bool:  # the inherited one would compute it
        return name in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def like(self, name: str) -> torch.Tensor:
        """A tensor of the same dtype, shape and strides; for a derived one it has no bytes."""
        found = self._kept[name]
        return found.like if isinstance(found, Derived) else found

    def kept(self, name: str) -> torch.Tensor | Derived:
        """As it was put in."""
        return self._kept[name]

    def derived(self, name: str) -> Derived:
        """For reading it in pieces."""
        found = self._kept[name]
        return found if isinstance(found, Derived) else Derived.of(found)
