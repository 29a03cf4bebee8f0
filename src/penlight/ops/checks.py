"""`penlight op build --test`: does an operator do the same everywhere, and what its rule says?

Eager PyTorch, its out form, programs in the runtime, tracing with fixed and dynamic
sizes, gradients. Bits are compared, not just values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from penlight.errors import InvalidOperator, PenlightError, UnboundedShape
from penlight.kernels.table import parse_dtypes
from penlight.ops.definition import Definition
from penlight.ops.fences import WroteOutside, call_between_fences
from penlight.ops.loading import Library
from penlight.ops.samples import DTYPES, Sample, of_dtype, samples


@dataclass(frozen=True)
class Check:
    """One line of the table. `passed` is None for what does not apply."""

    operator: str
    name: str
    passed: bool | None
    detail: str = ""


def check(library: Library) -> list[Check]:
    """Test every operator of a library."""
    found: list[Check] = []
    for definition in library.definitions.values():
        found += Tester(definition).run()
    return found


class _Failed(Exception):
    pass


class _Skipped(Exception):
    pass


class Tester:
    """The checks of one operator. `doing` hears of the step and the sample before each call of the kernel."""

    def __init__(self, definition: Definition, doing: Callable[[str, str], None] | None = None) -> None:
        self.definition, self.kernel, self.said = definition, definition.kernel, definition.said
        self.doing, self.step = doing or (lambda step, sample: None), ""
        self.signature = self.kernel.signature
        self.samples: list[Sample] = []
        self.refused: dict[str, str] = {}

    def run(self) -> Iterator[Check]:
        steps: list[tuple[str, Callable[[], str]]] = [
            ("eager", self.eager),
            ("rule and kernel", self.rule),
            ("out form", self.out_form),
            ("tensors with gaps", self.strided),
            ("dtypes", self.dtypes),
            ("runtime, bit by bit", self.runtime),
            ("dynamic sizes", self.dynamic),
            ("opcheck", self.opcheck),
            ("gradients", self.gradients),
            ("reference", self.reference),
        ]
        for name, step in steps:
            passed: bool | None = True
            self.step = name
            self.doing(name, "")
            try:
                detail = step()
            except _Skipped as skipped:
                passed, detail = None, str(skipped)
            except Exception as error:
                passed, detail = False, _short(error)
                if isinstance(error, InvalidOperator):
                    name = "rule and kernel"
            yield Check(self.signature.qualified, name, passed, detail)
            if step == self.eager and passed is False:
                return

    @property
    def op(self) -> Any:
        return self.definition.op

    def call(self, sample: Sample) -> tuple[Any, Any]:
        """Results, and the arguments after the call."""
        self.doing(self.step, sample.name)
        args = sample.fresh()
        return self.op(*self._positional(args), **self._named(args)), args

    def _positional(self, args: tuple[Any, ...]) -> list[Any]:
        return [v for v, a in zip(args, self.signature.arguments, strict=False) if not a.keyword_only]

    def _named(self, args: tuple[Any, ...]) -> dict[str, Any]:
        return {a.name: v for v, a in zip(args, self.signature.arguments, strict=False) if a.keyword_only}

    # --- the checks --------------------------------------------------------------------------------

    def eager(self) -> str:
        taken = []
        for sample in samples(self.kernel, self.said):
            self.stays_within(sample)
            try:
                first, second = self.call(sample), self.call(sample)
            except InvalidOperator:  # eager calls hold what the kernel makes against the rule
                raise
            except (PenlightError, RuntimeError) as error:
                self.refused[sample.name] = _short(error)
                continue
            _same(first, second, f"two calls ({sample.name})")
            taken.append(sample)
        self.samples = taken
        if not taken:
            first_refusal = next(iter(self.refused.values()), "there are no samples")
            raise _Failed(
                f"every sample is refused: {first_refusal}; give others: @penlight.op(name).samples"
            )
        told = f"{len(taken)} cases"
        return told + (f"; refused: {', '.join(self.refused)}" if self.refused else "")

    def stays_within(self, sample: Sample) -> None:
        """A call between fences, before one that may write over memory of others."""
        self.doing(self.step, sample.name)
        args = sample.fresh()
        try:
            call_between_fences(self.kernel, self.kernel.bind(self._positional(args), self._named(args)))
        except WroteOutside:
            raise _Failed(
                f"{sample.name}: the kernel writes outside of its tensors; let it refuse dtypes that it is "
                "not for, as dispatch<>() does, or say "
                f'penlight.op("{self.signature.qualified}").dtypes("float32")'
            ) from None
        except (PenlightError, RuntimeError):
            return  # refused, which the real call will tell

    def rule(self) -> str:
        if not self.signature.outs:
            raise _Skipped("no results")
        if self.kernel.rule is None and self.said.fake_function is None:
            raise _Skipped("no rule: the kernel is asked for sizes")
        for sample in self.samples:
            results, _ = self.call(sample)
            mode = FakeTensorMode(shape_env=ShapeEnv())  # sizes may depend on elements
            fake_args = _map(mode.from_tensor, sample.fresh())
            with mode:
                fake = self.op(*self._positional(fake_args), **self._named(fake_args))
            for have, want in zip(pytree.tree_leaves(results), pytree.tree_leaves(fake), strict=True):
                if have.dtype != want.dtype or not _fits(have.shape, want.shape):
                    raise _Failed(f"{sample.name}: rule {_text(want)}, kernel {_text(have)}")
        return f"{len(self.samples)} cases"

    def out_form(self) -> str:
        if self.definition.out_op is None:
            raise _Skipped("it has none")
        for sample in self.samples:
            want, changed = self.call(sample)
            args = sample.fresh()
            given = [torch.empty(0, dtype=tensor.dtype) for tensor in pytree.tree_leaves(want)]
            if not _tensors(args) and not given:
                continue  # torch could not tell a device
            outs = [given] if self.signature.out_list else given
            named = {out.name: value for out, value in zip(self.signature.outs, outs, strict=True)}
            got = self.definition.out_op(*self._positional(args), **self._named(args), **named)
            _same((given if self.signature.out_list else got, args), (want, changed), sample.name)
        return f"{len(self.samples)} cases"

    def strided(self) -> str:
        for sample in self.samples:
            dense = Sample(sample.name, _map(torch.Tensor.contiguous, sample.args))
            _same(self.call(Sample(sample.name, _map(_with_gaps, dense.args))), self.call(dense), sample.name)
        return f"{len(self.samples)} cases"

    def dtypes(self) -> str:
        if self.said.sample_function is not None:
            raise _Skipped("samples are given")
        taken = []
        given = _tensors(self.samples[0].args)
        plain = tuple(given[0].shape) if given else ()
        allowed = parse_dtypes(self.said.dtype_set) if self.said.dtype_set else None
        for dtype in DTYPES:
            if allowed is not None and str(dtype).removeprefix("torch.") not in {d.name for d in allowed}:
                continue
            sample = of_dtype(self.kernel, dtype, plain)
            self.stays_within(sample)
            try:
                first, second = self.call(sample), self.call(sample)
            except (PenlightError, RuntimeError):
                continue
            try:
                _same(first, second, sample.name)
            except _Failed:
                raise _Failed(
                    f"{sample.name} is taken, and two calls differ: let the kernel decline it, "
                    f'or say penlight.op("{self.signature.qualified}").dtypes("float32")'
                ) from None
            taken.append(sample.name)
        return ", ".join(taken)

    def runtime(self) -> str:
        from penlight.pipeline import compile as compile_
        from penlight.runtime import load

        for sample in self.samples:
            args = _map(torch.Tensor.contiguous, sample.fresh())
            module, tensors = _as_module(self, args)
            program = load(compile_(module, tuple(t.clone() for t in tensors)).to_bytes())
            want, changed = self.call(Sample(sample.name, args))
            inputs = tuple(t.clone() for t in tensors)
            got = program(*inputs)
            after = [t for t in pytree.tree_leaves(changed) if isinstance(t, torch.Tensor)]
            _same(pytree.tree_leaves(got), _tensors(want) or list(inputs[:1]), sample.name)
            _same(list(inputs), after, f"{sample.name}: what it changes")
        return f"{len(self.samples)} programs"

    def dynamic(self) -> str:
        if self.kernel.rule is None and self.said.fake_function is None:
            raise _Skipped("needs a shape rule")
        from penlight.pipeline import compile as compile_
        from penlight.runtime import load

        plain = self.samples[0]
        module, tensors = _as_module(self, plain.args)
        dims = tuple(
            {d: torch.export.Dim.AUTO(max=64) for d, size in enumerate(t.shape) if size > 1} for t in tensors
        )
        if not any(dims):
            raise _Skipped("no dimension above 1 in the first case")
        try:
            exported = torch.export.export(module, tuple(tensors), dynamic_shapes=(dims,), strict=False)
        except Exception as error:
            raise _Failed(f"torch.export: {_short(error)}") from error
        free = [d for n in exported.graph.nodes if n.op == "placeholder"
                for d in n.meta["val"].shape if not isinstance(d, int)]  # fmt: skip
        if not free:
            raise _Skipped("every size is fixed")
        try:
            program = load(compile_(exported).to_bytes())
        except UnboundedShape:
            raise _Skipped("a size depends on elements, and is bounded by another one alone") from None
        ran = 0
        for sample in self.samples:
            other, inputs = _as_module(self, sample.args)
            if not _alike(inputs, tensors) or other.fixed != module.fixed:
                continue
            want, _ = self.call(sample)
            given = [t.contiguous().clone() for t in inputs]
            try:
                got = program(*given)
            except PenlightError as error:
                if sample is plain:
                    raise
                if "dimension" in error.what:  # a size of 0 or 1 that export has ruled out
                    continue
                raise
            _same(pytree.tree_leaves(got), _tensors(want) or given[:1], sample.name)
            ran += 1
        return f"{len(set(map(str, free)))} sizes, {ran} cases in one program"

    def opcheck(self) -> str:
        tests = ["test_schema", "test_autograd_registration", "test_faketensor"]
        if self.kernel.rule is not None or self.said.fake_function is not None:
            tests.append("test_aot_dispatch_dynamic")
        args = self.samples[0].fresh()
        torch.library.opcheck(
            self.op, tuple(self._positional(args)), self._named(args), test_utils=tuple(tests)
        )
        return f"{len(tests)} tests"

    def gradients(self) -> str:
        given = (self.said.backward_function, self.said.autograd_function, self.kernel.backward)
        if all(one is None for one in given):
            raise _Skipped("no formula; backward is an error")
        sample = next((s for s in self.samples if all(t.numel() for t in _tensors(s.args))), None)
        if sample is None:
            raise _Skipped("no sample that is not empty")
        rough = {"eps": 1e-2, "atol": 2e-2, "rtol": 2e-2}
        for dtype, options in ((torch.float64, {}), (torch.float32, rough)):
            args = _map(partial(_differentiable, dtype=dtype), sample.fresh())
            leaves = [t for t in _tensors(args) if t.requires_grad]
            try:
                self.op(*self._positional(args), **self._named(args))
            except (PenlightError, RuntimeError):
                continue

            def function(*given: Any, args: Any = args) -> Any:
                values = iter(given)
                used = _map(lambda leaf: next(values) if leaf.is_floating_point() else leaf, args)
                return self.op(*self._positional(used), **self._named(used))

            torch.autograd.gradcheck(function, leaves, **options)  # type: ignore[arg-type]
            return f"gradcheck in {str(dtype).removeprefix('torch.')}"
        raise _Skipped("no floating-point dtype is taken")

    def reference(self) -> str:
        if self.said.reference_function is None:
            raise _Skipped("none given")
        for sample in self.samples:
            want = self.said.reference_function(
                *self._positional(sample.fresh()), **self._named(sample.fresh())
            )
            got, _ = self.call(sample)
            for have, wanted in zip(_tensors(got), _tensors(want), strict=True):
                torch.testing.assert_close(have, wanted, equal_nan=True)
        return f"{len(self.samples)} cases"


class _AsModule(torch.nn.Module):
    """The operator as a model of its tensors; everything else is fixed."""

    def __init__(self, tester: Tester, args: tuple[Any, ...]) -> None:
        super().__init__()
        self.tester = tester
        leaves, self.spec = pytree.tree_flatten(args)
        self.fixed = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if entry is None else entry[0] for entry in self.fixed]
        args = pytree.tree_unflatten(leaves, self.spec)
        result = self.tester.op(*self.tester._positional(args), **self.tester._named(args))
        # A program returns something.
        return tensors[0] if result is None else result


def _as_module(tester: Tester, args: tuple[Any, ...]) -> tuple[_AsModule, list[torch.Tensor]]:
    if not _tensors(args):
        raise _Skipped("it takes no tensors")
    return _AsModule(tester, args), _tensors(args)


def _alike(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.dim() == b.dim() and a.dtype == b.dtype for a, b in zip(one, other, strict=True)
    )


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    wide = torch.zeros([2 * size for size in reversed(tensor.shape)], dtype=tensor.dtype)
    part = wide.permute(list(reversed(range(tensor.dim()))))[
        tuple(slice(None, None, 2) for _ in tensor.shape)
    ]
    return part.copy_(tensor)


def _differentiable(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().to(dtype).contiguous().requires_grad_()


def _map(function: Callable[..., Any], tree: Any) -> Any:
    """Change the tensors in a tree."""
    return pytree.tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)


def _same(got: Any, want: Any, case: str) -> None:
    """The same bits, sizes and dtypes."""
    for have, wanted in zip(_tensors(got), _tensors(want), strict=True):
        if have.shape != wanted.shape or have.dtype != wanted.dtype:
            raise _Failed(f"{case}: {_text(have)} and {_text(wanted)}")
        bits = [torch.empty(t.numel(), dtype=t.dtype).copy_(t.detach().reshape(-1)) for t in (have, wanted)]
        bits = [t.view(torch.uint8) for t in bits]
        if not torch.equal(*bits):
            different = int((have != wanted).sum())
            raise _Failed(f"{case}: {different} of {have.numel()} elements differ")


def _fits(sizes: Sequence[int], fake: Sequence[Any]) -> bool:
    """A size that depends on elements fits any."""
    return len(sizes) == len(fake) and all(
        not isinstance(want, int) or have == want for have, want in zip(sizes, fake, strict=True)
    )


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _short(error: BaseException) -> str:
    text = error.what if isinstance(error, PenlightError) else str(error)
    if isinstance(error, PenlightError) and error.got:
        text += f" ({error.got})"
    return " ".join(text.split())[:300] or type(error).__name__
