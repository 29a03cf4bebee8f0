"""An operator from a Python function over tensors, without a kernel.

torch gets it by `torch.library.custom_op`; programs get what the function calls
(dialects/user_operators.py). Sizes and gradients follow from running the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from penlight.errors import InvalidOperator, NotSupported
from penlight.ops.declared import Operator


def define(said: Operator, function: Callable[..., Any], mutates: Sequence[str]) -> Any:
    """The operator, callable as `torch.ops` has it.

    Raises:
        InvalidOperator: the function's annotations give no schema.
    """
    try:
        made = torch.library.custom_op(said.name, function, mutates_args=tuple(mutates))
    except (ValueError, RuntimeError) as error:
        code = getattr(function, "__code__", None)
        raise InvalidOperator(
            f"{said.name} cannot be an operator",
            where=f"{code.co_filename}:{code.co_firstlineno} in {function.__name__}" if code else None,
            got=" ".join(str(error).split())[:300],
            do="annotate every argument and the result: Tensor, Optional[Tensor], int, float, bool, str, "
            "torch.dtype, or lists of them",
        ) from error
    made.register_fake(lambda *args, **kwargs: _fake(said, function, args, kwargs))
    if not mutates:
        _differentiate(made, said, function)
    return made


def _fake(said: Operator, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if said.fake_function is not None:
        return said.fake_function(*args, **kwargs)
    code = function.__code__
    with _NoValues(said.name, f"{code.co_filename}:{code.co_firstlineno} in {function.__name__}"):
        return function(*args, **kwargs)


class _NoValues(TorchDispatchMode):
    """Refuses to read a value out of a fake tensor, while sizes are found by running the function."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name, self.where = name, where

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in ("aten::_local_scalar_dense", "aten::item"):
            raise NotSupported(
                f"the implementation of {self.name} reads values of tensors, which tracing does not have",
                where=self.where,
                do=f"compute with tensors in place of .item(), int() or if; or give sizes by "
                f'@penlight.op("{self.name}").fake, and a kernel for programs',
            )
        return func(*args, **(kwargs or {}))


def _differentiate(made: Any, said: Operator, function: Callable[..., Any]) -> None:
    """Gradients by the declared formula, else by running the function again with gradients on."""

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any = None, output: Any = None) -> None:
        if said.setup_context is not None:
            said.setup_context(ctx, inputs, output)
            return
        leaves, ctx.penlight_spec = pytree.tree_flatten((tuple(inputs), dict(keyword_only_inputs or {})))
        ctx.penlight_leaves = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        ctx.save_for_backward(*(leaf for leaf in leaves if isinstance(leaf, torch.Tensor)))

    def backward(ctx: Any, *grads: Any) -> Any:
        if said.backward_function is not None:
            return said.backward_function(ctx, *grads)
        saved = iter(ctx.saved_tensors)
        leaves = [next(saved) if leaf is None else leaf[0] for leaf in ctx.penlight_leaves]
        leaves = [
            leaf.detach().requires_grad_(leaf.is_floating_point()) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in leaves
        ]
        args, kwargs = pytree.tree_unflatten(leaves, ctx.penlight_spec)
        with torch.enable_grad():
            results = function(*args, **kwargs)
        given = [
            leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        pairs = [
            (result, grad)
            for result, grad in zip(pytree.tree_leaves(results), pytree.tree_leaves(grads), strict=True)
            if isinstance(result, torch.Tensor) and result.requires_grad and grad is not None
        ]
        if not pairs or not given:
            return pytree.tree_map(lambda leaf: None, args, is_leaf=lambda leaf: leaf is None)
        found = iter(
            torch.autograd.grad([r for r, _ in pairs], given, [g for _, g in pairs], allow_unused=True)
        )
        return pytree.tree_map(
            lambda leaf: next(found) if isinstance(leaf, torch.Tensor) and leaf.requires_grad else None, args
        )

    keyword_only = any(argument.kwarg_only for argument in made._opoverload._schema.arguments)
    made.register_autograd(
        backward,
        setup_context=(
            lambda ctx, inputs, keyword_only_inputs, output: setup(ctx, inputs, keyword_only_inputs, output)
        )
        if keyword_only
        else (lambda ctx, inputs, output: setup(ctx, inputs, None, output)),
    )
