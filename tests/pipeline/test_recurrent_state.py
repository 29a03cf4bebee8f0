"""States that are computed from one another: each keeps its own value until the end of a call."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import penlight


class Cell(nn.Module):
    """An LSTM-like cell whose new memory is read for the new hidden state, and dies there."""

    def __init__(self, hidden_first: bool, returned: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 16)
        self.hidden_first, self.returned = hidden_first, returned
        self.register_buffer("hidden", torch.zeros(2, 8))
        self.register_buffer("memory", torch.zeros(2, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        gate, new = (self.layer(x) + self.hidden.repeat(1, 2)).chunk(2, -1)
        memory = self.memory * gate.sigmoid() + new.tanh()
        hidden = memory.tanh() * new.sigmoid()
        for state, value in [(self.hidden, hidden), (self.memory, memory)][:: 1 if self.hidden_first else -1]:
            state.copy_(value)
        return (hidden.sum(-1), memory) if self.returned else (hidden.sum(-1),)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("hidden_first", [False, True])
def test_each_call_as_in_eager(hidden_first: bool, returned: bool, target: str) -> None:
    model = Cell(hidden_first, returned).eval()
    calls = [torch.randn(2, 8) for _ in range(4)]
    program = penlight.load(penlight.compile(model, (calls[0],), target=target).to_bytes())
    with torch.no_grad():
        model.hidden.zero_()
        model.memory.zero_()
        for x in calls:
            for got, want in zip(program(x), model(x), strict=True):
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
