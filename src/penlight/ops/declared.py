"""What a user says of an operator in Python: fake function, gradients, dtypes, samples, or all of it.

    @penlight.op("myop::custom_linear").backward     # gradients of an operator in C++
    def _(ctx, grad): ...

    @penlight.op("myop::swish")                      # an operator in Python
    def swish(x: torch.Tensor, beta: float = 1.0) -> torch.Tensor: ...

The lines may run before the operator is loaded (they usually stand in the .py file
of the same stem, which the loader runs first) or after it. Needs no torch until an
operator in Python is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penlight.errors import InvalidInput, InvalidState

Function = TypeVar("Function", bound=Callable[..., Any])
Said = TypeVar("Said")

_NAME = re.compile(r"(?!\d)\w+::(?!\d)\w+(\.\w+)?")
_declared: dict[str, Operator] = {}
loading: set[str] = set()  # operators whose kernels are being loaded right now


def op(name: str) -> Operator:
    """The operator `name` ("myop::custom_linear"), to say more about it.

    As a decorator it makes an operator of a function over tensors.

    Raises:
        InvalidInput: it is no name, or one without a namespace.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(".out"):
        raise InvalidInput(
            "an operator's name has a namespace and a name", got=repr(name), do="write it as 'myop::scale'"
        )
    return _declared.setdefault(name, Operator(name))


class Operator:
    """One operator, by its name in torch. Each method returns what it was given, as decorators do.

    Attributes:
        changed: called after something was said, once the operator exists.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.fake_function: Callable[..., Any] | None = None
        self.backward_function: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.autograd_function: Any = None
        self.reference_function: Callable[..., Any] | None = None
        self.sample_function: Callable[..., Any] | None = None
        self.dtype_set: str | None = None
        self.changed: Callable[[], None] | None = None

    def fake(self, function: Function) -> Function:
        """Sizes and dtypes of the results, for tracing, in place of a shape rule."""
        self.fake_function = function
        return self._said(function)

    def backward(
        self, function: Function | None = None, *, setup_context: Callable[..., Any] | None = None
    ) -> Any:
        """Gradients: `function(ctx, *grads)` returns one for each argument, None for those without.

        Without `setup_context` the ctx knows the call: `ctx.inputs.weight` (by the schema's names),
        `ctx.outputs`, `ctx.needs_input_grad`. With it, it is torch's own, filled by
        `setup_context(ctx, inputs, output)`.
        """

        def declare(given: Function) -> Function:
            self.backward_function, self.setup_context, self.autograd_function = given, setup_context, None
            return self._said(given)

        return declare if function is None else declare(function)

    def function(self, cls: Any) -> Any:
        """A torch.autograd.Function, which calls the operator in its forward."""
        self.autograd_function, self.backward_function = cls, None
        return self._said(cls)

    def samples(self, function: Function) -> Function:
        """Arguments to test the operator with: a function that yields tuples of them."""
        self.sample_function = function
        return function

    def reference(self, function: Function) -> Function:
        """What the kernel computes, in torch's own operators: tests compare the kernel with it."""
        self.reference_function = function
        return function

    def dtypes(self, names: str) -> None:
        """Dtypes that the kernel takes, such as "float+int64"; without it all of them."""
        self.dtype_set = names
        self._said(None)

    def __call__(self, function: Function | None = None, *, mutates: Sequence[str] = ()) -> Any:
        """Make an operator of a Python function with annotations.

        Args:
            mutates: names of the arguments that the function changes.

        Raises:
            InvalidOperator: the annotations give no schema.
            InvalidState: the operator has a kernel in C++.
        """

        def declare(given: Function) -> Any:
            if self.name in loading or self.changed is not None:
                raise InvalidState(
                    f"{self.name} has a kernel in C++, and cannot be made of {given.__name__}() as well",
                    do="give it another name, or let tests compare the two: @penlight.op(...).reference",
                )
            from penlight.ops.python_operator import define

            return define(self, given, mutates)

        return declare if function is None else declare(function)

    def _said(self, value: Said) -> Said:
        if self.changed is not None:
            self.changed()
        return value

    def __repr__(self) -> str:
        return f"penlight.op({self.name!r})"


def declared(name: str) -> Operator:
    return _declared.setdefault(name, Operator(name))
