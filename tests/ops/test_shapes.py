"""The notation of shape rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from penlight.errors import InvalidInput, InvalidOperator
from penlight.ops.shapes import ShapeRule
from penlight.ops.signature import parse

LINEAR = "f(Tensor w, Tensor x, Tensor? b) -> Tensor"
PAD = "f(Tensor x, int l, int? r, str s) -> Tensor"
RULE = "[o,i], [n,i], [o]? -> [n,o]"


def t(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype)


def apply(schema: str, rule: str, *values: Any) -> list[Any]:
    signature = parse(schema, "ns")
    names = [argument.name for argument in signature.arguments]
    return ShapeRule(rule, signature).apply(dict(zip(names, values, strict=True)))


@pytest.mark.parametrize(
    "schema, rule, values, want",
    [
        (LINEAR, RULE, (t(3, 4), t(5, 4), t(3)), [(5, 3)]),
        (LINEAR, RULE, (t(3, 4), t(0, 4), None), [(0, 3)]),
        (LINEAR, "[o,i], [...,i], [o]? -> [...,o]", (t(3, 4), t(2, 5, 4), None), [(2, 5, 3)]),
        (LINEAR, "[o,i], [*,i], [o]? -> [*,o]", (t(3, 4), t(4), None), [(3,)]),
        ("f(Tensor x, Tensor y) -> Tensor", "[...], [...] -> [...]", (t(3, 1), t(4)), [(3, 4)]),
        ("f(Tensor x, Tensor y) -> Tensor", "[*a,1], [*b,2] -> [*b,*a]", (t(3, 1), t(4, 2)), [(4, 3)]),
        ("f(Tensor x, Tensor y) -> Tensor", "[...,n], _ -> same as y", (t(3), t(2, 2)), [(2, 2)]),
        ("f(Tensor[] xs) -> Tensor", "[_,c][] -> [total(xs, 0), c]", ([t(3, 1), t(4, 1)],), [(7, 1)]),
        ("f(Tensor?[] xs) -> Tensor", "[c]?[] -> [c]", ([None, t(4)],), [(4,)]),
        (
            "f(Tensor x, int k, int[] s) -> (Tensor, Tensor)",
            "[n] -> [2*n, k, s[0], *s], [n//2 if k > 2 else min(n, k), x[0] % 2]",
            (t(3), 2, [7, 8]),
            [(6, 2, 7, 7, 8), (2, 1)],
        ),
        ("f(Tensor x, bool keep) -> Tensor", "[n,m] -> [n, m if keep else 1]", (t(3, 4), True), [(3, 4)]),
        (PAD, "[n] -> [n + l + (l if r is None else r)]", (t(3), 2, None, ""), [(7,)]),
        (PAD, "[n] -> [n + l + (r if r is not None else l)]", (t(3), 2, 5, ""), [(10,)]),
        (PAD, "[n] -> [n if s == 'a' and l > 1 or n < 2 else 1]", (t(3), 2, 5, "a"), [(3,)]),
        (PAD, "[n] -> [n if s != 'a' else 1]", (t(3), 2, 5, "a"), [(1,)]),
        ("f(Tensor x, int n) -> Tensor", "[n] -> [n+1]", (t(3), 3), [(4,)]),
        ("f(Tensor x) -> Tensor", "_ -> [ndim(x)]", (t(3, 4),), [(2,)]),
        ("f(Tensor x) -> Tensor", "[] -> []", (t(),), [()]),
        ("f(Tensor(a!) x, Tensor y) -> ()", "[n], [n] -> ()", (t(3), t(3)), []),
    ],
)
def test_sizes(schema: str, rule: str, values: Any, want: Any) -> None:
    assert [spec.sizes for spec in apply(schema, rule, *values)] == want


@pytest.mark.parametrize(
    "schema, rule, values, want",
    [
        ("f(Tensor x) -> Tensor", "[n] -> [n]", (t(3, dtype=torch.int8),), "int8"),
        ("f(Tensor x) -> Tensor", "[n] -> f32[n]", (t(3, dtype=torch.int8),), "float32"),
        ("f(Tensor x) -> Tensor", "[n] -> bool[n]", (t(3),), "bool"),
        ("f(Tensor x, Tensor y) -> Tensor", "[n], [m] -> y[n]", (t(3), t(2, dtype=torch.int64)), "int64"),
        ("f(Tensor x, ScalarType? d) -> Tensor", "[n] -> d[n]", (t(3), torch.float16), "float16"),
        ("f(Tensor x, ScalarType? d) -> Tensor", "[n] -> d[n]", (t(3), None), "float32"),
        ("f(Tensor[] x) -> Tensor", "_ -> [1]", ([t(3, dtype=torch.bfloat16)],), "bfloat16"),
    ],
)
def test_dtypes(schema: str, rule: str, values: Any, want: str) -> None:
    assert apply(schema, rule, *values)[0].dtype == want


def test_lists_of_results() -> None:
    (found,) = apply("f(Tensor x, int k) -> Tensor[]", "[n,m] -> [n//k,m][k]", t(6, 2), 3)
    assert [spec.sizes for spec in found] == [(2, 2)] * 3


@pytest.mark.parametrize(
    "rule, message",
    [
        ("[o,i], [n,i] -> [n,o]", "2 patterns, but 3 tensor arguments: w, x, b"),
        ("[o,i], [n,i], [o]? -> [n,q]", "'q' in '[n,q]' is known from no argument"),
        ("[o,i], [n,i, [o]? -> [n,o]", "is no pattern of a tensor"),
        ("[o,i], [n,2*i], [o]? -> [n,o]", "'2*i' is no size of an argument"),
        ("[o,i], [n,i], [o]? -> f33[n,o]", "'f33' is neither a dtype nor an argument"),
        ("[o,i], [n,i], [o]?", "a shape rule has an arrow"),
        ("[o,i], [n,i], [o]? -> [n,o], [n]", "2 results, but the operator has 1"),
        ("[o,i], [n,i], [o]? -> same as y", "there is no tensor argument 'y'"),
        ("[o,i], [n,i], [o]?[] -> [n]", "stands for Tensor? b"),
        ("[..., ...], [n,i], [o]? -> [n]", "two parts of unknown length"),
        ("[o,i], [n,i], [o]? -> [n +]", "cannot be read"),
        ("[o,i], [n,i], [o]? -> [...]", "is known from no argument"),
    ],
)
def test_rules_that_do_not_fit(rule: str, message: str) -> None:
    with pytest.raises(InvalidOperator) as caught:
        ShapeRule(rule, parse(LINEAR, "ns"))
    assert message in str(caught.value) and rule in str(caught.value)


@pytest.mark.parametrize(
    "values, message",
    [
        ((t(3, 4), t(5, 3), None), "argument 'x' of ns::f should be [n,i]"),
        ((t(3, 4), t(5), None), "argument 'x' of ns::f should be [n,i]"),
        ((t(3, 4), t(5, 4), t(4)), "argument 'b' of ns::f should be [o]?"),
    ],
)
def test_arguments_that_do_not_fit(values: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        apply(LINEAR, RULE, *values)
    assert message in str(caught.value)


@pytest.mark.parametrize("result", ["[n/o]", "[foo(n)]", "[n ** o]", "[n.x]"])
def test_only_sizes_can_be_calculated(result: str) -> None:
    with pytest.raises(InvalidOperator):
        apply(LINEAR, f"[o,i], [n,i], [o]? -> {result}", t(3, 4), t(5, 4), None)


def test_negative_sizes_and_division_by_zero() -> None:
    with pytest.raises(InvalidOperator, match="gives the size -1"):
        apply("f(Tensor x) -> Tensor", "[n] -> [n - 4]", t(3))
    with pytest.raises(InvalidOperator, match="divides by zero"):
        apply("f(Tensor x, int k) -> Tensor", "[n] -> [n // k]", t(3), 0)


@pytest.mark.parametrize(
    "rule, values, fit",
    [
        (RULE, (t(3, 4), t(5, 4), t(3)), True),
        (RULE, (t(3, 4), t(5, 4), None), True),
        (RULE, (t(3, 4), t(5, 4)), True),
        (RULE, (t(3, 4), t(5, 3), None), False),
        (RULE, (t(3, 4), t(4), None), False),
        (RULE, (t(3, 4), t(5, 4), t(4)), False),
        ("[o,i], [...,i], [o]? -> [...,o]", (t(3, 4), t(2, 5, 4), None), True),
        ("[o,i], [...,i], [o]? -> [...,o]", (t(3, 4), t(2, 5, 3), None), False),
        ("[o,i], [i,*], [o]? -> [*,o]", (t(3, 4), t(4), None), True),
        ("[o,i], [i,*,2], [o]? -> [*,o]", (t(3, 4), t(4), None), False),
        ("[3,_], [_,n], [n]? -> [n]", (t(3, 4), t(5, 2), t(2)), True),
        ("[2,_], [_,n], [n]? -> [n]", (t(3, 4), t(5, 2), t(2)), False),
        ("[], _, [n]? -> [n]", (t(), t(5, 2), t(2)), True),
    ],
)
def test_the_quick_check_says_the_same(rule: str, values: Any, fit: bool) -> None:
    signature = parse(LINEAR, "ns")
    made = ShapeRule(rule, signature)
    assert made.quick_check((torch.Tensor,))(values) is fit
    names = [argument.name for argument in signature.arguments]
    arguments = dict.fromkeys(names) | dict(zip(names, values, strict=False))
    if fit:
        made.apply(arguments)
    else:
        with pytest.raises(InvalidInput):
            made.apply(arguments)


def test_the_quick_check_and_sizes_that_may_be_missing() -> None:
    rule = ShapeRule("[n]?, [n]? -> [1]", parse("f(Tensor? a, Tensor? b) -> Tensor", "ns"))
    fits = rule.quick_check((torch.Tensor,))
    assert fits((None, t(3))) and fits((t(3), None)) and fits((t(3), t(3))) and not fits((t(3), t(4)))
    assert rule.quick_check(())((t(3), t(4)))
