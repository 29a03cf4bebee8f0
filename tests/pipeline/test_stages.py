"""Each stage of the compiler alone, as `penlight` offers it, and what it prints."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch
from torch import nn

import penlight

X = torch.ones(2, 3)


def test_each_stage_alone() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Softmax(-1))
    edge = penlight.to_edge(penlight.export(model, (X,)))
    planned = penlight.plan_memory(edge)
    program = penlight.emit(planned)
    result = penlight.load(program.to_bytes())(X)
    torch.testing.assert_close(result, model(X).detach())


@pytest.mark.parametrize("target, alignment", [("cpu", 64), ("portable", 16)])
def test_where_tensors_begin(target: str, alignment: int) -> None:
    """At a line of the cache, where vectors are read; one number in between takes little room elsewhere."""

    class Small(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.sum()
            return (x.sin() + y) @ (x * y).mT

    edge = penlight.to_edge(penlight.export(Small(), (torch.ones(5, 3),)), target=target)
    places = [int(at) for at in re.findall(r"arena 1, bytes (\d+) to", str(penlight.plan_memory(edge)))]
    assert len(places) > 3 and all(at % alignment == 0 for at in places)
    assert any(at % (2 * alignment) for at in places)


def test_public_functions_are_not_modules() -> None:
    """A package of the same name, once imported, would take a function's place."""
    code = (
        "import penlight, penlight.pipeline\n"
        "names = [n for n in ('compile', 'emit', 'export', 'load', 'plan_memory', 'to_edge')]\n"
        "assert all(callable(getattr(penlight, name)) for name in names), names\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_stages_print() -> None:
    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2

    edge = penlight.to_edge(penlight.export(Chosen(), (X,)), target="portable")
    assert re.search(
        r"\n  true_graph_0\(%\w+:float32\[2, 3\]\):\n    %sin\w*:float32\[2, 3\] = aten\.sin", str(edge)
    )
    assert "user x" in str(edge)
    planned = penlight.plan_memory(edge)
    text = str(planned)
    assert re.search(r"jump else\d+ unless %\w+:bool\[\]", text)
    assert re.search(r"%[\w.]+:float32\[2, 3\] = aten::sin\.out\(self=%\w+:float32\[2, 3\]\)", text)
    assert f"arena 1: {planned.plans[0].arenas[0]} bytes" in text
    places = re.findall(r"%([\w.]+): arena 1, bytes (\d+) to (\d+)$", text, re.MULTILINE)
    assert places
    assert all(0 <= int(start) < int(end) <= planned.plans[0].arenas[0] for _, start, end in places)
    assert str(penlight.emit(planned)).startswith("Program(forward: ")
