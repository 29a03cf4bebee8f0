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
from torch._functorch import autograd_function as functorch
from torch._library.autograd import supports_tensorlist
from torch._library.utils import fill_defaults
from torch._ops import OpOverload
from torch.autograd.function import _SingleLevelFunction
from torch.utils import _pytree as pytree

from penlight.errors import InvalidOperator, NotSupported
from penlight.ops.calls import Kernel
from penlight.ops.declared import Operator
from penlight.ops.dispatch import register_gradients
from penlight.ops.signature import Signature


def register(library: torch.library.Library, op: OpOverload, kernel: Kernel, said: Operator) -> None:
    """Give `op` the gradients that were declared, or the error.

    No Python runs in calls on which no gradient is asked for.
    """
    signature = kernel.signature
    run: Callable[..., Any]
    if said.autograd_function is not None:
        run = _through(op, said.autograd_function)
    elif signature.written:
        run = _changes_arguments(op, signature)
    elif said.backward_function is not None:
        run = _by_formula(op, signature, *_formula(signature, said.backward_function, said.setup_context))
    elif kernel.backward is not None:
        run = _by_formula(op, signature, *_formula(signature, kernel.backward.formula(find_operator)))
    else:
        run = _without_formula(op, signature)
    register_gradients(library, signature.qualified, run)


def register_out(library: torch.library.Library, op: OpOverload, signature: Signature) -> None:
    """As for torch's own operators, results that are given take no part in autograd."""

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _any_asks((args, kwargs)):
            raise NotSupported(
                f"{signature.kernel_name} writes to tensors it is given, which gradients cannot follow",
                do=f"call {signature.qualified} without out, or in torch.no_grad()",
            )
        return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    register_gradients(library, signature.kernel_name, run)


def no_gradient(name: str) -> NotSupported:
    return NotSupported(
        f"{name} has no gradient: backward came to it, and no formula was given",
        do=f'give one, @penlight.op("{name}").backward, before the operator is used; '
        "or call it in torch.no_grad()",
    )


def find_operator(name: str) -> Any:
    """An operator of torch by its name, "myop::scale.Tensor"; None when there is none."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload or "default", None)


def _formula(
    signature: Signature,
    function: Callable[..., Any],
    setup_context: Callable[..., Any] | None = None,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if setup_context is not None:
        return function, setup_context
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
        return function(call, *grads)

    if any(argument.keyword_only for argument in signature.arguments):
        return backward, lambda ctx, inputs, named, output: setup(ctx, inputs, output, named)
    return backward, setup


class _OneLevel(_SingleLevelFunction):
    """A node of autograd's graph. The dispatcher has come down to one level of torch.func's transforms
    here, which is what is differentiated; torch.autograd.Function is for code that is above all of them."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        with functorch.enable_single_level_autograd_function():  # type: ignore[attr-defined]
            return super().apply(*args)  # type: ignore[misc]


def _through(op: OpOverload, function: Any) -> Callable[..., Any]:
    one_level = _at_one_level(function)

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _any_asks((args, kwargs)):
            args, kwargs = fill_defaults(op._schema, args, kwargs)
            chosen = one_level if torch._C._are_functorch_transforms_active() else function
            return chosen.apply(*args, *kwargs.values())
        return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    return run


def _at_one_level(function: Any) -> Any:
    """The same for use within torch.func's transforms, of which the dispatcher is at one here."""

    def forward(ctx: Any, *args: Any) -> Any:
        result = function.forward(*args)
        function.setup_context(ctx, args, result)
        return result

    splits = function.setup_context is not torch.autograd.Function.setup_context
    methods: dict[str, Any] = {
        "forward": forward if splits else function.forward,
        "backward": function.backward,
    }
    if function.jvp is not torch.autograd.Function.jvp:
        methods["jvp"] = function.jvp
    made = {name: staticmethod(method) for name, method in methods.items()}
    return type(f"{function.__name__}AtOneLevel", (_OneLevel,), made)


def _by_formula(
    op: OpOverload, signature: Signature, backward: Callable[..., Any], setup: Callable[..., Any]
) -> Callable[..., Any]:
    keyword_only = [argument.name for argument in signature.arguments if argument.keyword_only]
    positional = len(signature.arguments) - len(keyword_only)

    def forward(ctx: Any, keyset: Any, *given: Any) -> Any:
        args, kwargs = given[:positional], dict(zip(keyword_only, given[positional:], strict=True))
        with torch._C._AutoDispatchBelowAutograd():
            result = op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)
        if keyword_only:
            setup(ctx, args, kwargs, result)
        else:
            setup(ctx, args, result)
        return result

    def backwards(ctx: Any, *grads: Any) -> Any:
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = needed[1:]
        try:
            found = backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = needed
        return None, *_for_each(signature, found, needed[1:])

    made = type(
        f"BackwardOf{signature.name}",
        (_OneLevel,),
        {"forward": staticmethod(forward), "backward": staticmethod(backwards)},
    )
    if "[]" in "".join(argument.type for argument in signature.tensors) or signature.out_list:
        made = supports_tensorlist(made)

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_forward_mode(signature, (args, kwargs))
        if _any_asks((args, kwargs)):
            args, kwargs = fill_defaults(op._schema, args, kwargs)
            return made.apply(keyset, *args, *kwargs.values())  # type: ignore[attr-defined]
        return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    return run


def _for_each(signature: Signature, found: Any, needed: Sequence[Any]) -> Sequence[Any]:
    """A formula's gradients, one for each argument. Those of keyword-only arguments may be left out
    where none is needed."""
    gradients = list(found) if isinstance(found, tuple | list) else [found]
    positional = [argument for argument in signature.arguments if not argument.keyword_only]
    if len(gradients) not in (len(positional), len(signature.arguments)):
        raise InvalidOperator(
            f"the gradients of {signature.qualified}: its formula returns one for each argument, None for "
            "those without",
            got=f"{len(gradients)} for {', '.join(argument.name for argument in signature.arguments)}",
        )
    for argument, asked in list(zip(signature.arguments, needed, strict=True))[len(gradients) :]:
        if any(pytree.tree_leaves(asked)):
            raise NotSupported(
                f"the formula of {signature.qualified} gives no gradient for '{argument.name}'",
                do=f"return {len(signature.arguments)} values, those of keyword-only arguments last",
            )
        gradients.append([None] * len(asked) if isinstance(asked, list) else None)
    return gradients


class _NotDifferentiable(_OneLevel):
    """The results of a call through which no gradient can go, with an error in backward."""

    @staticmethod
    def forward(ctx: Any, name: str, call: Callable[[], Any], *tensors: torch.Tensor) -> Any:
        ctx.name = name
        return call()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise no_gradient(ctx.name)


def _without_formula(op: OpOverload, signature: Signature) -> Callable[..., Any]:
    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_forward_mode(signature, (args, kwargs))
        call = partial(op.redispatch, keyset & torch._C._after_autograd_keyset, *args, **kwargs)
        if not _any_asks((args, kwargs)):
            return call()
        return _NotDifferentiable.apply(signature.qualified, call, *_tensors((args, kwargs)))

    return run


def _changes_arguments(op: OpOverload, signature: Signature) -> Callable[..., Any]:
    names = [argument.name for argument in signature.arguments]

    def run(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_forward_mode(signature, (args, kwargs))

        def call() -> Any:
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

        if not _any_asks((args, kwargs)):
            return call()
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if _any_asks([given.get(argument.name) for argument in signature.written]):
            raise NotSupported(
                f"{signature.qualified} changes a tensor that requires a gradient",
                do="call it in torch.no_grad(), or on a detached tensor",
            )
        if not signature.outs:
            return call()
        return _NotDifferentiable.apply(signature.qualified, call, *_tensors((args, kwargs)))

    return run


def _tensors(tree: Any) -> Sequence[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _any_asks(tree: Any) -> bool:
    """Does a tensor require a gradient, where that is enabled, or carry one forward?"""
    backward = torch.is_grad_enabled()
    return any((backward and tensor.requires_grad) or _is_dual(tensor) for tensor in _tensors(tree))


def _refuse_forward_mode(signature: Signature, tree: Any) -> None:
    if torch.autograd.forward_ad._current_level >= 0 and any(map(_is_dual, _tensors(tree))):
        raise NotSupported(
            f"{signature.qualified} has no gradient in forward mode (jvp)",
            do="differentiate backward, or give a torch.autograd.Function that has a jvp: "
            f'@penlight.op("{signature.qualified}").function',
        )


def _is_dual(tensor: torch.Tensor) -> bool:
    level = torch.autograd.forward_ad._current_level
    return level >= 0 and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None
