"""Spectra of frames of a signal, and back, made of Fourier transforms and moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _refs
from torch._ops import OpOverload

aten = torch.ops.aten


def _stft(x, n_fft, hop_length=None, win_length=None, window=None, *options):  # type: ignore[no-untyped-def]
    return _refs.stft(x, n_fft, hop_length, win_length, window, False, "reflect", *options)


def _istft(  # type: ignore[no-untyped-def]
    x,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """Frames are put together by fold, and so is what the windows add up to: torch's own goes by samples."""
    complex_window = window is not None and window.is_complex()
    if return_complex or complex_window:
        return _refs.istft(
            x, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        )
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    spectra = x if x.dim() == 3 else x.unsqueeze(0)
    # The rest of a whole spectrum is the first half again.
    half = spectra[:, : n_fft // 2 + 1].transpose(1, 2)
    frames = torch.fft.irfft(half, n_fft, norm="ortho" if normalized else "backward")
    if window is None:
        window = torch.ones(size, dtype=frames.dtype)
    before = (n_fft - size) // 2
    window = aten.constant_pad_nd.default(window, [before, n_fft - size - before], 0.0)
    count = spectra.shape[2]
    end = n_fft + hop * (count - 1)

    known = all(isinstance(size, int) for size in spectra.shape)

    def joined(columns: Any) -> Any:
        if known:
            return aten.col2im.default(columns, [1, end], [1, n_fft], [1, 1], [0, 0], [1, hop]).flatten(1)
        places = torch.arange(n_fft).unsqueeze(1) + hop * torch.arange(count)
        return torch.zeros(columns.shape[0], end, dtype=columns.dtype).index_add(
            1, places.flatten(), columns.flatten(1)
        )

    signal = joined((frames * window).transpose(1, 2))
    weights = joined((window * window).unsqueeze(1).expand(n_fft, count).unsqueeze(0))
    first = n_fft // 2 if center else 0
    last = end - first if length is None else first + length
    result = signal[:, first:last] / weights[:, first:last]
    if length is not None and isinstance(end, int) and last > end:
        result = aten.constant_pad_nd.default(result, [0, last - end], 0.0)
    return result if x.dim() == 3 else result.squeeze(0)


SPLITS: dict[OpOverload, Callable[..., Any]] = {
    aten.istft.default: _istft,
    # torch's own in C++ fix a dynamic length.
    aten.stft.center: _refs.stft,
    aten.stft.default: _stft,
}
