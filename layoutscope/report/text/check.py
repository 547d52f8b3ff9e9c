"""A check and a verification as text: every finding with its address, and where the decoders differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

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
    yield Text("clean" if result.is_clean else "not clean", style="bold" if result.is_clean else "bold red")


def _table(title: str, findings: tuple[Finding, ...]) -> RenderableType:
    rank = {"error": 0, "warning": 1, "info": 2}
    columns = [("Level", False), ("Code", False), ("Byte", True), ("What", False)]
    rows = [_row(item) for item in sorted(findings, key=lambda finding: rank[finding.level])]
    return plain_table(title, columns, rows)


def _row(item: Finding) -> tuple[Text, str, str, str]:
    address = NOTHING if item.image_offset is None else f"{item.image_offset:,}"
    sides = f" (expected {item.expected}, found {item.found})" if item.expected or item.found else ""
    what = escape_text(f"{item.structure}: {item.message}{sides}")
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
