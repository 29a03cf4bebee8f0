"""Arithmetic around layers that their weights can do.

    conv(x, w, b) * s + t           =   conv(x, w * s, b * s + t)
    conv(x, w, b) + conv(x, v, c)   =   conv(x, w + v, b + c)
    conv(x, w, b) + x * s + t       =   conv(x, w + s, b + t)       s at the tap of x itself
    max(conv(x, w, b), l) * s + t   =   max(conv(x, w * s, b * s + t), l * s + t)

for s and t with a value for each channel: the scales of residual branches (Touvron et
al., "Going deeper with image transformers", 2021), and networks that were trained with
parallel branches (Ding et al., "RepVGG", 2021), whether or not somebody merged them
before. The smaller window is put where it lies in the larger one. Bounds, as of a ReLU,
are one number for all channels, so s and t after them are to make it one again: those of
learnable affine blocks, as HGNetV2 has them, are one number each. Computed in float64 and
when the weight is written, as fold_batch_norm does.

Needs:  edge dialect; parameters constant, float32 or float64; each part and its weight used
        by nothing else; factors finite and not zero, which make no number of what is infinite.
Keeps:  outputs up to rounding.
Runs:   after simplify_batch_norm, which makes arithmetic of norms that stand alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.ir.tensors import Derived, recipe
from penlight.passes.affine import DTYPES, PRODUCTS, QUOTIENTS, SUMS, Affine, affine_step, weight_of_second
from penlight.passes.base import tensor_of
from penlight.passes.bounds import bounds_of, set_bounds
from penlight.passes.constants import Constants
from penlight.passes.fold_batch_norm import convolution, linear, replace_parameters, scale_layer
from penlight.passes.layouts import same_sizes, sizes_of

aten = torch.ops.aten


def fold_affine(graph: Graph, constants: Constants) -> int:
    """Rewrite `graph` in place; return how many operators were folded."""
    if not constants.can_add():
        return 0
    folded = 0
    for node in list(graph.nodes):
        if node.target not in SUMS and node.target not in PRODUCTS and node.target not in QUOTIENTS:
            continue
        result = _scaled(constants, node) or _merged(constants, node)
        if result is not None:
            node.replace_all_uses_with(result)
            graph.erase_node(node)
            folded += 1
    return folded


def _layer(constants: Constants, node: Any) -> Node | None:
    """`node` if it is a layer over constants of its own that one other node reads."""
    if not isinstance(node, Node) or node.target not in (convolution, linear) or len(node.users) != 1:
        return None
    weight: Any = node.args[1]
    like, bias = constants.like(weight), node.args[2] if len(node.args) > 2 else None
    if like is None or like.dtype not in DTYPES or not constants.is_read_once(weight):
        return None
    if node.target is linear and like.dim() != 2:
        return None
    return node if bias is None or constants.like(bias) is not None else None


def _scaled(constants: Constants, node: Node) -> Node | None:
    """What stands for `node` when the layer before it, maybe seen in another order, does the same."""
    for x in node.all_input_nodes:
        seen: Any = x
        dims = list(range(len(getattr(tensor_of(x), "shape", ()))))
        while seen.target is aten.permute_copy.default and len(seen.users) == 1:
            dims = [seen.args[1][dim] % len(dims) for dim in dims]
            seen = seen.args[0]
        bounds = bounds_of(seen) if len(seen.users) == 1 else None
        layer = _layer(constants, seen if bounds is None else seen.args[0])
        if layer is None:
            continue
        spatial = 0 if layer.target is linear else len(_weight(layer).shape) - 2
        found = affine_step(constants, node, dims.index(len(dims) - 1 - spatial))
        if found is None or found[0] is not x:
            continue
        if bounds is not None and not _move_bounds(seen, bounds, found[1]):
            continue
        scale_layer(constants, layer, found[1].scale, found[1].shift)
        return x
    return None


def _move_bounds(node: Node, bounds: tuple[float, float], affine: Affine) -> bool:
    """Let `node` bound what is scaled before it by what scaling its own result would make of its bounds."""
    if bounds[0] > bounds[1]:  # the result is the second, whatever is bounded
        return False
    ends = torch.stack([bound * affine.scale + affine.shift for bound in bounds])
    low, high = ends.amin(0), ends.amax(0)
    if not bool((low == low[0]).all() and (high == high[0]).all()):
        return False
    set_bounds(node, float(low[0]), float(high[0]))
    return True


def _merged(constants: Constants, node: Node) -> Node | None:
    """The convolution that computes what a sum or a difference of branches did."""
    if node.target not in SUMS:
        return None
    a, b = node.args[:2]
    second = weight_of_second(node)
    if second is None:
        return None
    for base, other, factors in ((a, b, (1.0, second)), (b, a, (second, 1.0))):
        layer = _convolution(constants, base)
        if layer is None:
            continue
        branch = _convolution(constants, other)
        if branch is not None and branch is not layer and branch.args[0] is layer.args[0]:
            if _add_window(constants, layer, branch, factors):
                return layer
        elif _add_image(constants, layer, other, factors):
            return layer
    return None


def _convolution(constants: Constants, node: Any) -> Node | None:
    layer = _layer(constants, node)
    return None if layer is None or layer.target is linear or layer.args[6] else layer


def _weight(layer: Node) -> torch.Tensor:
    weight: Any = tensor_of(layer.args[1])
    return weight  # type: ignore[no-any-return]


def _window(layer: Node) -> list[tuple[int, int, int, int]]:
    """Taps, stride, padding and dilation of a convolution in each of its dimensions."""
    taps = [int(size) for size in _weight(layer).shape[2:]]
    given: list[Any] = [layer.args[3], layer.args[4], layer.args[5]]
    rest = [list(one) * (len(taps) if len(one) == 1 else 1) for one in given]
    return list(zip(taps, *rest, strict=True))


def _bias(constants: Constants, layer: Node) -> torch.Tensor:
    found = constants.get(layer.args[2])
    return torch.zeros(_weight(layer).shape[0], dtype=torch.float64) if found is None else found.double()


def _add_window(constants: Constants, base: Node, other: Node, factors: tuple[float, float]) -> bool:
    """Let `base` compute what `other` does too, if its window has all of the other's taps."""
    places = []
    for (k, step, p, d), (few, other_step, q, e) in zip(_window(base), _window(other), strict=True):
        first, rest = divmod(p - q, d)
        if step != other_step or rest or first < 0 or first + few > k or (few > 1 and d != e):
            return False
        places.append(slice(first, first + few))
    mine, theirs = (constants.derived(layer.args[1]) for layer in (base, other))  # type: ignore[arg-type]
    if mine.like.shape[:2] != theirs.like.shape[:2] or mine.like.dtype is not theirs.like.dtype:
        return False
    results = [sizes_of(tensor_of(layer)) for layer in (base, other)]  # type: ignore[arg-type]
    if base.args[8] != other.args[8] or not same_sizes(*results):
        return False

    def compute() -> torch.Tensor:
        weight = mine.tensor().double() * factors[0]
        weight[(slice(None), slice(None), *places)] += theirs.tensor().double() * factors[1]
        return weight.to(mine.like.dtype)

    how = recipe("merged", mine, theirs, factors, tuple((place.start, place.stop) for place in places))
    bias = _bias(constants, base) * factors[0] + _bias(constants, other) * factors[1]
    replace_parameters(constants, base, Derived.whole(mine.like, compute, how), bias)
    return True


def _add_image(constants: Constants, base: Node, other: Any, factors: tuple[float, float]) -> bool:
    """Let `base` add its own image, perhaps scaled, where `other` is that."""
    image, result, window = tensor_of(base.args[0]), tensor_of(base), _window(base)
    if image is None or result is None or image.dim() != len(window) + 2:
        return False
    tap = []
    for k, step, p, d in window:
        first, rest = divmod(p, d)
        if step != 1 or rest or first >= k:
            return False
        tap.append(torch.tensor(first))
    affine = _affine_of(constants, other, base.args[0])
    if affine is None or not same_sizes(sizes_of(image), sizes_of(result)):
        return False
    mine = constants.derived(base.args[1])  # type: ignore[arg-type]
    channels = torch.arange(mine.like.shape[0])

    def compute() -> torch.Tensor:
        weight = mine.tensor().double() * factors[0]
        weight[(channels, channels % mine.like.shape[1], *tap)] += affine.scale * factors[1]
        return weight.to(mine.like.dtype)

    how = recipe("with its image", mine, affine.scale, factors, tuple(map(int, tap)))
    bias = _bias(constants, base) * factors[0] + affine.shift * factors[1]
    replace_parameters(constants, base, Derived.whole(mine.like, compute, how), bias)
    return True


def _affine_of(constants: Constants, node: Any, image: Any) -> Affine | None:
    """`node` as an affine function of `image`, the same for all pixels of a channel."""
    if not isinstance(node, Node):
        return None
    if node is image:
        channels: Any = tensor_of(image).shape[1]  # type: ignore[union-attr]
        return Affine.identity(channels) if isinstance(channels, int) else None
    found = affine_step(constants, node, 1) if len(node.users) == 1 and tensor_of(node) is not None else None
    before = _affine_of(constants, found[0], image) if found is not None else None
    return before.then(found[1]) if before is not None and found is not None else None
