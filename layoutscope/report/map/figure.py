"""The figure of the map: what fills each stretch of a disk, beside where the head goes; a row for each disk.

Everything that draws disks draws this figure: the page (whose script fills the same traces at every zoom), the page
without a script, notebooks, PNG and SVG. Traces and layout are plain dictionaries, as Plotly takes them.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.report.map.panels import own_reads, read_role, sample_step
from layoutscope.report.map.pyramid import held_by, used_span
from layoutscope.report.map.scans import walks_on
from layoutscope.units import GIB, KIB, MIB, TIB, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.pyramid import Share
    from layoutscope.report.map.scans import MapDisk

    Fields = dict[str, Any]
    Bars = tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]
    """Edges in bytes from the start of a disk, (bins + 1,), and shares by role, each (bins,)."""
    Dots = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.str_], int]
    """When each read begins, its place (bytes from the start of its disk), and the role of what is read.

    The last member is n if only every n-th read is drawn.
    """


class Role(Struct, frozen=True):
    """What a byte is there for; the page has no other colours."""

    key: str
    label: str
    light: str
    dark: str


DAMAGED: Final = Role("damaged", "damaged metadata", "#D0021B", "#F2382C")
MAIN: Final = Role("main", "file list", "#0067B1", "#4DA3E8")
OTHER: Final = Role("other", "other metadata", "#E69500", "#F0C44C")
UNKNOWN: Final = Role("unknown", "locked or unknown", "#3A3F47", "#F2F4F7")
DATA: Final = Role("data", "file data", "#B4BAC3", "#59626F")
ROLES: Final = (DAMAGED, MAIN, OTHER, UNKNOWN, DATA)
"""From the left of a bar to its right; free space is the ground."""

CHANGES: Final = (
    replace(MAIN, label="metadata, new here"),
    replace(OTHER, label="metadata, gone from here"),
    Role("moved", "file data, new or gone", "#7CC99A", "#1E7D4A"),
    replace(UNKNOWN, label="unknown in one of the two"),
    replace(DATA, label="unchanged"),
)
"""The same where two states are set against each other."""

BINS: Final = 96
"""Bars of a disk."""

MAX_DOTS: Final = 1500
"""Reads of a disk that are drawn at once; of more every n-th of those in view."""

MAX_ROWS: Final = 16
"""Disks of a figure; a page says how many more it has, and shows their cells."""

# Pixels of the figure: above each row, below the last one, beside the axes.
HEAD, FOOT, LEFT, RIGHT = 44, 44, 62, 22
WIDTH: Final = 1100
"""Pixels of a picture's width."""

BARS, WALK, WHOLE = (0.0, 0.16), (0.185, 1.0), (0.0, 1.0)
"""Parts of the width: bars, walk, and bars where no disk has a walk."""

GUTTER: Final = 0.09
ALONE_GUTTER: Final = 0.018
"""Room beside the bars for the marks of damage, as a share of the widest bar; the second of bars without a walk."""

MAX_NAME: Final = 28
"""Longer names of disks are above their rows alone, and not repeated in the labels."""

LABEL_TURNS: Final = 0.38
"""Labels of walks that end beyond this share of the axis stand before their end."""


def roles_for(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> tuple[Role, ...]:
    """Return the roles that any disk has something of."""
    found = {share.item.role for held in shares for share in held if share.size_bytes}
    known = CHANGES if any(disk.num_earlier for disk in disks) else ROLES
    return tuple(role for role in known if role.key in found)


def scale_of(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> int:
    """Return how many bytes every disk is first shown of: what is in use, or all where that is over half of it."""
    used = max((used_span(held) or disk.size_bytes for disk, held in zip(disks, shares, strict=True)), default=0)
    span = max((disk.size_bytes for disk in disks), default=0)
    return span if used > span / 2 else used


def unit_of(span: int) -> tuple[int, str]:
    """Return the unit of positions."""
    named = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
    return next(((size, name) for size, name in named if span >= 2 * size), (1, "B"))


def bars(shares: Sequence[Share], low: int, high: int, size: int) -> Bars:
    """Share out a stretch of a disk in equal bins: their edges, and what they hold of each role.

    What is past the end of the disk holds nothing.
    """
    edges = low + np.arange(BINS + 1) * (high - low) // BINS
    held = held_by(shares, np.clip(edges, 0, size))
    widths = np.maximum(np.diff(edges), 1)
    found: dict[str, NDArray[np.float64]] = {}
    for share, of in zip(shares, held, strict=True):
        if (key := share.item.role) and of.any():
            found[key] = found.get(key, np.zeros(BINS)) + of / widths
    return edges, found


def reads(disk: MapDisk, drive: str) -> Dots | None:
    """Return the reads of the volumes of a disk that are drawn, one volume after the other; None without a walk."""
    walks = walks_on(disk, drive)
    if not walks:
        return None
    times, places, roles = [], [], []
    before, sampled = 0.0, 1
    for walk in walks:
        is_here = walk.trace.device == disk.device
        trace, begin = own_reads(walk.trace, disk.device), walk.begin_s
        begin = begin[is_here] if len(trace) < len(is_here) else begin
        step = sample_step(len(trace))
        traits = filesystem_of(disk.layouts[walk.volume]).traits
        of_tree = np.array([read_role(traits, tree) for tree in trace.trees] or [""])
        times.append(before + begin[::step])
        places.append(trace.image_offset[::step] - disk.image_offset)
        roles.append(of_tree[trace.tree[::step]])
        before, sampled = before + walk.seconds, max(sampled, step)
    time = np.concatenate(times)
    step = max(1, -(-len(time) // MAX_DOTS))
    place, role = np.concatenate(places), np.concatenate(roles)
    return time[::step], place[::step], role[::step], step * sampled


def dots_words(disks: Sequence[MapDisk], drive: str) -> str:
    """Say what the dots are, and whether there is one for each read."""
    steps = [found[-1] for disk in disks[:MAX_ROWS] if (found := reads(disk, drive)) is not None]
    return "Each dot is a read; not all reads are drawn." if max(steps, default=1) > 1 else "Each dot is a read."


def names_of(disks: Sequence[MapDisk]) -> list[str]:
    """Name disks briefly: by file systems, images or volumes, whichever differ; a disk alone needs no name."""
    if len(disks) == 1:
        return [""]
    titles = [disk.title for disk in disks]
    images, _, volumes = zip(*(title.partition(": ") for title in titles), strict=True)
    ways = ([disk.kind for disk in disks], [image.partition(", ")[0] for image in images], images, volumes)
    return next((list(names) for names in ways if all(names) and len(set(names)) == len(names)), titles)


def caption_of(disk: MapDisk, name: str) -> str:
    """Say above a row which disk it is, as far as its label does not."""
    return disk.subtitle if disk.title == name else f"{disk.title} ({disk.subtitle})"


def label_of(name: str, disk: MapDisk, drive: str) -> str:
    """Say at the end of a walk what it is: disk, time, reads."""
    name = name if len(name) <= MAX_NAME else ""
    walks = walks_on(disk, drive)
    if not walks:
        return f"{name}: nothing to list" if name else "Nothing to list"
    count = sum(len(own_reads(walk.trace, disk.device)) for walk in walks)
    seconds = format_seconds(end_of(disk, drive))
    if not count:
        return f"{name}: no reads" if name else "No reads: mounting has loaded everything"
    return f"{f'{name}: ' if name else ''}{seconds}, {format_count(count, 'read')}"


def row_height(num_rows: int) -> int:
    """Return the pixels of a disk's row, without what is above it."""
    return {1: 380, 2: 190, 3: 140, 4: 140}.get(num_rows, 80)


def drives_of(disks: Sequence[MapDisk]) -> list[str]:
    """Return the drives that any disk has a walk on, those of the first disk first."""
    return list(dict.fromkeys(walk.drive for disk in disks for walk in disk.walks))


def figure(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]], *, dark: bool = False) -> Fields:
    """Return traces and layout, whole: what notebooks and picture files show."""
    disks, shares = disks[:MAX_ROWS], shares[:MAX_ROWS]
    drive = next(iter(drives_of(disks)), "")
    span = scale_of(disks, shares)
    filled = skeleton(disks, shares)
    drawn = [
        (bars(held, 0, span, disk.size_bytes), reads(disk, drive)) for disk, held in zip(disks, shares, strict=True)
    ]
    for trace in filled["data"]:
        found, walk = drawn[trace["meta"]["disk"]]
        values = _values(trace["meta"], found, walk, unit_of(span)[0])
        if trace["meta"]["part"] == "marks":
            low = filled["layout"][trace["xaxis"].replace("x", "xaxis")]["range"][0]
            values = {"x": np.full(len(values["y"]), low / 2), **values}
        trace.update(values)
        role = next((role for role in (*ROLES, *CHANGES) if role.key == trace["meta"]["role"]), None)
        if dark and role is not None:
            trace["marker"] = {**trace["marker"], "color": role.dark}
    return filled


def _values(meta: Fields, found: Bars, walk: Dots | None, unit: int) -> Fields:
    """Return what a trace shows; the twin is in ``web/src/figure.ts``."""
    edges, shares = found
    low, high = edges[:-1], edges[1:]
    middle, width = (low + high) / 2 / unit, (high - low) / unit
    held = shares.get(meta["role"], np.zeros(BINS))
    is_there = held > 0
    if meta["part"] == "bars":
        return {"x": held[is_there], "y": middle[is_there], "width": width[is_there]}
    if meta["part"] == "marks":
        return {"y": middle[is_there]}
    if walk is None:
        return {"x": [], "y": []}
    time, place, role, step = walk
    if meta["part"] == "path":
        return {"x": time, "y": place / unit} if step == 1 else {"x": [], "y": []}
    own = role == meta["role"]
    return {"x": time[own], "y": place[own] / unit}


def skeleton(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> Fields:
    """Return the traces without what they show, and the layout of the first view."""
    disks, shares = disks[:MAX_ROWS], shares[:MAX_ROWS]
    drive = next(iter(drives_of(disks)), "")
    known = roles_for(disks, shares)
    has_walks = any(disk.walks for disk in disks)
    data = [trace for number, disk in enumerate(disks) for trace in _traces(number, disk, known, has_walks=has_walks)]
    return {"data": data, "layout": _layout(disks, shares, drive, has_walks=has_walks)}


def _traces(number: int, disk: MapDisk, known: Sequence[Role], *, has_walks: bool) -> Iterator[Fields]:
    on: Fields = {
        "xaxis": _axis("x", 2 * number),
        "yaxis": _axis("y", number),
        "hoverinfo": "none",
        "showlegend": False,
    }

    def meta(part: str, role: str = "") -> Fields:
        return {"disk": number, "part": part, "role": role}

    for role in known:
        looks: Fields = {"color": role.light, "line": {"width": 0}}
        yield {
            "type": "bar",
            "orientation": "h",
            "name": role.label,
            "meta": meta("bars", role.key),
            "marker": looks,
            **on,
        }
    if any(role.key == DAMAGED.key for role in known):
        looks = {"color": DAMAGED.light, "size": 9, "symbol": "triangle-right"}
        marks: Fields = {"type": "scatter", "mode": "markers", "name": DAMAGED.label}
        yield {**marks, "meta": meta("marks", DAMAGED.key), "marker": looks, **on}
    if not has_walks or not disk.walks:
        return
    on = {**on, "xaxis": _axis("x", 2 * number + 1)}
    path: Fields = {"type": "scatter", "mode": "lines", "name": "head", "line": {"color": DATA.light, "width": 0.6}}
    yield {**path, "meta": meta("path", DATA.key), "opacity": 0.6, **on}
    for role in (OTHER, DATA, MAIN):
        looks = {"color": role.light, "size": 4, "line": {"width": 0}}
        dots: Fields = {"type": "scatter", "mode": "markers", "name": f"reads of {role.label}"}
        yield {**dots, "meta": meta("dots", role.key), "marker": looks, **on}


def _axis(letter: str, place: int) -> str:
    return f"{letter}{place + 1}" if place else letter


def _layout(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]], drive: str, *, has_walks: bool) -> Fields:
    span, rows = scale_of(disks, shares), len(disks)
    unit, unit_name = unit_of(span)
    seconds = max((end_of(disk, drive) for disk in disks), default=0.0)
    whole = rows * (HEAD + row_height(rows))
    layout: Fields = {
        "barmode": "stack",
        "bargap": 0,
        "showlegend": False,
        "hovermode": False,
        "dragmode": "zoom",
        "height": whole + FOOT,
        "margin": {"l": LEFT, "r": RIGHT, "t": 0, "b": FOOT, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 12, "family": "system-ui, sans-serif"},
        "annotations": [],
        "shapes": [],
    }
    # Ticks of seconds are found by Plotly.
    places = [] if time_unit(seconds)[0] == 1 else [(0.0, "0"), *_ticks(seconds)]
    ticks: Fields = {"tickvals": [at for at, _ in places], "ticktext": [text for _, text in places]} if places else {}
    plain = {"showline": False, "zeroline": False, "gridcolor": "rgba(128,136,148,.22)", "ticks": ""}
    names = names_of(disks)
    is_damaged = any(role.key == DAMAGED.key for role in roles_for(disks, shares))
    gutter = (GUTTER if has_walks else ALONE_GUTTER) if is_damaged else 0.0
    for number, disk in enumerate(disks):
        top = 1 - number * (HEAD + row_height(rows)) / whole
        domain = [max(0.0, top - (HEAD + row_height(rows)) / whole), top - HEAD / whole]
        is_last = number == rows - 1
        left, right = 2 * number, 2 * number + 1
        x, y = f"xaxis{left + 1 if left else ''}", f"yaxis{number + 1 if number else ''}"
        layout[y] = {
            **plain,
            "domain": domain,
            "range": [0, span / unit],
            "anchor": _axis("x", left),
            "nticks": 6,
            "title": {"text": f"position, {unit_name}", "standoff": 6},
            **({"matches": "y"} if number else {}),
        }
        layout[x] = {
            **plain,
            "domain": list(BARS if has_walks else WHOLE),
            "range": [-gutter, 1],
            "anchor": _axis("y", number),
            "fixedrange": True,
            "showgrid": False,
            "showline": True,
            "linecolor": "rgba(128,136,148,.5)",
            "tickvals": [0, 1],
            "ticktext": ["0", "100 %"],
            "showticklabels": is_last,
            **({"title": {"text": "filled with"}} if is_last else {}),
        }
        if has_walks:
            layout[f"xaxis{right + 1}"] = {
                **plain,
                "domain": list(WALK),
                "range": [0, (seconds or 1) * 1.02],
                "anchor": _axis("y", number),
                "showline": True,
                "linecolor": "rgba(128,136,148,.5)",
                "showticklabels": is_last,
                **ticks,
                **({"title": {"text": f"{time_unit(seconds)[1]} since the start of the listing"}} if is_last else {}),
                **({"matches": "x2"} if number else {}),
            }
        caption = {
            "text": escape(caption_of(disk, names[number])), "x": 0, "y": top - HEAD / whole, "xref": "paper",
            "yref": "paper", "showarrow": False, "xanchor": "left", "yanchor": "bottom", "yshift": 18,
            "font": {"size": 12}, "opacity": 0.75, "name": "caption",
        }  # fmt: skip
        layout["annotations"].append(caption)
        if has_walks:
            shape, label = end_marks(number, disk, names[number], drive, seconds)
            layout["shapes"].append(shape)
            layout["annotations"].append(label)
    return layout


def end_of(disk: MapDisk, drive: str) -> float:
    """Return when the last walk of a disk ends."""
    return sum(walk.seconds for walk in walks_on(disk, drive))


def end_marks(number: int, disk: MapDisk, name: str, drive: str, seconds: float) -> tuple[Fields, Fields]:
    """Mark where a walk ends, and label it there."""
    end, text = end_of(disk, drive), escape(label_of(name, disk, drive))
    head, _, tail = text.rpartition(", ")
    x, y = _axis("x", 2 * number + 1), f"{_axis('y', number)} domain"
    shape = {
        "type": "line", "xref": x, "yref": y, "x0": end, "x1": end, "y0": 0, "y1": 1, "visible": end > 0,
        "line": {"width": 1.5, "color": "#1b1f24"},
    }  # fmt: skip
    turns = end > LABEL_TURNS * (seconds or 1)
    label = {
        "text": f"<b>{head}</b>, {tail}" if head and end else text, "x": end, "y": 1, "xref": x, "yref": y,
        "showarrow": False, "xanchor": "right" if turns else "left", "yanchor": "bottom", "font": {"size": 13},
        "name": "end",
    }  # fmt: skip
    return shape, label


def static(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]], *, is_one_scale: bool = True) -> str:
    """Return the figure as HTML and SVG, with no script and no style of its own (``assets/figure.css``).

    Positions of disks that have nothing to do with each other have a scale each.
    """
    disks, shares = disks[:MAX_ROWS], shares[:MAX_ROWS]
    drive = next(iter(drives_of(disks)), "")
    own_spans = [scale_of([disk], [held]) for disk, held in zip(disks, shares, strict=True)]
    spans = [scale_of(disks, shares)] * len(disks) if is_one_scale else own_spans
    seconds = max((end_of(disk, drive) for disk in disks), default=0.0) * 1.02 or 1.0
    names, has_walks = names_of(disks), any(disk.walks for disk in disks)
    rows = "".join(
        _static_row(disk, held, name, drive, span, seconds, has_walks=has_walks)
        for disk, held, name, span in zip(disks, shares, names, spans, strict=True)
    )
    ticks = [
        (0.0, "0", "start"),
        *((tick / seconds, text, "middle") for tick, text in _ticks(seconds)),
        (1.0, time_unit(seconds)[2], "end"),
    ]
    foot = f"<div></div>{_scale([(0.0, '0', 'start'), (1.0, '100 %', 'end')])}{_scale(ticks) if has_walks else ''}"
    kind = f"rows-{len(disks)}{'' if has_walks else ' alone'}"
    return f'<div class="static {kind}">{rows}<div class="srow foot">{foot}</div></div>'


def _scale(ticks: Sequence[tuple[float, str, str]]) -> str:
    words = "".join(
        f'<text x="{100 * place:.2f}%" y="16" text-anchor="{anchor}">{text}</text>' for place, text, anchor in ticks
    )
    return f'<svg class="scale" aria-hidden="true">{words}</svg>'


TIME_UNITS: Final = ((7200, 3600, "hours", "h"), (120, 60, "minutes", "min"), (0, 1, "seconds", "s"))
"""Units of the time axis: from how many seconds on, their length in seconds, their name and abbreviation."""


def time_unit(seconds: float) -> tuple[int, str, str]:
    """Return the length, name and abbreviation of the unit of an axis of this length."""
    return next((length, name, short) for least, length, name, short in TIME_UNITS if seconds >= least)


def _ticks(seconds: float) -> list[tuple[float, str]]:
    """Return round times on the axis in seconds, with their text in the unit of the axis, but for its start and end."""
    length = time_unit(seconds)[0]
    end = seconds / length
    step = next(step for power in range(-6, 7) for one in (1, 2, 5) if end / (step := one * 10.0**power) <= 6)
    return [(step * number * length, f"{step * number:g}") for number in range(1, int(0.93 * end / step) + 1)]


def _static_row(
    disk: MapDisk, held: Sequence[Share], name: str, drive: str, span: int, seconds: float, *, has_walks: bool
) -> str:
    caption, label = escape(caption_of(disk, name)), escape(label_of(name, disk, drive))
    right = _static_walk(reads(disk, drive), label, end_of(disk, drive), span, seconds) if has_walks else ""
    return (
        f'<p class="caption muted">{caption}</p>'
        f'<div class="srow" role="img" aria-label="{caption}{f". {label}" if has_walks else ""}">'
        f'<div class="sy"><span>{format_bytes(span)}</span><span>0</span></div>'
        f"{static_bars(held, span, disk.size_bytes)}{right}</div>"
    )


def static_bars(held: Sequence[Share], span: int, size: int) -> str:
    """Draw what fills the stretches of a disk, as SVG that fills its place."""
    _, found = bars(held, 0, span, size)
    before = np.zeros(BINS)
    paths = []
    for key in dict.fromkeys(role.key for role in (*ROLES, *CHANGES)):
        if key not in found:
            continue
        share = found[key]
        path = "".join(
            f"M{100 * left:.2f} {BINS - at - 1}h{100 * width:.2f}v1h{-100 * width:.2f}z"
            for at, (left, width) in enumerate(zip(before.tolist(), share.tolist(), strict=True))
            if width > 0
        )
        paths.append(f'<path class="fill-{key}" d="{path}"/>')
        before = before + share
    marks = "".join(f"M0 {BINS - at - 0.5}h0" for at in np.flatnonzero(found.get(DAMAGED.key, before[:0]) > 0))
    if marks:
        paths.append(f'<path class="dots line-damaged" d="{marks}"/>')
    looks = f'viewBox="0 0 100 {BINS}" preserveAspectRatio="none" aria-hidden="true"'
    return f'<svg class="sbars" {looks}>{"".join(paths)}</svg>'


def _static_walk(walk: Dots | None, label: str, end: float, span: int, seconds: float) -> str:
    """Draw reads in a box of their own proportions, and over it the end of the walk with its label."""
    parts = []
    if walk is not None and len(walk[0]):
        time, place, roles, step = walk
        x, y = (2000 * time / seconds).astype(int), (400 - 400 * place / span).astype(int)
        if step == 1:
            line = "L".join(f"{one} {other}" for one, other in zip(x.tolist(), y.tolist(), strict=True))
            parts.append(f'<path class="head" d="M{line}"/>')
        for role in (OTHER, DATA, MAIN):
            own = roles == role.key
            distinct = dict.fromkeys(zip(x[own].tolist(), y[own].tolist(), strict=True))
            dots = "".join(f"M{one} {other}h0" for one, other in distinct)
            if dots:
                parts.append(f'<path class="dots line-{role.key}" d="{dots}"/>')
    share, anchor = end / seconds, "end" if end > LABEL_TURNS * seconds else "start"
    name, colon, rest = label.rpartition(": ")
    words = f"<tspan>{name}{colon}</tspan>{rest}" if end else label
    mark = f'<line x1="{100 * share:.2f}%" x2="{100 * share:.2f}%" y2="100%"/>' if end else ""
    return (
        '<svg class="swalk" aria-hidden="true"><svg viewBox="0 0 2000 400" preserveAspectRatio="none">'
        f'{"".join(parts)}</svg>{mark}<text x="{100 * share:.2f}%" y="-5" text-anchor="{anchor}">{words}</text></svg>'
    )
