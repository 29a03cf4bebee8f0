"""Products of rows that are sorted by group with a matrix for each group, as in mixtures of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten


def grouped_mm(x, weight, offs=None, bias=None, out_dtype=None):  # type: ignore[no-untyped-def]
    """x [rows, k] times weight [groups, k, n]: group g ends before row offs[g]; rows behind the last are 0.

    Few rows fetch the matrix each needs. Many are multiplied with all matrices, of which each row
    keeps one: the memory of a matrix for each row would be out of proportion.
    """
    if out_dtype not in (None, x.dtype):
        return NotImplemented
    if offs is None and x.dim() == weight.dim() == 3:
        made = torch.bmm(x, weight)
        return made if bias is None else made + bias
    if offs is None or x.dim() != 2 or weight.dim() != 3 or bias is not None:
        return NotImplemented
    rows, groups = x.shape[0], weight.shape[0]
    group = (torch.arange(rows, dtype=offs.dtype).unsqueeze(1) >= offs).sum(1)
    if isinstance(rows, int) and rows <= groups:
        picked = weight.index_select(0, group.clamp(max=groups - 1))
        product = torch.bmm(x.unsqueeze(1), picked).squeeze(1)
        return torch.where((group < groups).unsqueeze(1), product, 0)
    result = torch.zeros((rows, weight.shape[2]), dtype=x.dtype)
    for index, matrix in enumerate(weight.unbind(0)):
        result = torch.where((group == index).unsqueeze(1), torch.mm(x, matrix), result)
    return result


def as_linear(linear: Callable[..., Any]) -> Callable[..., Any]:
    """With an operator for it, which has the groups' matrices as [groups, n, k]."""

    def split(x, weight, offs=None, bias=None, out_dtype=None):  # type: ignore[no-untyped-def]
        plain = offs is not None and bias is None and out_dtype in (None, x.dtype)
        if plain and x.dim() == 2 and weight.dim() == 3:
            return linear(x, weight.transpose(1, 2), offs)
        return grouped_mm(x, weight, offs, bias, out_dtype)  # type: ignore[no-untyped-call]

    return split


SPLITS: dict[Any, Callable[..., Any]] = {aten._grouped_mm.default: grouped_mm}
# Operators of libraries whose implementation in Python loops over values, and ATen's of the same meaning.
BY_NAME: dict[str, OpOverload] = {"transformers::grouped_mm_fallback": aten._grouped_mm.default}
