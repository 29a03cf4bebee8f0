"""The same cases in our runtime and in the one of the `executorch` wheel, counted by dtype.

    python tests/conformance/beside_peer.py                          the first sample of each, every dtype
    python tests/conformance/beside_peer.py --samples 3 --only float32 int64
    python tests/conformance/beside_peer.py --names add nn.functional.conv2d

Needs the peers' environment (`make peers`). Every case is one file with one instruction, which both runtimes
are given; what comes out is judged by the same rules.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compat")]

from compare_recorded import Result, run_recorded  # noqa: E402
from exchange import array, tensor  # noqa: E402
from opinfo import DTYPES, Recorded, all_groups, record  # noqa: E402
from peer import MISSING, Peer, python  # noqa: E402
from run_op import one_op_program  # noqa: E402

WHO = ("Penlight", "executorch")


class PeerRuntime:
    """Runs one-operator programs there; `run_recorded` judges what they give."""

    def __init__(self, folder: Path) -> None:
        self.peer, self.folder = Peer(), folder

    def __call__(self, op: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> list[torch.Tensor]:
        file, given, answer = (self.folder / name for name in ("case.pte", "in.npz", "out.npz"))
        file.write_bytes(one_op_program(op, args, kwargs, result))
        arrays: dict[str, Any] = {"calls": np.array(["forward"])}
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for i, leaf in enumerate(tensors):
            arrays[f"0.in.{i}"] = array(leaf)
            if not leaf.is_contiguous():
                arrays[f"0.last.{i}"] = np.array(True)
        np.savez(given, **arrays)
        self.peer(do="run", file=str(file), inputs=str(given), result=str(answer))
        with np.load(answer) as found:
            return [tensor(found[f"0.peer.{i}"]) for i in range(len(found.files))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the same cases in both runtimes.")
    parser.add_argument("--samples", type=int, default=1, help="of each of PyTorch's lists of samples")
    parser.add_argument("--only", nargs="+", help="dtypes; all by default")
    parser.add_argument("--names", nargs="+", help="of OpInfos; all by default")
    parser.add_argument(
        "--part", type=float, default=1.0, help="of all operators and dtypes, chosen at random"
    )
    parser.add_argument("--failures", action="store_true", help="also print what fails, and why")
    options = parser.parse_args()
    if python() is None:
        print(MISSING, file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    groups = [
        (name, dtype)
        for name, dtype in all_groups(DTYPES)
        if (not options.names or name in options.names)
        and (not options.only or str(dtype).removeprefix("torch.") in options.only)
    ]
    random.Random(0).shuffle(groups)
    groups = groups[: max(1, round(len(groups) * options.part))]
    with tempfile.TemporaryDirectory() as folder:
        return count(groups, options.samples, PeerRuntime(Path(folder)), options.failures)


def count(groups: list[tuple[str, torch.dtype]], samples: int, peer: PeerRuntime, verbose: bool) -> int:
    cases: Counter[str] = Counter()
    passed: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    whole: tuple[dict[str, bool], dict[str, bool]] = ({}, {})
    seen: set[tuple[Any, ...]] = set()
    for name, dtype in groups:
        for call in record(name, dtype, samples).found:
            case = (*call.kind, call.id.split(" of ")[0])
            if case not in seen:
                seen.add(case)
                one_case(call, peer, cases, passed, whole, verbose)
    print("| dtype | cases | Penlight | executorch |\n|---|---:|---:|---:|")
    for kind in sorted(cases):
        print(f"| {kind} | {cases[kind]:,} | {passed[0][kind]:,} | {passed[1][kind]:,} |")
    total = cases.total()
    shares = (f"{counter.total():,} ({100 * counter.total() / total:.2f} %)" for counter in passed)
    print(f"| all | {total:,} | {' | '.join(shares)} |")
    for who, ops in zip(WHO, whole, strict=True):
        print(f"{who}: {sum(ops.values())} of {len(ops)} operators entirely")
    peer.peer.close()
    return 0


def one_case(
    call: Recorded,
    peer: PeerRuntime,
    cases: Counter[str],
    passed: tuple[Counter[str], Counter[str]],
    whole: tuple[dict[str, bool], dict[str, bool]],
    verbose: bool,
) -> None:
    """Both runtimes on one case, unless PyTorch itself refuses it."""
    outcomes = run_recorded(call), run_recorded(call, peer)
    if outcomes[0].result == Result.REFUSED:
        return
    kind = str(call.dtype).removeprefix("torch.")
    cases[kind] += 1
    for who, outcome, counter, ops in zip(WHO, outcomes, passed, whole, strict=True):
        counter[kind] += outcome.result == Result.PASSED
        if outcome.result == Result.FAILED and verbose:
            print(f"{who}: {call.id[:120]}: {' '.join(outcome.why.split())[:200]}")
        ops[call.row] = ops.get(call.row, True) and outcome.result == Result.PASSED


if __name__ == "__main__":
    sys.exit(main())
