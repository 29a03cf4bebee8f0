"""The real networks as exchanged programs: their exporter gets what ours gets, as .pt2 files."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from benchmarks import models  # noqa: E402
from exchange import eager, ours_in_theirs, run_here  # noqa: E402
from peer import Peer  # noqa: E402
from programs import Exchange  # noqa: E402

__all__ = ["NAMES", "make", "ours_in_theirs", "theirs_in_ours"]

NAMES = list(models.NAMES)


def make(name: str) -> Exchange:
    """The calls of a model; of the language model `decode` alone.

    Its two methods share a cache, which the peer's bindings keep once a method.
    """
    model = models.load(name)
    if name != "smollm2":
        return Exchange(model.methods, model.calls, model.dynamic, tolerance=1e-4)
    tokens, _ = model.example("prefill")
    calls = [("decode", (tokens[:, i : i + 1], torch.tensor([i]))) for i in range(3)]
    return Exchange({"decode": model.methods["decode"]}, calls, tolerance=1e-4)


def theirs_in_ours(peer: Peer, name: str, exchange: Exchange, folder: Path) -> float:
    """A file that their exporter makes of the same exported programs, in our runtime."""
    import penlight

    wanted = eager(exchange)
    exported = {}
    for method, module in exchange.methods.items():
        shapes = exchange.dynamic.get(method)
        program = torch.export.export(module, exchange.example(method), dynamic_shapes=shapes)
        exported[method] = str(folder / f"{name}-{method}.pt2")
        torch.export.save(program, exported[method])
    file = folder / f"{name}-theirs.pte"
    peer(do="lower", name=name, exported=exported, file=str(file))
    for path in exported.values():
        Path(path).unlink()
    return run_here(penlight.load(file), exchange.calls, wanted)
