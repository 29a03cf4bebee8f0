"""Numbers over time as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def area_chart(values: Sequence[float], *, width: int = 64, height: int = 8) -> list[str]:
    """Lines of a chart that is filled up to each value; the largest value reaches the top.

    Neighbours share a column where there are more values than columns, and the
    largest of them is drawn.
    """
    if not values:
        return []
    columns = []
    for column in range(min(width, len(values))):
        start = column * len(values) // min(width, len(values))
        stop = max(start + 1, (column + 1) * len(values) // min(width, len(values)))
        columns.append(max(values[start:stop]))
    top = max(columns) or 1
    levels = [round(value / top * height * 8) for value in columns]
    return [
        "".join(_EIGHTHS[min(8, max(0, level - row * 8))] for level in levels)
        for row in reversed(range(height))
    ]
