"""What a user hands in to be compiled: checked here, where the message can name what is wrong.

torch.export meets the same things deep inside, in words about its own workings.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from penlight.errors import InvalidInput, NotSupported

_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__


def check_model(module: torch.nn.Module) -> None:
    """Its kind, its tensors, its mode."""
    kind = type(module).__name__
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise NotSupported(
                f"{kind} is a TorchScript module" if not name else f"'{name}' is a TorchScript module",
                do="compile the nn.Module that it was made from",
            )
        if type(part).__module__.startswith("torch.ao.nn.quantized"):
            raise NotSupported(
                f"'{name or kind}' is a layer of torch's eager-mode quantization, {type(part).__name__}",
                do="compile the float model, or one quantized with torchao",
            )
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        check_tensor(name, tensor)
    _check_mode(module)


def check_tensor(name: str, tensor: torch.Tensor) -> None:
    """Can the file hold it?"""
    if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
        raise InvalidInput(
            f"the tensor '{name}' has no shape yet", do="call the model once with an example, then compile it"
        )
    if isinstance(tensor, FakeTensor):
        raise InvalidInput(
            f"the tensor '{name}' was left in the model by an earlier trace: it has no values",
            do="create the model anew: its forward() keeps what it computes, and torch.export lets it",
        )
    if not is_traceable_wrapper_subclass(tensor) and type(tensor).__torch_dispatch__ is not _PLAIN_DISPATCH:
        raise NotSupported(
            f"the tensor '{name}' is a {type(tensor).__name__}, whose values the compiler cannot reach",
            do="give the class __tensor_flatten__ and __tensor_unflatten__, or store a plain tensor",
        )
    problem = _storage_problem(tensor)
    if problem is not None:
        what, do = problem
        raise NotSupported(f"the tensor '{name}' is {what}, not a dense tensor on the CPU", do=do)


def _storage_problem(tensor: torch.Tensor) -> tuple[str, str] | None:
    if tensor.is_nested:
        return "a nested tensor", "use a padded tensor and a mask"
    if tensor.layout is not torch.strided:
        return f"sparse ({str(tensor.layout).removeprefix('torch.')})", "store it dense: .to_dense()"
    if tensor.is_quantized:
        return f"quantized ({str(tensor.dtype).removeprefix('torch.')})", "store it with .dequantize()"
    if tensor.device.type == "meta":
        return "on the meta device, without values", "load the model's weights before compiling it"
    if tensor.device.type != "cpu":
        return f"on the device {tensor.device}", "move the model to the CPU first: model.cpu()"
    return None


def check_arguments(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Example inputs: a tuple, that fits the signature, of what can be an input."""
    if not isinstance(args, tuple | list):
        raise InvalidInput(
            "example inputs are given as a tuple", got=type(args).__name__, do="write (x,) for a single one"
        )
    if not isinstance(kwargs, Mapping):
        raise InvalidInput(
            "example inputs given by name are a dict", got=type(kwargs).__name__, do='write {"name": x}'
        )
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput(
            f"the example inputs do not fit {type(module).__name__}.forward{signature}", got=str(error)
        ) from error
    for path, leaf in pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))[0]:
        name = _name_of(path)
        if isinstance(leaf, torch.Tensor):
            problem = _storage_problem(leaf)
            if problem is not None:
                raise NotSupported(f"the example input {name} is {problem[0]}, not a dense tensor on the CPU")
        elif not (leaf is None or isinstance(leaf, bool | int | float | str)):
            array = type(leaf).__module__ == "numpy"
            raise InvalidInput(
                f"the example input {name} is neither a tensor nor a number",
                got=f"{type(leaf).__module__}.{type(leaf).__qualname__}",
                do="convert it: torch.as_tensor(...)"
                if array
                else "pass tensors, numbers, or containers of them; a dataclass is made known with "
                "torch.export.register_dataclass",
            )


def _name_of(path: Any) -> str:
    """`x`-like places: 0, 1['a'], mask."""
    first, *rest = path[1:]
    start = str(getattr(first, "idx", getattr(first, "key", first)))
    return start + pytree.keystr(tuple(rest))


def distinct(args: Any, kwargs: Any) -> Any:
    """Arguments with a tensor of its own in every place.

    torch.export takes one object in two places for one input: the program would
    read only the first of the two for ever after.
    """
    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return leaf.detach().clone()
        seen.add(id(leaf))
        return leaf

    return pytree.tree_map(own, (args, kwargs))


def _check_mode(module: torch.nn.Module) -> None:
    modes = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    training = [name for name, part in module.named_modules() if part.training and isinstance(part, modes)]
    if training:
        warnings.warn(
            f"the model is in training mode, in which '{training[0]}' and {len(training) - 1} more layers "
            "behave differently; call model.eval() before compiling it",
            stacklevel=5,
        )
