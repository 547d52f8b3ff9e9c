"""A check and a verification as text: every finding with its address, and where the decoders differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.analysis.advice import what_to_do
from layoutscope.findings import CODES
from layoutscope.report import escape_text
from layoutscope.report.text.console import STYLES, plain_table, print_parts
from layoutscope.results.check import CheckResult, Verification
from layoutscope.units import NOTHING, format_coverage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.findings import Finding


def print_check(result: CheckResult, console: Console) -> None:
    """Print every finding, the worst first, and a verdict."""
    print_parts(_parts(result), console)


def _parts(result: CheckResult) -> Iterator[RenderableType]:
    if result.findings:
        yield _table(f"{escape_text(result.image)}: outside of the volumes", result.findings)
    for volume in result.volumes:
        coverage = f"{format_coverage(volume.coverage)} of the known metadata was looked at"
        yield Text(f"{escape_text(volume.volume)}: {coverage}")
        if volume.findings:
            yield _table("Findings", volume.findings)
    if result.findings or any(volume.findings for volume in result.volumes):
        yield Text("What a code means, and what to do about it: layoutscope explain CODE")
        yield Text(", ".join(f"{_PLURALS[level]}: {count:,}" for level, count in result.counts().items() if count))
    for volume_name in result.unchecked():
        yield Text(f"Not all of {escape_text(volume_name)} was looked at, so that nothing is said of the rest.")
    yield Text(_verdict(result), style="bold" if result.is_clean else "bold red")


_PLURALS: Final = {"error": "errors", "warning": "warnings", "info": "notes"}


def _verdict(result: CheckResult) -> str:
    """Say whether the image is clean, and of what, where not everything was asked for."""
    limits = [f"of {', '.join(result.rules)} alone"] if result.rules else []
    limits += [f"beyond what {escape_text(result.before)} has"] if result.before else []
    return " ".join(["clean" if result.is_clean else "not clean", *limits])


def print_meanings(result: CheckResult, console: Console) -> None:
    """Print what each code of a check means, and what to do."""
    codes = sorted({finding.code for finding in result.every()})
    print_parts((Text(f"{code}: {CODES[code]} {what_to_do(code)}") for code in codes), console)


MOST_ROWS: Final = 20
"""So many findings of one code are listed of a volume; the rest, consequences as a rule, are counted in a row."""


def _table(title: str, findings: tuple[Finding, ...]) -> RenderableType:
    rank = {"error": 0, "warning": 1, "info": 2}
    columns = [("Level", False), ("Code", False), ("Byte", True), ("What", False)]
    rows = []
    listed: Counter[tuple[str, str]] = Counter()
    every = Counter((item.level, item.code) for item in findings)
    for item in sorted(findings, key=lambda finding: rank[finding.level]):
        kind = item.level, item.code
        listed[kind] += 1
        if listed[kind] <= MOST_ROWS:
            rows.append(_row(item))
        elif listed[kind] == MOST_ROWS + 1:
            more = f"{every[kind] - MOST_ROWS:,} more of this code; --format json has them all"
            rows.append((Text(item.level, STYLES[item.level]), item.code, NOTHING, more))
    return plain_table(title, columns, rows)


def _row(item: Finding) -> tuple[Text, str, str, str]:
    address = NOTHING if item.image_offset is None else f"{item.image_offset:,}"
    sides = f" (expected {item.expected}, found {item.found})" if item.expected or item.found else ""
    # Rules of single fields begin with the field's name already.
    field = "" if item.message.startswith(item.field.rpartition("/")[2]) else f"/{item.field}"
    what = escape_text(f"{item.structure}{field}: {item.message}{sides}")
    return Text(item.level, STYLES[item.level]), item.code, address, what


def print_verification(found: Verification, console: Console) -> None:
    """Print each table with its rows and the differences."""
    print_parts(_verified(found), console)


def _verified(found: Verification) -> Iterator[RenderableType]:
    columns = [("Volume", False), ("Table", False), ("Rows", True), ("Both decoders", False)]
    rows = [
        (escape_text(item.volume), item.table, f"{item.rows:,}", "; ".join(item.differences) or "agree")
        for item in found.tables
    ]
    yield plain_table(
        f"{escape_text(found.image)}: read twice, through bulk dtypes and through the grammars", columns, rows
    )
    differing = sum(bool(item.differences) for item in found.tables)
    yield Text(f"{differing} tables differ" if differing else "Both decoders agree on every row.", style="bold")


PRINTERS: Final = {CheckResult: print_check, Verification: print_verification}
"""Printers of these results, by their kind."""
