"""Who still holds a tensor's memory after a call."""

import gc
from collections.abc import Callable

import torch


def owners_after(use: Callable[[torch.Tensor], object], make: Callable[[], torch.Tensor]) -> int:
    """How many hold a tensor's memory, this function among them, when it was used and forgotten.

    It is made here: the frame of whoever passes one may hold it until the call is over.
    """
    tensor = make()
    storage = tensor.untyped_storage()
    result = use(tensor)
    del tensor, result
    gc.collect()
    return torch._C._storage_Use_Count(storage._cdata)
