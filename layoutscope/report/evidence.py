"""Reports of examinations as JSON and as text, for whoever has to follow them without this program."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from layoutscope.report import escape_text
from layoutscope.results.evidence import FORMAT
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.results.evidence import EvidenceReport, HashedFile


def evidence_json(report: EvidenceReport) -> str:
    """Return a report as JSON: its fields, with the files of each image and whether they are unchanged."""
    document: dict[str, Any] = {"format": FORMAT, **asdict(report)}
    document["images"] = [
        {"named": named, "files": [{**asdict(file), "unchanged": file.is_unchanged} for file in files]}
        for named, files in report.images
    ]
    document["unchanged"] = not report.changed
    return json.dumps(document, indent=1) + "\n"


def evidence_text(report: EvidenceReport) -> str:
    """Return a report as text, a fact a line."""
    return "".join(escape_text(line) + "\n" for line in _lines(report))


def _lines(report: EvidenceReport) -> Iterator[str]:
    yield f"Report of an examination by {report.tool} {report.version}"
    yield ""
    yield f"Command:    {shlex.join(report.command)}"
    yield f"Folder:     {report.folder}"
    yield f"System:     {report.system}"
    yield f"Started:    {report.started}"
    yield f"Ended:      {report.ended}"
    yield f"Exit code:  {report.exit_code}" + (f" ({report.error})" if report.error else "")
    for named, files in report.images:
        yield ""
        yield f"Examined:   {named} ({len(files)} file{'s' if len(files) > 1 else ''}, opened for reading only)"
        for file in files:
            yield from _file_lines(file)
    for result in report.written:
        yield ""
        yield f"Written:    {result.path}"
        yield f"  length:   {result.size_bytes:,} bytes ({format_bytes(result.size_bytes)})"
        yield f"  SHA-256:  {result.sha256}"
    yield ""
    changed = len(report.changed)
    yield (
        f"Of the files examined {changed} differ{'s' if changed == 1 else ''} from before, or cannot be read again."
        if changed
        else "Every file examined has the same SHA-256 after the work as before it."
    )


def _file_lines(file: HashedFile) -> Iterator[str]:
    yield f"  file:     {file.path}"
    yield f"  length:   {file.size_bytes:,} bytes ({format_bytes(file.size_bytes)})"
    if file.modified:
        yield f"  changed:  {file.modified}"
    if file.unread_bytes:
        yield f"  unread:   {file.unread_bytes:,} bytes that the system did not give, hashed as zeros"
    yield f"  SHA-256:  {file.sha256_before} before"
    yield f"            {file.sha256_after or 'cannot be read'} after"
