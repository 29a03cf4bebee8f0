"""Schemas: what a user may write, and what follows from it."""

from __future__ import annotations

import pytest
import torch

from penlight.errors import InvalidOperator
from penlight.ops.signature import parse


@pytest.mark.parametrize(
    "text, functional, out",
    [
        (
            "linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor",
            "linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor",
            "linear.out(Tensor weight, Tensor input, Tensor? bias, *, Tensor(a!) out) -> Tensor(a!)",
        ),
        (
            "linear.out(Tensor weight, Tensor(?) bias, *, Tensor(a!) out) -> Tensor(a!)",
            "linear(Tensor weight, Tensor? bias) -> Tensor",
            "linear.out(Tensor weight, Tensor? bias, *, Tensor(a!) out) -> Tensor(a!)",
        ),
        (
            (
                'f.big_out(Tensor x, int[2] k=[1, 1], str s="a,b", *, float eps=1e-5, Tensor(a!) values, '
                "Tensor(b!) index) -> (Tensor(a!), Tensor(b!))"
            ),
            'f.big(Tensor x, SymInt[2] k=[1, 1], str s="a,b", *, float eps=1e-5) -> (Tensor, Tensor)',
            (
                'f.big_out(Tensor x, SymInt[2] k=[1, 1], str s="a,b", *, float eps=1e-5, Tensor(a!) values, '
                "Tensor(b!) index) -> (Tensor(a!), Tensor(b!))"
            ),
        ),
        (
            "step(Tensor(a!) state, Tensor x, *, int k=1) -> (Tensor y, Tensor z)",
            "step(Tensor(a!) state, Tensor x, *, SymInt k=1) -> (Tensor, Tensor)",
            (
                "step.out(Tensor(a!) state, Tensor x, *, SymInt k=1, Tensor(b!) y, Tensor(c!) z) -> "
                "(Tensor(b!), Tensor(c!))"
            ),
        ),
        (
            "parts(Tensor x, int[] sizes) -> Tensor[]",
            "parts(Tensor x, SymInt[] sizes) -> Tensor[]",
            "parts.out(Tensor x, SymInt[] sizes, *, Tensor(a!)[] out) -> ()",
        ),
    ],
)
def test_the_other_form_follows(text: str, functional: str, out: str) -> None:
    signature = parse(text, "ns")
    assert signature.functional() == functional
    assert signature.out() == out
    for schema in (functional, out):
        torch._C.parse_schema(f"ns::{schema}")
    again = parse(out, "ns")
    assert (again.functional(), again.out()) == (functional, out)


def test_an_operator_without_results_is_its_own_kernel() -> None:
    assert parse("note(Tensor(a!) state, Tensor x) -> ()", "ns").kernel_name == "ns::note"
    assert (
        parse("scale_(Tensor(a!) x) -> Tensor(a!)", "ns").functional() == "scale_(Tensor(a!) x) -> Tensor(a!)"
    )
    assert parse("ns::f.big(Tensor x) -> Tensor").kernel_name == "ns::f.big_out"


@pytest.mark.parametrize(
    "text, message",
    [
        ("f(Tensor x) -> int", "the return type 'int' is not supported"),
        ("f(Tensor x", "expected ',' or ')' after an argument, got the end"),
        ("f(Tensor x)", "expected '->' and what is returned, got the end"),
        ("f.out(Tensor x) -> Tensor", "'f.out' has no out argument"),
        ("f(Tensr x) -> Tensor", "the type 'Tensr' of argument 'x' is not supported"),
        ("f(Tensor(a) x) -> Tensor(a)", "may not share the memory"),
        ("f(Tensor x) -> ()", "returns nothing and changes none"),
        ("f(Tensor x, Tensor x) -> Tensor", "argument 'x' is given twice"),
        ("f(Tensor out) -> Tensor", "an argument and a result are both called 'out'"),
        ("f(int(a!) x) -> Tensor", "only tensors can be changed"),
        (
            "f(Tensor(a!) x) -> (Tensor(a!), Tensor)",
            "a result that is an argument, Tensor(a!), is the only one",
        ),
        ("f(Tensor x, ) -> Tensor", "expected a type, got"),
        ("other::f(Tensor x) -> Tensor", "namespace other, its library of ns"),
    ],
)
def test_what_is_wrong_with_a_schema(text: str, message: str) -> None:
    with pytest.raises(InvalidOperator) as caught:
        parse(text, "ns")
    assert message in str(caught.value) and text.strip() in str(caught.value)
