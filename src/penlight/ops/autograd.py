"""Gradients of custom operators, and a clear error where there are none.

torch itself gives an operator without a formula a backward that warns and leaves
`grad=None`; here that is an error which says what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch._library.autograd import Info, make_autograd_impl
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from penlight.errors import NotSupported
from penlight.ops.calls import Kernel
from penlight.ops.declared import Operator
from penlight.ops.signature import Signature

# Others (fake tensors, those of torch.func) are looked at where they are treated.
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def register(library: torch.library.Library, op: OpOverload, kernel: Kernel, said: Operator) -> None:
    """Give `op` the gradients that were declared, or the error.

    This is where torch passes through Python in any case, so sizes are held against the rule here:
    the kernel is then called without.
    """
    signature = kernel.signature
    name = signature.name + (f".{signature.overload}" if signature.overload else "")
    run: Callable[..., Any]
    if said.autograd_function is not None:
        run = _through(op, said.autograd_function)
    elif signature.written:
        run = _changes_arguments(op, signature)
    elif said.backward_function is None:
        run = _without_formula(op, signature)
    else:
        backward, setup = _formula(signature, said)
        run = make_autograd_impl(op, Info(backward, setup))
    library.impl(name, _checked(run, kernel), "Autograd", with_keyset=True)


def _checked(run: Callable[..., Any], kernel: Kernel) -> Callable[..., Any]:
    if kernel.rule is None:
        return run
    fits, rule = kernel.rule.quick_check(_PLAIN), kernel.rule

    def checked(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if not fits(args):
            rule.apply(kernel.bind(args, kwargs))
        return run(keyset, *args, **kwargs)

    return checked


def register_out(library: torch.library.Library, op: OpOverload, signature: Signature) -> None:
    """As for torch's own operators, results that are given take no part in autograd."""

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and _any_requires_grad((args, kwargs)):
            raise NotSupported(
                f"{signature.kernel_name} writes to tensors it is given, which gradients cannot follow",
                do=f"call {signature.qualified} without out, or in torch.no_grad()",
            )
        return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    library.impl(f"{signature.name}.{signature.out_overload}", run, "Autograd", with_keyset=True)


def no_gradient(name: str) -> NotSupported:
    return NotSupported(
        f"{name} has no gradient: backward came to it, and no formula was given",
        do=f'give one, @penlight.op("{name}").backward, before the operator is used; '
        "or call it in torch.no_grad()",
    )


def _formula(signature: Signature, said: Operator) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = said.backward_function
    assert function is not None
    if said.setup_context is not None:
        return function, said.setup_context
    names = [argument.name for argument in signature.arguments]

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        given = [*inputs, *(keyword_only_inputs or {}).values()]
        leaves, ctx.penlight_spec = pytree.tree_flatten((given, output))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        ctx.penlight_leaves = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        leaves = [next(saved) if leaf is None else leaf[0] for leaf in ctx.penlight_leaves]
        given, output = pytree.tree_unflatten(leaves, ctx.penlight_spec)
        inputs = SimpleNamespace(**dict(zip(names, given, strict=False)))
        call = SimpleNamespace(inputs=inputs, outputs=output, needs_input_grad=ctx.needs_input_grad)
        result = function(call, *grads)
        positional = sum(not argument.keyword_only for argument in signature.arguments)
        if isinstance(result, tuple | list) and len(result) > positional:
            return tuple(result[:positional])
        return result

    if any(argument.keyword_only for argument in signature.arguments):
        return backward, lambda ctx, inputs, keyword_only_inputs, output: setup(
            ctx, inputs, output, keyword_only_inputs
        )
    return backward, lambda ctx, inputs, output: setup(ctx, inputs, output)


def _through(op: OpOverload, function: Any) -> Callable[..., Any]:
    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and _any_requires_grad((args, kwargs)):
            return function.apply(*args, *kwargs.values())
        return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    return run


class _NotDifferentiable(torch.autograd.Function):
    """The results of a call through which no gradient can go, with an error in backward."""

    @staticmethod
    def forward(ctx: Any, name: str, call: Callable[[], Any], *tensors: torch.Tensor) -> Any:
        ctx.name = name
        return call()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise no_gradient(ctx.name)


def _without_formula(op: OpOverload, signature: Signature) -> Callable[..., Any]:
    """Runs in every call outside of inference mode, so it looks at as little as it can."""
    below, redispatch = torch._C._after_autograd_keyset, op._handle.redispatch_boxed
    is_enabled, name = torch.is_grad_enabled, signature.qualified
    single = ("Tensor", "Tensor?")
    plain = [i for i, a in enumerate(signature.arguments) if a.type in single and not a.keyword_only]
    simple = len(plain) == len(signature.tensors)

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if is_enabled():
            needed = False
            if simple:
                for place in plain:
                    if place < len(args) and args[place] is not None and args[place].requires_grad:
                        needed = True
            else:
                needed = _any_requires_grad((args, kwargs))
            if needed:
                call = partial(redispatch, keyset & below, *args, **kwargs)
                return _NotDifferentiable.apply(name, call, *_tensors((args, kwargs)))  # type: ignore[no-untyped-call]
        return redispatch(keyset & below, *args, **kwargs)

    return run


def _changes_arguments(op: OpOverload, signature: Signature) -> Callable[..., Any]:
    places = [i for i, argument in enumerate(signature.arguments) if argument.written]

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

        if not torch.is_grad_enabled() or not _any_requires_grad((args, kwargs)):
            return call()
        changed = [args[place] for place in places if place < len(args)]
        if _any_requires_grad(changed):
            raise NotSupported(
                f"{signature.qualified} changes a tensor that requires a gradient",
                do="call it in torch.no_grad(), or on a detached tensor",
            )
        if not signature.outs:
            return call()
        return _NotDifferentiable.apply(signature.qualified, call, *_tensors((args, kwargs)))  # type: ignore[no-untyped-call]

    return run


def _tensors(tree: Any) -> Sequence[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _any_requires_grad(tree: Any) -> bool:
    for item in tree:
        if isinstance(item, torch.Tensor):
            if item.requires_grad:
                return True
        elif isinstance(item, tuple | list) and item:
            if _any_requires_grad(item):
                return True
        elif isinstance(item, dict) and item and _any_requires_grad(item.values()):
            return True
    return False
