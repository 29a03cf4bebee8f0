"""A shape rule as numbers, which C++ holds sizes of eager calls against.

runtime/hosted/shape_rule.cpp runs them; its codes are listed in the same order here.
What has no form there (lists of tensors, numbers that are no ints) is left to Python.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from penlight.ops.shapes import Pattern, Result, ShapeRule

_CONSTANT, _NAME, _ARGUMENT, _ITEM, _LENGTH = range(5)
_BINARY: dict[type, int] = {
    operation: code
    for code, operation in enumerate(
        (
            ast.Add,
            ast.Sub,
            ast.Mult,
            ast.FloorDiv,
            ast.Mod,
            ast.Eq,
            ast.NotEq,
            ast.Lt,
            ast.LtE,
            ast.Gt,
            ast.GtE,
        ),
        5,
    )
}
_MIN, _MAX, _ABS, _NEGATE, _NOT, _CHOOSE, _SAME = range(16, 23)
_SPREAD, _SPREAD_LIST, _EXPRESSION, _WHOLE = range(4)
_MAX_NAMES, _MAX_SPREADS, _MAX_CODES = 32, 8, 16


class _NoForm(Exception):
    """Something of the rule that only Python can calculate."""


def rule_program(rule: ShapeRule, letters: str) -> list[int] | None:
    """The rule in numbers; None when it has no such form.

    Args:
        rule: of an operator.
        letters: types of its kernel's arguments, results last (penlight/boxing.h).
    """
    try:
        return _Writer(rule, letters).program()
    except _NoForm:
        return None


class _Writer:
    def __init__(self, rule: ShapeRule, letters: str) -> None:
        self.rule = rule
        self.positions = {a.name: i for i, a in enumerate(rule.signature.arguments)}
        self.letters = {a.name: letters[i].upper() for i, a in enumerate(rule.signature.arguments)}
        self.names: dict[str, int] = {}
        self.spreads: dict[str, int] = {}

    def program(self) -> list[int]:
        patterns: list[int] = []
        count = 0
        for pattern, argument in zip(self.rule.patterns, self.rule.signature.tensors, strict=True):
            if pattern.sizes is None:
                continue
            if pattern.is_list or self.letters[argument.name] not in "TO":
                raise _NoForm
            patterns += [self.positions[argument.name], *self.pattern(pattern)]
            count += 1
        program = [count, *patterns]
        for result in self.rule.results if self.rule.signature.outs else []:
            program += self.result(result)
        if len(self.names) > _MAX_NAMES or len(self.spreads) > _MAX_SPREADS:
            raise _NoForm
        return program

    def pattern(self, pattern: Pattern) -> list[int]:
        assert pattern.sizes is not None
        words = list(pattern.sizes)
        at = next((i for i, word in enumerate(words) if word.startswith((".", "*"))), None)
        if at is None:
            return [len(words), 0, -1, *map(self.word, words)]
        name = words[at].lstrip("*.") or "..."
        spread = self.spreads.setdefault(name, len(self.spreads))
        return [at, len(words) - at - 1, spread, *map(self.word, words[:at] + words[at + 1 :])]

    def word(self, word: str) -> int:
        if word == "_":
            return -1
        if word.isdigit():
            return 2 * int(word) + 1
        return 2 * self.names.setdefault(word, len(self.names))

    def result(self, result: Result) -> list[int]:
        if result.count is not None:
            raise _NoForm
        if result.like:
            if self.letters[result.like] not in "TO":
                raise _NoForm
            return [1, _WHOLE, self.positions[result.like]]
        parts: list[int] = []
        for expression in result.sizes:
            spread = expression.value if isinstance(expression, ast.Starred) else expression
            if isinstance(spread, ast.Name) and spread.id in self.spreads:
                parts += [_SPREAD, self.spreads[spread.id]]
            elif isinstance(expression, ast.Starred):
                assert isinstance(spread, ast.Name)
                if self.letters.get(spread.id) != "J":
                    raise _NoForm
                parts += [_SPREAD_LIST, self.positions[spread.id]]
            else:
                codes = self.expression(expression)
                if len(codes) > _MAX_CODES * 2:
                    raise _NoForm
                parts += [_EXPRESSION, len(codes), *codes]
        return [len(result.sizes), *parts]

    def expression(self, node: ast.expr) -> list[int]:
        match node:
            case ast.Constant(value=int() as value):
                return [_CONSTANT, int(value)]
            case ast.Name(id=name):
                return self.name(name)
            case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=operand):
                return [*self.expression(operand), _NEGATE if isinstance(op, ast.USub) else _NOT]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [*self.expression(left), *self.expression(right), _BINARY[type(op)]]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
                return [*self.expression(left), *self.expression(right), _BINARY[type(op)]]
            case ast.IfExp(test=test, body=body, orelse=orelse) if not _can_fail([body, orelse]):
                return [*self.expression(test), *self.expression(body), *self.expression(orelse), _CHOOSE]
            case ast.Subscript(value=ast.Name(id=name), slice=index) if self.letters.get(name) in (
                "T",
                "O",
                "J",
            ):
                return [*self.expression(index), _ITEM, self.positions[name]]
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *rest]):
                codes = self.expression(first)
                for other in rest:
                    codes += [*self.expression(other), _MIN if name == "min" else _MAX]
                return codes
            case ast.Call(func=ast.Name(id="abs"), args=[operand]):
                return [*self.expression(operand), _ABS]
            case ast.Call(func=ast.Name(id="len" | "ndim" as function), args=[ast.Name(id=name)]):
                if self.letters.get(name) == ("J" if function == "len" else "T"):
                    return [_LENGTH, self.positions[name]]
        raise _NoForm

    def name(self, name: str) -> list[int]:
        is_number = self.letters.get(name) in ("I", "B")
        if name in self.names:
            same = [_ARGUMENT, self.positions[name], _SAME] if is_number else []
            return [_NAME, self.names[name], *same]
        if is_number:
            return [_ARGUMENT, self.positions[name]]
        raise _NoForm


def _can_fail(nodes: Sequence[ast.expr]) -> bool:
    """Both branches of a choice are calculated: what may divide by zero in one is left to Python."""
    return any(
        isinstance(part, ast.FloorDiv | ast.Mod | ast.Subscript) for node in nodes for part in ast.walk(node)
    )
