"""Checks as text and JSON: every finding with its code, its address, and what was expected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.findings import CODES
from layoutscope.report.escape import escape_text
from layoutscope.report.json.scan import finding_document
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import STYLES, print_parts
from layoutscope.results.scan import EXIT_COMPLETE, EXIT_DAMAGED
from layoutscope.results.shown import Shown
from layoutscope.units import NOTHING, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.findings import Finding

SCHEMA: Final = "layoutscope.check/1"


@dataclass(frozen=True, slots=True)
class CheckedVolume:
    """One volume: what is wrong with it, and how much of its metadata was looked at."""

    volume: str
    findings: tuple[Finding, ...]
    coverage: float


@dataclass(frozen=True, slots=True)
class CheckResult(Shown):
    """What a check found.

    Attributes
    ----------
    image : str
        Its name.
    volumes : tuple of CheckedVolume
        One a volume or container.
    findings : tuple of Finding
        What is wrong outside of them.
    """

    image: str
    volumes: tuple[CheckedVolume, ...]
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but information was found, and everything was looked at."""
        every = [*self.findings, *(finding for volume in self.volumes for finding in volume.findings)]
        return all(finding.level == "info" for finding in every) and all(item.coverage >= 1 for item in self.volumes)

    @property
    def exit_code(self) -> int:
        """0 if clean, else 3."""
        return EXIT_COMPLETE if self.is_clean else EXIT_DAMAGED


def print_check(result: CheckResult, console: Console) -> None:
    """Print every finding, the worst first, and a verdict."""
    print_parts(_parts(result), console)


def _parts(result: CheckResult) -> Iterator[RenderableType]:
    if result.findings:
        yield _table(f"{escape_text(result.image)}: outside of the volumes", result.findings)
    for volume in result.volumes:
        coverage = f"{format_share(volume.coverage)} of the known metadata was looked at"
        yield Text(f"{escape_text(volume.volume)}: {coverage}")
        if volume.findings:
            yield _table("Findings", volume.findings)
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


def check_document(result: CheckResult) -> dict[str, Any]:
    """Build the document of a check; findings as in a scan, with the meaning of their codes."""
    return {
        "schema": SCHEMA,
        "image": result.image,
        "is_clean": result.is_clean,
        "exit_code": result.exit_code,
        "volumes": [
            {
                "volume": item.volume,
                "coverage": item.coverage,
                "findings": [_document(finding) for finding in item.findings],
            }
            for item in result.volumes
        ],
        "findings": [_document(finding) for finding in result.findings],
    }


def _document(item: Finding) -> dict[str, Any]:
    return {**finding_document(item), "meaning": CODES[item.code]}


def check_json(result: CheckResult) -> str:
    """Write the document of a check as JSON text."""
    return json.dumps(check_document(result), indent=2)
