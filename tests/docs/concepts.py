"""Draws ``docs/drawings/concept-*.svg``: ``python -m tests.docs.concepts``; ``test_concepts.py`` keeps them up to date.

Two are schemes; the others are the committed images: their nodes, the first reads, and the parts of the time of a
listing.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import layoutscope

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "drawings"
IMAGES = {name: f"fixtures/images/{name}-scattered.img.zst" for name in ("hfsplus", "apfs")}
TITLES = {"hfsplus": "HFS+", "apfs": "APFS"}
INKS = {"hfsplus": "#2a7a3b", "apfs": "#b3431e"}
DRIVE = "generic-5400-2.5"
WIDTH = 720
CAUSES = {
    "seek": ("the arm moves", "#b3431e"),
    "rotation": ("the platter turns", "#e0a030"),
    "transfer": ("bytes are read", "#2a7a3b"),
    "overhead": ("commands", "#6b7a8f"),
    "host": ("the computer", "#b9a7d6"),
}


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 13) -> str:
    """Write words at a place."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, words: str, ink: str = "#33475b") -> str:
    """Draw a node with words in it."""
    frame = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="30" rx="4" fill="#fff" stroke="{ink}"/>'
    return frame + text(x + width / 2, y + 20, words, anchor="middle", size=12)


def line(points: list[tuple[float, float]], ink: str, *, arrow: bool = False) -> str:
    """Draw a way through points."""
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    end = ' marker-end="url(#end)"' if arrow else ""
    return f'<polyline points="{way}" fill="none" stroke="{ink}" stroke-width="1.2"{end}/>'


def drawing(height: int, title: str, parts: list[str]) -> str:
    """Put parts on a white background, which is readable on dark pages too."""
    marker = (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#33475b"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">'
        f"<title>{escape(title)}</title>"
    )
    sheet = f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>'
    return "\n".join([head, marker, sheet, *parts, "</svg>", ""])


def tree() -> str:
    """Draw a tree of three leaves, and the path of a search."""
    leaves = [("apple … cherry", 40), ("date … grape", 280), ("kiwi … plum", 520)]
    parts = [
        box(280, 30, 160, "date? kiwi?"),
        text(20, 50, "index node: which leaf"),
        text(20, 120, "leaves: the records"),
    ]
    for words, x in leaves:
        parts += [box(x, 145, 160, words), line([(360, 60), (x + 80, 143)], "#33475b", arrow=True)]
    parts.append(
        text(20, 205, "A search for fig: one read of the index, one of the middle leaf. A list of all: every leaf.")
    )
    return drawing(220, "A tree of nodes", parts)


def omap() -> str:
    """Draw how APFS finds a node: by its number, through the object map."""
    steps = [
        (20, "index node", "child: oid 1042"),
        (270, "object map", "1042 is at block 88,310"),
        (520, "block 88,310", "the leaf"),
    ]
    parts = []
    for number, (x, above, within) in enumerate(steps):
        parts += [text(x, 30, above), box(x, 40, 180, within)]
        if number:
            parts.append(line([(x - 70, 55), (x - 2, 55)], "#33475b", arrow=True))
    parts += [
        text(
            20, 105, "HFS+: the index node says which node of the catalog file it is; the place follows by arithmetic."
        ),
        text(20, 127, "APFS: it gives a number. Another tree, whose nodes must be read first, maps it to an address."),
        text(20, 149, "So a changed leaf can be written anywhere, and nothing above it changes but the map."),
    ]
    return drawing(165, "The object map of APFS", parts)


def scatter() -> str:
    """Draw the nodes of both committed images, and the first reads of a walk."""
    parts = []
    for row, (name, image) in enumerate(IMAGES.items()):
        top = 40 + row * 190
        with layoutscope.open(image) as session:
            size = session.volume.facts.size_bytes
            start = session.volume.facts.image_offset
            live = session.volume.nodes.filter(state="live")
            places = [place - start for place in live["image_offset"].drop_nulls().to_list()]
            reads = [place - start for place in session.trace(order="fts").image_offset[:120].tolist()]
        at = lambda place, size=size: 20 + 680 * place / size  # noqa: E731
        parts.append(
            text(
                20,
                top - 12,
                f"{TITLES[name]}: its nodes, and downward the first {len(reads)} reads of a listing",
            )
        )
        parts.append(f'<rect x="20" y="{top}" width="680" height="22" fill="#eef1f4"/>')
        marks = "".join(f"M{x:.1f} {top}v22" for x in sorted({round(at(place), 1) for place in places}))
        parts.append(f'<path d="{marks}" stroke="{INKS[name]}" stroke-width="0.8"/>')
        parts.append(line([(at(place), top + 30 + number) for number, place in enumerate(reads)], INKS[name]))
    return drawing(400, "Places of nodes, and the way between them", parts)


def times() -> str:
    """Draw the parts of the time of a listing, for both committed images on one drive."""
    spent = {name: causes(image) for name, image in IMAGES.items()}
    longest = max(sum(each.values()) for each in spent.values())
    parts = []
    for row, (name, each) in enumerate(spent.items()):
        x, top = 90.0, 30 + row * 50
        parts.append(text(20, top + 20, TITLES[name]))
        for cause, (_, ink) in CAUSES.items():
            width = 520 * each[cause] / longest
            parts.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="30" fill="{ink}"/>')
            x += width
        parts.append(text(x + 8, top + 20, f"{sum(each.values()):.2f} s"))
    for column, (words, ink) in enumerate(CAUSES.values()):
        x = 20 + column * 142
        parts += [f'<rect x="{x}" y="135" width="12" height="12" fill="{ink}"/>', text(x + 18, 146, words)]
    return drawing(165, "What the time goes into", parts)


def causes(image: str) -> dict[str, float]:
    """Return the seconds of each cause of a listing on the drive of the drawing."""
    (case,) = next(volume.drives for volume in layoutscope.predict(image, drives=DRIVE).volumes if volume.drives)
    seconds = dict(case.prediction.causes_s)
    return {cause: seconds[cause] for cause in CAUSES}


def drawings() -> dict[str, str]:
    """Return the text of every drawing by its name."""
    return {f"concept-{each.__name__}.svg": each() for each in (tree, omap, scatter, times)}


if __name__ == "__main__":
    for name, made in drawings().items():
        (FOLDER / name).write_text(made, encoding="utf-8")
