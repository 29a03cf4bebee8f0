"""A model that remembers: its buffers are state of the program, kept between calls.

State starts at the values it had in PyTorch, belongs to one loaded program, and
can be read, written and put back.
"""

from __future__ import annotations

import torch

import penlight


class Average(torch.nn.Module):
    """Mean of all it has been given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.count.add_(1)
        return self.total / self.count


def main() -> None:
    program = penlight.compile(Average(), (torch.zeros(3),))
    model = penlight.load(program.to_bytes())
    for x in ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]):
        print("mean", model(torch.tensor(x)).tolist())
    print("state", {name: model.state[name].tolist() for name in model.state})
    assert model.state["total"].tolist() == [4.0, 4.0, 4.0]

    model.state["count"] = 4.0
    print("mean of 5", model(torch.tensor([1.0, 1.0, 1.0])).tolist())

    model.reset()
    assert float(model.state["count"]) == 0
    print("mean of 1", model(torch.tensor([7.0, 8.0, 9.0])).tolist())


if __name__ == "__main__":
    main()
