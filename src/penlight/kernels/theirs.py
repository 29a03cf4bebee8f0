"""The operators of ExecuTorch 1.5.1's CPU kernels: what a file may call that is to run there too.

Data: what its Python bindings list. `tests/compat/test_operators.py` compares.
"""

from __future__ import annotations

_NAMES = {
    "aten": """
_adaptive_avg_pool2d.out _cdist_forward.out _conj_physical.out _fft_c2r.out _fft_r2c.out
_local_scalar_dense _log_softmax.out _native_batch_norm_legit.no_stats_out _native_batch_norm_legit.out
_native_batch_norm_legit_no_training.out _pdist_forward.out _softmax.out _to_copy.out
_upsample_bilinear2d_aa.out abs.out acos.out acosh.out add.Scalar_out add.out addmm.out alias_copy.out
amax.out amin.out any.all_out any.dims_out any.out arange.out arange.start_out argmax.out argmin.out
as_strided_copy.out asin.out asinh.out atan.out atan2.out atanh.out avg_pool2d.out
bitwise_and.Scalar_out bitwise_and.Tensor_out bitwise_left_shift.Tensor_Scalar_out
bitwise_left_shift.Tensor_out bitwise_not.out bitwise_or.Scalar_out bitwise_or.Tensor_out
bitwise_right_shift.Tensor_Scalar_out bitwise_right_shift.Tensor_out bitwise_xor.Scalar_out
bitwise_xor.Tensor_out bmm.out cat.out ceil.out clamp.Tensor_out clamp.out clone.out constant_pad_nd.out
convolution.out convolution_backward.out copy.out copy_ cos.out cosh.out cumsum.out detach_copy.out
diagonal_copy.out div.Scalar_mode_out div.Scalar_out div.out div.out_mode elu.out embedding.out
empty.out eq.Scalar_out eq.Tensor_out erf.out exp.out expand_copy.out expm1.out fill.Scalar_out
fill.Tensor_out flip.out floor.out floor_divide.out fmod.Scalar_out fmod.Tensor_out full.out
full_like.out gather.out ge.Scalar_out ge.Tensor_out gelu.out glu.out grid_sampler_2d.out gt.Scalar_out
gt.Tensor_out hardtanh.out index.Tensor_out index_put.out index_put_ index_select.out isinf.out
isnan.out le.Scalar_out le.Tensor_out leaky_relu.out lift_fresh_copy.out linear.out log.out log10.out
log1p.out log2.out logical_and.out logical_not.out logical_or.out logical_xor.out logit.out
lt.Scalar_out lt.Tensor_out masked_fill.Scalar_out masked_scatter.out masked_select.out max.dim_max
max.unary_out max_pool2d_with_indices.out max_pool2d_with_indices_backward.grad_input maximum.out
mean.dtype_out mean.out min.dim_min min.unary_out minimum.out mm.out mul.Scalar_out mul.out
narrow_copy.out native_dropout.out native_group_norm.out native_layer_norm.out ne.Scalar_out
ne.Tensor_out neg.out nonzero.out ones.out permute_copy.out pixel_shuffle.out pixel_unshuffle.out
pow.Scalar_out pow.Tensor_Scalar_out pow.Tensor_Tensor_out prod.int_out prod.out rand.out randn.out
reciprocal.out reflection_pad1d.out reflection_pad2d.out reflection_pad3d.out relu.out
remainder.Scalar_out remainder.Tensor_out repeat.out repeat_interleave.Tensor_out replication_pad1d.out
replication_pad2d.out replication_pad3d.out roll.out round.out rsqrt.out rsub.Scalar_out
scalar_tensor.out scatter.src_out scatter.value_out scatter_add.out select_copy.int_out
select_scatter.out sigmoid.out sign.out sin.out sinh.out slice_copy.Tensor_out slice_scatter.out
split_copy.Tensor_out split_with_sizes_copy.out sqrt.out squeeze_copy.dim_out squeeze_copy.dims_out
stack.out sub.Scalar_out sub.out sum.IntList_out sym_numel sym_size.int t_copy.out tan.out tanh.out
topk.values transpose_copy.int_out tril.out trunc.out unbind_copy.int_out unfold_copy.out
unsqueeze_copy.out upsample_bilinear2d.vec_out upsample_nearest2d.vec_out var.correction_out var.out
var_mean.correction_out view_as_real_copy.out view_copy.out where.self_out zeros.out
""",
    "dim_order_ops": """
_clone_dim_order.out _empty_dim_order.out _to_dim_order_copy.out
""",
    "executorch_prim": """
add.Scalar ceil.Scalar eq.Scalar et_copy_index.tensor et_view.default floordiv.Scalar floordiv.int
ge.Scalar gt.Scalar le.Scalar lt.Scalar mod.Scalar mod.int mul.Scalar neg.Scalar round.Scalar sub.Scalar
sym_float.Scalar sym_int.Scalar sym_ite.Scalar sym_max.Scalar sym_min.Scalar sym_not.Scalar
truediv.Scalar trunc.Scalar
""",
}

NAMESPACES = frozenset(_NAMES)
EXECUTORCH_OPS = frozenset(f"{space}::{name}" for space, names in _NAMES.items() for name in names.split())
