"""A check and a verification as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from layoutscope.findings import CODES
from layoutscope.report.json.scan import finding_document

if TYPE_CHECKING:
    from layoutscope.findings import Finding
    from layoutscope.results.check import CheckResult, Verification


def check_document(result: CheckResult) -> dict[str, Any]:
    """Build the document of a check; findings as in a scan, with the meaning of their codes."""
    return {
        "schema": "layoutscope.check/1",
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


def verification_json(found: Verification) -> str:
    """Write a verification as JSON text."""
    document = {
        "schema": "layoutscope.verify/1",
        "image": found.image,
        "exit_code": found.exit_code,
        "tables": [
            {"volume": item.volume, "table": item.table, "rows": item.rows, "differences": list(item.differences)}
            for item in found.tables
        ],
    }
    return json.dumps(document, indent=2)
