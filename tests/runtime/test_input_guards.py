"""Sizes for which Python would have taken another branch than when the model was traced."""

from __future__ import annotations

import itertools
import math
import struct
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import penlight
from penlight.errors import InvalidInput, InvalidProgram

torch = pytest.importorskip("torch")
AUTO = torch.export.Dim.AUTO
# What is asked of sizes n and m, which are 5 and 6 when the model is traced.
BRANCHES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda n, m: n * m > 20,
    "sum": lambda n, m: n + m >= 9,
    "order": lambda n, m: n < m,
    "quotient": lambda n, m: n // 4 == 1,
    "remainder": lambda n, m: n % 3 == 2,
    "one size": lambda n, m: n != 4,
    "square": lambda n, m: n * n > 30,
    "most": lambda n, m: max(n, 7) == 7,
    "least": lambda n, m: min(n, m) > 3,
    "two at once": lambda n, m: n > 3 and m % 2 == 0,
    "one of two": lambda n, m: n > 6 or m > 4,
    "difference": lambda n, m: 2 * m - n > 4,
    "true quotient": lambda n, m: n / m > 0.7,
    "true quotient, to an edge": lambda n, m: m / n >= 1.2,
    "half, cut": lambda n, m: int(n * 0.5) == 2,
    "quotient, rounded": lambda n, m: round(n / 2) == 2,  # halves to the even one
    "quotient, up": lambda n, m: math.ceil(n / m) == 1,
    "floating multiple": lambda n, m: n * 1.7 > m,
    "distance": lambda n, m: abs(n - m) < 3,
    "percent": lambda n, m: int(n / m * 100) == 83,
    "deep": lambda n, m: (n * m - n // 2 * m + 3) % 5 < 3,
}


class Branch(torch.nn.Module):
    def __init__(self, branch: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Any) -> Any:
        return x * 2 if self.branch(*x.shape) else x * 3


def compiled(branch: Callable[[Any, Any], Any], target: str = "cpu") -> Any:
    sizes = ({0: AUTO(max=12), 1: AUTO(max=12)},)
    return penlight.compile(Branch(branch), (torch.ones(5, 6),), dynamic_shapes=sizes, target=target)


@pytest.mark.parametrize("target", ["cpu", "portable"])
@pytest.mark.parametrize("name", BRANCHES)
def test_other_branches_are_refused(name: str, target: str) -> None:
    branch = BRANCHES[name]
    program = penlight.load(compiled(branch, target).to_bytes())
    ran = refused = 0
    for n, m in itertools.product(range(2, 13), repeat=2):
        x = torch.randn(n, m)
        try:
            got = program(x)
        except InvalidInput as error:
            refused += 1
            # One limit on one size is checked as such, and each part of an "and" or "or" by itself.
            assert "too small" in str(error) or "too large" in str(error) or "compile another" in str(error)
            assert branch(n, m) != branch(5, 6) or name == "one of two"
        else:
            ran += 1
            assert torch.equal(got, Branch(branch)(x)), (n, m)
    assert ran and refused


def test_multiples_and_numbers() -> None:
    """A size that is a multiple of another, and an int: both are named as the user knows them."""

    class Model(torch.nn.Module):
        def forward(self, rows: Any, other: Any, times: int) -> Any:
            if other.shape[0] % 2 == 0 and times % 3 == 1:
                return (rows.reshape(other.shape[0], -1) + other) * times
            return rows.sum() * times

    args = (torch.ones(8, 3), torch.ones(4, 6), 4)
    shapes = ({0: AUTO(max=40)}, {0: AUTO(max=20)}, AUTO(max=12))
    program = penlight.load(penlight.compile(Model(), args, dynamic_shapes=shapes).to_bytes())
    for count, times in ((4, 4), (8, 7), (20, 10)):
        rows, other = torch.randn(2 * count, 3), torch.randn(count, 6)
        torch.testing.assert_close(program(rows, other, times), Model()(rows, other, times))
    with pytest.raises(InvalidInput, match=r"other\.shape\[0\] % 2"):
        program(torch.ones(10, 3), torch.ones(5, 6), 4)
    with pytest.raises(InvalidInput, match="times % 3"):
        program(torch.ones(8, 3), torch.ones(4, 6), 5)


@pytest.mark.parametrize("least", [1, 2, 3])
@pytest.mark.parametrize(
    "squeeze",
    [
        lambda x: x.squeeze(),
        lambda x: x.squeeze(0),
        lambda x: x.squeeze(-3),
        lambda x: x.squeeze((0, 2)),
        lambda x: torch.squeeze_copy(x, 0),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_a_size_of_1_that_is_squeezed(target: str, squeeze: Callable[[Any], Any], least: int) -> None:
    """It would be left out. torch says nothing of it; the rest of the program is for one dimension more."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return squeeze(x).sum(0)

    sizes = ({0: torch.export.Dim("n", min=least, max=9)},)
    program = penlight.load(
        penlight.compile(Model(), (torch.ones(5, 2, 1),), dynamic_shapes=sizes, target=target).to_bytes()
    )
    for n in range(max(least, 2), 10):
        x = torch.randn(n, 2, 1)
        torch.testing.assert_close(program(x), Model()(x))
    with pytest.raises(InvalidInput, match="too small" if least > 2 else r"x\.shape\[0\] != 1"):
        program(torch.ones(1, 2, 1))


def test_a_squeeze_of_what_is_never_1() -> None:
    """Of other dimensions nothing is asked, and of a computed size what it has to be."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.squeeze(1), x[::2].squeeze(0).sum(0)

    sizes = ({0: AUTO(max=9)},)
    program = penlight.load(
        penlight.compile(Model(), (torch.ones(5, 1, 3),), dynamic_shapes=sizes).to_bytes()
    )
    for n in range(3, 10):
        x = torch.randn(n, 1, 3)
        torch.testing.assert_close(program(x), Model()(x))
    for n in (1, 2):
        with pytest.raises(InvalidInput, match=r"x\.shape\[0\]"):
            program(torch.ones(n, 1, 3))


def test_parts_that_follow_from_a_size() -> None:
    """No branch of the user's: splitting into two takes an even number or an odd one."""

    class Split(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.tensor_split(2, 0)

    x = torch.ones(4, 2)
    program = penlight.load(penlight.compile(Split(), (x,), dynamic_shapes=({0: AUTO(max=9)},)).to_bytes())
    assert [part.shape[0] for part in program(torch.ones(8, 2))] == [4, 4]
    with pytest.raises(InvalidInput, match=r"x\.shape\[0\] % 2"):
        program(torch.ones(5, 2))


def test_what_changes_no_result_is_no_condition() -> None:
    """torch asks whether sizes are 1 for the strides of what it makes."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            first, second = x.sin().chunk(2, 0)
            return torch.nn.functional.max_pool2d(x[None, None], 2), first, second

    program = penlight.load(
        penlight.compile(Model(), (torch.ones(8, 6),), dynamic_shapes=({0: AUTO(max=9)},)).to_bytes()
    )
    for count in range(2, 10):
        x = torch.randn(count, 6)
        for got, want in zip(program(x), Model()(x), strict=True):
            torch.testing.assert_close(got, want)


def test_what_cannot_be_checked_is_said() -> None:
    with pytest.warns(UserWarning, match=r"FloatPow\(ToFloat\(x\.shape\[0\]\), 0\.5\) > 2\.0"):
        compiled(lambda n, m: n**0.5 > 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        compiled(BRANCHES["percent"])


@pytest.mark.parametrize("word", range(14))
@pytest.mark.parametrize("value", [-1, 0, 1, 3, 7, 16, 18, 99, 1 << 40, -(1 << 63)])
def test_damaged_guards(word: int, value: int) -> None:
    """Each word of a record: an error or a wrong condition, and nothing else."""
    contents = bytearray(compiled(BRANCHES["remainder"]).to_bytes())
    record = struct.pack("<6q", 1, 0, 0, 0, 3, 9)  # x.shape[0] % 3
    assert contents.count(record) == 1
    start = contents.index(record) - 16  # where the numbers of words and bytes are
    struct.pack_into("<q", contents, start + 8 * word, value)
    try:
        penlight.load(bytes(contents))(torch.ones(5, 6))
    except (InvalidInput, InvalidProgram) as error:
        assert "condition" in str(error) or "do not fit" in str(error)
