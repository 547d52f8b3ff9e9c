"""Drawings of the house from its imports: ``python -m tests.docs.drawing`` writes them to ``docs/drawings``.

Every room is above all that it imports. An arrow is drawn only where no longer way leads down to the same room, so
that a drawing changes when the order of the rooms does and seldom otherwise. Arrows that pass floors get a place on
each, and the places of a floor are put in the order of their neighbours above and below (Sugiyama and others, 1981).
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from tests.docs.imports import ROOT, Graph, floors, imports, reachable, read_modules, rooms

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "drawings"
PACKAGES = {
    "house": "layoutscope",
    "hfsplus": "layoutscope.filesystems.hfsplus",
    "apfs": "layoutscope.filesystems.apfs",
}
FLOOR, BOX, GAP, LETTER, MARGIN = 88, 34, 24, 8.6, 24
SWEEPS = 12
STYLE = (
    "text{font:14px ui-monospace,Menlo,Consolas,monospace;text-anchor:middle;fill:#1c2733}"
    "rect.room{fill:#eef3f8;stroke:#4a6785}"
    "path.arrow{fill:none;stroke:#7d93a8;stroke-width:1.3;marker-end:url(#tip)}"
)
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#7d93a8"/></marker></defs>'
)

Ways = dict[tuple[str, str], list[str]]


def drawings() -> dict[Path, str]:
    """Return each drawing by the path at which it is kept."""
    graph = imports(read_modules())
    return {FOLDER / f"{name}.svg": draw(rooms(graph, package)) for name, package in PACKAGES.items()}


def needed(graph: Graph) -> Graph:
    """Return the arrows that are not implied by a longer path."""
    below = {name: reachable(graph, name) for name in graph}
    return {
        name: {other for other in targets if not any(other in below[between] for between in targets - {other})}
        for name, targets in graph.items()
    }


def draw(graph: Graph) -> str:
    """Draw rooms and the arrows that are needed, the roof at the top."""
    heights = floors(graph)
    ways = _ways(needed(graph), heights)
    storeys = _storeys(graph, ways, heights)
    across = _across(storeys, ways)
    left = min(x - _width(name) / 2 for name, x in across.items()) - MARGIN
    right = max(x + _width(name) / 2 for name, x in across.items()) + MARGIN
    top = len(storeys) - 1
    down = {name: MARGIN + (top - floor) * FLOOR for floor, storey in enumerate(storeys) for name in storey}
    places = {name: (across[name] - left, down[name]) for name in across}
    height = top * FLOOR + BOX + 2 * MARGIN
    across = f"{right - left:.0f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {height}" width="{across}">',
            f"<style>{STYLE}</style>{TIP}",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *(_arrow([places[name] for name in ways[each]]) for each in sorted(ways)),
            *(_room(name, *places[name]) for name in sorted(graph)),
            "</svg>\n",
        ]
    )


def _ways(graph: Graph, heights: dict[str, int]) -> Ways:
    """Return the places of each arrow: one per floor, including the rooms at its ends."""
    return {
        (name, target): [
            name,
            *(f"{name}>{target}@{floor}" for floor in range(heights[name] - 1, heights[target], -1)),
            target,
        ]
        for name, targets in graph.items()
        for target in targets
    }


def _storeys(graph: Graph, ways: Ways, heights: dict[str, int]) -> list[list[str]]:
    """Return the rooms of each floor, the lowest first, in the order with the fewest crossings."""
    storeys: list[list[str]] = [[] for _ in range(max(heights.values()) + 1)]
    for name in sorted(graph):
        storeys[heights[name]].append(name)
    for (name, _), way in sorted(ways.items()):
        for step, place in enumerate(way[1:-1], 1):
            storeys[heights[name] - step].append(place)
    beside = _neighbours(ways)
    for _ in range(SWEEPS):
        for storey in (*storeys, *reversed(storeys)):
            rank = {name: index / len(each) for each in storeys for index, name in enumerate(each)}
            storey.sort(key=lambda name: fmean(rank[other] for other in beside.get(name, [name])))
    return storeys


def _across(storeys: list[list[str]], ways: Ways) -> dict[str, float]:
    """Return the middle of each place, near its neighbours' without touching those beside it."""
    beside = _neighbours(ways)
    across = {name: float(index) for storey in storeys for index, name in enumerate(storey)}
    for _ in range(4 * SWEEPS):
        for storey in storeys:
            wanted = [fmean(across[other] for other in beside.get(name, [name])) for name in storey]
            across.update(zip(storey, _apart(storey, wanted), strict=True))
    return across


def _apart(storey: list[str], wanted: list[float]) -> list[float]:
    """Return positions in the given order, far enough apart: the mean of a push to the right and one to the left."""
    steps = [(_width(one) + _width(other)) / 2 + GAP for one, other in pairwise(storey)]
    right, left = list(wanted), list(wanted)
    for index, step in enumerate(steps):
        right[index + 1] = max(right[index + 1], right[index] + step)
    for index, step in reversed(list(enumerate(steps))):
        left[index] = min(left[index], left[index + 1] - step)
    return [(one + other) / 2 for one, other in zip(right, left, strict=True)]


def _neighbours(ways: Ways) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, way in sorted(ways.items()):
        for upper, lower in pairwise(way):
            found.setdefault(upper, []).append(lower)
            found.setdefault(lower, []).append(upper)
    return found


def _width(name: str) -> float:
    """Return the width of a room; an arrow that passes takes none."""
    return 0 if ">" in name else len(name) * LETTER + 22


def _arrow(points: list[tuple[float, float]]) -> str:
    (x, y), *rest = points
    steps = [f"M{x:.0f},{y + BOX}"]
    for step, (to, below) in enumerate(rest, 1):
        middle = (y + BOX + below) / 2
        steps.append(f"C{x:.0f},{middle:.0f} {to:.0f},{middle:.0f} {to:.0f},{below}")
        steps += [f"V{below + BOX}"] if step < len(rest) else []
        x, y = to, below
    return f'<path class="arrow" d="{" ".join(steps)}"/>'


def _room(name: str, x: float, y: float) -> str:
    width = _width(name)
    return (
        f'<rect class="room" x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX}" rx="5"/>'
        f'<text x="{x:.0f}" y="{y + 22}">{name}</text>'
    )


def main() -> None:
    """Write every drawing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in drawings().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
