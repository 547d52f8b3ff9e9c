"""The first picture of the page: each disk as a band, drawn as plain SVG that needs no script.

All bands have one scale. The upper part shows metadata, the lower what else fills the disk; the stronger a colour, the
larger the share of it in its column, in the same steps as the cells of the map.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.intervals import total, union
from layoutscope.frozen import frozen
from layoutscope.report.map.pyramid import held_by, used_span
from layoutscope.report.map.segments import (
    CAME,
    DAMAGED,
    DATA,
    FREE,
    FREE_NOW,
    LOCKED,
    METADATA,
    MOVED_AWAY,
    MOVED_HERE,
    NEW_DATA,
    NOT_TOLD,
    OLD_DATA,
    PENDING,
    STILL_THERE,
    WENT,
)
from layoutscope.units import format_bytes, format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk
    from layoutscope.report.map.pyramid import Share
    from layoutscope.report.map.segments import MapClass

COLUMNS: Final = 1200
MOST_TOLD: Final = 2
"""Of so many disks the legend tells what they hold."""
UPPER, LOWER = 38, 14
"""Heights of the two parts of a band."""

HATCH: Final = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path class="hatch" d="M-1 1L1 -1M0 5L5 0M4 6L6 4"/></pattern></defs>'
)
HATCHED_SWATCH: Final = '<rect width="12" height="12" fill="url(#hatch)"/>'
HATCHED: Final = frozenset({"damaged", "unknown"})
"""What must be told from all else without its colour."""

SHADES: Final = ((0.5, 1.0), (0.2, 0.85), (0.05, 0.68), (0.02, 0.52), (0.005, 0.38), (0.0, 0.25))
"""Least share of each shade, strongest first, and its opacity; those of the map's cells (``web/src/cells.ts``)."""


@frozen
class BandPart:
    """What a layman tells apart: its key, its name, which classes of the map it takes, and its colour in the style."""

    key: str
    label: str
    holds: Callable[[MapClass], bool]
    is_metadata: bool = False
    colour: str = ""

    @property
    def style(self) -> str:
        """Name of its colour in the page's style."""
        return self.colour or self.key


PARTS: Final = (
    BandPart("damaged", "damaged metadata", lambda item: item.key == DAMAGED.key, is_metadata=True),
    BandPart("locked", "locked metadata", lambda item: item.key == LOCKED.key, is_metadata=True),
    BandPart("main", "file list", lambda item: item.role == "main", is_metadata=True),
    BandPart("places", "object map or extents overflow", lambda item: item.role == "map", is_metadata=True),
    BandPart("other", "other metadata", lambda item: item.group == METADATA, is_metadata=True),
    BandPart("freed", "freed, not yet reusable", lambda item: item.key == PENDING.key),
    BandPart("data", "file data", lambda item: item.group == DATA),
    BandPart("free", "free space", lambda item: item.group == FREE),
    BandPart("unknown", "unknown", lambda _: True),
)
"""Each class belongs to the first that takes it."""


def _changed(item: MapClass, colour: str, *, is_metadata: bool = False) -> BandPart:
    return BandPart(item.key, item.label, lambda other: other.key == item.key, is_metadata, colour)


CHANGED: Final = (
    _changed(MOVED_HERE, "main", is_metadata=True),
    _changed(CAME, "other", is_metadata=True),
    _changed(MOVED_AWAY, "locked", is_metadata=True),
    _changed(WENT, "damaged", is_metadata=True),
    _changed(NEW_DATA, "places"),
    _changed(OLD_DATA, "freed"),
    _changed(STILL_THERE, "data"),
    BandPart(FREE_NOW.key, FREE_NOW.label, lambda item: item.key == FREE_NOW.key),
    BandPart("unknown", NOT_TOLD.label, lambda _: True),
)
"""The same of a disk that two states are set against each other on."""


def parts_for(shares: Sequence[Share]) -> tuple[BandPart, ...]:
    """Return the parts that the classes of a disk belong to."""
    return CHANGED if any(share.item.key == STILL_THERE.key for share in shares) else PARTS


def scale_of(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> int:
    """Return how many bytes every band spans: what is in use, or all where more than half of it is."""
    used = max((used_span(held) or disk.size_bytes for disk, held in zip(disks, shares, strict=True)), default=0)
    span = max((disk.size_bytes for disk in disks), default=0)
    return span if used > span / 2 else used


def parts_of(shares: Sequence[Share]) -> dict[str, list[int]]:
    """Sort the classes of a disk into parts: places in `shares`, by the parts' keys."""
    known = parts_for(shares)
    parts: dict[str, list[int]] = {part.key: [] for part in known}
    for place, share in enumerate(shares):
        parts[next(part.key for part in known if part.holds(share.item))].append(place)
    return parts


def picture(disk: MapDisk, shares: Sequence[Share], span: int) -> str:
    """Draw one band.

    SVG as wide as its place; a disk that ends before the span leaves the rest empty.
    """
    edges = np.minimum(np.arange(COLUMNS + 1) * span // COLUMNS, disk.size_bytes).astype(np.int64)
    widths = np.maximum(np.diff(np.arange(COLUMNS + 1) * span // COLUMNS), 1)
    held = held_by(shares, edges)
    own = {key: held[places].sum(axis=0) / widths for key, places in parts_of(shares).items()}
    known = parts_for(shares)
    paths = "".join((*_metadata(known, own), *_others(known, own)))
    end = -(-COLUMNS * min(disk.size_bytes, span) // max(span, 1))
    words = escape(f"{disk.title}: {', '.join(f'{name} {told}' for name, told in _amounts(shares, disk.size_bytes))}")
    return (
        f'<svg viewBox="0 0 {COLUMNS} {UPPER + LOWER}" preserveAspectRatio="none" role="img" aria-label="{words}">'
        f'{HATCH}<rect class="part-free" width="{end}" height="{UPPER + LOWER}"/>{paths}</svg>'
    )


def _metadata(parts: Sequence[BandPart], own: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Paint each column that holds any metadata as what holds most of it, damage before all, by the share of all."""
    kinds = [part for part in parts if part.is_metadata]
    shares = np.stack([own[part.key] for part in kinds])
    most = shares.argmax(axis=0)
    if kinds[0].key == DAMAGED.key:
        most[shares[0] > 0] = 0
    whole = shares.sum(axis=0)
    # The worst comes last: where columns are narrower than a point of the screen, nothing is painted over it.
    for place, part in reversed(list(enumerate(kinds))):
        yield from _shaded(part, np.where((most == place) & (whole > 0), whole, 0), 0, UPPER)


def _others(parts: Sequence[BandPart], own: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Paint the lower part: what nobody knows wherever there is any, else what is more, but changes before the rest."""
    kinds = [part for part in reversed(parts) if not part.is_metadata and part.key not in ("unknown", "free")]
    changed = [part.key in (NEW_DATA.key, OLD_DATA.key) for part in kinds]
    shares = np.stack([own[part.key] for part in kinds])
    most = (shares + np.outer(changed, np.ones(COLUMNS)) * (shares > 0)).argmax(axis=0)
    (nobody,) = (part for part in parts if part.key == "unknown")
    known = own[nobody.key] == 0
    for place, part in enumerate(kinds):
        yield from _shaded(part, np.where(known & (most == place), shares[place], 0), UPPER, LOWER)
    yield from _shaded(nobody, own[nobody.key], UPPER, LOWER)


def _shaded(part: BandPart, shares: NDArray[np.float64], top: int, height: int) -> Iterator[str]:
    """Paint columns in steps, each step as one path over runs of neighbours."""
    least = np.array([low for low, _ in SHADES])
    step = np.where(shares > 0, (shares[:, None] < least).sum(axis=1), -1)
    for number, (_, opacity) in enumerate(SHADES):
        inside = np.flatnonzero(np.diff(np.concatenate([[0], step == number, [0]]).astype(np.int8)))
        runs = inside.reshape(-1, 2)
        if len(runs):
            path = "".join(f"M{low} {top}h{high - low}v{height}h{low - high}z" for low, high in runs.tolist())
            yield f'<path class="part-{part.style}" fill-opacity="{opacity}" d="{path}"/>'
            if part.key in HATCHED:
                yield f'<path fill="url(#hatch)" d="{path}"/>'


def file_list_reach(shares: Sequence[Share]) -> str:
    """Say in how many pieces the file list lies and how far they reach; nothing where there is none."""
    runs = (
        union([shares[place].runs for place in parts_of(shares).get("main", [])])
        if shares
        else np.empty((0, 2), np.int64)
    )
    if not len(runs):
        return ""
    reach = "" if len(runs) == 1 else f", over {format_bytes(int(runs[-1].sum() - runs[0, 0]))}"
    return f"file list: {format_bytes(total(runs))} in {format_count(len(runs), 'piece')}{reach}"


def _amounts(shares: Sequence[Share], size_bytes: int) -> Iterator[tuple[str, str]]:
    """Tell what each part holds: bytes, share of the disk, pieces; parts that hold nothing are left out."""
    parts = parts_of(shares)
    for part in parts_for(shares):
        runs = [shares[place].runs for place in parts[part.key] if len(shares[place].runs)]
        if runs:
            held = union(runs)
            amount = total(held)
            share = format_share(amount / size_bytes)
            yield part.label, f"{format_bytes(amount)} ({share}) in {format_count(len(held), 'piece')}"


def legend(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the colours of the bands with what each disk holds of them, disks apart by a bar."""
    told = [dict(_amounts(held, disk.size_bytes)) for disk, held in zip(disks, shares, strict=True)]
    # Of many disks the amounts are read in a table of their own.
    amounts = [{part.label: "" for part in PARTS}] if len(told) > MOST_TOLD else told
    entries = (
        f'<span><svg class="swatch" viewBox="0 0 12 12"><rect class="part-{part.style}" width="12" height="12"/>'
        f"{HATCHED_SWATCH if part.key in HATCHED else ''}</svg> "
        f'{part.label} <span class="muted">{" | ".join(own.get(part.label, "none") for own in amounts)}</span></span>'
        for part in parts_for(shares[0] if shares else ())
        if any(part.label in own for own in told)
    )
    return f'<div class="bar parts">{"".join(entries)}</div>'
