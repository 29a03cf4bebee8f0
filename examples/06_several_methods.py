"""Two entry points in one file, over one set of weights: an autoencoder's two halves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import penlight


class Encoder(nn.Module):
    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(x)


class Decoder(nn.Module):
    def __init__(self, shared: nn.Linear) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, code: Tensor) -> dict[str, Tensor]:
        return {"x": code @ self.shared.weight, "size": code.square().sum(-1)}


def main() -> None:
    torch.manual_seed(0)
    shared = nn.Linear(256, 16)
    encoder, decoder = Encoder(shared).eval(), Decoder(shared).eval()
    x = torch.randn(2, 256)
    code = encoder(x).detach()
    program = penlight.compile({"encode": (encoder, (x,)), "decode": (decoder, (code,))})
    content = program.to_bytes()
    weight = shared.weight.numel() * 4
    print(f"file {len(content)} bytes; the shared weight is {weight} of them, once")
    assert len(content) < 2 * weight

    model = penlight.load(content)
    print("methods", ", ".join(model.methods))
    got = model["decode"](model["encode"](x))
    torch.testing.assert_close(got["x"], decoder(code)["x"].detach(), atol=1e-4, rtol=1e-4)
    print("decoded", list(got["x"].shape), "and", list(got["size"].shape))


if __name__ == "__main__":
    main()
