"""The page's first screen: one sentence, the disks as bands on one scale, the race over them, where the time goes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from layoutscope.analysis.story import drive_words
from layoutscope.report.map.bands import file_list_reach, legend, picture, scale_of
from layoutscope.report.map.model import first_walks, images_of
from layoutscope.report.map.panels import walk_words
from layoutscope.report.map.segments import UNKNOWN
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.report.map.model import MapDisk, MapWalk
    from layoutscope.report.map.pyramid import Share

WORTH_TELLING: Final = 1.1
"""Disks whose times differ by less are not compared in words."""

NO_TIME: Final = "Nothing can be listed here, so there is no time to predict."

SAME: Final = 0.01
"""Numbers of entries that differ by no larger share count as the same."""


def first_screen(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the first section as HTML, a disk above the other with what each holds by class.

    A script only adds heads that move and clocks that run; every text from an image is escaped.
    """
    span = scale_of(disks, shares)
    headline = headline_of(disks)
    first = headline if len(images_of(disks)) == 1 else ""
    bands = "".join(
        _band(place, disk, held, span, first) for place, (disk, held) in enumerate(zip(disks, shares, strict=True))
    )
    on_top = f'<p class="headline">{escape(headline)}</p>' if headline else ""
    return (
        f'<section id="what">{on_top}{bands}{_scale(span, disks)}'
        f'{legend(disks, shares)}<div id="race"></div>{_times(disks)}</section>'
    )


def headline_of(
    disks: Sequence[MapDisk],  # several are compared; empty where there is nothing to compare
) -> str:
    """Return the sentence that says what matters: of one disk what is in the way of its numbers, else the time."""
    if len(images_of(disks)) > 1:
        return comparison(disks)
    return (*disks[0].warnings, *disks[0].story, NO_TIME)[0]


def comparison(disks: Sequence[MapDisk]) -> str:
    """Say how much longer the slowest of several disks takes than the quickest, on one drive and in one order."""
    listed = [disk for disk in images_of(disks) if disk.walks and _entries(disk)]
    if len(listed) < 2 or len({(disk.walks[0].order, disk.walks[0].drive) for disk in listed}) > 1:
        return ""
    ranked = sorted(listed, key=lambda disk: _seconds(disk) / _entries(disk))
    quick, slow = ranked[0], ranked[-1]
    most, least = ((_seconds(disk), _entries(disk)) for disk in (slow, quick))
    ratio = most[0] / most[1] / (least[0] / least[1]) if least[0] else 0.0
    if ratio < WORTH_TELLING:
        return ""
    per = abs(most[1] - least[1]) > SAME * most[1]
    times = [format_seconds(1000 * seconds / entries if per else seconds) for seconds, entries in (most, least)]
    names = (slow.kind, quick.kind) if slow.kind != quick.kind else (slow.title, quick.title)
    what = "1,000 files and folders" if per else "as many files"
    return (
        f"On a {drive_words(slow.walks[0].drive)}, {names[0]} takes {ratio:.2g} times as long as {names[1]} "
        f"to list {what}: {times[0]} against {times[1]}."
    )


def _seconds(disk: MapDisk) -> float:
    """How long all volumes of a disk take, one after the other."""
    return sum(walk.seconds for walk in first_walks(disk))


def _entries(disk: MapDisk) -> int:
    return sum(walk.entries for walk in first_walks(disk))


def _band(place: int, disk: MapDisk, shares: Sequence[Share], span: int, first: str) -> str:
    times = "".join(
        f"<span><b>{format_seconds(walk.seconds)}</b> {escape(walk_words(walk))}</span>"
        for walk in (disk.walks if not disk.device else ())
    )
    clock = f'<span class="clock">{clock_words(disk.walks[0])}</span>' if disk.walks else ""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in disk.story if sentence != first)
    more = "What else changed" if disk.num_earlier else "Why, and what would help"
    why = f'<details class="story"><summary>{more}</summary>{sentences}</details>' if sentences else ""
    return (
        f'<div class="disk"><div class="bar"><h2>{escape(disk.title)}</h2>'
        f'<span class="muted">{escape(disk.subtitle)}</span>{times}</div>{_unread(disk, shares, first)}'
        f'<div class="band" data-disk="{place}" data-span="{span}">{picture(disk, shares, span)}'
        f'<canvas aria-hidden="true"></canvas></div>'
        f'<div class="bar under"><span>{file_list_reach(shares)}</span>{why}{clock}</div></div>'
    )


def clock_words(walk: MapWalk) -> str:
    """Tell how long a walk takes, with its volume where the disk has several; as ``web/src/band.ts`` does."""
    return escape(f"{walk.name}: " if walk.name else "") + format_seconds(walk.seconds)


def _unread(disk: MapDisk, shares: Sequence[Share], first: str) -> str:
    sentences = [warning for warning in disk.warnings if warning != first]
    if disk.coverage != 1:
        share = "An unknown share" if disk.coverage is None else format_share(disk.coverage)
        sentences.append(f"{share} of the known metadata was read; places of what was not are never drawn as empty.")
    unknown = sum(share.size_bytes for share in shares if share.item.group == UNKNOWN)
    if unknown and disk.coverage == 1:
        # All was read, so that the volume contradicts itself: blocks are marked as used that no tree has.
        sentences.append(f"{format_bytes(unknown)} count as used, and nothing that was read says by what.")
    return f'<p class="warn">{escape(" ".join(sentences))}</p>' if sentences else ""


def _scale(span: int, disks: Sequence[MapDisk]) -> str:
    """Tell how much of the disks the bands show: of those that are nearly empty, the part in use."""
    whole = max((disk.size_bytes for disk in disks), default=span)
    end = format_bytes(span) + (f" of {format_bytes(whole)}" if span < whole else "")
    return f'<div class="bar under muted"><span>0</span><span>{end}</span></div>'


def _times(disks: Sequence[MapDisk]) -> str:
    """Show where the time of each disk's first walk goes, on one scale, with what its best remedy leaves."""
    listed = [disk for disk in images_of(disks) if disk.walks]
    walks = [(disk, walk) for disk in listed for walk in first_walks(disk)]
    most = max((walk.seconds for _, walk in walks), default=0.0)
    if not most:
        return ""
    kinds = [disk.kind for disk in listed]
    # Two disks of one file system are told apart by their titles.
    are_apart = all(kinds) and len(set(kinds)) == len(kinds)
    rows = "".join(
        _time(" ".join(filter(None, [disk.kind if are_apart else disk.title, walk.name])), walk, most)
        for disk, walk in walks
    )
    drive = drive_words(walks[0][1].drive)
    return f'<h3>Where the time goes on a {escape(drive)}</h3><table class="times">{rows}</table>'


def _time(name: str, walk: MapWalk, most: float) -> str:
    causes = sorted(walk.causes_s.items(), key=lambda item: -item[1])
    bars = "".join(_cause(cause, seconds, most) for cause, seconds in causes if seconds > 0)
    best = ""
    if walk.best_s is not None:
        words = escape(f"{walk.best} {format_seconds(walk.best_s)}")
        best = f'<i class="best" style="left:{_percent(min(walk.best_s, most), most)}" title="{words}"></i>'
    told = ", ".join(_largest(walk))
    return f'<tr><th scope="row">{escape(name)}</th><td><div class="stack">{bars}{best}</div>{told}</td></tr>'


def _cause(cause: str, seconds: float, most: float) -> str:
    words = f"{cause} {format_seconds(seconds)}"
    return f'<i class="cause-{cause}" style="width:{_percent(seconds, most)}" title="{escape(words)}"></i>'


def _largest(walk: MapWalk) -> Iterator[str]:
    """Name the causes that are worth a tenth of the time, the largest first."""
    for cause, seconds in sorted(walk.causes_s.items(), key=lambda item: -item[1]):
        if seconds >= walk.seconds / 10:
            yield (
                f'<span class="swatch cause-{escape(cause)}"></span> {escape(cause)} {format_seconds(seconds)} '
                f"({format_share(seconds / walk.seconds)})"
            )
    if walk.best_s is not None:
        yield f'<span class="swatch best"></span> {escape(walk.best)} {format_seconds(walk.best_s)}'


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%"
