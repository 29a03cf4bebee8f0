"""A shape rule as numbers, which C++ holds sizes of eager calls against.

runtime/hosted/shape_rule.cpp runs them; its codes are listed in the same order here.
What has no form there (an argument that is a size and a number without type) is left to Python.
"""

from __future__ import annotations

import ast

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
_MIN, _MAX, _ABS, _NEGATE, _NOT, _SAME, _JUMP, _JUMP_UNLESS, _IS_NONE, _TEXT_IS, _TOTAL = range(16, 27)
_TENSOR, _LIKE, _LIST, _LIKE_LIST = range(4)
_SPREAD, _SPREAD_LIST, _EXPRESSION = range(3)
_MAX_NAMES, _MAX_SPREADS, _MAX_DEPTH = 32, 8, 16


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
        listed = self.rule.signature.out_list
        if result.like:
            if self.letters[result.like] not in ("LQ" if listed else "TO"):
                raise _NoForm
            return [_LIKE_LIST if listed else _LIKE, self.positions[result.like]]
        count: list[int] = []
        if result.count is not None:
            count = self.expression(result.count)
        elif listed:
            count = [_CONSTANT, 1]
        kind = [_LIST, len(count), *count] if listed else [_TENSOR]
        if bool(count) != listed:
            raise _NoForm
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
                parts += [_EXPRESSION, len(codes), *codes]
        return [*kind, len(result.sizes), *parts]

    def expression(self, node: ast.expr) -> list[int]:
        if sum(isinstance(part, ast.Constant | ast.Name) for part in ast.walk(node)) > _MAX_DEPTH:
            raise _NoForm
        return self.codes(node)

    def codes(self, node: ast.expr) -> list[int]:
        match node:
            case ast.Constant(value=int() as value):
                return [_CONSTANT, int(value)]
            case ast.Name(id=name):
                return self.name(name)
            case ast.UnaryOp(op=ast.USub() | ast.Not() as op, operand=operand):
                return [*self.codes(operand), _NEGATE if isinstance(op, ast.USub) else _NOT]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [*self.codes(left), *self.codes(right), _BINARY[type(op)]]
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None)],
            ):
                if name in self.positions:
                    return [_IS_NONE, self.positions[name], *([_NOT] if isinstance(op, ast.IsNot) else [])]
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=str() as text)],
            ):
                if self.letters.get(name) == "Z":
                    letters = text.encode()
                    is_not = [_NOT] if isinstance(op, ast.NotEq) else []
                    return [_TEXT_IS, self.positions[name], len(letters), *letters, *is_not]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
                return [*self.codes(left), *self.codes(right), _BINARY[type(op)]]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return _choice(self.codes(test), self.codes(body), self.codes(orelse))
            case ast.BoolOp(op=op, values=[*rest, last]):
                codes = [*self.codes(last), _NOT, _NOT]
                for part in reversed(rest):
                    if isinstance(op, ast.And):
                        codes = _choice(self.codes(part), codes, [_CONSTANT, 0])
                    else:
                        codes = _choice(self.codes(part), [_CONSTANT, 1], codes)
                return codes
            case ast.Subscript(value=ast.Name(id=name), slice=index) if self.letters.get(name) in (
                "T",
                "O",
                "J",
            ):
                return [*self.codes(index), _ITEM, self.positions[name]]
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *rest]):
                codes = self.codes(first)
                for other in rest:
                    codes += [*self.codes(other), _MIN if name == "min" else _MAX]
                return codes
            case ast.Call(func=ast.Name(id="abs"), args=[operand]):
                return [*self.codes(operand), _ABS]
            case ast.Call(func=ast.Name(id="len" | "ndim" as function), args=[ast.Name(id=name)]):
                if self.letters.get(name, "?") in ("JLQ" if function == "len" else "TO"):
                    return [_LENGTH, self.positions[name]]
            case ast.Call(func=ast.Name(id="total"), args=[ast.Name(id=name), dim]):
                if self.letters.get(name, "?") in "LQ":
                    return [*self.codes(dim), _TOTAL, self.positions[name]]
        raise _NoForm

    def name(self, name: str) -> list[int]:
        letter = self.letters.get(name, "?")
        if name in self.names:
            if letter == "S":  # an int would have to be the same, a float not
                raise _NoForm
            same = [_ARGUMENT, self.positions[name], _SAME] if letter in "IB" else []
            return [_NAME, self.names[name], *same]
        if letter in "IBFS":
            return [_ARGUMENT, self.positions[name]]
        raise _NoForm


def _choice(test: list[int], body: list[int], orelse: list[int]) -> list[int]:
    """Only one of the two is calculated: the other may divide by zero, or ask for what is not there."""
    return [*test, _JUMP_UNLESS, len(body) + 2, *body, _JUMP, len(orelse), *orelse]
