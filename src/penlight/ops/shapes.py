"""The notation of shape rules: what results an operator gives for tensors of which sizes.

    [o,i], [n,i], [o]? -> [n,o]         a linear layer; its bias may be None
    [..., i], [o, i] -> [..., o]        any number of dimensions in front, broadcast
    [n]        -> f32[2*n], i64[n//2]   two results with dtypes of their own
    [_,c][]    -> [total(xs, 0), c]     a list of tensors; `_` is any size
    [b,t]      -> [b, k]                k is an int argument of the operator
    [...], _   -> same as x             `_` takes anything
    [n]        -> ()                    no result: the operator changes an argument

Patterns stand in the order of the schema's tensor arguments. A name is one size
wherever it occurs; a number is that size; `...` or `*` is any number of sizes
(`*batch`, when there are several); a trailing `?` is for arguments that may be
None, `[]` for lists. Results calculate with + - * // %, min, max, abs, len(xs),
ndim(x), x[0] (a size of x, or an item of an int[] argument), total(xs, dim) and
`a if flag else b`, where `n is None`, `mode == "full"`, `and` and `or` may ask;
`*sizes` puts in a list of ints. A dtype, or the name of a tensor or dtype
argument, in front of the bracket says the result's dtype; else it is that of the
first tensor.

Sizes may be symbolic: what must be equal is then noted for torch to check.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penlight.errors import InvalidInput, InvalidOperator
from penlight.ops.signature import Argument, Signature

_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "u8": "uint8",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
}  # fmt: skip
_TORCH_DTYPES = ("float16", "float32", "float64", "bfloat16", "uint8", "int8", "int16", "int32", "int64",
                 "bool", "uint16", "uint32", "uint64")  # fmt: skip
_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS = ("min", "max", "abs", "len", "ndim", "total")

Size = Any  # an int or a torch.SymInt


@dataclass(frozen=True)
class Pattern:
    """Of one tensor argument. `sizes` is None where anything goes."""

    text: str
    sizes: tuple[str, ...] | None
    optional: bool
    is_list: bool


@dataclass(frozen=True)
class Result:
    """One result: `sizes` are expressions, `like` an argument it has the sizes of; `count` makes a list."""

    text: str
    sizes: tuple[ast.expr, ...]
    dtype: str | None = None
    like: str | None = None
    count: ast.expr | None = None


@dataclass(frozen=True)
class Spec:
    """Sizes of a result, and its dtype by torch's name."""

    sizes: tuple[Size, ...]
    dtype: str


class ShapeRule:
    """A rule in the notation, for one operator.

    Raises:
        InvalidOperator: the rule cannot be read, or does not fit the operator's schema.
    """

    def __init__(self, text: str, signature: Signature) -> None:
        self.text, self.signature = text.strip(), signature
        before, arrow, after = self.text.partition("->")
        if not arrow:
            raise self.wrong("a shape rule has an arrow", "write it as '[n,i], [o,i] -> [n,o]'")
        self.patterns = [self._pattern(part) for part in split(before)]
        self.results = [] if after.strip() == "()" else [self._result(part) for part in split(after)]
        self._check_counts()
        self._check_names()

    def wrong(self, what: str, do: str | None = None) -> InvalidOperator:
        return InvalidOperator(
            what, where=f"the shape rule of {self.signature.kernel_name}", got=self.text, do=do
        )

    # --- reading -----------------------------------------------------------------------------------

    def _pattern(self, part: str) -> Pattern:
        if part in ("_", "_?"):
            return Pattern(part, None, part.endswith("?"), False)
        match = re.fullmatch(r"\[([^\[\]]*)\](\?)?(\[\])?(\?)?", part)
        if match is None:
            raise self.wrong(
                f"'{part}' is no pattern of a tensor", "write its sizes in brackets, as in [n, 3]"
            )
        sizes = tuple(word.strip() for word in match[1].split(",") if word.strip())
        for word in sizes:
            if not re.fullmatch(r"\d+|\w+|\.\.\.|\*\w*", word):
                raise self.wrong(
                    f"'{word}' is no size of an argument", "calculations belong behind the arrow"
                )
        if sum(word.startswith((".", "*")) for word in sizes) > 1:
            raise self.wrong(f"'{part}' has two parts of unknown length")
        return Pattern(part, sizes, bool(match[2] or match[4]), bool(match[3]))

    def _result(self, part: str) -> Result:
        if same := re.fullmatch(r"same\s+as\s+(\w+)", part):
            return Result(part, (), like=same[1])
        match = re.fullmatch(r"(\w+)?\s*\[(.*?)\](?:\[([^\[\]]+)\])?", part, re.S)
        if match is None:
            raise self.wrong(f"'{part}' is no result", "write its sizes in brackets, or 'same as x'")
        sizes = tuple(self._expression(word) for word in split(match[2]))
        return Result(part, sizes, match[1], count=self._expression(match[3]) if match[3] else None)

    def _expression(self, text: str) -> ast.expr:
        text = text.strip()
        if text in ("...", "*"):
            return ast.Name("...")
        if text.startswith("*"):
            return ast.Starred(ast.Name(text[1:].strip()))
        try:
            return ast.parse(text, mode="eval").body
        except SyntaxError:
            raise self.wrong(f"'{text}' cannot be read", "sizes calculate with + - * // % min max") from None

    def _check_counts(self) -> None:
        tensors = self.signature.tensors
        if len(self.patterns) != len(tensors):
            names = ", ".join(argument.name for argument in tensors)
            raise self.wrong(
                f"{len(self.patterns)} patterns, but {len(tensors)} tensor arguments: {names}",
                "write one for each; '_' takes any tensor",
            )
        for pattern, argument in zip(self.patterns, tensors, strict=True):
            if pattern.sizes is not None and pattern.is_list != ("[]" in argument.type):
                raise self.wrong(
                    f"'{pattern.text}' stands for {argument.type} {argument.name}",
                    "[] behind the sizes marks a list of tensors",
                )
        if len(self.results) != max(1, len(self.signature.outs)) and self.signature.outs:
            raise self.wrong(f"{len(self.results)} results, but the operator has {len(self.signature.outs)}")

    def _check_names(self) -> None:
        names = {word.lstrip("*") for pattern in self.patterns for word in pattern.sizes or ()}
        names |= {argument.name for argument in self.signature.arguments} | set(_FUNCTIONS)
        if any(word in ("*", "...") for pattern in self.patterns for word in pattern.sizes or ()):
            names.add("...")
        for result in self.results:
            for name in [result.like] if result.like else []:
                if name not in {argument.name for argument in self.signature.tensors}:
                    raise self.wrong(f"there is no tensor argument '{name}'")
            if result.dtype and not self._is_dtype(result.dtype):
                raise self.wrong(
                    f"'{result.dtype}' is neither a dtype nor an argument that has one",
                    f"use {', '.join(_DTYPES)}, bool, or the name of a tensor",
                )
            for expression in (*result.sizes, *([result.count] if result.count is not None else [])):
                for part in ast.walk(expression):
                    if isinstance(part, ast.Name) and part.id not in names:
                        raise self.wrong(f"'{part.id}' in '{result.text}' is known from no argument")

    def _is_dtype(self, word: str) -> bool:
        named = {
            a.name for a in self.signature.arguments if a.holds_tensors or a.type.startswith("ScalarType")
        }
        return word in _DTYPES or word in _TORCH_DTYPES or word in named

    # --- applying ----------------------------------------------------------------------------------

    def apply(self, arguments: Mapping[str, Any]) -> list[Spec | list[Spec]]:
        """The results for arguments by name: tensors (only their sizes and dtypes are looked at) and values.

        Raises:
            InvalidInput: an argument does not fit its pattern.
        """
        found: dict[str, Any] = {}
        prefixes: dict[str, list[tuple[Size, ...]]] = {}
        for pattern, argument in zip(self.patterns, self.signature.tensors, strict=True):
            value = arguments[argument.name]
            if pattern.sizes is None or (value is None and argument.type.endswith("?")):
                continue
            if value is None:
                raise self.refused(argument.name, pattern, "None")
            for index, item in enumerate(value if pattern.is_list else [value]):
                if item is not None:
                    name = f"{argument.name}[{index}]" if pattern.is_list else argument.name
                    self._match(name, pattern, tuple(item.shape), found, prefixes)
        spread = {name: broadcast(parts, self) for name, parts in prefixes.items()}
        evaluate = _Evaluator(self, arguments, found, spread)
        return [evaluate.result(result) for result in self.results] if self.signature.outs else []

    def _match(
        self,
        name: str,
        pattern: Pattern,
        shape: tuple[Size, ...],
        found: dict[str, Any],
        prefixes: dict[str, list[tuple[Size, ...]]],
    ) -> None:
        assert pattern.sizes is not None
        words = pattern.sizes
        variable = next((i for i, word in enumerate(words) if word.startswith((".", "*"))), None)
        if variable is None:
            if len(shape) != len(words):
                raise self.refused(name, pattern, _text(shape))
            pairs = list(zip(words, shape, strict=True))
        else:
            after = len(words) - variable - 1
            if len(shape) < len(words) - 1:
                raise self.refused(name, pattern, _text(shape))
            end = len(shape) - after
            prefixes.setdefault(words[variable].lstrip("*.") or "...", []).append(shape[variable:end])
            pairs = [
                *zip(words[:variable], shape[:variable], strict=True),
                *zip(words[variable + 1 :], shape[end:], strict=True),
            ]
        for word, size in pairs:
            if word == "_":
                continue
            wanted = int(word) if word.isdigit() else found.setdefault(word, size)
            if not same_size(wanted, size, f"{name} of {self.signature.kernel_name}: {word}"):
                note = "" if word.isdigit() else f" ({word} is {wanted})"
                raise self.refused(name, pattern, _text(shape) + note)

    def quick_check(self, plain: Sequence[type]) -> Callable[[Sequence[Any]], bool]:
        """A function that says whether the sizes of tensors (of the classes `plain`) fit.

        It runs in every eager call, so it is written out for this rule: half a microsecond, where
        walking the patterns takes several.
        """
        names: dict[str, bool] = {}  # size -> whether it is known whatever is None
        lines: list[str] = []
        for place, (argument, pattern) in enumerate(self._positional()):
            if pattern is None or pattern.sizes is None or argument.type not in ("Tensor", "Tensor?"):
                continue
            optional = argument.type == "Tensor?"
            lines += [
                f"if len(args) > {place} and args[{place}] is not None:",
                f"    if args[{place}].__class__ not in plain: return True",
                f"    s = args[{place}].shape",
            ]
            words = pattern.sizes
            variable = next((i for i, word in enumerate(words) if word.startswith((".", "*"))), None)
            compare = "!=" if variable is None else "<"
            lines.append(f"    if len(s) {compare} {len(words) - (variable is not None)}: return False")
            for i, word in enumerate(words):
                at = i if variable is None or i < variable else i - len(words)
                if i == variable or word == "_":
                    continue
                if word.isdigit():
                    lines.append(f"    if s[{at}] != {int(word)}: return False")
                elif names.get(word):
                    lines.append(f"    if s[{at}] != d_{word}: return False")
                elif word in names:
                    lines.append(f"    if d_{word} is None: d_{word} = s[{at}]")
                    lines.append(f"    elif d_{word} != s[{at}]: return False")
                else:
                    lines.append(f"    d_{word} = s[{at}]")
                names[word] = names.get(word, False) or not optional
        unsure = [f"d_{word} = None" for word in names]
        body = "\n    ".join([*unsure, *lines, "return True"])
        scope: dict[str, Any] = {"plain": frozenset(plain)}
        exec(f"def fits(args):\n    {body}", scope)
        fits: Callable[[Sequence[Any]], bool] = scope["fits"]
        return fits

    def _positional(self) -> list[tuple[Argument, Pattern | None]]:
        """Arguments that come by position, with their patterns."""
        patterns = dict(zip((a.name for a in self.signature.tensors), self.patterns, strict=True))
        given = [argument for argument in self.signature.arguments if not argument.keyword_only]
        return [(argument, patterns.get(argument.name)) for argument in given]

    def refused(self, name: str, pattern: Pattern, got: str) -> InvalidInput:
        return InvalidInput(
            f"argument '{name}' of {self.signature.qualified} should be {pattern.text}",
            where=f"shape rule {self.text}",
            got=got,
        )

    def __repr__(self) -> str:
        return f"ShapeRule({self.text!r})"


class _Evaluator:
    """Calculates results from the sizes that patterns found."""

    def __init__(
        self,
        rule: ShapeRule,
        arguments: Mapping[str, Any],
        found: Mapping[str, Any],
        spread: Mapping[str, Sequence[Size]],
    ) -> None:
        self.rule, self.arguments, self.found, self.spread = rule, arguments, found, spread

    def result(self, result: Result) -> Spec | list[Spec]:
        if result.like:
            value = self.arguments[result.like]
            if isinstance(value, (list, tuple)):
                return [Spec(tuple(item.shape), _dtype_of(item)) for item in value]
            if value is None:
                raise self.rule.wrong(f"the result should be the same as '{result.like}', which is None")
            return Spec(tuple(value.shape), _dtype_of(value))
        sizes: list[Size] = []
        for expression in result.sizes:
            if isinstance(expression, ast.Starred):
                sizes.extend(self._spread(expression.value))
            elif isinstance(expression, ast.Name) and expression.id in ("...", *self.spread):
                sizes.extend(self._spread(expression))
            else:
                sizes.append(self.number(expression))
        for size in sizes:
            if isinstance(size, int) and size < 0:
                raise self.rule.wrong(f"'{result.text}' gives the size {size}")
        one = Spec(tuple(sizes), self._dtype(result.dtype))
        if result.count is not None:
            return [one] * int(self.number(result.count))
        return [one] if self.rule.signature.out_list else one

    def _spread(self, name: ast.expr) -> Sequence[Size]:
        assert isinstance(name, ast.Name)
        if name.id in self.spread:
            return self.spread[name.id]
        value = self.arguments.get(name.id)
        if not isinstance(value, (list, tuple)):
            self._need_tensor(name.id)
            raise self.rule.wrong(f"'*{name.id}' is no list of sizes")
        return value

    def _need_tensor(self, word: str) -> None:
        """An error if `word` is a size of arguments of which a call gave none."""
        for pattern, argument in zip(self.rule.patterns, self.rule.signature.tensors, strict=True):
            if word in [size.lstrip("*.") or "..." for size in pattern.sizes or ()]:
                raise InvalidInput(
                    f"{self.rule.signature.qualified} cannot tell its results' size '{word}'",
                    where=f"shape rule {self.rule.text}",
                    got=f"{argument.name} is {'empty' if pattern.is_list else None}",
                )

    def _dtype(self, name: str | None) -> str:
        if name is not None and name in self.arguments:
            value = self.arguments[name]
            if isinstance(value, (list, tuple)):
                value = next((item for item in value if item is not None), None)
            if value is not None:
                return _dtype_of(value)
        elif name is not None:
            return full_name(name)
        for argument in self.rule.signature.tensors:
            value = self.arguments[argument.name]
            items = value if isinstance(value, (list, tuple)) else [value]
            for item in items:
                if item is not None:
                    return _dtype_of(item)
        return "float32"

    def number(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.number(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.number(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                a, b = self.number(left), self.number(right)
                if isinstance(op, (ast.FloorDiv, ast.Mod)) and isinstance(b, int) and b == 0:
                    raise self.rule.wrong(f"'{ast.unparse(node)}' divides by zero")
                return _OPERATIONS[type(op)](a, b)
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None)],
            ):
                return (self.arguments.get(name) is None) == isinstance(op, ast.Is)
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=str() as text)],
            ):
                return (self.arguments.get(name) == text) == isinstance(op, ast.Eq)
            case ast.BoolOp(op=op, values=values):
                every = all if isinstance(op, ast.And) else any
                return every(self.number(value) for value in values)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](self.number(left), self.number(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.number(body) if self.number(test) else self.number(orelse)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._item(name, self.number(index))
            case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
                return self._call(name, args)
        raise self.rule.wrong(
            f"'{ast.unparse(node)}' cannot be calculated in a shape rule",
            "use + - * // % min max, or write a fake function: penlight.op(name).fake",
        )

    def _name(self, name: str) -> Any:
        if name in self.found:
            given = self.arguments.get(name)
            if isinstance(given, int) and not same_size(given, self.found[name], name):
                raise self.rule.wrong(f"'{name}' is {self.found[name]} as a size and {given} as an argument")
            return self.found[name]
        value = self.arguments.get(name)
        if value is None or isinstance(value, (list, tuple)) or hasattr(value, "shape"):
            self._need_tensor(name)
            raise self.rule.wrong(f"'{name}' is no number here", f"got {type(value).__name__}")
        return int(value) if isinstance(value, float) else value

    def _item(self, name: str, index: int) -> Any:
        value: Any = self.arguments.get(name)
        items = value.shape if hasattr(value, "shape") else value
        if not isinstance(items, (list, tuple)) or not -len(items) <= index < len(items):
            raise self.rule.wrong(f"'{name}[{index}]' is not there")
        return items[index]

    def _call(self, name: str, args: Sequence[ast.expr]) -> Any:
        if name in ("len", "ndim", "total"):
            first = args[0]
            value: Any = self.arguments.get(first.id) if isinstance(first, ast.Name) else None
            if name == "ndim" and hasattr(value, "shape"):
                return len(value.shape)
            if isinstance(value, (list, tuple)):
                if name == "len":
                    return len(value)
                if name == "total" and len(args) == 2:
                    dim = self.number(args[1])
                    return sum(item.shape[dim] for item in value if item is not None)
            raise self.rule.wrong(f"{name}() does not take that", f"got {type(value).__name__}")
        values = [self.number(arg) for arg in args]
        if any(not isinstance(value, int) for value in values):
            import torch

            pair: Any = torch.sym_max if name == "max" else torch.sym_min
            return functools.reduce(pair, values) if name != "abs" else pair(values[0], -values[0]) * -1
        if name == "abs":
            return abs(values[0])
        return min(values) if name == "min" else max(values)


def full_name(dtype: str) -> str:
    """torch's name of a dtype."""
    return _DTYPES.get(dtype, dtype)


def same_size(a: Size, b: Size, what: str) -> bool:
    """Are two sizes equal? Of symbolic ones that is noted for torch, which checks it."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    import torch

    torch._check(a == b, lambda: f"{what} should be {a}, not {b}")
    return True


def broadcast(shapes: Sequence[tuple[Size, ...]], rule: ShapeRule) -> tuple[Size, ...]:
    if all(isinstance(size, int) for shape in shapes for size in shape):
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        result = []
        for sizes in zip(*padded, strict=True):
            others = {size for size in sizes if size != 1}
            if len(others) > 1:
                raise InvalidInput(
                    f"sizes in front of {rule.signature.qualified} do not broadcast",
                    where=f"shape rule {rule.text}",
                    got=" and ".join(_text(shape) for shape in shapes),
                )
            result.append(others.pop() if others else 1)
        return tuple(result)
    import torch

    return tuple(torch.broadcast_shapes(*shapes))


def split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return [part for part in (*parts, current.strip()) if part]


def _dtype_of(value: Any) -> str:
    """The dtype of a tensor, or a dtype itself, by torch's name."""
    return str(getattr(value, "dtype", value)).removeprefix("torch.")


def _text(shape: Sequence[Size]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
