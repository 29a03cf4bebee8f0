"""The notation of gradients: which operator gives those of which arguments.

    backward("relu_backward(grad, x) -> x")                one operator, one gradient
    backward("linear_backward(grad, w, x) -> w, x, b")     several results
    backward("by_x(grad, w) -> x; by_w(grad, x) -> w")     several operators

An operator without namespace is of the same one as that which it differentiates. It
is called with arguments of the operator by their names, with its results by theirs,
with `grad` (`grad_NAME` for one of several results), and with numbers, texts, True,
False and None as they stand. An argument that no part names has no gradient.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penlight.errors import InvalidOperator
from penlight.ops.shapes import split
from penlight.ops.signature import Signature

_PART = re.compile(r"((?:\w+::)?\w+(?:\.\w+)?)\s*\((.*)\)\s*->\s*(.+)", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """One argument of a call: a value of the differentiated one by its name, or a constant."""

    name: str | None
    constant: Any = None


@dataclass(frozen=True)
class Part:
    """One call, and the arguments whose gradients its results are."""

    operator: str  # with namespace
    words: tuple[Word, ...]
    targets: tuple[str, ...]


class BackwardRule:
    """What PENLIGHT_LIBRARY's backward("...") says of one operator.

    Raises:
        InvalidOperator: it cannot be read, or does not fit the operator's schema.
    """

    def __init__(self, text: str, signature: Signature, source: str) -> None:
        self.text, self.signature, self.source = " ".join(text.split()), signature, source
        self.parts = tuple(self._part(part.strip()) for part in self.text.split(";") if part.strip())
        if not self.parts:
            raise self.wrong("it names no operator")
        targets = [target for part in self.parts for target in part.targets]
        for target in targets:
            if targets.count(target) > 1:
                raise self.wrong(f"it gives '{target}' two gradients")

    def wrong(self, what: str, do: str | None = None) -> InvalidOperator:
        return InvalidOperator(
            f"the gradients of {self.signature.qualified}: {what}",
            where=self.source,
            got=f'backward("{self.text}")',
            do=do or 'write them as backward("scale_backward(grad, x) -> x")',
        )

    def _part(self, text: str) -> Part:
        match = _PART.fullmatch(text)
        if match is None:
            raise self.wrong(f"'{text}' cannot be read")
        name = match[1] if "::" in match[1] else f"{self.signature.namespace}::{match[1]}"
        words = tuple(self._word(word) for word in split(match[2]))
        targets = tuple(word.strip() for word in match[3].split(","))
        tensors = [argument.name for argument in self.signature.tensors]
        for target in targets:
            if target not in tensors:
                raise self.wrong(f"'{target}' is none of its tensors", f"it has {', '.join(tensors)}")
        return Part(name, words, targets)

    def _word(self, text: str) -> Word:
        if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in ("True", "False", "None"):
            known = [argument.name for argument in self.signature.arguments]
            known += [name for out in self.signature.outs for name in (out.name, f"grad_{out.name}")]
            known += ["grad"] if len(self.signature.outs) == 1 else []
            if text not in known:
                raise self.wrong(f"nothing is called '{text}'", f"there are {', '.join(known)}")
            return Word(text)
        try:
            return Word(None, ast.literal_eval(text))
        except (ValueError, SyntaxError):
            raise self.wrong(f"'{text}' is neither a name nor a constant") from None

    def check(self, find: Callable[[str], Any]) -> None:
        """Are the operators there? `find` gives None for one that is not."""
        for part in self.parts:
            if find(part.operator) is None:
                raise self.wrong(
                    f"there is no operator {part.operator}",
                    "define it with a PENLIGHT_LIBRARY line of the same file, or load its file first",
                )

    def formula(self, find: Callable[[str], Any]) -> Callable[..., Any]:
        """As a function of Operator.backward()'s kind."""
        names = [argument.name for argument in self.signature.arguments]

        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            values = {**vars(ctx.inputs), **self._results(ctx.outputs, grads)}
            needed = dict(zip(names, ctx.needs_input_grad, strict=False))
            found: dict[str, Any] = {}
            for part in self.parts:
                if any(needed.get(target, True) for target in part.targets):
                    found.update(self._call(part, find, values))
            return tuple(found.get(name) for name in names)

        return backward

    def _results(self, outputs: Any, grads: tuple[Any, ...]) -> Mapping[str, Any]:
        outs = self.signature.outs
        made = (outputs,) if len(outs) == 1 else tuple(outputs)
        values = {out.name: value for out, value in zip(outs, made, strict=True)}
        values |= {f"grad_{out.name}": grad for out, grad in zip(outs, grads, strict=False)}
        return {**values, "grad": grads[0]}

    def _call(self, part: Part, find: Callable[[str], Any], values: Mapping[str, Any]) -> dict[str, Any]:
        operator = find(part.operator)
        if operator is None:
            self.check(find)
        results = operator(*(values[word.name] if word.name else word.constant for word in part.words))
        made = tuple(results) if isinstance(results, tuple | list) else (results,)
        if len(made) != len(part.targets):
            raise self.wrong(
                f"{part.operator} gives {len(made)} results for {len(part.targets)} arguments",
                "name one argument for each of its results",
            )
        return dict(zip(part.targets, made, strict=True))
