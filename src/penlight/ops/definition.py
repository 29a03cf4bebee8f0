"""A kernel's operators in torch: `torch.ops.myop.name` and `.out`, on the CPU, for tracing, for autograd.

All of it is registered before the operator is handed out: torch keeps what it found
out about an operator when it was first traced, and a formula that comes later would
be seen by eager mode alone.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from penlight.errors import InvalidOperator, InvalidState, NotSupported
from penlight.kernels.table import parse_dtypes
from penlight.ops import autograd
from penlight.ops.calls import Kernel
from penlight.ops.declared import Operator, declared
from penlight.ops.dispatch import register_kernel
from penlight.ops.mapped import register_rows
from penlight.ops.shapes import Spec


class Definition:
    """One kernel and its operators.

    Attributes:
        kernel: what computes it; another one takes its place when its file was edited.
        bridged: is the functional form called without Python?
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.said: Operator = declared(kernel.signature.qualified)
        self.library: torch.library.Library | None = None
        self.op: OpOverload | None = None
        self.out_op: OpOverload | None = None
        self.bridged = False

    def define(self) -> None:
        """Make the operators.

        Raises:
            InvalidState: torch has other operators of that name.
            InvalidOperator: torch does not take the schema.
        """
        signature = self.kernel.signature
        self.library = library = torch.library.Library(signature.namespace, "FRAGMENT")
        schema = signature.functional()
        try:
            library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
            if signature.outs:
                library.define(signature.out())
        except RuntimeError as error:
            self.remove()
            raise self._refused(error) from error
        packet = getattr(getattr(torch.ops, signature.namespace), signature.name)
        self.op = getattr(packet, signature.overload or "default")
        self.kernel.learn_defaults(self.op)
        self._connect()
        torch.library.register_fake(signature.qualified, self.fake, lib=library)
        if signature.outs:
            self.out_op = getattr(packet, signature.out_overload)
            torch.library.register_fake(signature.kernel_name, self.fake_out, lib=library)
            autograd.register_out(library, self.out_op, signature)
        register_rows(library, self.op, signature.functional().partition("(")[0])
        autograd.register(library, self.op, self.kernel, self.said)
        self.said.changed = self.renew

    def _connect(self) -> None:
        """Let torch call the kernel: from C++ where that is possible, else through Python."""
        assert self.library is not None
        signature, kernel = self.kernel.signature, self.kernel
        name = signature.functional().partition("(")[0]
        kernel.fake_function = self.said.fake_function
        said = self.said.dtype_set
        kernel.allowed = frozenset(dtype.name for dtype in parse_dtypes(said)) if said else None
        self.bridged = register_kernel(kernel, self.library)
        if not self.bridged:
            self.library.impl(name, kernel.functional, "CPU")
        if all(argument.type != "Tensor" for argument in signature.tensors):
            self.library.impl(name, self.without_tensors, "CompositeExplicitAutograd")
        if signature.outs and not register_kernel(kernel, self.library, out_form=True):
            self.library.impl(f"{signature.name}.{signature.out_overload}", kernel.out, "CPU")

    def replace(self, kernel: Kernel) -> None:
        """Another kernel for the same operators: its file was built anew."""
        before = self.kernel
        self.kernel = kernel
        rules = [
            [rule.text if rule is not None else None for rule in (one.rule, one.backward)]
            for one in (before, kernel)
        ]
        if self.op is not None and before.signature == kernel.signature and rules[0] == rules[1]:
            kernel.learn_defaults(self.op)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a kernel is registered again is what is wanted
                self._connect()
        else:
            self.renew()

    def renew(self) -> None:
        """Register what was said since: torch forgets what it knew of the operator."""
        self.remove()
        self.define()

    def remove(self) -> None:
        """Take the operators out of torch."""
        if self.library is not None:
            for op in (self.op, self.out_op):
                if op is not None:
                    op._dispatch_cache.clear()
            self.library._destroy()
            self.library = self.op = self.out_op = None

    def _refused(self, error: Exception) -> Exception:
        signature = self.kernel.signature
        text = str(error).splitlines()[0]
        if "multiple times" in text or "duplicate" in text.lower() or "already" in text:
            return InvalidState(
                f"torch has an operator {signature.qualified} already",
                where=self.kernel.source,
                got=text[:300],
                do="give one of them another name or namespace",
            )
        return InvalidOperator(
            f"torch does not take the schema of {signature.kernel_name}",
            where=self.kernel.source,
            got=f"{signature.functional()}\n{text[:300]}",
        )

    def without_tensors(self, *args: Any, **kwargs: Any) -> Any:
        """A call whose arguments say no device, such as ramp(10): on the CPU."""
        if given := _tensors((args, kwargs)):
            raise NotSupported(
                f"{self.kernel.signature.qualified} has a kernel for the CPU alone",
                where=self.kernel.source,
                got=f"a tensor on {given[0].device}",
                do="move its arguments there: x.cpu()",
            )
        return self.kernel.functional(*args, **kwargs)

    # --- tracing -----------------------------------------------------------------------------------

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Tensors like the results: by the user's function, the rule, or the kernel's own shape step."""
        signature = self.kernel.signature
        arguments = self.kernel.bind(args, kwargs)
        if self.said.fake_function is not None:
            results = self.said.fake_function(*args, **kwargs)
            self._compare_fake(arguments, results)
            return results
        if signature.returns_written:
            return arguments[signature.written[0].name]
        if not signature.outs:
            return None
        if self.kernel.rule is None:
            self._need_static(arguments)
        specs = self.kernel.results(arguments)
        if self.kernel.rule is not None and _has_hints(arguments):
            self.kernel.compare(_with_hints(arguments))
        device = next((t.device for t in _tensors(arguments)), torch.device("cpu"))
        outs = [_empty(spec, device) for spec in specs]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def fake_out(self, *args: Any, **kwargs: Any) -> Any:
        signature = self.kernel.signature
        arguments = self.kernel.bind(args, kwargs)
        given = [arguments.pop(out.name) for out in signature.outs]
        positional = [arguments[a.name] for a in signature.arguments if not a.keyword_only]
        named = {a.name: arguments[a.name] for a in signature.arguments if a.keyword_only}
        results = self.fake(*positional, **named)
        for have, want in zip(pytree.tree_leaves(given), pytree.tree_leaves(results), strict=True):
            if list(map(str, have.shape)) != list(map(str, want.shape)):
                have.resize_(want.shape)
        if signature.out_list:
            return None
        return given[0] if len(given) == 1 else tuple(given)

    def _need_static(self, arguments: Any) -> None:
        symbolic = [
            f"{argument.name} {list(map(str, tensor.shape))}"
            for argument in self.kernel.signature.tensors
            for tensor in _tensors(arguments[argument.name])
            if any(not isinstance(size, int) for size in tensor.shape)
        ]
        if symbolic:
            raise NotSupported(
                f"{self.kernel.signature.qualified} has no shape rule, which dynamic sizes need",
                where=self.kernel.source,
                got=", ".join(symbolic),
                do='add one behind the function: shapes("[n,i] -> [n,i]"), or a function: '
                f'@penlight.op("{self.kernel.signature.qualified}").fake',
            )

    def _compare_fake(self, arguments: Any, results: Any) -> None:
        """The user's fake function against the kernel, where the sizes are known."""
        kernel = self.kernel
        if not kernel.signature.outs or kernel.signature.out_list or not _has_hints(arguments):
            return
        made = [results] if isinstance(results, torch.Tensor) else list(results)
        if not _has_hints(made):
            return
        specs = [Spec(tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in _with_hints(made)]
        asked = kernel.asked(_with_hints(arguments), specs)
        for out, want, have in zip(kernel.signature.outs, specs, asked, strict=True):
            if want.sizes != have.sizes:
                raise InvalidOperator(
                    f"the fake function of {kernel.name} and its kernel disagree about '{out.name}'",
                    where=kernel.source,
                    got=f"fake   {list(want.sizes)}\nkernel {list(have.sizes)}",
                    do="correct the function, or the sizes given to ctx.resize()",
                )


class _Sized:
    """A tensor's sizes and dtype, with numbers in the place of symbols."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(_hint(size) for size in tensor.shape)
        self.dtype = tensor.dtype


def _hint(value: Any) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.hint
    return value


def _has_hints(tree: Any) -> bool:
    numbers: list[Any] = []
    for leaf in pytree.tree_leaves(tree):
        numbers += leaf.shape if isinstance(leaf, torch.Tensor) else [leaf]
    symbols = (n for n in numbers if isinstance(n, torch.SymInt | torch.SymFloat | torch.SymBool))
    return all(n.node.has_hint() for n in symbols)


def _with_hints(tree: Any) -> Any:
    return pytree.tree_map(lambda leaf: _Sized(leaf) if isinstance(leaf, torch.Tensor) else _hint(leaf), tree)


def _empty(spec: Spec | list[Spec], device: torch.device) -> Any:
    if isinstance(spec, list):
        return [_empty(one, device) for one in spec]
    return torch.empty(spec.sizes, dtype=getattr(torch, spec.dtype), device=device)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
