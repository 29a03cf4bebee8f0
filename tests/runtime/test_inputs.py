"""What a loaded program takes: kinds of tensors, layouts, numbers; and what it says to the rest."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import penlight
from penlight.errors import InvalidInput, InvalidState

X = np.arange(8, dtype=np.float32).reshape(2, 4) / 8


class OnlyDlpack:
    """An array of some other library."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_every_kind_of_tensor_gives_the_same(load: Any) -> None:
    model = load("linear")
    want = model(X)
    read_only = X.copy()
    read_only.setflags(write=False)
    for given in (
        torch.from_numpy(X),
        torch.from_numpy(X).requires_grad_(),
        OnlyDlpack(X),
        read_only,
        np.asfortranarray(X),
        np.stack([X, X])[1],
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        torch.from_numpy(X.T.copy()).t(),
    ):
        np.testing.assert_array_equal(np.asarray(model(given)), want)
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape)
    np.testing.assert_array_equal(model(unaligned), want)


def test_arguments_of_two_shapes_alternate(load: Any) -> None:
    model = load("dynamic")
    for rows in (2, 5, 1, 6, 0, 2):
        x = np.ones((rows, 4), np.float32)
        assert model(x).shape == (rows, 3)
        np.testing.assert_array_equal(model(x)[:1], model(np.ones((2, 4), np.float32))[: min(rows, 1)])


def test_channels_last_is_converted_at_the_edge(load: Any) -> None:
    model = load("convolution")
    torch.manual_seed(0)
    reference = torch.nn.Conv2d(3, 4, 3, padding=1)
    image = torch.randn(1, 3, 5, 6)
    want = reference(image).detach().numpy()
    for given in (image, image.to(memory_format=torch.channels_last), image.numpy()):
        np.testing.assert_allclose(np.asarray(model(given)), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "int64", "uint8"])
def test_dtypes_go_in_and_out(load: Any, name: str) -> None:
    model = load(name)
    given = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    assert torch.equal(model(given), given + given)
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    got = model(array)
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array + array)


def test_bfloat16_as_raw_bits(load: Any) -> None:
    ones = np.full((2, 3), 0x3F80, np.uint16)
    np.testing.assert_array_equal(load("bfloat16")(ones).astype(np.float32), np.full((2, 3), 2.0))


def test_containers_and_keywords(load: Any) -> None:
    model = load("containers")
    got = model(np.ones((2, 3), "f4"), (np.ones(2, "f4"), np.ones(2, "f4")), options={"scale": 3.0})
    assert list(got) == ["scaled", "more"]
    assert isinstance(got["more"], list) and isinstance(got["more"][1], tuple)
    np.testing.assert_array_equal(got["scaled"], np.full((2, 3), 3.0))
    assert got["more"][1][0] == 18.0


def test_positional_inputs_by_name(load: Any) -> None:
    model = load("linear")
    np.testing.assert_array_equal(model(**{model["forward"].inputs[0].name: X}), model(X))


def refused(model: Any, *args: Any, **kwargs: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        model(*args, **kwargs)
    return caught.value


def test_wrong_dtype(load: Any) -> None:
    error = refused(load("linear"), X.astype(np.float64))
    assert error.what.startswith("input ") and error.what.endswith("has another dtype")
    assert error.got == "float64, float32 is needed"
    assert error.do == "convert it: .astype(numpy.float32)"
    error = refused(load("linear"), torch.from_numpy(X).to(torch.bfloat16))
    assert error.got == "bfloat16, float32 is needed"
    assert error.do == "convert it: .to(torch.float32)"


def test_wrong_rank_and_sizes(load: Any) -> None:
    assert "has 1 dimension, 2 are needed" in refused(load("linear"), X[0]).what
    assert "has size 1 in dimension 0, 2 is needed" in refused(load("linear"), X[:1]).what
    error = refused(load("dynamic"), np.zeros((7, 4), np.float32))
    assert "is too large in dimension 0: 7, at most 6 is possible" in error.what
    assert error.got == "shape [7, 4]"


def test_a_call_that_was_refused_leaves_no_trace(load: Any) -> None:
    model = load("linear")
    want = model(X)
    refused(model, X.astype(np.int32))
    np.testing.assert_array_equal(model(X), want)


def test_wrong_number(load: Any) -> None:
    assert "takes 1 positional argument" in refused(load("linear")).what
    assert refused(load("linear"), X, X).got == "2 positional"
    assert refused(load("linear"), X, scale=1).got == "1 positional; not expected scale"
    pair = (np.ones(2, "f4"), np.ones(2, "f4"))
    assert "missing options" in str(refused(load("containers"), np.ones((2, 3), "f4"), pair).got)


def test_wrong_containers(load: Any) -> None:
    model, image, one = load("containers"), np.ones((2, 3), "f4"), np.ones(2, "f4")
    assert refused(model, image, one, options={"scale": 1.0}).what == "input 1 should be a tuple of 2"
    assert refused(model, image, (one,), options={"scale": 1.0}).got == "tuple of 1"
    error = refused(model, image, (one, one), options={"scael": 1.0})
    assert error.what == "input options has other keys than the program was made with"
    assert error.got == "missing 'scale'; not expected 'scael'"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ("2", "str '2'"),
        (True, "bool True"),
        (1 << 1024, "int of 1025 bits"),
        (-1 << 20000, "int of 20001 bits"),
    ],
    ids=["text", "bool", "large", "long"],
)
def test_no_float(given: Any, got: str) -> None:
    """No number at all, or one that no double can hold; Python itself prints none of 6,000 digits."""
    program = penlight.compile(Scales(), (torch.ones(2), 2.0))
    error = refused(penlight.load(program), X[0, :2], given)
    assert error.what.endswith("should be a float") and error.got == got


def test_an_integer_that_does_not_fit() -> None:
    model = penlight.load(penlight.compile(Multiplies(), (torch.ones(2), torch.tensor(2))))
    assert refused(model, X[0, :2], 1 << 63).got == "int 9223372036854775808"
    assert refused(model, X[0, :2], 1 << 20000).got == "int of 20001 bits"


@pytest.mark.parametrize("given", [None, "text", object(), [1.0, 2.0]])
def test_no_tensor(load: Any, given: Any) -> None:
    assert refused(load("linear"), given).what.endswith("is no tensor")


def test_sparse_tensor(load: Any) -> None:
    assert refused(load("linear"), torch.from_numpy(X).to_sparse()).what.endswith("is not a dense tensor")


class Scales(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale


class Multiplies(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


class Accumulates(torch.nn.Module):
    def forward(self, total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        total += x
        return total.sum()


@pytest.fixture(scope="module")
def accumulates() -> bytes:
    return penlight.compile(Accumulates(), (torch.ones(3, 4), torch.ones(3, 4))).to_bytes()


@pytest.mark.parametrize(
    "given",
    [
        torch.zeros(3, 4),
        torch.zeros(4, 3).t(),
        torch.zeros(6, 8)[::2, ::2],
        np.zeros((3, 4), np.float32),
        np.zeros((3, 4), np.float32, order="F"),
        np.zeros((6, 4), np.float32)[::-2],
    ],
    ids=["tensor", "transposed", "part", "array", "columns", "backwards"],
)
def test_what_a_run_writes_to_an_input(accumulates: bytes, given: Any) -> None:
    """The caller sees it, however the input lies in memory, and around it nothing changes."""
    program, x = penlight.load(accumulates), torch.rand(3, 4)
    for times in (1, 2, 3):
        result = program(given, x)
        np.testing.assert_allclose(np.asarray(given), times * x.numpy(), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(result), times * x.sum().item(), rtol=1e-5)
    base = given.base if isinstance(given, np.ndarray) and given.base is not None else given
    whole = (
        base
        if isinstance(base, np.ndarray)
        else torch.as_strided(base, (base.untyped_storage().nbytes() // 4,), (1,))
    )
    np.testing.assert_allclose(np.asarray(whole).sum(), 3 * x.sum().item(), rtol=1e-5)


def test_a_run_writes_to_no_read_only_input(accumulates: bytes) -> None:
    program, x = penlight.load(accumulates), np.ones((3, 4), np.float32)
    fixed = bytes(48)
    with pytest.raises(InvalidInput, match="input total is read-only, and the program writes to it"):
        program(np.frombuffer(fixed, np.float32).reshape(3, 4), x)
    assert fixed == bytes(48)
    x.flags.writeable = False  # this one is only read
    assert program(np.zeros((3, 4), np.float32), x) == 12


def test_a_failed_run_writes_nothing_back(accumulates: bytes) -> None:
    program, x = penlight.load(accumulates), torch.ones(3, 4)
    first = torch.zeros(4, 3).t()
    with pytest.raises(InvalidInput):
        program(first, x[:2])
    program(torch.zeros(3, 4), x)
    assert not first.any()


class Computed:
    """An array that is computed when it is asked for."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.compute())


def test_arguments_that_ask_the_program(load: Any) -> None:
    """A call of the method would write over arguments that are set; before, it waited for itself."""
    model, outcomes = load("linear"), []

    def run() -> None:
        with pytest.raises(InvalidState, match="method forward is called by one of its own arguments"):
            model(Computed(lambda: model(X)))
        outcomes.append(np.asarray(model(Computed(lambda: X if list(model.state) == [] else None))))

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    (found,) = outcomes
    np.testing.assert_array_equal(found, model(X))
