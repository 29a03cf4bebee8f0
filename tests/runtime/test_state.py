"""State: kept between calls, read, written and reset by name, one for each loaded program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from penlight.errors import InvalidInput, StateNotFound

ONE = np.ones(2, np.float32)


def test_state_is_kept_between_calls(load: Any) -> None:
    model = load("counter")
    assert sorted(model.state) == ["calls", "total"]
    np.testing.assert_array_equal(model.state["total"], [1, 2])
    np.testing.assert_array_equal(model(ONE), [2, 3])
    np.testing.assert_array_equal(model(ONE), [3, 4])
    np.testing.assert_array_equal(model.state["total"], [3, 4])
    assert model.state["calls"] == [2]


def test_state_is_written_and_reset(load: Any) -> None:
    model = load("counter")
    model(ONE)
    model.state["total"] = np.array([10, 20], np.float32)
    np.testing.assert_array_equal(model(ONE), [11, 21])
    model.state["total"] = torch.tensor([0.0, 1.0])
    np.testing.assert_array_equal(model(ONE), [1, 2])
    model.reset()
    np.testing.assert_array_equal(model.state["total"], [1, 2])
    np.testing.assert_array_equal(model.state["calls"], [0])
    np.testing.assert_array_equal(model(ONE), [2, 3])


def test_reading_gives_a_copy(load: Any) -> None:
    model = load("counter")
    model.state["total"][...] = 99
    np.testing.assert_array_equal(model.state["total"], [1, 2])


def test_state_belongs_to_the_loaded_program(load: Any) -> None:
    first, second = load("counter"), load("counter")
    first(ONE)
    np.testing.assert_array_equal(second.state["total"], [1, 2])
    np.testing.assert_array_equal(second(ONE), [2, 3])


def test_methods_share_state(load: Any) -> None:
    model = load("cache")
    assert set(model.methods) == {"read", "write"}
    zeros = np.zeros(4, np.float32)
    np.testing.assert_array_equal(model["read"](zeros), zeros)
    given = np.arange(4, dtype=np.float32)
    model["write"](given)
    np.testing.assert_array_equal(model["read"](zeros), given)
    model.state["cache"] = given * 2
    np.testing.assert_array_equal(model["read"](zeros), given * 2)
    model.reset()
    np.testing.assert_array_equal(model["read"](zeros), zeros)


def test_the_method_loaded_last_sees_what_was_written_before(load: Any) -> None:
    model = load("cache")
    given = np.arange(4, dtype=np.float32)
    model["write"](given)
    np.testing.assert_array_equal(model["read"](np.zeros(4, np.float32)), given)


def test_names_and_values_that_do_not_fit(load: Any) -> None:
    model = load("counter")
    with pytest.raises(StateNotFound, match="no state 'totl'") as caught:
        model.state["totl"]
    assert "did you mean 'total'?" in str(caught.value.do)
    with pytest.raises(InvalidInput, match="state total has size 3 in dimension 0, 2 is needed"):
        model.state["total"] = np.zeros(3, np.float32)
    with pytest.raises(InvalidInput, match="state total has another dtype"):
        model.state["total"] = np.zeros(2, np.float64)
    assert "total" in model.state and "other" not in model.state
