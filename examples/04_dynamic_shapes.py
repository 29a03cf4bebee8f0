"""One file, inputs of many sizes: each dynamic dimension has an upper bound.

Memory is planned at the bound, so no size ever needs more of it; what lies
outside the bound is refused with a message.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.export import Dim

import penlight


class Smooth(torch.nn.Module):
    """Mean and spread of each sequence after a small convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = torch.nn.Conv1d(1, 4, 5, padding=2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.filter(x[:, None]).relu()
        return y.mean(-1), y.amax(-1) - y.amin(-1)


def main() -> None:
    torch.manual_seed(0)
    model = Smooth().eval()
    shapes = {"x": {0: Dim("batch", max=4), 1: Dim("length", min=8, max=100)}}
    program = penlight.compile(model, (torch.randn(2, 50),), dynamic_shapes=shapes)
    with tempfile.TemporaryDirectory() as folder:
        loaded = penlight.load(program.save(Path(folder) / "smooth.pte"))
        for batch, length in ((1, 8), (4, 100), (3, 33)):
            x = torch.randn(batch, length)
            mean, spread = loaded(x.numpy())
            expected = model(x)
            for got, want in zip((mean, spread), expected, strict=True):
                np.testing.assert_allclose(got, want.detach().numpy(), atol=1e-5)
            print(f"[{batch}, {length}] -> {list(mean.shape)}, {list(spread.shape)}")
        try:
            loaded(np.zeros((1, 101), np.float32))
        except penlight.PenlightError as problem:
            print(problem)
        else:
            raise SystemExit("a length over its bound was accepted")


if __name__ == "__main__":
    main()
