"""A scan as text: its first screen, or everything that was measured (``--details``).

The first screen has at most 24 lines of at most 80 columns on every image. A volume alone has the screen for itself,
several have a block each, the worst first.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from layoutscope.errors import install_command
from layoutscope.filesystems.registry import filesystem, filesystem_of
from layoutscope.findings import ABSENT, RANK, UNBOUNDED, first_cause
from layoutscope.metrics.scatter import main_tree, node_density
from layoutscope.report import escape_text
from layoutscope.report.text.console import (
    COLUMNS,
    STYLES,
    count_findings,
    cut_text,
    format_address,
    heads,
    image_line,
    item_table,
    plain_table,
    print_parts,
    stack_words,
    wrap_text,
)
from layoutscope.report.text.predict import prediction_notes, prediction_table
from layoutscope.results import explanation as words
from layoutscope.results.check import what_to_do
from layoutscope.results.explanation import drive_words
from layoutscope.results.locked import is_locked
from layoutscope.results.verdict import MAX_NAMED, WORTH_S
from layoutscope.tables import coverage_of
from layoutscope.tables.layout import layout_findings
from layoutscope.units import (
    EN_DASH,
    NOTHING,
    brief_bytes,
    brief_seconds,
    brief_share,
    format_bytes,
    format_count,
    format_share,
    format_value,
)
from layoutscope.walk.host import HOST_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from rich.console import Console, RenderableType

    from layoutscope.findings import Finding
    from layoutscope.metrics import Metric, TreeSummary
    from layoutscope.results.scan import PartitionFacts, ScanResult, VolumeScan
    from layoutscope.results.verdict import Verdict
    from layoutscope.tables import VolumeFacts, VolumeLayout


MAX_FINDINGS: Final = 20
"""So many findings are shown; the rest is counted."""

VOLUME_WIDE: Final = ("metadata", "files", "free space")
"""Subjects that are shown of every volume, besides the enumerated tree."""

BLOCK_ROWS: Final = {
    "blocks": "all",
    "free blocks": "free in the bitmaps",
    "used blocks": "used in the bitmaps",
    "claimed blocks": "claimed by metadata or files",
    "pending-free blocks": "  of them waiting to become free",
    "unclaimed blocks": "used, but claimed by nothing",
    "claimed but free blocks": "claimed, but free in the bitmaps",
}
"""Rows of the balance: name of the fact, and how it is called in the table."""


def print_scan(
    result: ScanResult, console: Console, *, details: bool = False, explain: bool = False, is_ascii: bool = False
) -> None:
    """Print a scan: its first screen, or all of it."""
    if details or explain:
        print_parts(scan_parts(result, explain=explain), console)
    else:
        has_blocks = console.encoding.lower().startswith("utf") and not console.is_dumb_terminal
        print_parts(screen_lines(result, is_ascii=is_ascii or not has_blocks), console)


def scan_parts(result: ScanResult, *, explain: bool = False) -> Iterator[RenderableType]:
    """Yield the parts of a scan's report, from the image to its volumes."""
    yield image_line(result.image)
    yield from partition_lines(result)
    for other in result.image.other_contents:
        yield Text(f"Not read: {escape_text(other)}", style="dim")
    if result.findings:
        yield findings_shown(result.findings)
    for volume in volumes_first(result.parts):
        yield from volume_parts(volume, explain=explain)


def volumes_first(volumes: Sequence[VolumeScan]) -> Iterator[VolumeScan]:
    """Put each container after its volumes, which matter more."""
    container: VolumeScan | None = None
    for volume in volumes:
        facts = volume.layout.facts
        if container is not None and (facts.volume is None or not filesystem_of(volume.layout).traits.has_containers):
            yield container
            container = None
        if facts.volume is None:
            container = volume
        else:
            yield volume
    if container is not None:
        yield container


def volume_parts(volume: VolumeScan, *, explain: bool) -> Iterator[RenderableType]:
    """Yield the parts of one volume's report: what it means first, then what that follows from."""
    facts = volume.layout.facts
    yield Text()
    yield Text(stack_words(facts, "  ", " > ".join(facts.stack)), style="bold cyan")
    yield _indent(headline(facts))
    if (walk := volume.walk) is not None:
        score = {metric.name: metric.value for metric in walk.metrics}.get("enumeration-layout-score")
        shown = "" if score is None else f"; {format_share(score)} of its nodes in sequence"
        reads = f"{format_count(walk.reads, 'read')}, {format_bytes(walk.read_bytes)}"
        yield Text(f"Enumeration ({walk.order} as on {walk.host}, cold): {reads}{shown}")
    if any(item.seconds for item in volume.predictions):
        yield prediction_table(volume.predictions)
        yield from prediction_notes(volume.predictions) if explain else ()
    if volume.findings:
        yield findings_shown(volume.findings)
    if volume.trees:
        yield tree_table(volume.trees)
        kept = sum(tree.snapshot_nodes for tree in volume.trees)
        if kept:
            yield Text(f"Snapshots alone hold {format_count(kept, 'node')} of these: metrics of trees leave them out")
    if volume.space:
        yield Text("Space: " + ", ".join(f"{row.use} {format_bytes(row.size_bytes)}" for row in volume.space))
    yield from block_table(facts)
    if told := words.describe_history(volume):
        yield Text(told)
    if explain:
        walked = volume.walk.metrics if volume.walk is not None else ()
        found = [metric for metric in (*volume.metrics, *walked) if metric.value is not None or metric.note]
        yield Group(Text("Metrics", style="bold"), *(part for metric in found for part in _define_metric(metric)))
    else:
        columns = heads("Metric", ">Value", "Per")
        yield plain_table("Metrics (--explain shows their definitions)", columns, _main_rows(volume))
    yield Text("As the volume describes itself" if facts.volume is not None else "As the container describes itself")
    yield _indent(fact_lines(facts))
    yield coverage_line(volume.layout)


def _indent(lines: Sequence[str]) -> Padding:
    return Padding(Text("\n".join(lines)), (0, 0, 0, 2))


def headline(facts: VolumeFacts) -> list[str]:
    """Return how large a volume is and how many files it has."""
    size = f"{format_bytes(facts.size_bytes)} in blocks of {format_bytes(facts.block_size_bytes)}"
    lines = [f"{facts.variant}, {size}, from byte {facts.image_offset:,} of the image"]
    if facts.volume is not None:
        counts = ((facts.num_files, "file"), (facts.num_directories, "directory"))
        if known := ", ".join(format_count(number, word) for number, word in counts if number >= 0):
            lines.append(known)
    return lines


def fact_lines(facts: VolumeFacts) -> list[str]:
    """List the volume's own declarations, a few facts per line."""
    stamp = f"{filesystem(facts.filesystem).traits.stamp_word} {facts.stamp:,}"
    case = "" if facts.volume is None else f", names case-{'' if facts.case_sensitive else 'in'}sensitive"
    lines = [f"{stamp}, UUID {facts.uuid or NOTHING}{case}"]
    if facts.features:
        lines.append("features: " + ", ".join(map(escape_text, facts.features)))
    shown = {name: value for name, value in facts.details.items() if value != "" and name not in BLOCK_ROWS}
    # Snapshots are named in the facts' own names.
    told = [f"{escape_text(name.replace('_', ' '))} {_detail(name, value)}" for name, value in shown.items()]
    return [*lines, "; ".join(told)] if told else lines


def _detail(name: str, value: float | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return format_bytes(value)
    return f"{value:,}" if isinstance(value, int) else escape_text(str(value))


def tree_table(trees: Sequence[TreeSummary]) -> RenderableType:
    """Show metadata by tree."""
    return item_table(
        "Metadata by tree (clumped: in the largest clump, gaps to 1 MiB)",
        trees,
        ("Tree", lambda tree: escape_text(tree.tree)),
        (">Leaves + index nodes", lambda tree: " + ".join(f"{n:,}" for n in tree.nodes_by_level) or NOTHING),
        (">Free", lambda tree: f"{tree.free_nodes:,}"),
        (">Size", lambda tree: format_bytes(tree.size_bytes)),
        (">Pieces", lambda tree: f"{tree.pieces:,}"),
        (">Clumped", lambda tree: format_share(tree.clumped_share)),
    )


def findings_shown(findings: Sequence[Finding]) -> RenderableType:
    """Show findings with their addresses: the worst first, causes before what follows from them."""
    chosen = sorted(findings, key=lambda finding: (-RANK[finding.level], len(finding.causes) > 0))[:MAX_FINDINGS]
    more = f", {MAX_FINDINGS} shown" if len(findings) > MAX_FINDINGS else ""
    return item_table(
        f"Findings ({count_findings(findings)}{more})",
        chosen,
        ("Level", lambda item: Text(item.level, STYLES[item.level])),
        (">Byte", lambda item: format_address(item.image_offset)),
        ("What", lambda item: escape_text(f"{item.code}: {item.structure}: {item.message}{item.sides}")),
    )


def coverage_line(layout: VolumeLayout) -> Text:
    """Show how much of the known metadata could be read."""
    known, coverage = format_bytes(layout.facts.metadata_known_bytes), layout.coverage
    style = "" if coverage == 1 else "bold red"
    lost = layout.facts.num_missing_entries
    told = f"; at least {lost:,} {'entry is' if lost == 1 else 'entries are'} missing" if lost else ""
    if coverage is None:
        told = f", but {more_is_lost(layout_findings(layout))}{told}"
        coverage = layout.facts.metadata_read_bytes / max(layout.facts.metadata_known_bytes, 1)
    elif lost:
        told = f"{told}: {format_share(coverage)} in all"
        coverage = layout.facts.metadata_read_bytes / max(layout.facts.metadata_known_bytes, 1)
    return Text(f"Coverage: {format_share(coverage)} of {known} of known metadata read{told}", style=style)


def block_table(facts: VolumeFacts) -> Iterator[RenderableType]:
    """Show the balance of a container; nothing for a volume, which has none of its own."""
    counts = {name: facts.details[name] for name in BLOCK_ROWS if isinstance(facts.details.get(name), int)}
    total = int(counts.get("blocks", 0))
    if "claimed blocks" not in counts or not total:
        return
    wrong = int(counts.get("unclaimed blocks", 0)) + int(counts.get("claimed but free blocks", 0))
    verdict = "every used block belongs to something" if not wrong else f"{wrong:,} blocks do not agree"
    yield item_table(
        f"Balance of the blocks: {verdict}",
        counts.items(),
        ("Blocks", lambda item: BLOCK_ROWS[item[0]]),
        (">Number", lambda item: f"{item[1]:,}"),
        (">Size", lambda item: format_bytes(int(item[1]) * facts.block_size_bytes)),
        (">Share", lambda item: format_share(int(item[1]) / total)),
    )


def _main_rows(volume: VolumeScan) -> Iterator[tuple[str | Text, ...]]:
    """Yield the metrics of the volume and of the enumerated tree: value, unit and denominator."""
    is_container = volume.layout.facts.volume is None
    wanted = ("free space",) if is_container else (*VOLUME_WIDE, main_tree(volume.layout))
    last = ""
    for metric in volume.metrics:
        if metric.subject not in wanted or metric.value is None:
            continue
        if metric.subject != last:
            yield (Text(metric.subject, style="italic"),)
        last = metric.subject
        yield f"  {metric.definition.title}", format_value(metric.value, metric.unit), metric.denominator


def _define_metric(metric: Metric) -> Iterator[RenderableType]:
    head = f"{metric.definition.title} ({escape_text(metric.subject)}): {format_value(metric.value, metric.unit)}"
    yield Text(head, style="bold")
    text = f"{metric.text} Per: {metric.denominator}. Source: {metric.citation}."
    yield Padding(Text(f"{text} {metric.note}." if metric.note else text), (0, 0, 0, 2))
    if metric.parts:
        parts = "; ".join(f"{label}: {_part(metric, label, value)}" for label, value in metric.parts)
        yield Padding(Text(parts, style="dim"), (0, 0, 0, 2))


def _part(metric: Metric, label: str, value: float) -> str:
    """Show percentiles in the metric's unit; bins of histograms are counts, those of free space bytes."""
    if label == "zone bytes" or metric.name == "free-extents":
        return format_value(value, "bytes")
    is_bin = label.startswith("from ") or metric.name == "fragments-per-file"
    return format_value(value, "" if is_bin else metric.unit).strip()


LINES: Final = 24
STRIP_COLUMNS: Final = 48
SET_COLUMNS: Final = 40

BLOCKS: Final = "·▁▂▃▄▅▆▇█"
PLAIN: Final = ".:-=+*#%@"
"""Marks of the strip, from nothing to most, and in ASCII."""

BAR_COLUMNS: Final = 13
BAR: Final = {False: "█", True: "#"}
"""What bars are drawn with, in ASCII or not."""

SECTION: Final = "bold"
_HEAD: Final = {True: "bold cyan", False: SECTION}
"""Style of a volume's title, alone or beside others."""
_WORD: Final = {words.DAMAGED: "bold red", words.INCOMPLETE: "bold red", words.LOCKED: "bold red",
                words.SLOW: "bold yellow", words.OK: "bold green"}  # fmt: skip
"""Style of the sentence that a verdict word begins."""

MAX_DRIVES: Final = 3
MAX_PARTITIONS: Final = 6
SMALLER_BYTES: Final = 1024**2
"""A container that leaves so much of its partition free is shown with its size."""
_NAME_COLUMNS: Final = 32


def screen_lines(result: ScanResult, *, is_ascii: bool = False) -> Iterator[Text]:
    """Yield the lines of the first screen."""
    # Containers are shown where they have no volumes.
    volumes = sorted(result.volumes or result.parts, key=_badness, reverse=True)
    number = len(result.volumes)
    count = "" if number == 1 else f", {number} volumes" + (", worst first" if number else "")
    name = cut_text(escape_text(PurePath(result.image.name).name), COLUMNS - 24)
    title = Text(cut_text(f"{name}: {brief_bytes(result.image.size_bytes)}{count}"), style="bold cyan")
    head = [*_outside(result), title, *partition_lines(result, MAX_PARTITIONS)]
    verbs = []
    # A volume alone names the plan beside its remedies, and the check with the damage.
    if len(volumes) > 1:
        verbs += ["plan"] if any(volume.verdict and volume.verdict.is_noticeable for volume in volumes) else []
        verbs += ["check"]
    # A map of what is locked would show nothing.
    if any(volume.walk for volume in volumes) or not any(is_locked(volume.layout) for volume in volumes):
        verbs.append("map")
    foot = []
    for place, verb in enumerate(verbs):
        command = f"{'' if place else 'See also:':9} layoutscope {verb} {{}}{' -o map.html' if verb == 'map' else ''}"
        foot.append(Text(_fill_image(command, result)))
    if others := [*map(escape_text, result.image.other_contents)]:  # not read, so also not checked for damage
        foot.insert(0, Text(f"Not read: {words.join_most(others, COLUMNS - 10)}"))
    room = LINES - len(head) - len(foot)
    if len(volumes) == 1:
        blocks = [_alone(result, volumes[0], room, is_ascii=is_ascii)]
    else:
        blocks = [list(_block(result, volume, is_ascii=is_ascii)) for volume in volumes]
    room -= sum(map(len, blocks)) > room  # the line for what is left out
    shown = 0
    while shown < len(blocks) and len(blocks[shown]) <= room:
        room -= len(blocks[shown])
        shown += 1
    left = [_title(volume.layout.facts) for volume in volumes[shown:]]
    if left:
        foot = [Text(cut_text(f"Not shown here, but in --details: {words.join_most(left, COLUMNS - 35)}")), *foot]
    for line in (*head, *(line for block in blocks[:shown] for line in block), *foot):
        yield Text(line.plain.translate(_ASCII), line.style) if is_ascii else line


_ASCII: Final = str.maketrans({EN_DASH: "-"})


def _badness(volume: VolumeScan) -> tuple[int, int, float]:
    """Sort damaged volumes before locked ones, and these before slow ones."""
    is_damaged = any(item.level == "error" for item in volume.findings) or volume.layout.coverage != 1
    locked = is_locked(volume.layout)
    return is_damaged and not locked, locked, volume.verdict.seconds if volume.verdict else 0.0


def partition_lines(result: ScanResult, most_rows: int | None = None) -> Iterator[Text]:
    """Yield a line per partition of a disk that has several: number, type, name, start, size and what is in it."""
    items = result.image.partitions
    if len(items) < len(("one", "another")):
        return
    rows = []
    for item in items[:most_rows]:
        named = item.name not in ("", item.type_name)
        entry = escape_text(f'{item.type_name} "{item.name}"' if named else item.type_name)
        rows.append((f"{item.number}", entry, format_bytes(item.size_bytes), format_bytes(item.image_offset)))
    numbers, names, sizes, starts = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    names = min(names, _NAME_COLUMNS)
    for (number, name, size, start), item in zip(rows, items, strict=False):
        shown = set_cell_size(cut_text(name, names), names)
        yield Text(cut_text(f"{number:>{numbers}}  {shown}  {size:>{sizes}} at {start:>{starts}}  {_inside(item)}"))
    left = len(items) - len(rows)
    if left:
        yield Text(f"and {format_count(left, 'more partition')}, in --details")


def _inside(item: PartitionFacts) -> str:
    """Describe what is in a partition."""
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
    read = {volume.layout.facts.image_offset for volume in result.parts}
    for item in result.findings:
        if item.code == "volume-unpartitioned" and item.image_offset not in read:
            yield from wrap_text(
                f"Outside of the partitions: at byte {item.image_offset:,}: {item.message}", most_lines=3
            )


def _worst(where: str, findings: Sequence[Finding], room: int = COLUMNS) -> Iterator[Text]:
    """Count what is wrong, and quote the worst."""
    style = "bold red" if any(item.level == "error" for item in findings) else "yellow"
    first = first_cause(findings)
    at = "" if first.image_offset is None else f" at byte {first.image_offset:,}"
    quoted = f"{first.structure}{at}: {first.message} ({first.code})"
    counted = "" if len(findings) == 1 else f"{count_findings(findings)}. First: "
    yield from wrap_text(f"{where}: {counted}{quoted}", style, most_lines=2, room=room)


def _alone(result: ScanResult, volume: VolumeScan, room: int, *, is_ascii: bool) -> list[Text]:
    """Format a volume that has the screen for itself: rows go before empty lines, and sections never."""
    title = _title_line(volume, _HEAD[True])
    verdict, is_damaged = volume.verdict, bool(words.state_word(_findings(result, volume)))
    first = [list(_state(result, volume)), [] if is_damaged else list(_times(volume))]
    last = list(_metadata(result, volume, SECTION, is_ascii=is_ascii))
    if (read := _read(result, volume)) is None:
        last.append(Text(_fill_image("No damage found. Full check: layoutscope check {}", result)))
    else:
        last += wrap_text(read, most_lines=2)
    is_explained = verdict is not None and verdict.is_noticeable and volume.walk and volume.walk.reads
    for rows, is_aired in ((MAX_NAMED, True), (2, True), (2, False), (1, False)):
        sections = [*first]
        if verdict is not None and is_explained and not is_damaged:
            why = [Text(words.head_causes(verdict), style=SECTION)]
            for cause in verdict.named_causes[:rows]:
                bar = BAR[is_ascii] * round(cause.share * BAR_COLUMNS)
                share = brief_share(min(cause.share, 0.99))
                why.append(Text(cut_text(f"  {share:>5}  {bar:{BAR_COLUMNS}}  {cause.title}")))
            sections += [why, list(_help(result, verdict, rows))]
        block = [title]
        for number, section in enumerate([*sections, last]):
            block += [Text()] if section and number and is_aired else []
            block += section
        if len(block) <= room:
            break
    return block


def _block(result: ScanResult, volume: VolumeScan, *, is_ascii: bool) -> Iterator[Text]:
    """Yield a volume in a few lines, where others share the screen."""
    yield _title_line(volume, _HEAD[False])
    for line in _state(result, volume, COLUMNS - 2):
        yield Text(f"  {line.plain}", line.style)
    verdict = volume.verdict
    if verdict is not None and not words.state_word(_findings(result, volume)):
        if verdict.named_causes:
            causes = [f"{cause.name.short} {brief_share(cause.share)}" for cause in verdict.named_causes]
            yield Text(cut_text(f"  Why: {words.join_most(causes, COLUMNS - 7)}"))
        if verdict.helpful:
            helpful = [f"{item.advice} ({brief_seconds(item.seconds)})" for item in verdict.helpful]
            yield Text(cut_text(f"  What helps: {words.join_most(helpful, COLUMNS - 14)}"))
    lines = [*_metadata(result, volume, is_ascii=is_ascii)]
    if (read := _read(result, volume)) is not None:
        lines += wrap_text(read, most_lines=2, room=COLUMNS - 2)
    yield from (Text(cut_text(f"  {line.plain}"), line.style) for line in lines)


def _title_line(volume: VolumeScan, style: str) -> Text:
    """Title a volume; of a long name the end is cut, not what follows it."""
    facts = volume.layout.facts
    parts, more = [brief_bytes(facts.size_bytes)], list[str]()
    if facts.volume is None:
        is_damaged = any(item.level == "error" for item in volume.findings)
        parts.append("no volume of it could be read" if is_damaged else "no volume in it")
    else:
        files, folders, others = words.count_files(volume.layout)
        snapshots = facts.details.get("snapshots", 0) if facts.view == "live" else 0
        parts += [format_count(files, "file")] if files >= 0 else []
        parts += [format_count(folders, "folder")] if folders >= 0 else []
        more += [] if volume.layout.coverage == 1 else ["by the volume's count"]
        more += [format_count(snapshots, "snapshot")] if isinstance(snapshots, int) and snapshots else []
        more += [f"{others:,} {'link or device' if others == 1 else 'links or devices'}"] if others else []
    for part in more:
        if cell_len(", ".join([_title(facts), *parts, part])) <= COLUMNS:
            parts.append(part)
    rest = f", {', '.join(parts)}"
    over = max(cell_len(_title(facts) + rest) - COLUMNS, 0)
    title = _title(replace(facts, name=cut_text(facts.name, max(cell_len(facts.name) - over, 9))))
    return Text(cut_text(f"{title}{rest}"), style=style)


def _title(facts: VolumeFacts) -> str:
    return stack_words(facts, " ", facts.variant)


def _findings(result: ScanResult, volume: VolumeScan) -> list[Finding]:
    """Collect what is wrong or odd about a volume and its container, without which no volume is sound."""
    return [item for one in _together(result, volume) for item in one.findings if item.level != "info"]


def _together(result: ScanResult, volume: VolumeScan) -> list[VolumeScan]:
    """A volume, and the container whose space it shares."""
    facts = volume.layout.facts
    return [
        item
        for item in result.parts
        if item is volume
        or (
            item.layout.facts.volume is None
            and (item.layout.facts.filesystem, item.layout.facts.image_offset) == (facts.filesystem, facts.image_offset)
        )
    ]


def _state(result: ScanResult, volume: VolumeScan, room: int = COLUMNS) -> Iterator[Text]:
    """Yield the verdict, and for what is locked or damaged what to do next."""
    facts, findings = volume.layout.facts, _findings(result, volume)
    if note := facts.details.get("note"):
        yield from wrap_text(f"Note: {note}.", most_lines=3, room=room)
    if is_locked(volume.layout):
        yield from _describe_lock(result, volume, room)
        return
    if word := words.state_word(findings):
        yield from _worst(word, findings, room)
        if lost := facts.num_missing_entries:
            are = "file or folder is" if lost == 1 else "files and folders are"
            yield Text(f"At least {lost:,} {are} missing and not included below.", style="bold red")
        yield from _next_steps(result, volume, findings, room)
    elif findings:
        yield from _worst("Warning", findings, room)
    no_time = "No listing time: nothing can be listed." if volume.walk is None else "No drive was chosen."
    for sentence in words.conclusion(volume) or (no_time,):
        style = _WORD.get(sentence.split(maxsplit=1)[0].rstrip(":"), "")
        yield from wrap_text(sentence, style, most_lines=2, room=room)


def _next_steps(result: ScanResult, volume: VolumeScan, findings: Sequence[Finding], room: int) -> Iterator[Text]:
    """List the commands that look further; parts that were not given have nothing to be searched."""
    codes = {item.origin.code for item in findings if item.level == "error"}
    if codes <= ABSENT:
        yield from wrap_text(what_to_do(min(codes)), most_lines=3, room=room)
        return
    steps = [
        ("check {}", "every damaged place, with its address"),
        ("scan {} --sweep", "search the whole image for lost files"),
    ]
    if filesystem_of(volume.layout).traits.has_containers:
        steps.append(("inspect {} --states", "older states that may be intact"))
    for command, what in steps:
        yield Text(_fill_image(f"  layoutscope {command}  # {what}", result, room))


def _describe_lock(result: ScanResult, volume: VolumeScan, room: int) -> Iterator[Text]:
    reason = next((item for item in volume.findings if item.code.endswith("locked")), None)
    why = "the volume is encrypted" if reason is None else f"{reason.message} ({reason.code})"
    yield from wrap_text(f"{words.LOCKED}: {why}.", _WORD[words.LOCKED], most_lines=4, room=room)
    yield Text("File names and dates cannot be read, so no listing time can be given.")
    secrets = [option for option in filesystem_of(volume.layout).traits.options if option.kind == "secret"]
    if not secrets or (reason is not None and "hardware" in reason.code):
        return
    flag = f"--{secrets[0].name.replace('_', '-')}"
    yield Text(_fill_image(f"  layoutscope scan {{}} {flag} -  # or {flag}-file FILE", result, room))
    if find_spec("cryptography") is None:
        yield Text(cut_text(f'  This needs the optional feature "crypto": {install_command("crypto")}', room))


def _fill_image(text: str, result: ScanResult, room: int = COLUMNS) -> str:
    """Put the image into a command as it was given, so that it can be copied; a placeholder if it does not fit."""
    name = result.image.name
    filled = text.replace("{}", quote(name))
    return filled if name.isprintable() and cell_len(filled) <= room else cut_text(text.replace("{}", "IMAGE"), room)


def _times(volume: VolumeScan) -> Iterator[Text]:
    """Show the time on each drive, unless all of them take less than a second."""
    walk, predictions = volume.walk, volume.predictions
    if walk is None or not walk.reads or not any(item.seconds >= WORTH_S for item in predictions):
        return
    title = f"Listing time, nothing cached, modelled as {HOST_WORDS[walk.host]}"
    yield Text(f"{title:50}{'median':>9}   90 % range", style=SECTION)
    for item in predictions[:MAX_DRIVES]:
        time = f"  {cut_text(drive_words(item.drive), 44):48}{brief_seconds(item.seconds):>9}   {words.interval(item)}"
        yield Text(time.rstrip())
    left = len(predictions) - MAX_DRIVES
    if left > 0:
        yield Text(f"  {format_count(left, 'more drive')} in --details")
    if unknown := words.describe_unknown(predictions[0]):
        yield Text(cut_text(f"  {unknown}"))


def _help(result: ScanResult, verdict: Verdict, rows: int) -> Iterator[Text]:
    """Show what helps: first what the reader can do, then what a program can."""
    now = brief_seconds(verdict.seconds)
    head = f"What helps (time after; now {now}; with cost and risk: layoutscope plan {{}})"
    yield Text(_fill_image(head, result), style=SECTION)
    for item in verdict.choose_helpful(rows):
        yield Text(cut_text(f"  {brief_seconds(item.seconds):>9}  {item.advice}"))
    if not verdict.helpful:
        yield Text("  none of the quick remedies" + (" on every such drive" if verdict.unsure else ""))
    for title, items in (("On some drives", verdict.unsure), (words.LITTLE, verdict.useless)):
        if items and len(verdict.helpful) < rows:
            listed = [f"{item.title} ({brief_seconds(item.seconds)})" for item in items]
            yield Text(cut_text(f"  {title}: {words.join_most(listed, COLUMNS - len(title) - 4)}"))


def _format_known(result: ScanResult, volume: VolumeScan) -> str:
    return brief_bytes(sum(item.layout.facts.metadata_known_bytes for item in _together(result, volume)))


def _metadata(result: ScanResult, volume: VolumeScan, style: str = "", *, is_ascii: bool) -> Iterator[Text]:
    """Show how much metadata there is, and where it is."""
    if len(volume.layout.columns("nodes")):
        placement = volume.verdict.placement if volume.verdict is not None else None
        # A volume has metadata that a listing does not read, so the share is not one of all metadata.
        within = f"; {words.describe_span(placement, 'a listing')}" if placement is not None else ""
        yield Text(cut_text(f"Metadata: {_format_known(result, volume)}{within}"), style)
        yield from (Text(f"  {line}") for line in strips(volume, PLAIN if is_ascii else BLOCKS))


def strips(volume: VolumeScan, marks: str) -> Iterator[str]:
    """Draw where the nodes of a volume are: one line, or one for each image of a set; the higher, the more."""
    layout, facts = volume.layout, volume.layout.facts
    sizes = [facts.details.get(f"bytes of device {number}") for number in range(len(DEVICES))]
    ends = [size for size in sizes if isinstance(size, int)]
    if len(ends) < len(DEVICES):
        yield _strip(*node_density(layout, STRIP_COLUMNS), facts.size_bytes, marks)
        return
    is_half = any(item.code == "fusion-half" for item in layout_findings(layout.container or layout))
    for number, (name, size) in enumerate(zip(DEVICES, ends, strict=True)):
        if number and is_half:
            yield f"{name:6} {brief_bytes(size)}, not read (no image given)"
            return
        yield f"{name:6} {_strip(*node_density(layout, SET_COLUMNS, (number, size)), size, marks)}"


DEVICES: Final = ("Main", "Second")
"""Names of the images of a set, by the number of the device."""


def _strip(held: NDArray[np.float64], low: int, high: int, size: int, marks: str) -> str:
    # Rounded up, so that a single node on a large disk still has a mark.
    height = np.ceil(held / max(held.max(initial=0.0), 1.0) * (len(marks) - 1)).astype(int)
    ends = (
        brief_bytes(low) if low else "0",
        brief_bytes(high) + ("" if high == size else f" of {brief_bytes(size)}"),
    )
    return f"{ends[0]} {''.join(marks[each] for each in height.tolist())} {ends[1]}"


def _read(result: ScanResult, volume: VolumeScan) -> str | None:
    """Report how much was read, and whether anything contradicted itself; None if all was, and nothing did.

    This is about the volume and what it shares.
    """
    layouts, known = [item.layout for item in _together(result, volume)], f"{_format_known(result, volume)} of metadata"
    coverage = coverage_of(layouts, sum(item.level == "error" for item in result.findings))
    bad = [*_findings(result, volume), *(item for item in result.findings if item.level != "info")]
    if coverage is None:
        return f"Coverage unknown: {known} found, and {more_is_lost(bad)}."
    if coverage == 1 and not bad:
        return None
    damage = "see the errors above" if bad else "no damage found in that"
    if is_locked(volume.layout):
        damage = "the rest is locked"
    return f"Read: {format_share(coverage)} of {known}; {damage}."


def more_is_lost(findings: Sequence[Finding]) -> str:
    """Explain why it is unknown how much was read."""
    if any(item.code in UNBOUNDED for item in findings):
        return "the volume itself reports that files may be missing"
    if words.state_word(findings) == words.INCOMPLETE:
        return "the rest was not given"
    return "errors show that more is missing"
