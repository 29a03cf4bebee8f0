"""The ordered lists of passes, by the dialect they run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penlight.passes.assertions import remove_assertions
from penlight.passes.base import Pass
from penlight.passes.contiguous import resolve_layouts
from penlight.passes.fold_batch_norm import fold_batch_norm
from penlight.passes.fold_constants import fold_constants
from penlight.passes.merge_views import merge_views
from penlight.passes.no_ops import remove_no_ops
from penlight.passes.scalars import promote
from penlight.passes.subexpressions import merge_subexpressions

ATEN: tuple[Pass, ...] = (remove_assertions,)

CORE: tuple[Pass, ...] = ()

# What makes a Core ATen graph an edge graph.
TO_EDGE: tuple[Pass, ...] = (remove_assertions, promote, resolve_layouts)

EDGE: tuple[Pass, ...] = (
    remove_no_ops,
    merge_views,
    remove_no_ops,
    merge_subexpressions,
    fold_constants,
    fold_batch_norm,
    merge_subexpressions,
)

DIALECTS: Mapping[str, Sequence[Pass]] = {"aten": ATEN, "core": CORE, "edge": EDGE}
