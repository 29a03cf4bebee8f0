"""Nodes for symbolic sizes.

A pass that runs operators on fake tensors gets sizes as expressions over
symbols (`s0*2`). A graph needs nodes for them: the one that already computes the
expression, the size of a tensor that has it, or arithmetic on those.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloatPow,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    OpaqueUnaryFn_sqrt,
    PowByNatural,
    PythonMod,
    ToFloat,
    TruncToInt,
)

from penlight.errors import NotSupported

_sym_size = torch.ops.aten.sym_size.int


class SymbolNodes:
    """Finds or makes the node of a symbolic number, at the graph's insertion point.

    Every node has to be shown to `see` in graph order, so that what is found is
    defined before it is used.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[sympy.Basic, Node] = {}
        self.sizes: dict[sympy.Basic, tuple[Node, int, Any]] = {}

    def see(self, node: Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    self.sizes.setdefault(size.node.expr, (node, dim, size))
        elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            self.known.setdefault(value.node.expr, node)

    def node(
        self, value: torch.SymInt | torch.SymFloat | torch.SymBool, meta: dict[str, Any] | None = None
    ) -> Any:
        """The argument that stands for `value`: a node, or a number if it is constant."""
        return self._build(value.node.expr, value, meta or {})[0]

    def _build(self, expr: sympy.Basic, value: Any, meta: dict[str, Any]) -> tuple[Any, Any]:
        if expr.is_Integer:
            return int(expr), int(expr)
        if isinstance(expr, sympy.Float):
            return float(expr), float(expr)
        if expr in (sympy.true, sympy.false):
            return bool(expr), bool(expr)
        if expr in self.known:
            node = self.known[expr]
            return node, node.meta["val"]
        if expr.is_Symbol or (expr in self.sizes and not _is_arithmetic(expr)):
            if expr not in self.sizes:
                return self._solve(expr, meta)
            tensor, dim, size = self.sizes[expr]
            return self._emit(expr, _sym_size, (tensor, dim), size, meta)
        if isinstance(expr, sympy.Add | sympy.Mul):
            function = operator.add if isinstance(expr, sympy.Add) else operator.mul
            left, left_value = self._build(expr.args[0], None, meta)
            seen = expr.args[0]
            for argument in expr.args[1:]:
                right, right_value = self._build(argument, None, meta)
                seen = expr.func(seen, argument)
                result = function(left_value, right_value)
                left, left_value = self._emit(seen, function, (left, right), result, meta)
            return left, left_value
        for kind, function in _UNARY.items():
            if isinstance(expr, kind):
                operand, of = self._build(expr.args[0], None, meta)
                return self._emit(expr, function, (operand,), function(of), meta)
        for kind, function in _BINARY.items():
            if isinstance(expr, kind) and len(expr.args) == 2:
                (left, a), (right, b) = (self._build(argument, None, meta) for argument in expr.args)
                return self._emit(expr, function, (left, right), function(a, b), meta)
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp > 0:
            base, base_value = self._build(expr.base, None, meta)
            left, left_value = base, base_value
            for _ in range(int(expr.exp) - 1):
                left_value = left_value * base_value
                left, _ = self._emit(expr, operator.mul, (left, base), left_value, meta, remember=False)
            return left, left_value
        if expr in self.sizes:
            tensor, dim, size = self.sizes[expr]
            return self._emit(expr, _sym_size, (tensor, dim), size, meta)
        raise NotSupported(f"cannot compute the size {expr} in the graph")

    def _solve(self, symbol: sympy.Basic, meta: dict[str, Any]) -> tuple[Any, Any]:
        """A symbol that is no size itself, from a size such as 2*s + 1."""
        for expr, (tensor, dim, size) in self.sizes.items():
            if expr.free_symbols != {symbol}:
                continue
            offset = expr.subs(symbol, 0)
            factor = sympy.expand((expr - offset) / symbol)
            if not (factor.is_Integer and offset.is_Integer and factor > 0):
                continue
            node, value = self._emit(expr, _sym_size, (tensor, dim), size, meta)
            if offset != 0:
                value = value - int(offset)
                node, value = self._emit(expr - offset, operator.sub, (node, int(offset)), value, meta)
            return self._emit(symbol, operator.floordiv, (node, int(factor)), value // int(factor), meta)
        raise NotSupported(f"no tensor has a size from which {symbol} follows")

    def _emit(
        self,
        expr: Any,
        function: Any,
        args: tuple[Any, ...],
        value: Any,
        meta: dict[str, Any],
        remember: bool = True,
    ) -> tuple[Node, Any]:
        if remember and expr in self.known:
            return self.known[expr], self.known[expr].meta["val"]
        node = self.graph.call_function(function, args)
        node.meta = {**meta, "val": value}
        if remember:
            self.known[expr] = node
        return node, value


_UNARY: dict[Any, Any] = {
    ToFloat: torch.sym_float,
    TruncToInt: math.trunc,
    CeilToInt: math.ceil,
    FloorToInt: math.floor,
    OpaqueUnaryFn_sqrt: torch.sym_sqrt,
    sympy.Not: torch.sym_not,
}

_BINARY: dict[Any, Any] = {
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    IntTrueDiv: operator.truediv,
    FloatTrueDiv: operator.truediv,
    PowByNatural: operator.pow,
    FloatPow: operator.pow,
    Mod: operator.mod,
    PythonMod: operator.mod,
    Max: torch.sym_max,
    Min: torch.sym_min,
    sympy.Equality: operator.eq,
    sympy.Unequality: operator.ne,
    sympy.StrictLessThan: operator.lt,
    sympy.LessThan: operator.le,
    sympy.StrictGreaterThan: operator.gt,
    sympy.GreaterThan: operator.ge,
}


def _is_arithmetic(expr: sympy.Basic) -> bool:
    return isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, *_UNARY, *_BINARY))
