"""Make an operator of Penlight's own known to torch, by its schema in the table of kernels.

A graph with it can then be built, checked and run in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "penlight"


@cache
def _library() -> torch.library.Library:
    return torch.library.Library(NAMESPACE, "FRAGMENT")


@cache
def define(schema: str, eager: Callable[..., Any], shape: Callable[..., Any]) -> OpOverload:
    """The operator of `schema`, "penlight::name(...) -> ...".

    Args:
        eager: what it means, on tensors.
        shape: of its results: the same on fake tensors, without computing.
    """
    name = schema.split("(")[0].removeprefix(f"{NAMESPACE}::")
    library = _library()
    library.define(schema.removeprefix(f"{NAMESPACE}::"))
    library.impl(name, eager, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", shape, lib=library)
    op: OpOverload = getattr(torch.ops.penlight, name).default
    return op
