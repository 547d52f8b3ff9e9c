"""Draws ``docs/drawings/grammar-*.svg``: for each grammar its structures as boxes, and which field is which structure.

``python -m tests.docs.grammar_diagrams`` writes them, ``--check`` compares; ``test_grammar_diagrams.py`` runs it. A
structure is to the right of all that hold it. Wide drawings continue below, where the connecting structures are drawn
again; structures that hold no other one here, and that none holds, fill columns at the end.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tests.docs.imports import ROOT
from tests.docs.spec.grammars import fields_of, grammars, width

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ROOT / "docs" / "drawings"
WIDTH, MARGIN, ACROSS, DOWN = 1000, 12, 46, 18
LETTER, LINE, HEAD = 7.3, 18, 24
STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1c2733;white-space:pre}"
    ".n{text-anchor:end;fill:#5b6b7b}.t{text-anchor:end;fill:#2a5d8f}.h{font-weight:bold}"
    ".s{text-anchor:end}.b{fill:#fff;stroke:#4a6785}.c{fill:#dde8f2;stroke:#4a6785}"
    ".a{fill:none;stroke:#4a6785;stroke-width:1.3;marker-end:url(#tip)}.d{stroke-dasharray:5 3}"
)
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#4a6785"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a box: offset, length, name and structure of a field."""

    place: str
    size: str
    name: str
    kind: str
    target: str = ""
    chosen: bool = False


@dataclass
class Box:
    """A structure, and where it is drawn; one without a name leaves room for an arrow that passes."""

    name: str
    head: str = ""
    size: str = ""
    rows: list[Row] = field(default_factory=list)
    x: float = 0
    y: float = 0
    edge: float = 0

    @cached_property
    def columns(self) -> tuple[int, int]:
        """Letters that places and sizes take at most."""
        longest = [max((len(text) for text in texts), default=0) for texts in zip(*self._numbers, strict=True)]
        return (longest[0], longest[1]) if longest else (0, 0)

    @property
    def _numbers(self) -> list[tuple[str, str]]:
        return [(row.place, row.size) for row in self.rows]

    @cached_property
    def width(self) -> float:
        """Return what the longest line takes."""
        if not self.name:
            return 0
        body = max((len(row.name) + len(row.kind) for row in self.rows), default=0) + sum(self.columns) + 4
        return LETTER * max(body, len(self.head) * 1.03 + len(self.size) + 2) + 16

    @cached_property
    def height(self) -> float:
        """Return what its lines take."""
        return HEAD + LINE * len(self.rows) + 5 if self.name else 4


@dataclass(frozen=True, slots=True)
class Way:
    """An arrow: from a line of a box, through the places where it passes, to the structure that the line is."""

    box: Box
    number: int
    chosen: bool
    through: list[Box]


def boxes(grammar: str, spec: dict[str, Any]) -> dict[str, Box]:
    """Return the structures of a grammar by their names."""
    made = {}
    for name, body in spec.get("types", {}).items():
        size = width(f"{grammar}.{name}")
        head = name if body.get("-orig-id", name) == name else f"{name}  {body['-orig-id']}"
        made[name] = Box(name, head, "" if size is None else f"{size:,}", list(_rows(grammar, name, body)))
    return made


def _rows(grammar: str, name: str, body: dict[str, Any]) -> Iterator[Row]:
    for item, told in zip(body.get("seq", ()), fields_of(f"{grammar}.{name}"), strict=True):
        place, size = ("" if each is None else f"{each:,}" for each in (told.offset, told.size))
        kind, mark = item.get("type"), _mark(item)
        if isinstance(kind, dict):
            yield Row(place, size, item["id"], f"by {kind['switch-on']}{mark}")
            for case, target in kind["cases"].items():
                yield Row("", "", f"  {str(case).rpartition('::')[2]}", target, target, chosen=True)
        else:
            words = "constant" if "contents" in item else str(kind or "bytes").partition("(")[0]
            yield Row(place, size, item["id"], words + mark, words)


def _mark(item: dict[str, Any]) -> str:
    """Say how often a field is there, and that it may be absent."""
    often = {"eos": "[…]", "until": "[…]", "expr": f"[{item.get('repeat-expr')}]"}.get(item.get("repeat", ""), "")
    return (often if len(often) < 12 else "[n]") + ("?" if "if" in item else "")


def groups(made: dict[str, Box]) -> list[list[str]]:
    """Return groups of connected structures, in the order of the grammar; single ones are left out."""
    beside: dict[str, set[str]] = {name: set() for name in made}
    for name, box in made.items():
        for row in box.rows:
            if row.target in made:
                beside[name].add(row.target)
                beside[row.target].add(name)
    found: list[list[str]] = []
    for name in made:
        if beside[name] and not any(name in group for group in found):
            group, wave = {name}, {name}
            while wave := {other for each in wave for other in beside[each]} - group:
                group |= wave
            found.append([each for each in made if each in group])
    return found


def levels(made: dict[str, Box], group: list[str]) -> dict[str, int]:
    """Return the depth of each structure; one that nothing holds is next to the first that it holds."""
    held = {name: {row.target for row in made[name].rows} & set(group) for name in group}
    holders = {name: [other for other in group if name in held[other]] for name in group}

    def level(name: str) -> int:
        return max((level(other) + 1 for other in holders[name]), default=0)

    found = {name: level(name) for name in group}
    return {name: found[name] or min((found[each] for each in held[name]), default=1) - 1 for name in group}


def bands(made: dict[str, Box], group: list[str]) -> list[list[list[Box]]]:
    """Split a group into drawings of few columns; structures that connect two of them are in both."""
    three, two = _cut(made, group, 3), _cut(made, group, 2)
    return three if max(map(_across, three)) <= WIDTH - 2 * MARGIN else two


def _across(columns: list[list[Box]]) -> float:
    return sum(max(box.width for box in column) + ACROSS for column in columns) - ACROSS


def _cut(made: dict[str, Box], group: list[str], count: int) -> list[list[list[Box]]]:
    at = levels(made, group)
    last = max(at.values())
    found = []
    for first in range(0, max(last, 1), count - 1):
        end = min(first + count - 1, last)
        shown = [name for name in group if first <= at[name] <= end and (at[name] > first or _leads(made, name))]
        columns: list[list[Box]] = [[] for _ in range(first, end + 1)]
        for name in shown:
            columns[at[name] - first].append(Box(name, made[name].head, made[name].size, made[name].rows))
        found.append(columns)
    return found


def _leads(made: dict[str, Box], name: str) -> bool:
    return any(row.target in made for row in made[name].rows)


def draw(grammar: str, spec: dict[str, Any]) -> str:
    """Draw a grammar."""
    made = boxes(grammar, spec)
    together = groups(made)
    parts: list[str] = []
    right, bottom = 0.0, float(MARGIN)
    for columns in (band for group in together for band in bands(made, group)):
        parts += _band(columns, bottom)
        right = max(right, *(box.x + box.width for column in columns for box in column))
        bottom = max(box.y + box.height for column in columns for box in column) + DOWN
    alone = [box for name, box in made.items() if not any(name in group for group in together)]
    if alone:
        across, bottom = _shelve(alone, bottom, WIDTH)
        right = max(right, across)
        parts += [part for box in alone for part in _box(box)]
    return "\n".join([*_sheet(grammar, right + MARGIN, bottom - DOWN + MARGIN), *parts, "</svg>", ""])


def _sheet(grammar: str, across: float, down: float) -> list[str]:
    size = f"{across:.0f} {down:.0f}"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{across:.0f}" role="img">',
        f"<title>Structures of {escape(grammar)}</title><style>{STYLE}</style>{TIP}",
        '<rect width="100%" height="100%" rx="6" fill="#fff"/>',
    ]


def _band(columns: list[list[Box]], top: float) -> Iterator[str]:
    """Place columns of boxes next to each other, each box near what leads to it, and draw them with their arrows."""
    arrows = list(ways(columns))
    x = float(MARGIN)
    for column in columns:
        _stack(column, arrows, top)
        widest = max(box.width for box in column)
        for box in column:
            box.x, box.edge = x, x + widest
        x += widest + ACROSS
    yield from (_arrow(way) for way in arrows)
    yield from (part for column in columns for box in column for part in _box(box))


def ways(columns: list[list[Box]]) -> Iterator[Way]:
    """Return the arrows; columns between both ends get a place for each that passes."""
    places = {box.name: (level, box) for level, column in enumerate(columns) for box in column}
    for level, box in list(places.values()):
        for number, row in enumerate(box.rows):
            if row.target in places:
                end, target = places[row.target]
                passed = [Box("") for _ in range(level + 1, end)]
                for step, each in enumerate(passed, level + 1):
                    columns[step].append(each)
                yield Way(box, number, row.chosen, [*passed, target])


def _stack(column: list[Box], arrows: list[Way], top: float) -> None:
    """Put the boxes of a column below each other, as near as may be to the lines that lead to them."""

    def wanted(box: Box) -> float:
        lines = []
        for way in arrows:
            for before, each in pairwise([way.box, *way.through]):
                if each is box:
                    lines.append(before.y + (HEAD + LINE * way.number if before is way.box else 0))
        return fmean(lines) if lines else 0

    order = {id(box): wanted(box) for box in column}
    if any(order.values()):
        column.sort(key=lambda box: order[id(box)])
    for box in column:
        box.y = max(top, order[id(box)] - HEAD)
        top = box.y + box.height + DOWN


def _shelve(alone: list[Box], top: float, room: float) -> tuple[float, float]:
    """Put boxes into as many columns as fit; return their width and height."""
    widest = max(box.width for box in alone)
    count = max(1, min(len(alone), int((room - MARGIN) // (widest + DOWN))))
    ends = [top] * count
    for box in alone:
        column = ends.index(min(ends))
        box.x, box.y = MARGIN + column * (widest + DOWN), ends[column]
        ends[column] += box.height + DOWN
    return max(box.x + box.width for box in alone), max(ends)


def _arrow(way: Way) -> str:
    y = way.box.y + HEAD + LINE * (way.number + 0.5)
    steps = [f"M{way.box.x + way.box.width:.0f},{y:.0f}", f"H{way.box.edge:.0f}"]
    for each in way.through:
        to = each.y + (HEAD / 2 if each.name else 0)
        middle = each.x - ACROSS / 2
        steps.append(f"C{middle:.0f},{y:.0f} {middle:.0f},{to:.0f} {each.x:.0f},{to:.0f}")
        y = to
        if not each.name:
            steps.append(f"H{each.edge:.0f}")
    return f'<path class="a{" d" if way.chosen else ""}" d="{" ".join(steps)}"/>'


def _box(box: Box) -> Iterator[str]:
    if not box.name:
        return
    x, y, across = box.x, box.y, box.width
    yield f'<rect class="b" x="{x:.0f}" y="{y:.0f}" width="{across:.0f}" height="{box.height:.0f}" rx="4"/>'
    yield f'<rect class="c" x="{x:.0f}" y="{y:.0f}" width="{across:.0f}" height="{HEAD}" rx="4"/>'
    name, _, original = box.head.partition("  ")
    title = f'<tspan class="h">{escape(name)}</tspan>' + (f"  {escape(original)}" if original else "")
    yield f'<text x="{x + 8:.0f}" y="{y + 16:.0f}">{title}</text>'
    if box.size:
        yield f'<text class="s" x="{x + across - 8:.0f}" y="{y + 16:.0f}">{box.size}</text>'
    place, size = box.columns
    ends = x + 8 + LETTER * place, x + 8 + LETTER * (place + size + 1)
    for number, row in enumerate(box.rows):
        line = y + HEAD + LINE * number + 14
        numbers = "".join(
            f'<tspan class="n" x="{end:.0f}">{text}</tspan>'
            for end, text in zip(ends, (row.place, row.size), strict=True)
            if text
        )
        yield (
            f'<text y="{line:.0f}">{numbers}<tspan x="{ends[1] + LETTER * 1.5:.0f}">{escape(row.name)}</tspan>'
            f'<tspan class="t" x="{x + across - 8:.0f}">{escape(row.kind)}</tspan></text>'
        )


def drawings() -> dict[Path, str]:
    """Return each drawing by the path at which it is kept."""
    return {path_of(name): draw(name, spec) for name, spec in grammars().items()}


def path_of(grammar: str) -> Path:
    """Return where the drawing of a grammar is kept."""
    return FOLDER / f"grammar-{grammar.replace('_', '-')}.svg"


def main() -> int:
    """Write every drawing, or name those that are outdated."""
    made = drawings()
    if "--check" in sys.argv[1:]:
        stale = [path.name for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
        print("\n".join(f"stale: {name}" for name in stale) or f"{len(made)} diagrams are up to date")  # noqa: T201
        return int(bool(stale))
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
