"""nn.Module -> torch.export program, with torch's complaints made short.

torch.export's own messages are written for people who debug the tracer. What a
user needs is their line, the reason, and what to change.
"""

from __future__ import annotations

import functools
import inspect
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from types import MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from penlight.dialects.cross_map_norm import traceable_cross_map_norms
from penlight.dialects.given import check_arguments, check_model, distinct
from penlight.dialects.recurrent import shapes_only
from penlight.dialects.transformers import traceable_transformers
from penlight.errors import ExportError, InvalidInput, NotSupported, PenlightError, UnboundedShape
from penlight.ir.source import user_frame


def capture(
    model: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """Trace `model` once with example arguments.

    Args:
        model: a module, or a method of one (`model.encode`).
        args, kwargs: example inputs; they fix dtypes, ranks and static sizes.
        dynamic_shapes: as for torch.export.export.

    Raises:
        ExportError: torch could not trace the model; names the user's line.
        UnboundedShape: a dimension was asked to be dynamic and is static.
    """
    if isinstance(model, ExportedProgram):
        return model
    if torch.is_autocast_enabled("cpu"):
        raise NotSupported(
            "a model is traced inside torch.autocast, whose casts torch.export does not record",
            do="compile it outside, and have the model's forward() enter torch.autocast; or compile "
            "model.bfloat16()",
        )
    with _forwarding(model) as module:
        check_model(module)
        check_arguments(module, args, kwargs or {})
        given = dict(kwargs or {})
        if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection, AdditionalInputs
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, tuple(args), given)
        args, given = distinct(tuple(args), given)
        dynamic_shapes = _numbers_are_hints(dynamic_shapes, module.forward, tuple(args), given)
        _check_places(dynamic_shapes, module.forward, tuple(args), given)
        try:
            # Non-strict runs the user's Python; grad mode off keeps no_grad blocks out of the graph.
            with (
                torch.no_grad(),
                _quiet(),
                shapes_only(),
                traceable_transformers(),
                traceable_cross_map_norms(),
                _attributes_kept(module),
            ):
                exported = torch.export.export(
                    module, tuple(args), given, dynamic_shapes=dynamic_shapes, strict=False
                )
        except PenlightError:
            raise
        except Exception as error:
            raise _explain(error, module) from error
        _check_dynamic(exported, module.forward, tuple(args), given, dynamic_shapes)
    return exported


@contextmanager
def _forwarding(model: Any) -> Iterator[torch.nn.Module]:
    """The module to export; a method other than forward takes forward's place until it is called.

    While it runs, the module's own forward is back: the method may call it.
    """
    if isinstance(model, torch.nn.Module):
        yield model
        return
    owner = getattr(model, "__self__", None)
    if not isinstance(model, MethodType) or not isinstance(owner, torch.nn.Module):
        raise InvalidInput(
            "the model is neither a module, a module's method nor an ExportedProgram",
            got=type(model).__name__,
            do="pass a torch.nn.Module and example arguments",
        )
    own = owner.__dict__.get("forward")

    @functools.wraps(model)
    def outermost(*args: Any, **kwargs: Any) -> Any:
        _set_forward(owner, own)
        try:
            return model(*args, **kwargs)
        finally:
            _set_forward(owner, outermost)

    _set_forward(owner, outermost)
    try:
        yield owner
    finally:
        _set_forward(owner, own)


def _set_forward(module: torch.nn.Module, function: Any) -> None:
    """An attribute of the object, over the method of its class; None removes it."""
    if function is None:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = function


_REGISTERED = ("_parameters", "_buffers", "_modules")


@contextmanager
def _attributes_kept(module: torch.nn.Module) -> Iterator[None]:
    """Give tensors that are no buffers, but attributes or in a list of them, their values back.

    Tracing writes to them as the model does: the program's state would begin one call late. What it
    leaves behind as a new attribute has no values, and goes.
    """
    registered = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    own = [value for one in module.modules() for name, value in vars(one).items() if name not in _REGISTERED]
    leaves = [leaf for leaf in pytree.tree_leaves(own) if isinstance(leaf, torch.Tensor)]
    plain = [leaf for leaf in leaves if id(leaf) not in registered and not leaf.is_inference()]
    before = [(tensor, tensor._version, tensor.detach().clone()) for tensor in plain]
    names = {one: set(vars(one)) for one in module.modules()}
    try:
        yield
    finally:
        for one, known in names.items():
            for name in vars(one).keys() - known:
                if any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves(vars(one)[name])):
                    delattr(one, name)
        for tensor, version, value in before:
            if tensor._version != version:
                tensor.detach().copy_(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's log back, and on failure what it prints: what matters of it is in the error we raise."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    printed = io.StringIO()
    try:
        with redirect_stderr(printed), warnings.catch_warnings():
            # torch's own LSTM and GRU do this; their weights are registered all the same.
            warnings.filterwarnings("ignore", message=r"The tensor attributes? self\.(\w+\.)*_flat_weights")
            yield
        sys.stderr.write(printed.getvalue())
    finally:
        logging.disable(level)


# --- messages --------------------------------------------------------------------------------------


def _explain(error: Exception, module: torch.nn.Module) -> ExportError:
    frames = traceback.extract_tb(error.__traceback__)
    stack = "".join(f'File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames)
    text = str(error)
    # Errors raised while tracing name the user's stack in their text; others have it as traceback.
    inner = text[text.index("from user code") :] if "from user code" in text else ""
    frame = user_frame(inner) if inner else _frame_in_model(frames, stack, module)
    where = None
    if frame is not None:
        where = f"{frame[0]}:{frame[1]} in {frame[2]} of {type(module).__name__}"
    return ExportError(
        f"torch.export could not trace {type(module).__name__}",
        where=where,
        got=_reason(error),
        do=_advice(error, frames),
    )


def _frame_in_model(
    frames: Sequence[traceback.FrameSummary], stack: str, module: torch.nn.Module
) -> tuple[str, int, str] | None:
    files = {_file_of(type(part)) for part in module.modules()} - {None}
    own = [f for f in frames if f.filename in files and "/torch/" not in f.filename]
    if own:
        return own[-1].filename, own[-1].lineno or 0, own[-1].name
    return None


def _file_of(kind: type) -> str | None:
    try:
        return inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None


_NOISE = re.compile(
    r"^(\s*(For more (debug )?info|To see more|Set TORCH|Hint|Note|Caused by|For C\+\+|If you suspect|"
    r"User [Ss]tack|from user code|The error above|The following call|To fix the error|Suggested fixes|"
    r"Please|Potential framework|Developer debug|  File |    ))"
)


_TAIL = re.compile(
    r"(For more info|For extended logs|\(Size-like symbols|consider using data-dependent"
    r"|Please file an issue).*?(?= - |$)"
)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not _NOISE.match(line)]
    kept = " ".join(lines[:3]) or type(error).__name__
    kept = _TAIL.sub("", kept)
    return f"{type(error).__name__}: {kept.strip()[:400]}"


WITHOUT_DERIVATIVES = (
    "write down the derivative, or leave this part out; torch.vmap, torch.func.jvp and autocast "
    "can be compiled"
)

# Words of torch's message, and what to do about it: the first that fits.
_ADVICE = {
    r"Detected mismatch between the structure|top-level keys must be the arg names": (
        "let dynamic_shapes be built as the arguments are: {name: {dimension: Dim}}, or a tuple of such "
        "in their order; None for an argument of fixed sizes"
    ),
    r"(?s)(?=.*ConstraintViolation).*not in range": (
        "give an example whose sizes lie within the ranges of dynamic_shapes, or widen these"
    ),
    # What torch.func wraps tensors in, torch.export takes for its own.
    r"has no attribute 'constant'": WITHOUT_DERIVATIVES,
    r"data-dependent|DataDependent|unbacked|GuardOnData": (
        "an if, a size or an int() depends on tensor values: use torch.cond, torch.where or a mask"
    ),
    r"Constraints violated|dynamic_shapes": (
        "make the dimension static, or give it the range that the model allows"
    ),
}


def _advice(error: Exception, frames: Sequence[traceback.FrameSummary]) -> str:
    text = f"{type(error).__name__} {error}"
    if "got FakeTensor" in text and any(frame.filename.endswith("nn/modules/rnn.py") for frame in frames):
        return (
            "torch.export has no packed sequences: give the layer the padded batch, and mask what lies "
            "behind the end of each sequence"
        )
    fixes = re.search(r"Suggested fixes:\s*\n(.+?)(?:\n\s*\n|The error above|Please|$)", text, re.S)
    if fixes:
        lines = [line.strip() for line in fixes.group(1).splitlines() if line.strip()]
        static = "; an example size of 0 or 1 counts as static" if re.search(r"= [01]$", lines[0]) else ""
        return "change dynamic_shapes: " + "; ".join(lines)[:300] + static
    fitting = (advice for words, advice in _ADVICE.items() if re.search(words, text))
    return next(fitting, "write this line in another way, or leave it out of the exported part")


# --- dimensions that were asked to be dynamic --------------------------------------------------------


def _numbers_are_hints(asked: Any, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch takes a named Dim for a size only; for an int argument it wants a hint with the same range."""
    if not isinstance(asked, tuple | list | Mapping):
        return asked
    try:
        bound = dict(inspect.signature(forward).bind(*args, **kwargs).arguments)
    except TypeError:  # torch says what is wrong with the arguments
        return asked
    by_name = _by_parameter(asked, bound)

    def hint(value: Any, request: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(request, Dim):
            return Dim.DYNAMIC(min=request.min, max=request.max)
        if isinstance(request, Mapping) and isinstance(value, Mapping):
            return {key: hint(value.get(key), item) for key, item in request.items()}
        if isinstance(request, tuple | list) and isinstance(value, tuple | list):
            return type(request)(hint(v, r) for v, r in zip(value, request, strict=False))
        return request

    changed = {name: hint(value, by_name[name]) for name, value in bound.items() if name in by_name}
    if all(changed[name] is by_name[name] for name in changed):
        return asked
    if isinstance(asked, tuple | list):
        return type(asked)(changed.values())
    return {**asked, **{name: value for name, value in changed.items() if name in asked}}


def _check_places(asked: Any, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Every dimension that `asked` speaks of must be there, and have a size that it is given, if any.

    torch's own messages are about its lists and guards.
    """
    try:
        bound = dict(inspect.signature(forward).bind(*args, **kwargs).arguments)
    except TypeError:  # torch says what is wrong with the arguments
        return
    asked = _by_parameter(asked, bound)
    for path, leaf in pytree.tree_flatten_with_path(bound)[0]:
        request = _lookup(asked, path)
        name = pytree.keystr(path).removeprefix("['").replace("']", "", 1)
        if not isinstance(leaf, torch.Tensor):
            _check_range(name, leaf, request)
            continue
        missing = [dim for dim, _ in _dims(request) if not 0 <= dim < leaf.dim()]
        if missing:
            raise InvalidInput(
                f"dynamic_shapes speaks of dimension {missing[0]} of {name}, "
                f"which has {leaf.dim()} dimension{'s' * (leaf.dim() != 1)}",
                got=f"an example of shape {list(leaf.shape)}",
                do="dimensions count from 0",
            )
        for dim, what in _dims(request):
            if type(what) is int and what != leaf.shape[dim]:
                raise InvalidInput(
                    f"dynamic_shapes gives dimension {dim} of {name} the size {what}, "
                    f"its example has {leaf.shape[dim]}",
                    do="leave it out: what is not named has the example's size",
                )
            _check_range(f"dimension {dim} of {name}", leaf.shape[dim], what)


def _check_range(what: str, size: Any, request: Any) -> None:
    """torch compares examples with a named Dim, but not with a hint."""
    if not _is_hint(request) or type(size) is not int:
        return
    low, high = request.min, request.max
    if (low is not None and size < low) or (high is not None and size > high):
        raise InvalidInput(
            f"dynamic_shapes gives {what} a range that its example, {size}, is not in",
            got=f"at least {low or 0}" + (f" and at most {high}" if high is not None else ""),
            do="give an example whose sizes lie within the ranges of dynamic_shapes, or widen these",
        )


def _check_dynamic(
    exported: ExportedProgram, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Any
) -> None:
    """torch.export may make an AUTO dimension static without a word; nobody asked for that."""
    if (isinstance(asked, tuple | list | Mapping) and not asked) or asked is None:
        return
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
    names: dict[int, list[str]] = {}
    specs = [spec for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    for spec, leaf in zip(specs, pytree.tree_leaves((args, kwargs)), strict=False):
        names.setdefault(id(leaf), []).append(spec.arg.name)
    bound = dict(inspect.signature(forward).bind(*args, **kwargs).arguments)
    asked = _by_parameter(asked, bound)
    for path, leaf in pytree.tree_flatten_with_path(bound)[0]:
        if not isinstance(leaf, torch.Tensor) or not names.get(id(leaf)):
            continue
        name = names[id(leaf)].pop(0)
        for dim, request in _dims(_lookup(asked, path)):
            size = values[name].shape[dim]
            if _is_dynamic(request) and _is_number(size):
                raise UnboundedShape(
                    f"dimension {dim} of input '{name}' was asked to be dynamic, "
                    f"but the model fixes it to {size}",
                    got=f"dynamic_shapes gives it {_spell(request)}",
                    do="remove what makes it static (a size of 0 or 1 in the example, a reshape to a "
                    "constant, a Python branch on the size), or leave the dimension static",
                )


def _is_number(size: Any) -> bool:
    return isinstance(size, int) or bool(size.node.expr.is_number)


def _by_parameter(asked: Any, bound: Mapping[str, Any]) -> Any:
    if isinstance(asked, tuple | list):
        return dict(zip(bound, asked, strict=False))
    # With **kwargs in the signature, torch wants their names beside the others.
    if isinstance(asked, Mapping):
        rest = {name: asked for name, value in bound.items() if isinstance(value, dict) and name not in asked}
        return {**rest, **asked}
    return asked


def _lookup(tree: Any, path: Any) -> Any:
    for key in path:
        index: Any = getattr(key, "idx", None)
        if index is None:
            index = getattr(key, "key", getattr(key, "name", None))
        try:
            tree = tree[index] if isinstance(tree, Mapping | list | tuple) else getattr(tree, str(index))
        except (KeyError, IndexError, AttributeError, TypeError):
            return None
    return tree


def _dims(request: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(request, Mapping):
        yield from ((dim, what) for dim, what in request.items() if isinstance(dim, int))
    elif isinstance(request, tuple | list):
        yield from enumerate(request)


def _is_dynamic(request: Any) -> bool:
    if request is None or isinstance(request, int):
        return False
    return not _is_hint(request) or request.type.name != "STATIC"


def _is_hint(request: Any) -> bool:
    """Dim.AUTO and its kin, whose class torch does not give out."""
    return hasattr(getattr(request, "type", None), "name")


def _spell(request: Any) -> str:
    return f"Dim.{request.type.name}" if _is_hint(request) else repr(request)
