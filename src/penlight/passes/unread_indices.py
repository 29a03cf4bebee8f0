"""Leave out the search for places, and other second results, that nothing reads.

    max(x, dim)[0]                       ->   amax(x, [dim])
    adaptive_max_pool2d(x, 1)[0]         ->   amax(x, [-2, -1], True)
    max_pool2d_with_indices(x, ...)[0]   ->   an operator of values alone, where there is one
    log_sigmoid_forward(x)[0]            ->   log_sigmoid(x)
    _linalg_svd(a)[1]                    ->   _linalg_svd(a, False, False)[1]
    _linalg_eigh(a)[0]                   ->   _linalg_eigh(a, "L", False)[0]

Needs:  edge dialect.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from penlight.passes.base import tensor_of

aten = torch.ops.aten

MAX_POOL = aten.max_pool2d_with_indices.default
# stride, padding, dilation, ceil_mode
_POOL_DEFAULTS: tuple[Any, ...] = ([], [0, 0], [1, 1], False)

# Where the values are, and the defaults of the arguments behind the matrix: the last says to find vectors.
_VECTORS: dict[Any, tuple[int, tuple[Any, ...]]] = {
    aten._linalg_svd.default: (1, (False, True)),
    aten._linalg_eigh.default: (0, ("L", True)),
}
_VALUES = {aten.max.dim: aten.amax.default, aten.min.dim: aten.amin.default}
# And over how many dimensions they go.
_ADAPTIVE = {aten.adaptive_max_pool2d.default: 2, aten.adaptive_max_pool3d.default: 3}


def drop_unread_indices(graph: Graph) -> int:
    """Rewrite `graph` in place; return how many operators look for values alone now."""
    dropped = 0
    for node in list(graph.nodes):
        found = _values_of(node)
        if found is None or any(user.args[1] != 0 for user in node.users):
            continue
        values, arguments = found
        for user in list(node.users):
            with graph.inserting_before(user):
                new = graph.call_function(values, arguments, dict(node.kwargs))
            new.meta = dict(user.meta)
            user.replace_all_uses_with(new)
        dropped += 1
    return dropped


def drop_unread_vectors(graph: Graph) -> int:
    """Compute singular values and eigenvalues alone; torch traces their vectors along with them."""
    dropped = 0
    for node in graph.nodes:
        if node.target not in _VECTORS:
            continue
        values, defaults = _VECTORS[node.target]
        first, *given = node.args
        _, computes = given = [*given, *defaults[len(given) :]]
        if computes and not node.kwargs and all(user.args[1:] == (values,) for user in node.users):
            node.args = (first, given[0], False)
            results = node.meta["val"]
            node.meta["val"] = tuple(
                result if place == values else result.new_empty((0,)) for place, result in enumerate(results)
            )
            dropped += 1
    return dropped


def _values_of(node: Node) -> tuple[OpOverload, tuple[Any, ...]] | None:
    """What gives the values that `node` finds, with its arguments."""
    target: Any = node.target
    if target in _VALUES:
        x, dim, *keepdim = node.args
        return _VALUES[target], (x, [dim], *keepdim)
    if target is aten.log_sigmoid_forward.default:
        return aten.log_sigmoid.default, (node.args[0],)
    dims = _ADAPTIVE.get(target, 0)
    if dims and node.args[1] == [1] * dims:
        return aten.amax.default, (node.args[0], list(range(-dims, 0)), True)
    return None


def pools_values(node: Node) -> bool:
    """Is `node` a max pool of float32 images whose indices nothing reads?"""
    if node.target is not MAX_POOL:
        return False
    value, wanted = tensor_of(node.args[0]), [user.args[1:] for user in node.users]
    fits = value is not None and value.dim() == 4 and value.dtype is torch.float32
    return fits and bool(wanted) and all(one == (0,) for one in wanted)


def window_of(pool: Node) -> list[Any]:
    """All arguments of a max pool but its image."""
    return [*pool.args[1:], *_POOL_DEFAULTS[len(pool.args) - 2 :]]


def pool_values(max_pool: OpOverload) -> Callable[[Graph], int]:
    """The pass that gives `max_pool` the images that are not channels-last."""

    def pool_values(graph: Graph) -> int:
        pools = [node for node in graph.find_nodes(op="call_function", target=MAX_POOL) if pools_values(node)]
        for node in pools:
            for user in list(node.users):
                with graph.inserting_before(user):
                    new = graph.call_function(max_pool, (node.args[0], *window_of(node)))
                new.meta = dict(user.meta)
                user.replace_all_uses_with(new)
        return len(pools)

    return pool_values
