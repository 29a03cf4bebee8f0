"""What target "portable" takes for ExecuTorch's kernels, and what it says where there is none."""

from __future__ import annotations

import subprocess
import warnings

import pytest
import torch
from peer import MISSING, python
from torch import nn

import penlight
from penlight.kernels.theirs import EXECUTORCH_OPS, NAMESPACES

_LIST = (
    "from executorch.extension.pybindings.portable_lib import _get_operator_names as names; print(*names())"
)


def test_the_list_is_theirs() -> None:
    interpreter = python()
    if interpreter is None:
        pytest.skip(MISSING)
    printed = subprocess.run([interpreter, "-c", _LIST], capture_output=True, text=True, check=True).stdout
    names = {name for name in printed.split() if name.split("::")[0] in NAMESPACES}
    assert names == EXECUTORCH_OPS


class Histogram(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort(stable=True)[0].histc(4, 0, 1)


def test_a_program_for_our_runtime_alone() -> None:
    x = torch.rand(10)
    with pytest.warns(UserWarning, match="only Penlight's runtime will run this program") as caught:
        program = penlight.compile(Histogram(), (x,), target="portable")
    (message,) = [str(one.message) for one in caught if "Penlight" in str(one.message)]
    assert message.count("aten::") == 1
    assert "aten::histc.out (node histc, from" in message
    assert "test_operators.py" in message
    torch.testing.assert_close(penlight.load(program.to_bytes())(x), Histogram()(x))
    with warnings.catch_warnings(action="error", category=UserWarning):
        penlight.compile(Histogram(), (x,))
        penlight.compile(nn.Linear(10, 2), (x,), target="portable")
