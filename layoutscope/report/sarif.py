"""Checks in SARIF, the format in which checkers report findings to code review tools and editors.

OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". An image is an artifact, an address in it is
a region of bytes (3.30.9), and a structure is a logical location (3.33).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from layoutscope.findings import CODES
from layoutscope.results.check import what_to_do
from layoutscope.version import __version__

if TYPE_CHECKING:
    from layoutscope.findings import Finding
    from layoutscope.results.check import CheckResult

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}
"""Levels of SARIF (3.27.10)."""


def sarif_json(result: CheckResult) -> str:
    """Return the log of one run as text."""
    codes = sorted({finding.code for finding in result.every()})
    skipped = []
    for volume in result.volumes:
        skipped += [f"not all of {volume.volume} was looked at"] if volume.coverage != 1 else []
        for reason, rules in volume.reasons().items():
            skipped.append(f"{volume.volume}: not checked in full: {', '.join(rules)}; because {reason}")
    document = {
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
                # Without this, a run with skipped rules would look like one without findings (3.20.21).
                "invocations": [
                    {
                        "executionSuccessful": not result.unchecked(),
                        "exitCode": result.exit_code,
                        "toolExecutionNotifications": [
                            {"level": "warning", "message": {"text": text}} for text in skipped
                        ],
                    }
                ],
                "results": [_make_result(result.image, volume, finding, codes) for volume, finding in result.located()],
            }
        ],
    }
    return json.dumps(document, indent=2)


def _make_result(image: str, volume: str, finding: Finding, codes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": LEVELS[finding.level],
        "message": {"text": f"{finding.structure}: {finding.message}{finding.sides}"},
        "locations": [_make_location(image, volume, finding)],
        "properties": {"expected": finding.expected, "found": finding.found, "device": finding.device},
    }
    if finding.causes:
        # The locations of the possible causes (3.27.22).
        result["relatedLocations"] = [
            {
                **_make_location(image, volume, cause),
                "message": {"text": f"{cause.code}: {cause.structure}: {cause.message}"},
            }
            for cause in finding.causes[:MAX_CAUSES]
        ]
    return result


MAX_CAUSES: Final = 10
"""Number of causes that are listed per finding."""


def _make_location(image: str, volume: str, finding: Finding) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(image)}}
    if finding.image_offset is not None:
        physical["region"] = {"byteOffset": finding.image_offset}
    name = "/".join(part for part in (volume, finding.structure, finding.field) if part)
    return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": name}]}
