"""The ordered lists of passes, by the dialect they run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penlight.passes.assertions import remove_assertions
from penlight.passes.base import Pass
from penlight.passes.contiguous import resolve_layouts
from penlight.passes.scalars import promote

ATEN: tuple[Pass, ...] = (remove_assertions,)

CORE: tuple[Pass, ...] = ()

# What makes a Core ATen graph an edge graph.
TO_EDGE: tuple[Pass, ...] = (remove_assertions, promote, resolve_layouts)

EDGE: tuple[Pass, ...] = ()

DIALECTS: Mapping[str, Sequence[Pass]] = {"aten": ATEN, "core": CORE, "edge": EDGE}
