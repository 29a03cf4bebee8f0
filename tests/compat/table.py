"""Print the interop table: each program and model in both directions.

    python tests/compat/table.py [NAME...] [--models | --programs]

"ours in theirs": our target="portable" file in ExecuTorch's runtime; "theirs in
ours": a file of ExecuTorch's exporter in our runtime. Numbers are the largest
absolute error against eager over the range of the output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from peer import MISSING, Peer, python  # noqa: E402

FOLDER = Path(__file__).parents[2] / "build" / "compat"


def cell(action: Callable[[], float]) -> tuple[str, bool]:
    try:
        value = action()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}".replace("\n", " ")[:110], False
    return ("equal" if value == 0 else f"{value:.1e}"), value <= 1e-4


def main() -> int:
    if python() is None:
        print(MISSING)
        return 1
    import exchange
    import model_exchange
    import programs

    FOLDER.mkdir(parents=True, exist_ok=True)
    flags = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    names = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    rows: list[tuple[str, Callable[[], float], Callable[[], float]]] = []
    peer = Peer()
    for module, every, wanted in (
        (exchange, list(programs.PROGRAMS), "--models" not in flags),
        (model_exchange, model_exchange.NAMES, "--programs" not in flags),
    ):
        for name in [n for n in every if n in names or not names] if wanted else []:
            made = lambda module=module, name=name: module.make(name)  # noqa: E731
            rows.append(
                (
                    name,
                    lambda m=module, n=name, made=made: m.ours_in_theirs(peer, n, made(), FOLDER),
                    lambda m=module, n=name, made=made: m.theirs_in_ours(peer, n, made(), FOLDER),
                )
            )
    print(f"{'program':28} {'ours in theirs':16} theirs in ours")
    good = [0, 0]
    for name, to_them, to_us in rows:
        (first, first_good), (second, second_good) = cell(to_them), cell(to_us)
        good = [good[0] + first_good, good[1] + second_good]
        print(f"{name:28} {first:16} {second}", flush=True)
    print(f"{'good':28} {f'{good[0]} of {len(rows)}':16} {good[1]} of {len(rows)}")
    peer.close()
    return 0 if good == [len(rows)] * 2 else 1


if __name__ == "__main__":
    sys.exit(main())
