"""Hand programs over in both directions and say how far the results are from eager."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

from benchmarks.models.compiled import error  # noqa: E402
from peer import Peer  # noqa: E402
from programs import Exchange, make  # noqa: E402

__all__ = ["make", "ours_in_theirs", "theirs_in_ours"]


def eager(exchange: Exchange) -> list[list[Any]]:
    """What the modules themselves give for each call, state carried along."""
    modules = copy.deepcopy(exchange.methods)
    with torch.no_grad():
        return [pytree.tree_leaves(modules[method](*args)) for method, args in exchange.calls]


def ours_in_theirs(peer: Peer, name: str, exchange: Exchange, folder: Path) -> float:
    """Compile for target "portable", run in ExecuTorch's runtime; largest error over range."""
    import penlight

    wanted = eager(exchange)
    file, given, result = (folder / f"{name}-ours{end}" for end in (".pte", ".in.npz", ".out.npz"))
    methods = {key: (module, exchange.example(key)) for key, module in exchange.methods.items()}
    options = {"constant_methods": exchange.constant_methods} if exchange.constant_methods else {}
    shapes = exchange.dynamic or None
    penlight.compile(methods, dynamic_shapes=shapes, target="portable", **options).save(file)
    arrays: dict[str, Any] = {"calls": np.array([method for method, _ in exchange.calls])}
    for k, (_, args) in enumerate(exchange.calls):
        for i, leaf in enumerate(pytree.tree_leaves(args)):
            arrays[f"{k}.in.{i}"] = array(leaf)
            if isinstance(leaf, Tensor) and not leaf.is_contiguous():
                arrays[f"{k}.last.{i}"] = np.array(True)  # channels-last: the array itself is row-major
    np.savez(given, **arrays)
    peer(do="run", name=name, file=str(file), inputs=str(given), result=str(result))
    with np.load(result) as results:
        return max(
            distance([results[f"{k}.peer.{j}"] for j in range(len(want))], want)
            for k, want in enumerate(wanted)
        )


def theirs_in_ours(peer: Peer, name: str, exchange: Exchange, folder: Path) -> float:
    """A file of their exporter in our runtime; largest error over range."""
    import penlight

    wanted = eager(exchange)
    peer(do="write", name=name, folder=str(folder))
    return run_here(penlight.load(folder / f"{name}.pte"), exchange.calls, wanted)


def run_here(program: Any, calls: list[tuple[str, tuple[Any, ...]]], wanted: list[list[Any]]) -> float:
    worst = 0.0
    for (method, args), want in zip(calls, wanted, strict=True):
        got = pytree.tree_leaves(program[method](*args))
        worst = max(worst, distance(got, want))
    return worst


def distance(got: list[Any], want: list[Any]) -> float:
    if len(got) != len(want):
        raise AssertionError(f"{len(got)} outputs, not {len(want)}")
    return max((error(tensor(g), tensor(w)) for g, w in zip(got, want, strict=True)), default=0.0)


def array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor or number as numpy; bfloat16 travels as its bits with a marker dtype."""
    if isinstance(value, Tensor):
        value = value.detach().contiguous()
        return value.view(torch.int16).numpy().view("V2") if value.dtype == torch.bfloat16 else value.numpy()
    return np.asarray(value)


def tensor(value: Any) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype.kind == "V":
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    return value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.array(value))
