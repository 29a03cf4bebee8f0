"""Who still holds a tensor's memory after a call."""

import gc
from collections.abc import Callable

import torch


def owners_after(use: Callable[[torch.Tensor], object], tensor: torch.Tensor) -> int:
    """How many still hold the memory of `tensor` when it was used and forgotten."""
    storage = tensor.untyped_storage()
    result = use(tensor)
    del tensor, result
    gc.collect()
    return torch._C._storage_Use_Count(storage._cdata)
