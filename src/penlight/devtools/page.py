"""A program as one page for the browser, or its memory as one image; neither loads anything from elsewhere.

The image is a map of the arena: instructions from left to right, bytes from top to bottom, a box for each
planned tensor from where it is made to where it is last read. What is white was never needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

from penlight.devtools.contents import Buffer, MethodReport

_WIDTH, _HEIGHT, _MARGIN = 960, 320, 14
_MOST_BOXES = 4000  # beyond, a browser is slow and boxes are thinner than a line: the largest are shown

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; max-width: 1100px; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top }
td.n, th.n { text-align: right } code { font: 12px/1.5 ui-monospace, monospace }
tr:target { background: #fe9 }
h2 { margin-top: 2em; border-top: 1px solid #ccc; padding-top: 1em } .where { color: #777 }
"""


def memory_image(report: MethodReport) -> str:
    """The map of a method's arenas, one below the other, as SVG."""
    bands = [(number, size) for number, size in enumerate(report.arenas, 1) if size]
    height = max(1, len(bands)) * (_HEIGHT + 2 * _MARGIN)
    steps = max(1, len(report.instructions))
    box = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="10">']
    for band, (number, size) in enumerate(bands):
        top = band * (_HEIGHT + 2 * _MARGIN) + _MARGIN
        parts.append(f'<text x="0" y="{top - 3}">arena {number}: {size:,} bytes, {steps} instructions</text>')
        parts.append(f'<rect x="0" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#999"/>')
        own = sorted((b for b in report.buffers if b.arena == number), key=lambda b: -b.nbytes)[:_MOST_BOXES]
        parts += [_box(buffer, size, steps, top) for buffer in own if buffer.nbytes]
    return "\n".join([*parts, "</svg>"])


def _box(buffer: Buffer, size: int, steps: int, top: int) -> str:
    x, y = buffer.first * _WIDTH / steps, top + buffer.offset * _HEIGHT / size
    width, height = (buffer.last + 1 - buffer.first) * _WIDTH / steps, buffer.nbytes * _HEIGHT / size
    title = (
        f"%{buffer.value}: {buffer.label}; bytes {buffer.offset:,} to {buffer.offset + buffer.nbytes:,}, "
        f"instructions {buffer.first} to {buffer.last}"
    )
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" stroke="#fff" '
        f'stroke-width=".5" fill="hsl({buffer.value * 47 % 360} 55% 62%)">'
        f"<title>{escape(title)}</title></rect>"
    )


def page(
    title: str, facts: Sequence[str], reports: Sequence[MethodReport], place: Callable[[str, int], str | None]
) -> str:
    """All methods of a program as HTML.

    Args:
        facts: lines about the file as a whole.
        place: source line of an instruction, given method and number.
    """
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>",
        *(f"<p>{escape(fact)}</p>" for fact in facts),
    ]
    for number, report in enumerate(reports):
        parts += _method(number, report, place)
    return "\n".join([*parts, "</html>\n"])


def _method(number: int, report: MethodReport, place: Callable[[str, int], str | None]) -> list[str]:
    parts = [f"<h2>{escape(report.name)}</h2><table>"]
    for label, values in (("input", report.inputs), ("output", report.outputs), ("state", report.state)):
        parts += [
            f"<tr><td>{label} {index}<td><code>{escape(text)}</code>" for index, text in enumerate(values)
        ]
    parts.append("</table><h3>Memory</h3>")
    parts.append(f"<p>arenas of {sum(report.arenas):,} bytes, at most {report.peak:,} alive at once</p>")
    parts.append(memory_image(report))
    parts.append(_counted(report.operators))
    parts.append('<h3>Instructions</h3><table><tr><th class="n">#<th>instruction<th>from')
    made: dict[str, int] = {}  # value -> the instruction that named it last
    for at, text in enumerate(report.instructions):
        where = place(report.name, at) or ""
        parts.append(
            f'<tr id="m{number}i{at}"><td class="n">{at}<td><code>{_linked(text, number, made)}</code>'
            f'<td class="where">{escape(where)}'
        )
        for value in re.findall(r"%\d+", text):
            made[value] = at
    return [*parts, "</table>"]


def _linked(text: str, number: int, made: Mapping[str, int]) -> str:
    """An instruction whose values lead to the instruction that named them before."""

    def link(found: re.Match[str]) -> str:
        at = made.get(found[0])
        return found[0] if at is None else f'<a href="#m{number}i{at}">{found[0]}</a>'

    return re.sub(r"%\d+", link, escape(text))


def _counted(operators: Mapping[str, int]) -> str:
    rows = "".join(
        f'<tr><td><code>{escape(name)}</code><td class="n">{count}' for name, count in operators.items()
    )
    return f'<h3>Operators</h3><table><tr><th>operator<th class="n">calls{rows}</table>'
