"""Count the cases of every operator and dtype, and write the page of what Penlight computes.

    python tests/conformance/report.py                  every case; a while, on all processors
    python tests/conformance/report.py --samples 2      the first samples of PyTorch's only
    python tests/conformance/report.py --only float16   samples of one dtype; counted, but not written down
    python tests/conformance/report.py --journal done.jsonl    stop it and go on where it was
    python tests/conformance/report.py --page           docs/ops.md anew, from the last results

Results go to tests/conformance/results.json: [cases, passed] by operator and dtype of the first tensor.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from penlight.ir.dtypes import DType
from penlight.kernels.table import OpTable, own_table

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "ops.md"
# The order of columns.
SHOWN = (
    *("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
    "complex64",
)

# Why cases of an operator differ, or why dtypes that ATen has are not taken.
REASONS = {
    "aten::convolution.out": "sums of products in float32 in another order, or without fused multiplication: "
    "some units in the last place; whose result is nearer to the true value changes from case to case",
    "aten::_to_copy.out": "to complex numbers of 16-bit floats, which programs do not have",
    "aten::complex.out": "from 16-bit floats, to complex numbers that programs do not have",
    "aten::gather.out": "an empty index of uint8; indices are int32 and int64",
}
COMPLEX_REASON = (
    "complex numbers are taken by arithmetic, products, sums, Fourier transforms and what moves elements"
)

Counts = dict[str, dict[str, list[int]]]  # operator -> dtype -> [cases, passed]
# ("rows", n, of how many) or ("samples", OpInfo, dtype, how many; "" for all)
Job = tuple[str, ...]
ROW_JOBS = 16  # parts that the tables are run in


def _add(counts: Counts, op: str, dtype: str, cases: int, passed: int) -> None:
    here = counts.setdefault(op, {}).setdefault(dtype, [0, 0])
    here[0] += cases
    here[1] += passed


def _count_samples(job: tuple[str, Any, int | None]) -> tuple[Counts, list[str], dict[str, int]]:
    """One OpInfo with one dtype."""
    import warnings

    import torch
    from compare_recorded import Result, run_recorded
    from opinfo import record

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    name, dtype, samples = job
    counts: Counts = {}
    failed: list[str] = []
    untaken: dict[str, int] = {}
    for call in record(name, dtype, samples).found:
        outcome = run_recorded(call)
        kind = str(call.dtype).removeprefix("torch.")
        if outcome.result in (Result.PASSED, Result.FAILED):
            _add(counts, call.row, kind, 1, outcome.result == Result.PASSED)
        if outcome.result == Result.FAILED:
            failed.append(f"{call.id}: {outcome.why}")
        if outcome.result == Result.UNTAKEN:
            untaken[f"{call.row} {kind}"] = untaken.get(f"{call.row} {kind}", 0) + 1
    return counts, failed, untaken


def _count_rows(job: tuple[int, int]) -> tuple[Counts, list[str], dict[str, int]]:
    """Every n-th row of the tables of cases."""
    import warnings

    from compare import assert_matches
    from op_case import cases
    from run_op import overload_of, run_op
    from test_conformance import ROWS

    from penlight.kernels.out_variants import by_naming_rule, out_variant

    warnings.simplefilter("ignore")
    first, step = job
    counts: Counts = {}
    failed: list[str] = []
    for row in ROWS[first::step]:
        op = overload_of(row.name)
        name = (out_variant(op) or by_naming_rule(op)).op
        for case in cases(row):
            args, kwargs = case.arguments()
            try:
                want = op(*args, **kwargs)
            except (RuntimeError, NotImplementedError, IndexError):
                continue  # ATen refuses them
            try:
                assert_matches(case, op, run_op(op, *case.arguments(), want), want)
                passed = True
            except Exception as error:
                passed = False
                failed.append(f"{name} {case.id}: {type(error).__name__}: {error}")
            _add(counts, name, str(case.dtype).removeprefix("torch."), 1, passed)
    return counts, failed, {}


def _run(job: Job) -> tuple[Counts, list[str], dict[str, int]]:
    """One job, by its name."""
    if job[0] == "rows":
        return _count_rows((int(job[1]), int(job[2])))
    import torch

    return _count_samples((job[1], getattr(torch, job[2]), int(job[3]) if job[3] else None))


def _finished(journal: Path | None) -> dict[Job, tuple[Counts, list[str], dict[str, int]]]:
    """The jobs that an earlier count wrote down."""
    if journal is None or not journal.exists():
        return {}
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return {tuple(job): (counts, failed, untaken) for job, counts, failed, untaken in lines}


def count(
    samples: int | None,
    jobs: int,
    tables: bool = True,
    only: list[str] | None = None,
    journal: Path | None = None,
) -> tuple[Counts, list[str], dict[str, int]]:
    """Run every case, or the samples of the dtypes in `only`.

    Args:
        journal: a file that gets a line for each part that is done; parts that have a line are not run again.
    """
    sys.path.insert(0, str(HERE))
    from opinfo import DTYPES, all_groups

    counts: Counts = {}
    failed: list[str] = []
    untaken: dict[str, int] = {}
    wanted = tuple(dtype for dtype in DTYPES if not only or str(dtype).removeprefix("torch.") in only)
    todo: list[Job] = [("rows", str(i), str(ROW_JOBS)) for i in range(ROW_JOBS if tables else 0)]
    todo += [
        ("samples", name, str(dtype).removeprefix("torch."), str(samples or ""))
        for name, dtype in all_groups(wanted)
    ]
    done = _finished(journal)
    rest = [job for job in todo if job not in done]
    # An executor says so when a worker dies, of a sanitizer's finding for one; a Pool waits for ever.
    with ProcessPoolExecutor(jobs) as pool:
        for job, result in zip(rest, pool.map(_run, rest, chunksize=2), strict=True):
            done[job] = result
            if journal is not None:
                with journal.open("a") as file:
                    file.write(json.dumps([job, *result]) + "\n")
            if sys.stderr.isatty():
                print(f"\r{len(done)} of {len(todo)}", end="", file=sys.stderr)
    for found, wrong, not_taken in (done[job] for job in todo):
        for op, dtypes in found.items():
            for dtype, (cases, passed) in dtypes.items():
                _add(counts, op, dtype, cases, passed)
        failed += wrong
        for key, more in not_taken.items():
            untaken[key] = untaken.get(key, 0) + more
    return counts, failed, untaken


def summary(counts: Counts) -> list[str]:
    """Operators, cases and passes by dtype, as lines of a Markdown table."""
    lines = ["| dtype | operators | cases | passed | |", "|---|---:|---:|---:|---:|"]
    for dtype in [*SHOWN, None]:
        cells = [
            cell
            for dtypes in counts.values()
            for key, cell in dtypes.items()
            if dtype is None or key == dtype
        ]
        cases, passed = sum(cell[0] for cell in cells), sum(cell[1] for cell in cells)
        operators = sum(1 for dtypes in counts.values() if dtype is None or dtype in dtypes)
        share = f"{10_000 * passed // cases / 100:.2f} %" if cases else ""  # never rounded up
        lines.append(f"| {dtype or '**all**'} | {operators} | {cases:,} | {passed:,} | {share} |")
    return lines


def page(table: OpTable, results: dict[str, Any]) -> str:
    """docs/ops.md."""
    counts: Counts = results["operators"]
    samples = results["samples"]
    of_each = f" (the first {samples} of each)" if samples else ""
    tables = ", and the tables in `tests/conformance`" if results["tables"] else ""
    lines = [
        "# Operators",
        "",
        "Every operator that has a kernel, and how many cases agree with PyTorch's CPU. `make conformance`",
        "makes this page from [kernels/ops.yaml](../kernels/ops.yaml) and its own count; `penlight ops`",
        "prints the list with a search. The cases are PyTorch's operator samples" + of_each + ",",
        "recorded as the operators that a compiled program calls" + tables + "; each",
        "runs as a program of one instruction.",
        "",
        *summary(counts),
        "",
        "Each of PyTorch's 193 core operators is computed: by a kernel below, or by the compiler (views).",
        "A number is the cases that passed, or passed/cases where some did not; `+` is taken without a case",
        "of its own; an empty cell is a dtype that the operator does not take. The dtype is that of a call's",
        "first tensor.",
        "",
        "| operator | libraries | " + " | ".join(SHOWN) + " |",
        "|---|---|" + "---:|" * len(SHOWN),
    ]
    for op in sorted(table.names()):
        rows = table.rows(op)
        libraries = ", ".join(dict.fromkeys(library for row in rows for library in row.libraries))
        first = next((name for row in rows for name in row.dtypes), "rest")
        cells = []
        for dtype in SHOWN:
            cases, passed = counts.get(op, {}).get(dtype, [0, 0])
            taken = any(row.takes(first, DType[dtype]) for row in rows)
            cells.append(
                (str(passed) if passed == cases else f"{passed}/{cases}") if cases else "+" if taken else ""
            )
        lines.append(f"| `{op}` | {libraries} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *_exceptions(counts, results.get("untaken", {}))]) + "\n"


def _exceptions(counts: Counts, untaken: dict[str, int]) -> list[str]:
    """What differs from ATen, and the dtypes that ATen's kernels take and Penlight's do not."""
    failed = {
        op: sum(cases - passed for cases, passed in dtypes.values())
        for op, dtypes in counts.items()
        if dtypes
    }
    lines = ["", "## Cases that differ", ""]
    lines += [
        f"- `{op}`: {number} of the cases. {_reason(op, '')}" for op, number in failed.items() if number
    ] or ["None."]
    lines += ["", "## Dtypes that are not taken", "", "An error tells of each when a model is compiled.", ""]
    by_reason: dict[str, list[str]] = {}
    for key in untaken:
        op, dtype = key.split(" ")
        by_reason.setdefault(_reason(op, dtype), []).append(f"`{op}` {dtype}")
    lines += [f"- {', '.join(pairs)}: {reason}." for reason, pairs in by_reason.items()] or ["None."]
    return lines


def _reason(op: str, dtype: str) -> str:
    if op in REASONS:
        return REASONS[op]
    if dtype == "complex64" or op == "aten::linspace.out":
        return COMPLEX_REASON
    return "not taken yet"


def write_page() -> None:
    PAGE.write_text(page(own_table(), json.loads(RESULTS.read_text())), encoding="utf-8")


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count the cases of every operator and dtype.")
    parser.add_argument("--samples", type=int, help="of each of PyTorch's lists of samples; all by default")
    parser.add_argument("--no-tables", action="store_true", help="PyTorch's samples alone")
    parser.add_argument("--only", nargs="+", choices=SHOWN, help="dtypes of samples; writes no page")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--page", action="store_true", help="write docs/ops.md from the last results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where counts go; elsewhere: no page")
    parser.add_argument("--journal", type=Path, help="note parts that are done; run again, go on after them")
    parser.add_argument("--failures", type=Path, help="also write what failed, and what is not taken")
    args = parser.parse_args(arguments)
    if args.page:
        write_page()
        return 0
    start = time.time()
    counts, failed, untaken = count(args.samples, args.jobs, not args.no_tables, args.only, args.journal)
    if not args.only or args.results != RESULTS:
        results = {
            "samples": args.samples,
            "tables": not args.no_tables,
            "untaken": dict(sorted(untaken.items())),
            "operators": {op: counts[op] for op in sorted(counts)},
        }
        text = json.dumps(results, separators=(",", ":")).replace('},"', '},\n"')
        args.results.write_text(text + "\n", encoding="utf-8")
        if args.results == RESULTS:
            write_page()
    print("\n".join(summary(counts)))
    print(f"\n{len(failed)} failed, {sum(untaken.values())} of dtypes not taken; {time.time() - start:.0f} s")
    for line in sorted(failed)[:40]:
        print("FAILED", " ".join(line.split())[:300])
    if args.failures:
        missing = [f"{number:6} {key}" for key, number in sorted(untaken.items(), key=lambda pair: -pair[1])]
        lines = ["# failed", *sorted(" ".join(line.split()) for line in failed), "# not taken", *missing]
        args.failures.write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
