"""torch's transformers while they are traced, when no mask has values yet.

They look into their masks to choose a quicker way, which tracing cannot follow; and where they
would compute without the padded places, those are zeros in eager mode alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.modules import transformer as layers

_forward = layers.TransformerEncoder.forward
_QUESTION = "_detect_is_causal_mask"


@contextmanager
def traceable_transformers() -> Iterator[None]:
    """Have them take their masks as they are, and give what they give in eager mode without gradients."""
    before = getattr(layers, _QUESTION, None)  # torch's own, not for others: it may go
    # The answer only lets layers leave a mask out; the compiler finds constants that are causal itself.
    setattr(layers, _QUESTION, lambda mask, is_causal=None, size=None: is_causal is True)
    layers.TransformerEncoder.forward = _encode  # type: ignore[method-assign]
    try:
        yield
    finally:
        if before is None:
            delattr(layers, _QUESTION)
        else:
            setattr(layers, _QUESTION, before)
        layers.TransformerEncoder.forward = _forward  # type: ignore[method-assign]


def _encode(
    self: torch.nn.TransformerEncoder,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool | None = None,
) -> Tensor:
    padding = src_key_padding_mask
    if padding is None or mask is not None or src.dim() != 3 or not _leaves_padding_out(self):
        return _forward(self, src, mask, padding, is_causal)
    checks = getattr(self, "mask_check", True)  # not in modules that an older torch stored
    norm, self.norm, self.mask_check = self.norm, None, True
    try:
        result = _forward(self, src, mask, padding, is_causal)
    finally:
        self.norm, self.mask_check = norm, checks
    padded = padding if padding.dtype == torch.bool else padding != 0
    if checks:  # what is padded comes last, in each sequence
        padded = padded & (padded[:, 1:] >= padded[:, :-1]).all()
    result = result.masked_fill(padded.unsqueeze(-1), 0.0)
    return result if norm is None else norm(result)


def _leaves_padding_out(encoder: torch.nn.TransformerEncoder) -> bool:
    """Does it compute on nested tensors in eager mode, if what is padded comes last?"""
    allowed = torch.backends.mha.get_fastpath_enabled() and not torch.is_autocast_enabled()
    return allowed and getattr(encoder, "use_nested_tensor", False) and not encoder.layers[0].training
