"""Checks in a process of their own, which a kernel may bring down.

A division of integers by zero or an access far outside ends the process it happens in. The table
then says which call it was, and the other operators are tested all the same. Where processes
cannot be forked, the checks run in this one.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from multiprocessing.connection import Connection

from penlight.ops.checks import Check, Tester, check
from penlight.ops.definition import Definition
from penlight.ops.loading import Library


def check_apart(library: Library) -> list[Check]:
    """Test every operator of a library, each in a process of its own."""
    if "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return check(library)
    return [one for definition in library.definitions.values() for one in _check(definition)]


def _check(definition: Definition) -> list[Check]:
    context = multiprocessing.get_context("fork")
    reports, report = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(definition, report))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else the child would write what is waiting once more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads, which the child does not use
        process.start()
    report.close()
    found: list[Check] = []
    step, sample = "eager", ""
    try:
        while True:
            told = reports.recv()
            if isinstance(told, Check):
                found.append(told)
            else:
                step, sample = told
    except EOFError:
        process.join()
    if process.exitcode:
        said = f"exit code {process.exitcode}"
        if process.exitcode < 0:
            said = signal.strsignal(-process.exitcode) or f"signal {-process.exitcode}"
        detail = f"the kernel ends the process: {said}" + (f"; called with {sample}" if sample else "")
        found.append(Check(definition.kernel.signature.qualified, step, False, detail))
    return found


def _child(definition: Definition, report: Connection) -> None:
    for one in Tester(definition, lambda step, sample: report.send((step, sample))).run():
        report.send(one)
