"""The operator table: expressions over dtypes, rows, and the file itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penlight.errors import InvalidInput, InvalidTable
from penlight.ir.dtypes import DType
from penlight.kernels.table import (
    OpRow,
    OpTable,
    default_table,
    own_table,
    parse_dtypes,
    read_table,
    register_rows,
)


def test_expressions() -> None:
    assert parse_dtypes("float+int64") == parse_dtypes("float") | {DType.int64}
    assert parse_dtypes("all") == parse_dtypes("real+bool")
    with pytest.raises(InvalidInput, match="unknown dtype"):
        parse_dtypes("float+int65")


def table_of(folder: Path, text: str) -> OpTable:
    (folder / "ops.yaml").write_text(text)
    return read_table(folder / "ops.yaml")


def test_rest_stands_for_arguments_not_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, '- {op: "a::b.out", kernel: b_out, dtypes: {index: index, rest: float}}')
    (row,) = table.rows("a::b.out")
    assert row.takes("index", DType.int32) and not row.takes("index", DType.float32)
    assert row.takes("self", DType.float16) and not row.takes("out", DType.int32)
    assert row.libraries == ("portable",)


def test_wrong_rows_are_refused_with_their_place(tmp_path: Path) -> None:
    wrong = """\
- {op: "a::b", kernel: b, dtype: all}
- {op: "a::c", dtypes: all}
- {op: c, kernel: c, dtypes: float+int65}
- {op: "a::b", kernel: b2}
"""
    with pytest.raises(InvalidTable) as caught:
        table_of(tmp_path, wrong)
    assert [
        str(fault).split("ops.yaml:")[1].split(";")[0].split(": use")[0] for fault in caught.value.faults
    ] == [
        "1:27: unknown key 'dtype'",
        "2:3: an entry with no `kernel`",
        "3:8: operator 'c' has no namespace: write aten::c",
        "3:30: unknown dtype or set of dtypes 'int65'",
        "4:8: a::b has a row already in library portable",
    ]


def test_libraries_are_chosen(tmp_path: Path) -> None:
    rows = '- {op: "a::b", kernel: b, in: [portable]}\n- {op: "a::b", kernel: c, in: [fast]}\n'
    table = table_of(tmp_path, rows)
    assert [row.kernel for row in table.rows("a::b", ["fast"])] == ["c"]
    assert table.rows("a::c") == [] and "a::b" in table and len(table) == 2


def test_the_table_itself() -> None:
    table = own_table()
    assert len(table) > 50
    for row in table:
        assert "::" in row.op and row.kernel.isidentifier()


def test_registered_rows_count_for_every_target_and_come_first() -> None:
    own, before = len(own_table()), len(default_table())
    try:
        register_rows([OpRow("mine::f.out", "f_out"), OpRow("aten::relu.out", "my_relu")], library="mine")
        table = default_table()
        assert [row.kernel for row in table.rows("mine::f.out", ["portable"])] == ["f_out"]
        assert table.rows("aten::relu.out", ["portable"])[0].libraries == ("mine",)
        assert len(table) == before + 2 and len(own_table()) == own

        register_rows([OpRow("mine::g.out", "g_out")], library="mine")
        assert "mine::g.out" in default_table() and "mine::f.out" not in default_table()
    finally:
        register_rows([], library="mine")
    assert len(default_table()) == before


def test_needs_no_torch() -> None:
    code = "import sys, penlight.kernels.table, penlight.program; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
