"""The ordered lists of passes, by the dialect they run on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch._ops import OpOverload

from penlight.passes.assertions import remove_assertions
from penlight.passes.attention_rows import fuse_attention_views
from penlight.passes.attention_scale import fold_attention_scale
from penlight.passes.base import Pass
from penlight.passes.batches_first import keep_batches_first
from penlight.passes.causal_masks import use_causal_masks
from penlight.passes.channels_last import keep_channels_last, read_row_major
from penlight.passes.constant_products import constant_products
from penlight.passes.contiguous import resolve_layouts
from penlight.passes.convolve_frames import convolve_frames
from penlight.passes.convolve_parts import convolve_parts
from penlight.passes.drop_expansions import drop_expansions
from penlight.passes.empties import replace_empty_results
from penlight.passes.even_pools import pool_evenly
from penlight.passes.fold_affine import fold_affine
from penlight.passes.fold_batch_norm import fold_batch_norm
from penlight.passes.fold_constants import fold_constants
from penlight.passes.fold_padding import fold_padding
from penlight.passes.fuse_elementwise import fuse_elementwise
from penlight.passes.fuse_epilogues import fuse_epilogues
from penlight.passes.fuse_expansions import fuse_expansions
from penlight.passes.fuse_gates import fuse_gates
from penlight.passes.image_signals import signals_as_images
from penlight.passes.image_views import read_images_as_pixels
from penlight.passes.merge_projections import merge_projections
from penlight.passes.merge_views import merge_views
from penlight.passes.no_ops import remove_no_ops
from penlight.passes.pack_groups import pack_groups
from penlight.passes.pack_weights import pack_weights
from penlight.passes.pixel_shuffles import shuffle_by_views
from penlight.passes.reductions import simplify_reductions
from penlight.passes.rms_norm import fuse_rms_norm
from penlight.passes.rotary import fuse_rotary
from penlight.passes.scalars import promote
from penlight.passes.shared_factors import share_factors
from penlight.passes.simplify_batch_norm import simplify_batch_norm
from penlight.passes.simplify_views import simplify_views
from penlight.passes.single_images import batch_single_images
from penlight.passes.single_precision import compute_in_float32
from penlight.passes.sliding_sums import sum_sliding_windows
from penlight.passes.subexpressions import merge_subexpressions
from penlight.passes.subpixels import split_into_pixels
from penlight.passes.tune_convolutions import Measure, tune_convolutions
from penlight.passes.unread_indices import drop_unread_indices, drop_unread_vectors, pool_values
from penlight.passes.unread_taps import drop_unread_taps
from penlight.passes.unstrided_transposed import turn_transposed
from penlight.passes.use_strassen import use_strassen
from penlight.passes.whole_rows import take_whole_rows
from penlight.passes.written_activations import fuse_written_activations
from penlight.passes.written_attention import fuse_written_attention

ATEN: tuple[Pass, ...] = (remove_assertions,)

CORE: tuple[Pass, ...] = ()

# What makes a Core ATen graph an edge graph.
TO_EDGE: tuple[Pass, ...] = (remove_assertions, promote, resolve_layouts)

_SIMPLER: tuple[Pass, ...] = (
    replace_empty_results,
    drop_unread_indices,
    drop_unread_vectors,
    pool_evenly,
    turn_transposed,
    remove_no_ops,
    simplify_views,
    merge_views,
    remove_no_ops,
    merge_subexpressions,
)
_FOLDED: tuple[Pass, ...] = (
    fold_constants,
    fold_batch_norm,
    fold_padding,
    drop_unread_taps,
    merge_subexpressions,
)
EDGE = (*_SIMPLER, *_FOLDED)


def edge_for(
    whole: Mapping[OpOverload, OpOverload],
    in_rows: OpOverload | None = None,
    rotary: OpOverload | None = None,
) -> tuple[Pass, ...]:
    """EDGE, and what fuses into the composites of `whole` (ATen's operator -> Penlight's).

    `in_rows` is attention over heads that are columns of rows, and `rotary` turns such,
    if there are kernels for them.
    """
    rms_norm = whole.get(torch.ops.aten.rms_norm.default)
    attention = whole.get(torch.ops.aten.scaled_dot_product_attention.default)
    if not whole:
        return (*EDGE, simplify_views, merge_views, remove_no_ops)
    single = compute_in_float32(whole.values())
    passes: list[Pass] = [*_SIMPLER, take_whole_rows, single, remove_no_ops, simplify_views, *_FOLDED]
    passes += [simplify_batch_norm, drop_expansions, fold_affine, fuse_written_activations]
    if attention is not None:
        passes += [fuse_written_attention(attention), simplify_views, merge_views, remove_no_ops]
        passes += [fold_attention_scale(attention), use_causal_masks(attention)]
    passes += [share_factors, fold_constants]
    if rms_norm is not None:
        passes.append(fuse_rms_norm(rms_norm))
    if rotary is not None:
        passes.append(fuse_rotary(rotary))
    if attention is not None and in_rows is not None:
        passes += [fuse_attention_views(attention, in_rows), keep_batches_first(in_rows)]
        passes.append(merge_projections(in_rows))
    return (*passes, simplify_views, merge_views, remove_no_ops)


def packed(
    linear: OpOverload,
    convolution: OpOverload,
    transposed: OpOverload,
    embedding: OpOverload,
    pack: OpOverload,
    max_pool: OpOverload,
    expand_depthwise: OpOverload,
    video: OpOverload,
    grouped: OpOverload,
    convolution_of_parts: OpOverload,
    linear_strassen: OpOverload,
    convolution_strassen: OpOverload,
    stem: OpOverload,
    squeeze_excite: OpOverload,
    gated_convolution: OpOverload,
    beside_layers: Collection[str],
    beside_products: Collection[str],
    beside_groups: Collection[str],
) -> tuple[Pass, ...]:
    """Layers and others become `linear`, `convolution`, ... and `grouped`, over packed weights.

    Images stay channels-last. Constants of these names are read beside layers, products, or groups, too.
    """
    return (
        constant_products(beside_products),
        convolve_frames(video, beside_layers),
        simplify_reductions,
        sum_sliding_windows,
        simplify_views,
        fold_constants,
        split_into_pixels,
        pack_weights(linear, convolution, transposed, embedding, pack, beside_layers),
        pack_groups(grouped, beside_groups),
        signals_as_images,
        fold_constants,
        shuffle_by_views,
        batch_single_images,
        keep_channels_last(max_pool),
        pool_values(max_pool),
        read_images_as_pixels,
        read_row_major(convolution),
        fuse_epilogues(linear, convolution, transposed, video),
        fuse_expansions(convolution, expand_depthwise, stem),
        convolve_parts(convolution, convolution_of_parts),
        merge_subexpressions,
        fuse_gates(linear, convolution, squeeze_excite, gated_convolution),
        use_strassen((linear, linear_strassen), (convolution, convolution_strassen)),
    )


def tuned(convolution: OpOverload, direct: OpOverload, measure: Measure) -> tuple[Pass, ...]:
    """What is chosen by measuring, when asked to."""
    return (tune_convolutions(convolution, direct, measure),)


def chains(elementwise: OpOverload) -> tuple[Pass, ...]:
    """Chains of elementwise operators become one call of `elementwise` each."""
    return (fuse_elementwise(elementwise),)


# What makes programs smaller or faster and can be left out, by name.
OPTIONAL = frozenset(
    (
        *(function.__name__ for function in EDGE),
        *(
            "take_whole_rows",
            "compute_in_float32",
            "simplify_batch_norm",
            "drop_expansions",
            "fold_affine",
            "fuse_written_activations",
            "fuse_written_attention",
            "fold_attention_scale",
            "use_causal_masks",
            "share_factors",
            "fuse_rms_norm",
            "fuse_rotary",
        ),
        *("fuse_attention_views", "keep_batches_first", "merge_projections", "constant_products"),
        *(
            "convolve_frames",
            "simplify_reductions",
            "sum_sliding_windows",
            "split_into_pixels",
            "pack_weights",
            "pack_groups",
            "signals_as_images",
            "shuffle_by_views",
            "batch_single_images",
            "keep_channels_last",
            "pool_values",
        ),
        *("read_images_as_pixels", "read_row_major"),
        *("fuse_epilogues", "fuse_expansions", "convolve_parts", "use_strassen", "fuse_gates"),
        "fuse_elementwise",
    )
)
