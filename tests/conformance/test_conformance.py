"""Every kernel against ATen: each case of the tables, as a program of one instruction.

pytest tests/conformance                           one test a row and dtype
pytest tests/conformance -k "add.Tensor and int8"
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from compare import assert_matches
from op_case import Case, Op, cases
from run_op import overload_of, run_op
from test_attention_in_rows import KERNELS as ATTENTION
from test_elementwise_chains import KERNELS as CHAINS
from test_gate_kernels import KERNELS as GATES
from test_grouped_linear import KERNELS as GROUPED
from test_pack_convolution import KERNELS as PACKING
from test_packed_kernels import KERNELS as PACKED
from test_random import KERNELS
from test_strassen_kernels import KERNELS as STRASSEN
from test_transposed import KERNELS as TRANSPOSED
from test_video_kernels import KERNELS as VIDEO
from torch._ops import OpOverload

from penlight.kernels.out_variants import by_naming_rule, out_variant
from penlight.kernels.table import default_table

TABLES = ("elementwise", "dense", "reduce", "index", "gradients", "complex_numbers", "linear_algebra")
ROWS: list[Op] = []
UNCOMPARED: set[str] = {
    *(*KERNELS, *PACKED, *CHAINS, *ATTENTION, *TRANSPOSED, *PACKING, *VIDEO, *GROUPED, *STRASSEN, *GATES),
}
for _name in TABLES:
    _table = importlib.import_module(_name)
    ROWS += _table.OPS
    UNCOMPARED |= set(getattr(_table, "UNCOMPARED", ()))


def _groups() -> Iterator[Any]:
    """The cases of one row and dtype, as a parameter. All dtypes but a row's first are slow tests."""
    for number, row in enumerate(ROWS):
        every = list(cases(row))
        for i, dtype in enumerate(dict.fromkeys(case.dtype for case in every)):
            name = f"{row.name.removeprefix('aten::')}-{str(dtype).removeprefix('torch.')}-{number}"
            group = [case for case in every if case.dtype == dtype]
            yield pytest.param(group, id=name, marks=[pytest.mark.slow] if i else [])


def libraries_of(op: OpOverload, case: Case) -> tuple[str | None, ...]:
    """All that are linked, as a program asks them; and the portable one, where another goes before it."""
    rows = default_table().rows((out_variant(op) or by_naming_rule(op)).op, ("optimized",))
    return (None, "portable") if rows and case.dtype in (torch.float32, torch.complex64) else (None,)


@pytest.mark.parametrize("group", _groups())
def test_matches_torch(group: list[Case]) -> None:
    op, refused = overload_of(group[0].op.name), 0
    for case in group:
        args, kwargs = case.arguments()
        try:
            want = op(*args, **kwargs)
        except (RuntimeError, NotImplementedError, IndexError):
            refused += 1  # ATen has no kernel for this dtype or refuses the values
            continue
        for library in libraries_of(op, case):
            try:
                assert_matches(case, op, run_op(op, *case.arguments(), want, library), want)
            except Exception as error:
                error.add_note(f"case {case.id}, {library or 'all libraries'}")
                raise
    assert refused < len(group), "ATen refuses every case of this row and dtype"


def test_every_kernel_has_a_row() -> None:
    """A row of kernels/ops.yaml that no case runs is a kernel nobody has checked."""
    covered = set(UNCOMPARED)
    for row in ROWS:
        op = overload_of(row.name)
        covered.add((out_variant(op) or by_naming_rule(op)).op)
    missing = [name for name in default_table().names() if name not in covered]
    assert not missing, f"no case in tests/conformance for: {', '.join(missing)}"


def test_no_row_twice() -> None:
    """The same row in two tables would hide that one of them is out of date."""
    keys = [repr(row) for row in ROWS]
    assert len(keys) == len(set(keys))
