"""docs/ops.md says what kernels/ops.yaml and the last count of cases say."""

from __future__ import annotations

import json

import pytest
from report import PAGE, RESULTS, page

from penlight.kernels.table import own_table


@pytest.mark.skipif(not RESULTS.exists(), reason="the cases were not counted yet (make conformance)")
def test_page_is_up_to_date() -> None:
    current = page(own_table(), json.loads(RESULTS.read_text()))
    assert PAGE.read_text() == current, (
        "run `python tests/conformance/report.py --page` and commit docs/ops.md"
    )


def test_page_counts_by_operator_and_dtype() -> None:
    """A made-up count, so that what the columns mean is fixed."""
    counts = {"aten::relu.out": {"float32": [10, 10], "int64": [8, 7]}}
    text = page(own_table(), {"samples": 2, "tables": False, "operators": counts})
    (line,) = (line for line in text.splitlines() if line.startswith("| `aten::relu.out`"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:8] == ["10", "+", "+", "+", "7/8", "+"] and cells[-1] == ""
    assert "| float32 | 1 | 10 | 10 | 100.00 % |" in text and "| **all** | 1 | 18 | 17 | 94.44 % |" in text
