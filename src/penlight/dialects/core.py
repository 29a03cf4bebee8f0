"""Core ATen: which operators stay whole, and what splits the others.

An operator is legal if torch tags it as core, or if a kernel of the chosen
libraries computes it whole; the table of kernels decides, not a second list.
The target `portable` may use only what ExecuTorch's CPU kernels have as well,
so there the list is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import torch
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch._decomp.decompositions import upsample_compute_output_size
from torch._ops import OpOverload

from penlight.dialects import exchanged, grouped, images, matrices, ordering, rare, spectra, volumes
from penlight.dialects.penlight_ops import twins
from penlight.dialects.recurrent import (
    has_projections,
    max_pool1d,
    split_gru,
    split_gru_cell,
    split_lstm,
    split_lstm_cell,
    split_rnn,
)
from penlight.dialects.user_operators import Splits
from penlight.kernels.out_variants import by_naming_rule, out_variant
from penlight.kernels.table import OpTable

aten = torch.ops.aten

# Not core, but ExecuTorch's CPU kernels have them: kept whole for target "portable".
PORTABLE_WHOLE = frozenset(
    {
        "aten::_upsample_bilinear2d_aa.out",
        "aten::bitwise_left_shift.Tensor_Scalar_out",
        "aten::bitwise_left_shift.Tensor_out",
        "aten::bitwise_right_shift.Tensor_Scalar_out",
        "aten::bitwise_right_shift.Tensor_out",
        "aten::floor_divide.out",
        "aten::glu.out",
        "aten::linear.out",
        "aten::logit.out",
        "aten::masked_fill.Scalar_out",
        "aten::masked_select.out",
        "aten::max.unary_out",
        "aten::min.unary_out",
        "aten::pixel_shuffle.out",
        "aten::pixel_unshuffle.out",
        "aten::repeat_interleave.Tensor_out",
        "aten::replication_pad1d.out",
        "aten::roll.out",
        "aten::rsub.Scalar_out",
        "aten::stack.out",
        "aten::tril.out",
        "aten::unfold_copy.out",
        "aten::view_as_real_copy.out",
    }
)

# Better split for every target, though there are kernels: the parts are views or numbers, or what passes
# look for. With baddbmm attention is written; the halves that glu takes need no copy of their own. Of polar's
# parts, sines and cosines have vector code.
# What solves and inverts splits complex matrices alone.
_SPLIT_ANYWAY = frozenset(
    {
        aten._linalg_solve_ex.default,
        aten.baddbmm.default,
        aten.glu.default,
        aten.linalg_inv_ex.default,
        aten.polar.default,
        aten.squeeze.default,
    }
)

# Never kept for having a kernel: views and copies, which later passes want to see as the core has them.
_NEVER_WHOLE = frozenset(
    {
        "aten::_unsafe_view",
        "aten::contiguous",
        "aten::detach_copy",
        "aten::dropout",
        "aten::flatten",
        "aten::narrow",
        "aten::narrow_copy",
        "aten::reshape",
        "aten::t_copy",
        "aten::to",
        "aten::transpose_copy",
    }
)


def _batch_norm(x, weight, bias, mean, var, training, momentum, eps, cudnn=False):  # type: ignore[no-untyped-def]
    """For inference; torch's own makes the form that also returns training statistics."""
    if training:
        if mean is None:
            return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)[0]
        return NotImplemented
    return aten._native_batch_norm_legit_no_training.default(x, weight, bias, mean, var, momentum, eps)[0]


def _diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):  # type: ignore[no-untyped-def]
    places = torch.arange(x.numel()).reshape(x.shape).diagonal(offset, dim1, dim2)
    return aten.scatter.src(x.reshape(-1), 0, places.reshape(-1), source.reshape(-1)).reshape(x.shape)


def _trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):  # type: ignore[no-untyped-def]
    if (expand1, expand2, expand3, sumdim) == ([1, 3], [0], [1, 2], [2, 3]):
        # Of nn.Bilinear: most of it is a matrix product with the weights.
        outputs, inputs, depth = b.shape
        rows = torch.mm(c, b.reshape(outputs * inputs, depth).t())
        return (rows.reshape(-1, outputs, inputs) * a.unsqueeze(1)).sum(2, dtype=a.dtype)
    factors = []
    for factor, places in ((a, expand1), (b, expand2), (c, expand3)):
        for place in places:
            factor = factor.unsqueeze(place)
        factors.append(factor)
    product = factors[0] * factors[1] * factors[2]
    return product.sum(sumdim, dtype=product.dtype) if sumdim else product


def _embedding_renorm(weight, indices, max_norm, norm_type):  # type: ignore[no-untyped-def]
    """Rows that are looked up, where they are too long, cut to `max_norm`."""
    touched = torch.zeros(weight.shape[0], dtype=torch.bool).index_put(
        (indices.reshape(-1),), torch.ones((), dtype=torch.bool)
    )
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    scale = torch.where(touched & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    return weight * scale.unsqueeze(1)


def _rrelu(x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):  # type: ignore[no-untyped-def]
    """`noise` is for a backward pass, which there is none of."""
    if not training:
        return aten.leaky_relu.default(x, (lower + upper) / 2)
    return torch.where(x <= 0, x * (torch.rand_like(x) * (upper - lower) + lower), x)


def _rrelu_functional(x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):  # type: ignore[no-untyped-def]
    return _rrelu(x, noise, lower, upper, training), noise  # type: ignore[no-untyped-call]


def _addbmm(x, a, b, *, beta=1, alpha=1):  # type: ignore[no-untyped-def]
    # The batch is summed over as one more part of the rows: a single product.
    wide = a.permute(1, 0, 2).reshape(a.shape[1], -1)
    return torch.addmm(x, wide, b.reshape(-1, b.shape[2]), beta=beta, alpha=alpha)


def _instance_norm(x, weight, bias, mean, var, use_input_stats, momentum, eps, _):  # type: ignore[no-untyped-def]
    """Of each channel alone: torch's own makes one batch of all, which channels-last images are not."""
    if not use_input_stats or mean is not None or var is not None or not isinstance(x.shape[1], int):
        op = aten.instance_norm.default
        return op.decompose(x, weight, bias, mean, var, use_input_stats, momentum, eps, False)
    return torch.group_norm(x, x.shape[1], weight, bias, eps)


def _glu(x, dim=-1):  # type: ignore[no-untyped-def]
    taken, gate = exchanged.wide(x).split(x.shape[dim] // 2, dim)
    return (taken * gate.sigmoid()).to(x.dtype)


def _pad(x, pad, mode="constant", value=None):  # type: ignore[no-untyped-def]
    """Circular pads by joining; torch's own write into an empty tensor, part by part."""
    sizes = [x.shape[-1 - place // 2] for place in range(len(pad))]
    known = all(isinstance(number, int) for number in (*pad, *sizes))
    if mode != "circular" or not known or any(not 0 <= p <= size for p, size in zip(pad, sizes, strict=True)):
        return aten.pad.default.decompose(x, pad, mode, value)
    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        d, size = x.dim() - 1 - place, x.shape[-1 - place]
        parts = (x.narrow(d, size - before, before), x, x.narrow(d, 0, after))
        x = torch.cat([part for part in parts if part.shape[d] or part is x], d)
    return x


def _resize_signal(op: OpOverload, resize: OpOverload) -> Callable[..., Any]:
    """A signal of one dimension as an image of height 1."""
    parts = decomposition_table.get(op, op.decompose)

    def split(x: Any, size: Any, *rest: Any) -> Any:
        numbers = [*x.shape, *(size or ())]
        if 0 in [number for number in numbers if isinstance(number, int)]:
            return parts(x, size, *rest)  # of an image, torch refuses none
        *options, factors = rest
        sizes = upsample_compute_output_size(x.shape, size, factors)
        return resize(x.unsqueeze(2), [1, *sizes], *options, None, *(factors or (None,))).squeeze(2)

    return split


def _bicubic(x, size, align_corners, factors):  # type: ignore[no-untyped-def]
    """With the sizes that are known; torch's own reads sixteen images of the result's size."""
    sizes = upsample_compute_output_size(x.shape, size, factors)
    return aten.upsample_bicubic2d.default(x, sizes, align_corners, *(factors or (None, None)))


def _empty_permuted(size, physical_layout, **options):  # type: ignore[no-untyped-def]
    return torch.empty(size, dtype=options.get("dtype"))


def _affine_grid(theta, size, align_corners):  # type: ignore[no-untyped-def]
    """What each axis adds to the positions, and then their sum; torch's own multiplies every position."""
    batch, _, *space = size
    if not all(isinstance(n, int) for n in space):
        return decomposition_table[aten.affine_grid_generator.default](theta, size, align_corners)
    dims, transform = len(space), exchanged.wide(theta)
    grid = transform[:, :, dims].reshape(batch, dims, *[1] * dims)
    for axis, n in enumerate(space):  # the last one, which is the longest loop, at last
        steps = torch.linspace(-1, 1, n, dtype=grid.dtype) if n > 1 else torch.zeros(n, dtype=grid.dtype)
        steps = (steps if align_corners else steps * ((n - 1) / n)).reshape(n, *[1] * (dims - 1 - axis))
        grid = grid + transform[:, :, dims - 1 - axis].reshape(batch, dims, *[1] * dims) * steps
    return grid.permute(0, *range(2, dims + 2), 1).contiguous().to(theta.dtype)


def _polar(size, angle):  # type: ignore[no-untyped-def]
    return torch.complex(size * angle.cos(), size * angle.sin())


def _alpha_dropout(x, p, train):  # type: ignore[no-untyped-def]
    """torch's own shifts the result the other way."""
    if not train or p in (0, 1):
        return aten.mul.Scalar(x, 0.0 if train and p == 1 else 1.0)
    alpha = 1.7580993408473766
    scale = ((alpha * alpha * p + 1) * (1 - p)) ** -0.5
    kept = aten.bernoulli.p(x, 1 - p)
    return (x * kept) * scale + (kept - (1 - p)) * (alpha * scale)


def _shift(whole: OpOverload) -> Callable[..., Any]:
    """`x << n` as the operator with a name, which ExecuTorch has; that one takes no floats."""

    def split(x: Any, by: Any) -> Any:
        return NotImplemented if x.is_floating_point() else whole(x, by)

    return split


# In place of torch's decompositions, which hide what a kernel or a pass wants.
_OWN_DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.__lshift__.Scalar: _shift(aten.bitwise_left_shift.Tensor_Scalar),
    aten.__lshift__.Tensor: _shift(aten.bitwise_left_shift.Tensor),
    aten.__rshift__.Scalar: _shift(aten.bitwise_right_shift.Tensor_Scalar),
    aten.__rshift__.Tensor: _shift(aten.bitwise_right_shift.Tensor),
    aten._embedding_bag_forward_only.default: aten._embedding_bag.default,
    aten.addbmm.default: _addbmm,
    aten.affine_grid_generator.default: _affine_grid,
    aten.alpha_dropout.default: _alpha_dropout,
    aten.batch_norm.default: _batch_norm,
    aten._unsafe_view.default: aten.view.default,
    aten._trilinear.default: _trilinear,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.embedding_renorm.default: _embedding_renorm,
    aten.empty_permuted.default: _empty_permuted,
    aten.gru.input: split_gru,
    aten.gru_cell.default: split_gru_cell,
    aten.glu.default: _glu,
    aten.instance_norm.default: _instance_norm,
    aten.lstm.input: split_lstm,
    aten.lstm_cell.default: split_lstm_cell,
    aten.max_pool1d.default: max_pool1d,
    aten.pad.default: _pad,
    aten.polar.default: _polar,
    aten.rnn_relu.input: split_rnn(torch.relu),
    aten.rnn_tanh.input: split_rnn(torch.tanh),
    aten.rrelu_with_noise.default: _rrelu,
    aten.rrelu_with_noise_functional.default: _rrelu_functional,
    aten.upsample_bicubic2d.vec: _bicubic,
    aten.upsample_linear1d.vec: _resize_signal(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.default),
    aten.upsample_nearest1d.vec: _resize_signal(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.default),
    **exchanged.SPLITS,
    **grouped.SPLITS,
    **images.SPLITS,
    **matrices.SPLITS,
    **ordering.SPLITS,
    **rare.SPLITS,
    **spectra.SPLITS,
    **volumes.SPLITS,
}


def legal_for(target: str, table: OpTable, libraries: tuple[str, ...]) -> Callable[[OpOverload], bool]:
    """Does an operator stay as it is for `target`?"""
    splits = decompositions(target, table, libraries)

    @cache
    def legal(op: OpOverload) -> bool:
        if op.namespace not in ("aten", "prims"):
            return op not in splits and not _is_composite(op)  # the user's own operators, and Penlight's
        name = (out_variant(op) or by_naming_rule(op)).op
        if name.split(".")[0] in _NEVER_WHOLE or op in _SPLIT_ANYWAY:
            return False
        if torch.Tag.core in op.tags:
            # A core operator without a kernel is split if it can be.
            return not (op in splits or _is_composite(op)) or has_kernel(name) or op.is_view
        return has_kernel(name)

    def has_kernel(name: str) -> bool:
        return name in PORTABLE_WHOLE if target == "portable" else bool(table.rows(name, libraries))

    return legal


def decompositions(
    target: str, table: OpTable, libraries: tuple[str, ...]
) -> Mapping[OpOverload, Callable[..., Any]]:
    """How each operator is split.

    Composites that a kernel of Penlight's computes whole become that operator,
    and behind torch's core table stands the rest of its decompositions, for what
    is not core.
    """
    splits = dict(_torch_decompositions())
    splits.update(_OWN_DECOMPOSITIONS)
    if target != "portable":
        splits.update({op: _whole_if(op, twin) for op, twin in twins(table, libraries).items()})
    return Splits(splits, table, libraries)


def _whole_if(op: OpOverload, twin: OpOverload) -> Callable[..., Any]:
    """The kernel's operator, where it can do what is asked; else the parts."""
    if op is aten._grouped_mm.default:
        return grouped.as_linear(twin)
    cannot = _CANNOT.get(op)
    if cannot is None:
        return twin
    own = _OWN_DECOMPOSITIONS.get(op) or op.decompose

    def split(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs) if cannot(*args, **kwargs) else twin(*args, **kwargs)

    return split


def _drops_out(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, *_: Any, **__: Any
) -> bool:
    return dropout_p > 0


def _projects(x: Any, hx: Any, params: Any, has_biases: bool, layers: int, *rest: Any) -> bool:
    return has_projections(params, has_biases, layers, rest[2])


# What the kernels of Penlight's composites leave to their parts.
_CANNOT: dict[OpOverload, Callable[..., bool]] = {
    aten.scaled_dot_product_attention.default: _drops_out,
    aten.lstm.input: _projects,
}


@lru_cache(maxsize=1)
def _torch_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Of operators that are not composites: listing those takes torch longer than a small model's export.

    `decompose` asks each composite that it meets. Those that write or draw numbers have their
    parts here.
    """
    splits: dict[Any, Callable[..., Any]] = {
        op: split
        for op, split in decomposition_table.items()
        if isinstance(op, OpOverload)
        and torch.Tag.core not in op.tags
        and op.namespace == "aten"
        and (op is aten.dropout.default or op._schema.is_mutable or not _is_composite(op))
    }
    splits.update(_core_aten_decompositions_post_autograd())
    return splits


def _is_composite(op: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
