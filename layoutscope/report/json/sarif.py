"""A check in SARIF, the format in which checkers tell code review tools and editors of what they found.

OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". An image is an artifact, a place in it a
region of bytes (3.30.9), a structure a logical location (3.33).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from layoutscope.analysis.advice import what_to_do
from layoutscope.findings import CODES
from layoutscope.version import __version__

if TYPE_CHECKING:
    from layoutscope.findings import Finding
    from layoutscope.results.check import CheckResult

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}
"""What SARIF calls the levels (3.27.10)."""


def sarif_document(result: CheckResult) -> dict[str, Any]:
    """Build the log of one run."""
    codes = sorted({finding.code for finding in result.every()})
    found = [("", finding) for finding in result.findings]
    found += [(item.volume, finding) for item in result.volumes for finding in item.findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "layoutscope",
                        "version": __version__,
                        "rules": [
                            {
                                "id": code,
                                "shortDescription": {"text": CODES[code]},
                                "help": {"text": what_to_do(code)},
                            }
                            for code in codes
                        ],
                    }
                },
                # Without this a run that skipped something would pass for one that found nothing (3.20.21).
                "invocations": [
                    {
                        "executionSuccessful": not result.unchecked(),
                        "exitCode": result.exit_code,
                        "toolExecutionNotifications": [
                            {"level": "warning", "message": {"text": f"not all of {name} was looked at"}}
                            for name in result.unchecked()
                        ],
                    }
                ],
                "results": [_result(result.image, volume, finding, codes) for volume, finding in found],
            }
        ],
    }


def _result(image: str, volume: str, finding: Finding, codes: list[str]) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(image)}}
    if finding.image_offset is not None:
        physical["region"] = {"byteOffset": finding.image_offset}
    sides = f" (expected {finding.expected}, found {finding.found})" if finding.expected or finding.found else ""
    name = "/".join(part for part in (volume, finding.structure, finding.field) if part)
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": LEVELS[finding.level],
        "message": {"text": f"{finding.structure}: {finding.message}{sides}"},
        "locations": [{"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": name}]}],
        "properties": {"expected": finding.expected, "found": finding.found, "device": finding.device},
    }


def sarif_json(result: CheckResult) -> str:
    """Return the log as text."""
    return json.dumps(sarif_document(result), indent=2)
