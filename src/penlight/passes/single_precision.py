"""Compute what is of 16-bit floats in float32, and keep what is stored in 16 bits.

    add(x, mul(y, z))  ->  to16(add(to32(x), mul(to32(y), to32(z))))

The kernels that are fast are those of float32, and ATen's CPU kernels compute in it as
well, one operator at a time. Here inputs are converted where they are first computed with,
weights when the program is made, and results at the end. What lies between is not rounded,
as in compilers that allow excess precision (XLA's `xla_allow_excess_precision`, C's
`FLT_EVAL_METHOD`): answers are nearer to those of the model in float32, and a sum that
passes the range of float16 on its way is no infinity.

What stays in 16 bits:

    storage     state, tables that are looked up in, and what is cut out of an input
    roundings   of float32 that is made from no 16 bits, and casts to or from integers
    operators   that are about bits (`nextafter`, `view` as another dtype), random ones, a
                user's own, loops and conditions

A model that computes nothing in 16 bits stays as it is: its casts are roundings that are meant.

Needs:  edge dialect.
Keeps:  every output's shape and dtype, and its value up to roundings of 16 bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate, map_arg

from penlight.ir.edge import InputKind, OutputKind
from penlight.kernels.out_variants import view_twin
from penlight.passes.base import tensor_of
from penlight.passes.constants import Constants

aten = torch.ops.aten
_to_copy = aten._to_copy.default
_SHORT = (torch.float16, torch.bfloat16)


def _named(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Operators that mean the same of float32 as of 16 bits, besides functions of single elements.
_COMPUTED = _named(
    """
    linear mm bmm addmm baddbmm mv addmv dot convolution scaled_dot_product_attention rms_norm
    native_layer_norm native_group_norm _native_batch_norm_legit_no_training
    _native_batch_norm_legit linalg_vector_norm
    hardswish log_sigmoid _prelu_kernel glu floor_divide _softmax _log_softmax logsumexp _cdist_forward
    sum nansum mean prod amax amin argmax argmin var std var_mean std_mean cumsum cumprod sort topk
    avg_pool1d avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices
    adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d grid_sampler_2d grid_sampler_3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa im2col col2im
    """
)
# A function of single elements that asks about their bits, and one that moves them.
_NOT_COMPUTED = (aten.nextafter.default, aten.clone.default)
_LOOKUPS = _named("index index_select embedding gather")
# What moves elements, besides views.
_MOVED = _LOOKUPS | _named(
    """
    clone cat stack repeat repeat_interleave flip roll tril triu _unsafe_view masked_select
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle channel_shuffle
    split_copy split_with_sizes_copy unsafe_split unsafe_split_with_sizes unbind_copy
    index_copy index_put scatter slice_scatter select_scatter diagonal_scatter masked_scatter
    """
)
# Give less than they are given, mostly.
_SMALLER = (aten.select_copy.int, aten.slice_copy.Tensor, aten.index.Tensor, aten.embedding.default)
# Give as much as they are given, or more.
_LARGER = (aten.expand_copy.default, aten.repeat.default)
_BITS = (aten.view_copy.dtype, aten.as_strided_copy.default)


def compute_in_float32(whole: Collection[OpOverload]) -> Callable[[Graph, Constants], int]:
    """The pass; operators of `whole`, Penlight's own composites, mean the same in float32 too."""

    def compute_in_float32(graph: Graph, constants: Constants) -> int:
        if not constants.can_add() or not any(_computes(node, whole) for node in graph.nodes):
            return 0
        return _Rewriter(graph, constants, whole).run()

    return compute_in_float32


class _Rewriter:
    """One graph, from its inputs to its outputs."""

    def __init__(self, graph: Graph, constants: Constants, whole: Collection[OpOverload]) -> None:
        self.graph, self.constants, self.whole = graph, constants, whole
        self.short: dict[Node, Any] = {}  # results that became float32 -> the dtypes that they had
        self.derived: set[Node] = set()  # float32 that was made of these
        self.stored = _state_of(constants)  # of 16 bits, and what it is moved to
        self.as_float32: dict[Node, Node] = {}
        self.as_short: dict[Node, Node] = {}

    def run(self) -> int:
        for node in list(self.constants.names):
            if _is_short(node) and any(self._reads(user, node) for user in node.users):
                self._widen_constant(node)
        changed = 0
        for node in list(self.graph.nodes):
            if node.op in ("call_function", "output"):
                changed += self._rewrite(node)
                if _dtype_of(node) == torch.float32 and any(map(self._is_derived, node.all_input_nodes)):
                    self.derived.add(node)
        return changed

    def _is_derived(self, node: Node) -> bool:
        return node in self.short or node in self.derived

    def _reads(self, user: Node, constant: Node) -> bool:
        """Does it compute with the constant, or move all of it?"""
        return _computes(user, self.whole) or (_moves(user) and not _looks_up(user, constant))

    def _rewrite(self, node: Node) -> bool:
        if node.target is operator.getitem:
            source: Any = node.args[0]
            if source in self.short:
                self._now_float32(node)
            return False
        if node.target is _to_copy:
            return self._cast(node)
        if node.target is aten.full.default:
            return self._fill(node)
        if not any(one in self.short or _is_short(one) for one in node.all_input_nodes):
            return False
        if self._keeps_stored(node):
            self.stored.add(node)
        elif _computes(node, self.whole, self.short) or (_moves(node) and self._moves_float32(node)):
            self._convert(node, self._float32)
            if node.target in (aten._softmax.default, aten._log_softmax.default):
                node.args = (*node.args[:2], False)
            self._now_float32(node)
            return True
        self._convert(node, self._short)
        return False

    def _cast(self, node: Node) -> bool:
        """A cast between 16 bits and float32 does nothing now; others stay."""
        source: Any = node.args[0]
        before, after = self._dtype(source), _dtype_of(node)
        if source in self.short:
            if after == torch.float64:
                return True  # of float32
            drops = after in (torch.float32, before)
        else:
            drops = after in _SHORT and source in self.derived
        if drops:
            self._now_float32(node)
            node.kwargs = {**node.kwargs, "dtype": torch.float32}
        else:
            self._convert(node, self._short)
        return drops

    def _fill(self, node: Node) -> bool:
        """One number everywhere, which is rounded now."""
        dtype, number = _dtype_of(node), node.args[1]
        if dtype not in _SHORT or not isinstance(number, int | float):
            return False
        node.args = (node.args[0], torch.tensor(number, dtype=dtype).item())
        self._now_float32(node)
        return True

    def _keeps_stored(self, node: Node) -> bool:
        """Does it move, or write to, what is stored, without making it larger?"""
        first = next(one for one in node.all_input_nodes if one in self.short or _is_short(one))
        return _moves(node) and first in self.stored and node.target not in _LARGER

    def _moves_float32(self, node: Node) -> bool:
        """Does it move what is float32 by now, or best becomes that first?

        What has several tensors goes with the first, a concatenation with most of its elements.
        """
        sources = [one for one in node.all_input_nodes if one in self.short or _is_short(one)]
        first = sources[0]
        if node.target is aten.cat.default:
            sizes = [_numel(one) for one in sources]
            if None not in sizes:
                signs = [1 if one in self.short else -1 for one in sources]
                return sum(sign * size for sign, size in zip(signs, sizes, strict=True) if size) > 0
        if first in self.short or len(sources) > 1:
            return first in self.short
        before, after = _numel(first), _numel(node)
        if before is None or after is None:
            return node.target not in _SMALLER
        return after >= before

    def _convert(self, node: Node, to: Callable[[Node], Node]) -> None:
        with self.graph.inserting_before(node):
            node.args = map_arg(node.args, to)
            node.kwargs = map_arg(node.kwargs, to)

    def _float32(self, node: Node) -> Node:
        if not _is_short(node):
            return node
        if node not in self.as_float32:
            self.as_float32[node] = self._copy(node, torch.float32)
        return self.as_float32[node]

    def _short(self, node: Node) -> Node:
        dtype = self.short.get(node)
        if not isinstance(dtype, torch.dtype):
            return node
        if node not in self.as_short:
            self.as_short[node] = self._copy(node, dtype)
        return self.as_short[node]

    def _copy(self, node: Node, dtype: torch.dtype) -> Node:
        copy = self.graph.call_function(_to_copy, (node,), {"dtype": dtype})
        copy.meta = {**node.meta, "val": _as(tensor_of(node), dtype)}
        return copy

    def _now_float32(self, node: Node) -> None:
        """Its result is float32 where it was of 16 bits; a dtype that it names is so too."""
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            self.short[node] = None  # the results that getitem picks
        elif value.dtype in _SHORT:
            self.short[node] = value.dtype
        node.meta["val"] = map_aggregate(
            value, lambda one: _as(one, torch.float32) if _is_short_value(one) else one
        )
        node.kwargs = {
            key: torch.float32 if argument in _SHORT else argument for key, argument in node.kwargs.items()
        }

    def _dtype(self, node: Node) -> torch.dtype | None:
        return self.short.get(node) or _dtype_of(node)

    def _widen_constant(self, node: Node) -> None:
        """All read it as float32."""
        wide = self.constants.derived(node).to(torch.float32)
        new = self.constants.add(f"{self.constants.names[node]}.float32", wide)
        self.short[new] = _dtype_of(node)
        node.replace_all_uses_with(new)


def _computes(node: Node, whole: Collection[OpOverload], short: Collection[Node] = ()) -> bool:
    """Is it a function of 16-bit floats that means the same in float32?"""
    target = node.target
    if not isinstance(target, OpOverload) or target in _NOT_COMPUTED:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable:
        return False
    known = torch.Tag.pointwise in target.tags and target.namespace == "aten"
    if not known and target._schema.name not in _COMPUTED and target not in whole:
        return False
    return any(one in short or _is_short(one) for one in node.all_input_nodes)


def _moves(node: Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload) or target in _BITS or target._schema.is_mutable:
        return False
    return target._schema.name in _MOVED or view_twin(target) is not None


def _looks_up(user: Node, table: Node) -> bool:
    target = user.target
    return isinstance(target, OpOverload) and target._schema.name in _LOOKUPS and user.args[0] is table


def _state_of(constants: Constants) -> set[Node]:
    """State, and inputs that are written to, of 16 bits."""
    method = constants.method
    assert method is not None
    written = {spec.target for spec in method.outputs if spec.kind is OutputKind.INPUT_MUTATION}
    return {
        node
        for spec, node in method.placeholders()
        if (spec.kind is InputKind.STATE or spec.name in written) and _is_short(node)
    }


def _numel(node: Node) -> int | None:
    """Elements of its result, where these are known."""
    value = tensor_of(node)
    if value is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return value.numel()


def _dtype_of(node: Node) -> torch.dtype | None:
    value = tensor_of(node)
    return None if value is None else value.dtype


def _is_short(node: Node) -> bool:
    return _dtype_of(node) in _SHORT


def _is_short_value(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _SHORT


def _as(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """A fake tensor like `value`, of another dtype."""
    with value.fake_mode:
        return torch.empty_strided(value.size(), value.stride(), dtype=dtype)
