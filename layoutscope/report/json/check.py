"""A check and a verification as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.findings import CODES
from layoutscope.report.json.scan import finding_document
from layoutscope.results.check import CheckResult, Verification

if TYPE_CHECKING:
    from layoutscope.findings import Finding


def check_document(result: CheckResult) -> dict[str, Any]:
    """Build the document of a check; findings as in a scan, with the meaning of their codes."""
    return {
        "schema": "layoutscope.check/1",
        "image": result.image,
        "is_clean": result.is_clean,
        "exit_code": result.exit_code,
        "rules": list(result.rules),
        "before": result.before,
        "counts": result.counts(),
        "num_causes": result.num_causes,
        "num_findings": len(result.every()),
        "unchecked": list(result.unchecked()),
        "other_contents": list(result.other_contents),
        "volumes": [
            {
                "volume": item.volume,
                "coverage": item.coverage,
                "num_rules": item.num_rules,
                "skipped": [asdict(each) for each in item.skipped],
                "findings": [_document(finding) for finding in item.findings],
            }
            for item in result.volumes
        ],
        "findings": [_document(finding) for finding in result.findings],
    }


def _document(item: Finding) -> dict[str, Any]:
    return {**finding_document(item), "field": item.field, "meaning": CODES[item.code]}


def verification_document(found: Verification) -> dict[str, Any]:
    """Build the document of a verification."""
    return {
        "schema": "layoutscope.verify/1",
        "image": found.image,
        "exit_code": found.exit_code,
        "errors": found.num_errors,
        "tables": [asdict(item) for item in found.tables],
    }


DOCUMENTS: Final = {CheckResult: check_document, Verification: verification_document}
"""Makers of the documents of these results, by their kind."""
