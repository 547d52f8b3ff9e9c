"""A scan as text: its first screen, or everything that was measured (``--details``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from layoutscope.filesystems.registry import filesystem, filesystem_of
from layoutscope.findings import RANK
from layoutscope.metrics.space import main_tree
from layoutscope.report import escape_text
from layoutscope.report.text.console import (
    STYLES,
    count_findings,
    format_address,
    heads,
    image_line,
    item_table,
    plain_table,
    print_parts,
    stack_words,
)
from layoutscope.report.text.predict import prediction_notes, prediction_table
from layoutscope.report.text.screen import more_is_lost, partition_lines, screen_lines
from layoutscope.results import explanation as words
from layoutscope.tables.layout import layout_findings
from layoutscope.units import NOTHING, format_bytes, format_count, format_share, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.findings import Finding
    from layoutscope.metrics import Metric, TreeSummary
    from layoutscope.results.scan import ScanResult, VolumeScan
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
