"""The operator table: expressions over dtypes, rows, and the file itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penlight.errors import InvalidInput
from penlight.ir.dtypes import DType
from penlight.kernels.table import (
    OpRow,
    OpTable,
    default_table,
    own_table,
    parse_dtypes,
    parse_row,
    register_rows,
)


def test_expressions() -> None:
    assert parse_dtypes("float+int64") == parse_dtypes("float") | {DType.int64}
    assert parse_dtypes("all") == parse_dtypes("real+bool")
    with pytest.raises(InvalidInput, match="unknown dtype"):
        parse_dtypes("float+int65")


def test_rest_stands_for_arguments_not_named() -> None:
    row = parse_row({"op": "a::b.out", "kernel": "b_out", "dtypes": {"index": "index", "rest": "float"}})
    assert row.takes("index", DType.int32) and not row.takes("index", DType.float32)
    assert row.takes("self", DType.float16) and not row.takes("out", DType.int32)
    assert row.libraries == ("portable",)


def test_wrong_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown key"):
        parse_row({"op": "a::b", "kernel": "b", "dtype": "all"})
    with pytest.raises(InvalidInput, match="needs"):
        parse_row({"op": "a::b"})


def test_libraries_are_chosen() -> None:
    rows = [
        parse_row({"op": "a::b", "kernel": "b", "in": ["portable"]}),
        parse_row({"op": "a::b", "kernel": "c", "in": ["fast"]}),
    ]
    table = OpTable(rows)
    assert [row.kernel for row in table.rows("a::b", ["fast"])] == ["c"]
    assert table.rows("a::c") == [] and "a::b" in table and len(table) == 2


def test_the_table_itself() -> None:
    table = default_table()
    assert len(table) > 50
    for row in table:
        assert "::" in row.op and row.kernel.isidentifier()


def test_registered_rows_count_for_every_target_and_come_first() -> None:
    own = len(default_table())
    try:
        register_rows([OpRow("mine::f.out", "f_out"), OpRow("aten::relu.out", "my_relu")], library="mine")
        table = default_table()
        assert [row.kernel for row in table.rows("mine::f.out", ["portable"])] == ["f_out"]
        assert table.rows("aten::relu.out", ["portable"])[0].libraries == ("mine",)
        assert len(table) == own + 2 and len(own_table()) == own

        register_rows([OpRow("mine::g.out", "g_out")], library="mine")
        assert "mine::g.out" in default_table() and "mine::f.out" not in default_table()
    finally:
        register_rows([], library="mine")
    assert default_table() is own_table()


def test_needs_no_torch() -> None:
    code = "import sys, penlight.kernels.table, penlight.program; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
