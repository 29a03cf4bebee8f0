"""The portable library on one thread: products and convolutions, in GFLOP/s.

    python -m benchmarks.portable [--seconds 0.5] [WORD]

Only the operator counts, by the runtime's own clock; the shortest time of many.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .engine import shortest

BAR = 8.0  # GFLOP/s

# channels in, out, size of the image, kernel, stride, groups
CONVOLUTIONS = (
    (64, 64, 56, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (64, 128, 56, 3, 2, 1),
    (3, 64, 224, 7, 2, 1),
    (3, 32, 224, 3, 2, 1),
    (256, 64, 56, 1, 1, 1),
    (64, 64, 56, 3, 1, 4),
)
# channels, size of the image, kernel, stride: those of MobileNets and EfficientNets
DEPTHWISE = (
    (32, 112, 3, 1),
    (96, 112, 3, 2),
    (144, 56, 3, 1),
    (144, 56, 3, 2),
    (384, 14, 3, 1),
    (576, 14, 3, 2),
    (960, 7, 3, 1),
    (72, 56, 5, 2),
    (120, 28, 5, 1),
    (240, 28, 5, 2),
    (672, 14, 5, 1),
    (960, 7, 5, 1),
    (12, 64, 3, 1),
)


class Convolution(nn.Module):
    def __init__(self, stride: int, padding: int, groups: int) -> None:
        super().__init__()
        self.arguments = (stride, padding, 1, groups)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.conv2d(x, weight, bias, *self.arguments)


class Product(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


def calls() -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...], int]]:
    """Name, module, inputs, and how many floating-point operations."""
    depthwise = tuple((c, c, size, kernel, stride, c) for c, size, kernel, stride in DEPTHWISE)
    for channels, outputs, size, kernel, stride, groups in CONVOLUTIONS + depthwise:
        x = torch.randn(1, channels, size, size)
        weight = torch.randn(outputs, channels // groups, kernel, kernel)
        module = Convolution(stride, kernel // 2, groups)
        inputs = (x, weight, torch.randn(outputs))
        flop = 2 * module(*inputs).numel() * weight[0].numel()
        kind = "depthwise" if groups == channels else f"conv, {groups} groups" if groups > 1 else "conv"
        name = f"{kind} {kernel}x{kernel} /{stride} {channels}-{outputs} of {size}x{size}"
        yield name, module, inputs, flop
    for m, k, n in ((64, 64, 64), (384, 384, 384), (128, 768, 3072), (1, 1024, 1024)):
        yield f"matmul {m}x{k}x{n}", Product(), (torch.randn(m, k), torch.randn(k, n)), 2 * m * k * n


def rate(module: nn.Module, inputs: tuple[Tensor, ...], flop: int, seconds: float) -> float:
    """GFLOP/s of the one operator."""
    import penlight

    program = penlight.compile(module, inputs, target="portable")
    method = penlight.load(program.to_bytes(), libraries="portable", threads=1)["forward"]
    names = method.instruction_names()
    own = [i for i, name in enumerate(names) if "convolution" in name or "mm" in name]
    best: list[Any] = [float("inf")]

    def once() -> None:
        times = method.times(inputs, repeats=1)
        best[0] = min(best[0], sum(times[i] for i in own))

    shortest(once, seconds)
    return float(flop / best[0])


def main() -> int:
    parser = argparse.ArgumentParser(description="GFLOP/s of the portable library on one thread.")
    parser.add_argument("word", nargs="?", default="", help="only what has it in its name")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each; more on a busy machine")
    args = parser.parse_args()
    slow = 0
    for name, module, inputs, flop in calls():
        if args.word in name:
            found = rate(module, inputs, flop, args.seconds)
            slow += found < BAR
            print(f"{name:44}{found:7.1f} GFLOP/s{'' if found >= BAR else '  below the bar'}", flush=True)
    print(f"{slow} below {BAR:g} GFLOP/s")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
