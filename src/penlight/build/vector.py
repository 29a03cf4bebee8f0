"""The part of the optimized kernels that is compiled for one instruction set at a time."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from pathlib import Path

from penlight.build.select import Selection
from penlight.build.targets import Target
from penlight.ir.dtypes import DType

# Routines of vector/NAME.cpp, and the kernel files that call them.
_CALLERS = {
    "product": {
        *(
            "linear",
            "linear_strassen",
            "convolution_strassen",
            "grouped",
            "convolution",
            "expansion",
            "transposed",
        ),
        *("gates", "matmul", "recurrent"),
    },
    "short_product": {"linear", "linear_strassen", "convolution_strassen", "grouped", "convolution"},
    "split_product": {
        *("linear", "linear_strassen", "convolution", "convolution_strassen", "expansion"),
        *("gates", "matmul", "recurrent"),
    },
    "strassen": {"linear_strassen", "convolution_strassen"},
    "few_channels": {"convolution"},
    "few_channels_tiles": {"convolution"},
    "depthwise": {"convolution", "expansion"},
    "depthwise_sliding": {"convolution", "expansion"},
    "depthwise_windows": {"convolution", "expansion"},
    "expansion": {"expansion", "stem"},
    "depthwise_frames": {"video"},
    "attention": {"attention"},
    "rotary": {"rotary"},
    "recurrent": {"recurrent"},
    "matrix": {"matmul", "recurrent"},
    "pool": {"pool", "average_pool", "adaptive_pool"},
    "pool_places": {"pool_places"},
    "upsample": {"upsample"},
    "rows": {"rows"},
    "softmax": {"softmax"},
    "reduce": {"reduce"},
    "running": {"running"},
    "fft": {"fft"},
    "convert": {"numbers"},
    "numbers": {"numbers", "fold"},
    "scale_panels": {"gates"},
    "groups": {"group_norm"},
    "elementwise": {"elementwise"},
    "grid_sample": {"grid_sample"},
    "topk": {"topk"},
    "random": {"random"},
    "dense": {"linalg"},
    "bags": {"embedding_bag"},
    "winograd": {"convolution"},
}
# Routines that are for some dtypes alone.
_SHORT = frozenset({DType.float16, DType.bfloat16})
_INTEGERS = frozenset({DType.uint8, DType.int8, DType.int16, DType.int32, DType.int64})
_DTYPES = {"short_product": _SHORT, "convert": _SHORT, "numbers": _INTEGERS | {DType.bool}}
# Routines that another of the library stands in for.
_FASTER = {"split_product", "strassen", "winograd", "expansion", "few_channels_tiles"}
# Beside the target's own, each chosen when the program starts if the processor has it.
_WIDER = {
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mprfchw"),
    "avx512": (
        *("-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mfma", "-mf16c", "-mprfchw"),
        "-mprefer-vector-width=512",
    ),
}
_SMALL = ("-Os", "-Oz")
# A multiply and an add are fused wherever the instruction set has that, but for numbers that are
# the same on every machine.
_FUSED = ("-ffp-contract=fast",)
_NOT_FUSED = {"random"}
# Members are loaded as they were stored, one by one (cmake/PenlightOptimized.cmake).
_ONE_BY_ONE = {"split_product"}


def instruction_sets(target: Target, optimize: str) -> list[str]:
    """For size the target's own alone; for speed wider ones beside it."""
    name = platform.machine().lower() if not target.triple else target.triple.partition("-")[0]
    return ["base", *_WIDER] if name in ("x86_64", "amd64") and optimize not in _SMALL else ["base"]


def wider_defines(sets: Collection[str]) -> list[str]:
    """For the file that chooses between them."""
    return [f"PENLIGHT_WITH_{name.upper()}" for name in sets if name != "base"]


def vector_files(
    library: Path, chosen: Mapping[Path, frozenset[DType]], optimize: str
) -> tuple[list[Path], list[str]]:
    """Files of `library`/vector that kernel files call, and defines that leave out the others.

    Args:
        chosen: kernel file -> the dtypes that it is compiled for.
    """
    dtypes = {path.stem: mask for path, mask in chosen.items() if path.parent == library}
    used = {
        routine
        for routine, callers in _CALLERS.items()
        for caller in callers & dtypes.keys()
        if routine not in _DTYPES or _DTYPES[routine] & dtypes[caller]
    }
    if optimize in _SMALL:
        used -= _FASTER
    files = [
        path
        for path in sorted((library / "vector").glob("*.cpp"))
        if path.stem in used or path.stem not in _CALLERS
    ]
    defines = [f"PENLIGHT_WITHOUT_{routine.upper()}" for routine in _CALLERS if routine not in used]
    return files, [*defines, *(["PENLIGHT_FEW_TILES"] if optimize in _SMALL else [])]


def caller_defines(optimize: str) -> list[str]:
    """For kernel files: what calls routines that builds for size never have. The same for all of these,
    so that other models find the objects."""
    return ["PENLIGHT_WITHOUT_WINOGRAD"] if optimize in _SMALL else []


def vector_flags(instruction_set: str, routine: str) -> tuple[str, ...]:
    return (
        *(() if routine in _NOT_FUSED else _FUSED),
        *(("-fno-tree-slp-vectorize",) if routine in _ONE_BY_ONE else ()),
        *_WIDER.get(instruction_set, ()),
    )


def chosen_defines(selection: Selection) -> list[str]:
    """For every file of the library: activations of products and convolutions, elementwise operations."""
    uses = selection.operators.values()
    return [
        *_bits("PENLIGHT_ACTIVATIONS", [use.activations for use in uses], 16, "u"),
        *_bits("PENLIGHT_ELEMENT_OPS", [use.elements for use in uses], 64, "ull"),
    ]


def _bits(name: str, used: Collection[set[int] | None], count: int, suffix: str) -> list[str]:
    """A bit for each number; all are compiled where somebody may use any."""
    numbers: set[int] = set()
    for part in used:
        if part is None:
            return []
        numbers |= part
    return [f"{name}={sum(1 << number for number in numbers if 0 <= number < count):#x}{suffix}"]
