"""The first screen of a scan: at most 24 lines of at most 80 columns on every image; the rest is behind ``--details``.

A volume alone has the screen for itself, several have a block each, the worst first.
"""

from __future__ import annotations

from pathlib import PurePath
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.findings import ABSENT, UNBOUNDED, first_cause
from layoutscope.metrics.space import node_density
from layoutscope.report import escape_text
from layoutscope.report.text.console import COLUMNS, count_findings
from layoutscope.results import explanation as words
from layoutscope.results.check import what_to_do
from layoutscope.results.explanation import drive_words
from layoutscope.tables import coverage_of
from layoutscope.tables.layout import layout_findings
from layoutscope.units import format_bytes, format_count, format_seconds, format_share
from layoutscope.walk.host import HOST_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.findings import Finding
    from layoutscope.results.scan import PartitionFacts, Prediction, ScanResult, VolumeScan, WalkFacts
    from layoutscope.results.verdict import Verdict
    from layoutscope.tables import VolumeFacts


LINES: Final = 24
STRIP_COLUMNS: Final = 56

BLOCKS: Final = "·▁▂▃▄▅▆▇█"
PLAIN: Final = ".:-=+*#%@"
"""Marks of the strip, from nothing to most, and in ASCII."""

SECTION: Final = "bold"
_HEAD: Final = {True: "bold cyan", False: SECTION}
"""Style of a volume's title, alone or beside others."""

MAX_DRIVES: Final = 3
MAX_PARTITIONS: Final = 6
SMALLER_BYTES: Final = 1024**2
"""A container that leaves so much of its partition free is shown with its size."""
_NAME_COLUMNS: Final = 32
MAX_ROWS: Final = 3
"""Causes, and remedies, that are shown where there is room."""


def screen_lines(result: ScanResult, *, is_ascii: bool = False) -> Iterator[Text]:
    """Yield the lines of the first screen."""
    volumes = sorted(_shown(result), key=_badness, reverse=True)
    head = [*_outside(result), *_heading(result), *partition_lines(result, MAX_PARTITIONS)]
    foot = [*_others(result), Text(_cut(_more(result, volumes)))]
    room = LINES - len(head) - len(foot)
    alone = len(volumes) == 1
    blocks = [list(_block(result, volume, alone=alone, is_ascii=is_ascii)) for volume in volumes]
    if alone and len(blocks[0]) > room:
        blocks = [list(_block(result, volumes[0], alone=True, is_ascii=is_ascii, is_tight=True))]
    room -= sum(map(len, blocks)) > room  # the line for what is left out
    shown = 0
    while shown < len(blocks) and len(blocks[shown]) <= room:
        room -= len(blocks[shown])
        shown += 1
    left = [_title(volume.layout.facts) for volume in volumes[shown:]]
    if left:
        foot = [Text(_cut(f"Not shown here, but in --details: {words.most(left, COLUMNS - 35)}")), *foot]
    yield from _aired([*head, *(line for block in blocks[:shown] for line in block), *foot])


def _aired(lines: list[Text]) -> list[Text]:
    """Set sections apart, as far as there is room for it."""
    heads = [place for place, line in enumerate(lines) if line.style == SECTION]
    for place in heads[: max(LINES - len(lines), 0)][::-1]:
        lines.insert(place, Text())
    return lines


def _shown(result: ScanResult) -> list[VolumeScan]:
    """Volumes; containers where they have none."""
    return [item for item in result.volumes if item.layout.facts.volume is not None] or list(result.volumes)


def _badness(volume: VolumeScan) -> tuple[int, int, float]:
    """What was lost comes before what is locked, and that before what is slow."""
    is_damaged = any(item.level == "error" for item in volume.findings) or volume.layout.coverage != 1
    return is_damaged and not _is_locked(volume), _is_locked(volume), volume.verdict.seconds if volume.verdict else 0.0


def _is_locked(volume: VolumeScan) -> bool:
    return bool(volume.layout.facts.details.get("locked"))


def _heading(result: ScanResult) -> Iterator[Text]:
    name = PurePath(result.image.name).name
    volumes = sum(item.layout.facts.volume is not None for item in result.volumes)
    count = "" if volumes == 1 else f", {volumes} volumes"
    size = format_bytes(result.image.size_bytes)
    yield Text(_cut(f"{_cut(escape_text(name), COLUMNS - 24)}: {size}{count}"), style="bold cyan")


def partition_lines(result: ScanResult, most_rows: int | None = None) -> Iterator[Text]:
    """Yield a line per partition of a disk that has several: number, type, name, start, size and what is in it."""
    items = result.image.partitions
    if len(items) < len(("one", "another")):
        return
    rows = [
        (f"{item.number}", _entry(item), format_bytes(item.size_bytes), format_bytes(item.image_offset))
        for item in items[:most_rows]
    ]
    numbers, names, sizes, starts = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    names = min(names, _NAME_COLUMNS)
    for (number, name, size, start), item in zip(rows, items, strict=False):
        shown = set_cell_size(_cut(name, names), names)
        yield Text(_cut(f"{number:>{numbers}}  {shown}  {size:>{sizes}} at {start:>{starts}}  {_inside(item)}"))
    left = len(items) - len(rows)
    if left:
        yield Text(f"and {format_count(left, 'more partition')}, in --details")


def _entry(item: PartitionFacts) -> str:
    named = item.name not in ("", item.type_name)
    return escape_text(f'{item.type_name} "{item.name}"' if named else item.type_name)


def _inside(item: PartitionFacts) -> str:
    """Say what is in a partition."""
    kind = escape_text(item.content or "not recognised")
    size = item.content_size_bytes
    lesser = size is not None and item.size_bytes - size >= SMALLER_BYTES
    parts = [f"{kind} of {format_bytes(size)}" if lesser and size is not None else kind]
    parts += [", ".join(item.roles)] if item.roles else []
    return "; ".join([*parts, *(["encrypted"] if item.is_encrypted else [])])


def _outside(result: ScanResult) -> Iterator[Text]:
    """Yield what is wrong with the image itself."""
    bad = [item for item in result.findings if item.level != "info"]
    if bad:
        yield from _worst("Outside of the volumes", bad)
    read = {volume.layout.facts.image_offset for volume in result.volumes}
    for item in result.findings:
        if item.code == "volume-unpartitioned" and item.image_offset not in read:
            yield from _wrapped(f"Outside of the partitions: at byte {item.image_offset:,}: {item.message}")


def _others(result: ScanResult) -> Iterator[Text]:
    """Name what lies on the image and is not read: what is said of damage is not said of it."""
    if result.image.other_contents:
        yield Text(f"Not read: {words.most([*map(escape_text, result.image.other_contents)], COLUMNS - 10)}")


def _worst(where: str, findings: Sequence[Finding]) -> Iterator[Text]:
    """Count what is wrong, and quote the worst."""
    errors = [item for item in findings if item.level == "error"]
    first = first_cause(findings)
    at = "" if first.image_offset is None else f" at byte {first.image_offset:,}"
    told = f"{where}: {count_findings(findings)}; {first.code}{at}: {first.structure}: {first.message}"
    yield from _wrapped(told, "bold red" if errors else "yellow", most_lines=2)


def _wrapped(text: str, style: str = "", *, indent: str = "  ", most_lines: int = 3) -> Iterator[Text]:
    lines = wrap(escape_text(text), COLUMNS, subsequent_indent=indent, break_on_hyphens=False) or [""]
    if len(lines) > most_lines:
        lines = [*lines[: most_lines - 1], _cut(" ".join([lines[most_lines - 1], "..."]))]
    for line in lines:
        yield Text(line, style=style)


def _cut(text: str, room: int = COLUMNS) -> str:
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 3)}..."


def _block(
    result: ScanResult, volume: VolumeScan, *, alone: bool, is_ascii: bool, is_tight: bool = False
) -> Iterator[Text]:
    facts = volume.layout.facts
    # Of a long name the end goes, not what follows it.
    rest = f", {format_bytes(facts.size_bytes)}; {_files(volume)}"
    over = max(cell_len(_title(facts) + rest) - COLUMNS, 0)
    title = _title(replace(facts, name=_cut(facts.name, max(cell_len(facts.name) - over, 9))))
    yield Text(_cut(f"{title}{rest}"), style=_HEAD[alone])
    yield from (Text(f"  besides {more}") for more in [words.besides(volume.layout)] if more and not is_tight)
    yield from _state(result, volume)
    yield from _alone(volume, most=2 if is_tight else MAX_ROWS) if alone else _in_short(volume)
    if len(volume.layout.columns("nodes")):
        yield from map(Text, strips(volume, PLAIN if is_ascii else BLOCKS))
    yield from _wrapped(_read(result, volume), most_lines=2)


def _title(facts: VolumeFacts) -> str:
    number = "Container" if facts.volume is None else f"Volume {facts.volume}"
    name = f' "{escape_text(facts.name)}"' if facts.name else ""
    view = "" if facts.view == "live" else f" ({escape_text(facts.view)})"
    return f"{number}: {escape_text(facts.variant)}{name}{view}"


def _files(volume: VolumeScan) -> str:
    facts = volume.layout.facts
    if facts.volume is None:
        is_damaged = any(item.level == "error" for item in volume.findings)
        return "no volume of it could be read" if is_damaged else "no volume in it"
    return f"{format_count(facts.num_files, 'file')}, {format_count(facts.num_directories, 'folder')}"


def _state(result: ScanResult, volume: VolumeScan) -> Iterator[Text]:
    """Yield what must be known before any number: that it is locked and how it opens, or what was lost."""
    if _is_locked(volume):
        yield from _locked(volume)
        return
    # A container's space manager and object map belong to all of its volumes: none is sound without them.
    findings = [item for one in _together(result, volume) for item in one.findings if item.level != "info"]
    if not findings:
        return
    yield from _worst(f"  {_called(findings)}", findings)
    if lost := volume.layout.facts.num_missing_entries:
        are = f"{format_count(lost, 'entry')} {'is' if lost == 1 else 'are'}"
        yield Text(f"  At least {are} missing: what follows is about the others.", style="bold red")


def _called(findings: Sequence[Finding]) -> str:
    """Call a volume what its findings make of it; one of which only a part was given is not damaged by that."""
    errors = {item.code for item in findings if item.level == "error"}
    if not errors:
        return "Odd"
    return "INCOMPLETE" if errors <= ABSENT else "DAMAGED"


def _locked(volume: VolumeScan) -> Iterator[Text]:
    secrets = [option for option in filesystem_of(volume.layout).traits.options if option.kind == "secret"]
    reason = next((item for item in volume.findings if item.code.endswith("locked")), None)
    why = "it is encrypted" if reason is None else f"{reason.message} ({reason.code})"
    yield from _wrapped(f"  LOCKED: {why}. Names, sizes and times of files were not read.", "bold red", most_lines=4)
    if secrets and (reason is None or "hardware" not in reason.code):
        flag = f"--{secrets[0].name.replace('_', '-')}"
        yield Text(_cut(f"  To open it: layoutscope scan IMAGE {flag} - (or {flag}-file FILE)"), "bold red")


def _together(result: ScanResult, volume: VolumeScan) -> list[VolumeScan]:
    """A volume, and the container whose space it shares."""
    facts = volume.layout.facts
    return [
        item
        for item in result.volumes
        if item is volume
        or (
            item.layout.facts.volume is None
            and (item.layout.facts.filesystem, item.layout.facts.image_offset) == (facts.filesystem, facts.image_offset)
        )
    ]


def _alone(volume: VolumeScan, most: int) -> Iterator[Text]:
    verdict, walk = volume.verdict, volume.walk
    if verdict is None or walk is None:
        yield Text(_untimed(walk))
        return
    what = "every file" if words.is_all_read(volume.layout) else "what was read of it"
    how = f"nothing cached, modelled as {HOST_WORDS[walk.host]} ({format_count(walk.reads, 'read')})"
    yield Text(f"Listing {what}, {how}", style=SECTION)
    if not walk.reads:
        if words.is_all_read(volume.layout):
            yield Text("  takes no read at all: mounting the volume has read what it needs")
        else:
            yield Text("  No time can be given: the metadata that lists the files was not read.")
        return
    for item in volume.predictions[:MAX_DRIVES]:
        yield Text(_time(item))
    left = len(volume.predictions) - MAX_DRIVES
    if left > 0 and most == MAX_ROWS:
        yield Text(f"  {left} more drives in --details")
    if not verdict.is_worth_a_word:
        yield Text(_cut(f"  {words.quick(volume.predictions[0])}"))
        return
    if told := words.unsettled(volume.predictions[0]):
        yield Text(_cut(f"  {told}"))
    yield Text(_cut(f"  {words.yardstick(verdict)}{' (the first drive)' if len(volume.predictions) > 1 else ''}"))
    if verdict.yardsticks:
        yield Text(_cut(f"  {words.elsewhere(verdict)}"))
    yield from _why(verdict, most)
    yield from _help(verdict, most)


def _untimed(walk: WalkFacts | None) -> str:
    """Say why there is no time."""
    return (
        "  No drive was asked about."
        if walk is not None
        else "  Nothing can be listed, so there is no time to predict."
    )


def _time(item: Prediction) -> str:
    between = f"({words.interval(item)})" if words.interval(item) else ""
    return f"  {_cut(drive_words(item.drive), 30):30} {format_seconds(item.seconds):>12}  {between}".rstrip()


def _why(verdict: Verdict, most: int) -> Iterator[Text]:
    yield Text(words.why(verdict), style=SECTION)
    for cause in verdict.named_causes[:most]:
        yield Text(_cut(f"  {format_share(cause.share):>6}  {words.WHY[cause.name]}"))
    if verdict.placement is not None:
        yield from _wrapped(f"  {words.lie(verdict.placement)}", most_lines=2)


def _help(verdict: Verdict, most_rows: int) -> Iterator[Text]:
    helpful = verdict.helpful
    yield Text(f"What would help, on the first drive ({format_seconds(verdict.seconds)} as it is)", style=SECTION)
    for item in helpful[:most_rows]:
        yield Text(_cut(f"  {format_seconds(item.seconds):>12}  {item.title}"))
    if not helpful:
        yield Text("  nothing of what was tried" + (" on nearly every such drive" if verdict.unsure else ""))
    for title, items in (("Some drives", verdict.unsure), (words.little(verdict), verdict.useless)):
        if items and most_rows == MAX_ROWS:
            told = [f"{item.title} ({format_seconds(item.seconds)})" for item in items]
            yield Text(_cut(f"  {title}: {words.most(told, COLUMNS - len(title) - 4)}"))


def _in_short(volume: VolumeScan) -> Iterator[Text]:
    """Tell a verdict in a few lines, where it stands beside others."""
    verdict, walk = volume.verdict, volume.walk
    if verdict is None or walk is None:
        yield Text(_untimed(walk))
        return
    times = [
        f"{format_seconds(item.seconds)} on {drive_words(item.drive).partition(' (')[0]}" for item in volume.predictions
    ]
    yield Text(
        _cut(
            f"  Listing it: {words.most(times, COLUMNS - 14, 'drive')}"
            if walk.reads
            else "  Listing it reads nothing more: mounting has read it all"
            if words.is_all_read(volume.layout)
            else "  No time can be given: the metadata that lists the files was not read."
        )
    )
    if verdict.named_causes:
        causes = [f"{format_share(cause.share)} {words.SHORT[cause.name]}" for cause in verdict.named_causes]
        yield Text(_cut(f"  Why, each alone: {words.most(causes, COLUMNS - 19)}"))
    if verdict.helpful:
        helpful = [f"{item.title} {format_seconds(item.seconds)}" for item in verdict.helpful]
        yield Text(_cut(f"  Would help: {words.most(helpful, COLUMNS - 14)}"))


def strips(volume: VolumeScan, marks: str) -> Iterator[str]:
    """Draw where the nodes of a volume lie, in one line, or one for each image of a set."""
    layout, facts = volume.layout, volume.layout.facts
    sizes = [facts.details.get(f"bytes of device {number}") for number in range(len(DEVICES))]
    ends = [size for size in sizes if isinstance(size, int)]
    if len(ends) < len(DEVICES):
        yield f"Nodes {_strip(node_density(layout, STRIP_COLUMNS), facts.size_bytes, marks)}"
        return
    is_half = any(item.code == "fusion-half" for item in layout_findings(layout.container or layout))
    for number, (name, size) in enumerate(zip(DEVICES, ends, strict=True)):
        if number and is_half:
            yield f"{name:6} {format_bytes(size)} of which nothing is known: its image was not given"
            return
        yield f"{name:6} {_strip(node_density(layout, STRIP_COLUMNS, (number, size)), size, marks)}"


DEVICES: Final = ("Main", "Second")
"""What the images of a set are called, by the number of the device."""


def _strip(held: NDArray[np.float64], span: int, marks: str) -> str:
    # Rounded up, so that a single node on a large disk still has a mark.
    height = np.ceil(held / max(held.max(initial=0.0), 1.0) * (len(marks) - 1)).astype(int)
    return f"0 {''.join(marks[each] for each in height.tolist())} {format_bytes(span)}"


def _read(result: ScanResult, volume: VolumeScan) -> str:
    """Say how much was read, and whether anything contradicted itself, of the volume and what it shares."""
    parts = _together(result, volume)
    layouts = [item.layout for item in parts]
    known = format_bytes(sum(layout.facts.metadata_known_bytes for layout in layouts))
    errors = sum(item.level == "error" for item in result.findings)
    coverage = coverage_of(layouts, errors)
    bad = [item for one in parts for item in one.findings if item.level != "info"]
    bad += [item for item in result.findings if item.level != "info"]
    if coverage is None:
        why = more_is_lost(bad)
        return f"Read: how much is unknown; {known} of metadata are known to exist, and {why}."
    if coverage == 1 and not bad:
        return f"Read: all {known} of known metadata, and no damage seen; check looks further."
    damage = "what was found stands above" if bad else "no damage seen in that"
    if _is_locked(volume):
        damage = "the rest is locked"
    return f"Read: {format_share(coverage)} of what must be there ({known} of known metadata); {damage}."


def more_is_lost(findings: Sequence[Finding]) -> str:
    """Say why it is unknown how much was read."""
    if any(item.code in UNBOUNDED for item in findings):
        return "by what the volume says of itself, files may be missing"
    return "errors say that more is lost"


def _more(result: ScanResult, volumes: Sequence[VolumeScan]) -> str:
    """Say where to go next: to what is wrong, else to remedies, where there is a time to shorten, and pictures."""
    if any(map(_is_locked, volumes)) and not any(volume.walk for volume in volumes):
        return "More: scan --details, inspect; with a password also predict and map"
    if replace(result, volumes=tuple(item for item in result.volumes if not _is_locked(item))).exit_code:
        found = [*result.findings, *(item for volume in result.volumes for item in volume.findings)]
        errors = {item.code for item in found if item.level == "error"}
        told = f"More: scan --details. {what_to_do(min(errors, default=''))}"
        # Of what was not given there is nothing to be checked or found.
        if errors and errors <= ABSENT and cell_len(told) <= COLUMNS:
            return told
        return "More: scan --details, check (every finding), scan --sweep (what is cut off)"
    plan = ""
    if any(item.verdict and item.verdict.is_worth_a_word for item in volumes):
        plan = "plan (other remedies, and how), "
    return f"More: {plan}scan --details, map -o FILE.html, check"
