"""What is on an image, as text: a check, a verification, an inspection, and the states that a container still has.

What may follow from a finding is counted with it; JSON, CSV and SARIF list each one.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.findings import CODES, RANK
from layoutscope.report import escape_text
from layoutscope.report.text.console import (
    STYLES,
    count_findings,
    format_address,
    heads,
    item_table,
    make_printer,
    plain_table,
)
from layoutscope.results.check import what_to_do
from layoutscope.units import NOTHING, format_count, format_coverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from layoutscope.findings import Finding
    from layoutscope.results.check import CheckResult, Verification
    from layoutscope.results.inspect import Inspection, StateLine


@make_printer
def print_check(result: CheckResult) -> Iterator[RenderableType]:
    """Print every finding, the worst first, and a verdict."""
    consequences = result.consequences()
    if result.findings:
        yield _table(f"{escape_text(result.image)}: outside of the volumes", result.findings, consequences)
    for other in result.other_contents:
        yield Text(f"Not read: {escape_text(other)}")
    for volume in result.volumes:
        coverage = f"checked {format_coverage(volume.coverage)} of the known metadata"
        yield Text(f"{escape_text(volume.volume)}: {coverage}")
        if volume.findings:
            yield _table("Findings", volume.findings, consequences)
    if result.findings or any(volume.findings for volume in result.volumes):
        yield Text("Meaning of a code, and what to do about it: layoutscope explain CODE")
        # If it is unknown which of several causes something follows from, it is counted.
        codes = dict[int, list[str]]()
        for item in result.every():
            if len(item.causes) > 1:
                codes.setdefault(len(item.causes), []).append(item.code)
        for number, found in sorted(codes.items()):
            of = f"of {number:,} causes ({', '.join(dict.fromkeys(found))})"
            yield Text(f"{format_count(len(found), 'consequence')} {of}")
        yield Text(count_findings(result.every()))
    for volume in result.volumes:
        name = escape_text(volume.volume)
        if volume.coverage != 1:
            yield Text(f"Part of {name} could not be checked.")
        if volume.skipped and volume.num_rules:
            skipped = len({item.rule for item in volume.skipped})
            yield Text(f"{name}: {skipped:,} of {volume.num_rules:,} rules could be applied only in part.")
        for reason, rules in volume.reasons().items():
            yield Text(f"  checked in part: {', '.join(rules)}, because {escape_text(reason)}")
    yield Text(_verdict(result), style="bold" if result.is_clean else "bold red")


def _verdict(result: CheckResult) -> str:
    """Return whether the image is clean or unknown, and for which part if not everything was checked."""
    limits = [f"for {', '.join(result.rules)} only"] if result.rules else []
    limits += [f"beyond the findings of {escape_text(result.before)}"] if result.before else []
    # Locked data cannot be checked, and is not a fault.
    if any(finding.level != "info" and not finding.code.endswith("-locked") for finding in result.every()):
        return " ".join(["not clean", *limits])
    if result.is_clean:
        return " ".join(["clean", *limits])
    return " ".join(["no problems found", *limits]) + ", but the check was incomplete"


@make_printer
def print_meanings(result: CheckResult) -> Iterator[RenderableType]:
    """Print what each code of a check means, and what to do."""
    for code in sorted({finding.code for finding in result.every()}):
        yield Text(f"{code}: {CODES[code]} {what_to_do(code)}")


MAX_ROWS: Final = 20
"""So many findings of one code are listed of a volume; the rest is counted in a row."""


def _table(title: str, findings: tuple[Finding, ...], consequences: Mapping[Finding, Sequence[str]]) -> RenderableType:
    """Make a table of the findings that follow from no other one."""
    rows = []
    listed: Counter[tuple[str, str]] = Counter()
    causes = [item for item in findings if not item.causes]
    every = Counter((item.level, item.code) for item in causes)
    for item in sorted(causes, key=lambda finding: -RANK[finding.level]):
        kind = item.level, item.code
        listed[kind] += 1
        if listed[kind] <= MAX_ROWS:
            rows.append(_row(item, consequences.get(item, ())))
        elif listed[kind] == MAX_ROWS + 1:
            more = f"{every[kind] - MAX_ROWS:,} more of this code; --format json lists all"
            rows.append((Text(item.level, STYLES[item.level]), item.code, NOTHING, more))
    return plain_table(title, heads("Level", "Code", ">Byte", "What"), rows)


def _row(item: Finding, consequences: Sequence[str]) -> tuple[Text, str, str, str]:
    # Rules of single fields begin with the field's name already.
    field = "" if item.message.startswith(item.field.rpartition("/")[2]) else f"/{item.field}"
    count = len(consequences)
    codes = ", ".join(dict.fromkeys(consequences))
    follows = f", and {format_count(count, 'consequence')} ({codes})" if count else ""
    what = escape_text(f"{item.structure}{field}: {item.message}{item.sides}{follows}")
    return Text(item.level, STYLES[item.level]), item.code, format_address(item.image_offset), what


@make_printer
def print_verification(found: Verification) -> Iterator[RenderableType]:
    """Print each table with its rows and the differences."""
    yield item_table(
        f"{escape_text(found.image)}: nodes decoded in bulk and parsed through the grammars",
        found.tables,
        ("Volume", lambda item: escape_text(item.volume)),
        ("Table", lambda item: item.table),
        (">Rows", lambda item: f"{item.rows:,}"),
        ("Both decoders", lambda item: "; ".join(item.differences) or "agree"),
    )
    differing = sum(bool(item.differences) for item in found.tables)
    agree = f"Both decoders agree on every row{' that was read' if found.num_errors else ''}."
    yield Text(f"{differing} tables differ" if differing else agree, style="bold")
    if found.num_errors:
        errors = format_count(found.num_errors, "error")
        yield Text(
            f"Reading found {errors}. Neither decoder has rows for what they hide; run check for details.",
            style="bold red",
        )


@make_printer
def print_inspection(found: Inspection) -> Iterator[RenderableType]:
    """Print who owns the place, then every structure field by field."""
    yield Text(f"{escape_text(found.image)}: {escape_text(found.subject)}", style="bold")
    for owner in found.owners:
        start = owner.image_offset
        where = "" if start is None else f" at byte {start:,}, {owner.length_bytes:,} bytes,"
        yield Text(f"{owner.what}{where} in {escape_text(owner.volume)}")
        for name, value in owner.facts:
            yield Text(escape_text(f"  {name}: {value}"))
    for structure in found.structures:
        yield Text()
        rows = [
            (
                escape_text(field.path),
                format_address(field.image_offset),
                f"{field.length_bytes:,}" if field.image_offset is not None else NOTHING,
                escape_text(f"{field.value} ({field.meaning})" if field.meaning else field.value),
            )
            for field in structure.fields
        ]
        if structure.error:
            rows.append(("damaged", NOTHING, NOTHING, escape_text(structure.error)))
        title = f"{escape_text(structure.title)} at byte {structure.image_offset:,}"
        yield plain_table(title, heads("Field", ">Byte", ">Length", "Value"), rows)


@make_printer
def print_states(states: Sequence[StateLine]) -> Iterator[RenderableType]:
    """Print the states of a container, and what is left of each."""
    yield item_table(
        "States (--xid or --snapshot reads one)",
        states,
        ("Kind", lambda item: item.kind),
        ("Label", lambda item: escape_text(item.label)),
        (">Xid", lambda item: f"{item.xid:,}"),
        ("Time (UTC)", lambda item: _format_time(item.time_ns)),
        (">Nodes left", _format_left),
        ("Volumes", lambda item: escape_text(item.volume)),
    )


def _format_time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else NOTHING


def _format_left(item: StateLine) -> str:
    parts = "" if item.is_complete else ", superblock or map lost"
    return f"{item.num_sound_nodes:,} of {item.num_nodes:,}{parts}"
