"""Algorithms chosen by measuring: the program has what was found, and computes the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import penlight
from penlight.dialects.packed_ops import packed_ops
from penlight.kernels.table import default_table
from penlight.passes import recipes
from penlight.passes.base import Report, run
from penlight.pipeline import export, to_edge
from penlight.runtime.timing import seconds_of

OPS = packed_ops(default_table(), ("optimized", "portable"))
assert OPS is not None
DIRECT = str(OPS.direct_convolution)


class Layers(nn.Sequential):
    def __init__(self) -> None:
        layers = [nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
        super().__init__(*layers, nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 8, 1), nn.Conv2d(8, 8, 3, 3))


X = torch.randn(1, 24, 20, 20)


def tuned(measure: Any) -> tuple[list[str], Report]:
    assert OPS is not None
    program, report = to_edge(export(Layers().eval(), (X,))), Report()
    run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, measure), report)
    return [str(node.target) for node in program.methods["forward"].graph.nodes], report


def test_the_faster_is_kept() -> None:
    asked: list[str] = []

    def measure(name: str, arguments: list[Any]) -> float:
        asked.append(name)
        assert seconds_of(name, arguments, rounds=1) > 0  # the arguments are a kernel's
        return 1.0 if "direct" in name else 2.0

    targets, report = tuned(measure)
    assert targets.count(DIRECT) == 3
    # The 32 to 32 layers differ in what is fused only: three layers, two ways each.
    assert len(asked) == 6 and len([name for name in asked if "direct" in name]) == 3
    assert {one.reason for one in report.left} == {"there is one way to compute it"}


@pytest.mark.parametrize("direct", [1.0, 0.99, 3.0])
def test_nothing_changes_for_nothing(direct: float) -> None:
    targets, report = tuned(lambda name, arguments: direct if "direct" in name else 1.0)
    assert DIRECT not in targets
    assert len([one for one in report.left if "as fast" in one.reason]) == 3


def test_layers_alike_are_measured_once() -> None:
    asked: list[str] = []
    assert OPS is not None
    model = nn.Sequential(*(nn.Conv2d(16, 16, 3, padding=1) for _ in range(5))).eval()
    program = to_edge(export(model, (torch.randn(1, 16, 9, 9),)))

    def measure(name: str, arguments: list[Any]) -> float:
        asked.append(name)
        return 1.0

    passes = recipes.tuned(OPS.convolution, OPS.direct_convolution, measure)
    run(program, passes, Report())
    assert len(asked) == 2  # one layer, two ways


def test_dynamic_sizes_are_left() -> None:
    assert OPS is not None
    height = torch.export.Dim("height", min=8, max=32)
    program = to_edge(export(Layers().eval(), (X,), dynamic_shapes={"input": {2: height}}))
    report = Report()
    run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, lambda *_: 1 / 0), report)
    assert "its sizes are dynamic" in {one.reason for one in report.left}


def test_results_stay() -> None:
    """Whatever this machine finds; with or without, the stage is in the report or not."""
    model = Layers().eval()
    program = penlight.compile(model, (X,), tune=True)
    assert program.report is not None
    assert "tune convolutions" in {stage.name for stage in program.report.stages}
    with torch.no_grad():
        torch.testing.assert_close(penlight.load(program.to_bytes())(X), model(X), rtol=1e-4, atol=1e-4)
    plain = penlight.compile(model, (X,)).report
    assert plain is not None and "tune convolutions" not in {stage.name for stage in plain.stages}


def test_direct_in_a_program() -> None:
    """A program that says direct runs so, with every instruction and thread it may have."""
    assert OPS is not None
    model = Layers().eval()
    program = to_edge(export(model, (X,)))
    direct = recipes.tuned(
        OPS.convolution, OPS.direct_convolution, lambda name, _: 0.0 if "direct" in name else 1.0
    )
    run(program, direct, Report())
    data = penlight.emit(penlight.plan_memory(program)).to_bytes()
    names = penlight.load(data)["forward"].instruction_names()
    assert names.count("penlight::conv2d_direct_packed.out") == 3
    with torch.no_grad():
        torch.testing.assert_close(penlight.load(data, threads=2)(X), model(X), rtol=1e-5, atol=1e-5)


def test_first_layers_are_measured_where_there_are_two_ways() -> None:
    assert OPS is not None
    for channels, window, stride, groups, ways in (
        *((3, 7, 2, 1, 2), (4, 7, 2, 1, 2), (3, 7, 1, 1, 0), (3, 5, 2, 1, 0)),
        *((2, 7, 2, 1, 0), (5, 7, 2, 1, 0), (4, 7, 2, 4, 0)),
    ):
        asked: list[str] = []

        def measure(name: str, arguments: list[Any], asked: list[str] = asked) -> float:
            asked.append(name)
            assert seconds_of(name, arguments, rounds=1) > 0
            return 1.0

        layer = nn.Conv2d(channels, 32, window, stride, 3, groups=groups)
        program = to_edge(export(nn.Sequential(layer).eval(), (torch.randn(1, channels, 64, 64),)))
        run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, measure), Report())
        assert len(asked) == ways


def test_few_outputs_and_groups_that_have_two_ways() -> None:
    assert OPS is not None
    for channels, outputs, groups, ways in ((32, 5, 1, 2), (32, 4, 1, 0), (32, 32, 2, 2), (32, 16, 2, 0)):
        asked: list[str] = []

        def measure(name: str, arguments: list[Any], asked: list[str] = asked) -> float:
            asked.append(name)
            return 1.0

        layer = nn.Conv2d(channels, outputs, 3, padding=1, groups=groups)
        program = to_edge(export(nn.Sequential(layer).eval(), (torch.randn(1, channels, 32, 32),)))
        run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, measure), Report())
        assert len(asked) == ways


@pytest.mark.parametrize(
    "window, stride, dilation, channels, ways",
    [
        *(((1, taps), 1, 1, 16, 2) for taps in (3, 4, 7, 11)),
        *(((taps, 1), 1, 1, 16, 2) for taps in (3, 5, 31)),
        *(((1, 7), 1, 3, 16, 2), ((7, 1), 1, 2, 16, 2), ((1, 3), 2, 1, 16, 2), ((3, 1), 2, 1, 16, 2)),
        *(((5, 5), 1, 1, 16, 2), ((2, 4), 1, 1, 16, 2), ((3, 3), 1, 2, 16, 2), ((3, 3), 2, 1, 16, 2)),
        *(((1, 7), 1, 1, 8, 2), ((3, 3), 1, 1, 12, 2)),
        # One way: too few taps or channels, strides and dilations that no tiles are for.
        *(((1, 2), 1, 1, 16, 0), ((1, 1), 1, 1, 16, 0), ((5, 3), 1, 1, 16, 0), ((1, 7), 1, 1, 7, 0)),
        *(((1, 5), 2, 1, 16, 0), ((5, 5), 2, 1, 16, 0), ((5, 5), 1, 2, 16, 0), ((3, 3), 2, 2, 16, 0)),
        *(((1, 3), 3, 1, 16, 0), ((3, 3), 3, 1, 16, 0)),
    ],
)
def test_windows_that_have_two_ways(
    window: tuple[int, int], stride: int, dilation: int, channels: int, ways: int
) -> None:
    assert OPS is not None
    asked: list[str] = []

    def measure(name: str, arguments: list[Any]) -> float:
        asked.append(name)
        return 1.0

    layer = nn.Conv2d(channels, 16, window, stride, (window[0] // 2, window[1] // 2), dilation)
    program = to_edge(export(nn.Sequential(layer).eval(), (torch.randn(1, channels, 64, 64),)))
    run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, measure), Report())
    assert len(asked) == ways


@pytest.mark.parametrize(
    "channels, outputs, groups, ways", [(32, 48, 2, 2), (96, 64, 4, 2), (30, 32, 2, 0), (32, 30, 2, 0)]
)
def test_groups_that_have_two_ways(channels: int, outputs: int, groups: int, ways: int) -> None:
    assert OPS is not None
    asked: list[str] = []

    def measure(name: str, arguments: list[Any]) -> float:
        asked.append(name)
        assert seconds_of(name, arguments, rounds=1) > 0
        return 1.0

    layer = nn.Conv2d(channels, outputs, 3, padding=1, groups=groups)
    program = to_edge(export(nn.Sequential(layer).eval(), (torch.randn(1, channels, 24, 24),)))
    run(program, recipes.tuned(OPS.convolution, OPS.direct_convolution, measure), Report())
    assert len(asked) == ways
