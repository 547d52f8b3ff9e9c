"""Body files, Digital Forensics XML (DFXML) with the byte runs of files, and reports of examinations.

DFXML: https://github.com/dfxml-working-group/dfxml_schema, with the same order of elements. A file object has one list
of byte runs, those of its data. Other forks (resource forks, attributes with their own extents) follow in this
project's namespace, as the schema allows.
"""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from layoutscope.report import escape_text
from layoutscope.results.frames import PERMISSIONS
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_PAST_END
from layoutscope.units import format_bytes, format_count
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from layoutscope.tables import VolumeFacts, VolumeLayout

    Runs = dict[int, dict[str, list[tuple[int, int, int | None]]]]

LETTERS: Final = {
    "file": "r",
    "directory": "d",
    "symlink": "l",
    "fifo": "p",
    "socket": "s",
    "char-device": "c",
    "block-device": "b",
    "whiteout": "w",
}
"""The letter of each kind as in sleuthkit; other kinds have ``-``."""

TIMES: Final = ("access_time", "modify_time", "change_time", "create_time")
_COLUMNS: Final = ("path", "file_id", "kind", "mode", "user_id", "group_id", "size_bytes")
_BITS: Final = "rwxrwxrwx"
_SPECIAL: Final = ((0o4000, 2, "sS"), (0o2000, 5, "sS"), (0o1000, 8, "tT"))
"""Bits that change the letter of an execute bit, if set or not: set-user-id, set-group-id, sticky."""


def bodyfile(files: Iterable[dict[str, Any]], prefix: str = "") -> Iterator[str]:
    """Yield the lines of a body file, with line ends."""
    for row in files:
        path, number, kind, mode, *owner = (row[name] for name in _COLUMNS)
        letter = LETTERS.get(kind, "-")
        what = f"{letter}/{format_mode(letter, mode)}"
        owners = ("" if value is None else str(value) for value in owner)
        times = (0 if row[name] is None else (row[name] - _EPOCH) // timedelta(seconds=1) for name in TIMES)
        numbers = "|".join([*owners, *map(str, times)])
        # The path of a file that cannot be reached from the root begins with a number, without a slash.
        whole = f"{prefix}/{path.removeprefix('/')}" if prefix else path
        yield f"0|{field(whole)}|{number}|{what}|{numbers}\n"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def field(text: str) -> str:
    r"""Escape a text for one field: separators as mactime decodes them, and unsafe characters visibly.

    >>> field("50 % | a\nb")
    '50 %25 %7C a\\u000ab'
    """
    return escape_text(text.replace("%", "%25").replace("|", "%7C"))


def format_mode(letter: str, mode: int | None) -> str:
    """Format a mode like ``ls -l``; question marks if it is unknown.

    >>> format_mode("r", 0o104750)
    'rrwsr-x---'
    """
    if mode is None:
        return letter + "?" * len(_BITS)
    bits = mode & PERMISSIONS
    shown = [sign if bits >> (8 - place) & 1 else "-" for place, sign in enumerate(_BITS)]
    for bit, place, (with_x, without_x) in _SPECIAL:
        if bits & bit:
            shown[place] = with_x if shown[place] == "x" else without_x
    return letter + "".join(shown)


SCHEMA_VERSION: Final = "2.0.0-beta.0"
NAMESPACE: Final = "http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML"
OWN: Final = "urn:layoutscope:dfxml"
"""Namespace of elements that the schema lacks."""

DATA: Final = "data"
_TIMES: Final = {"mtime": "modify_time", "ctime": "change_time", "atime": "access_time", "crtime": "create_time"}
_ILLEGAL: Final = re.compile("[\ufffe\uffff]")
"""Characters that XML 1.0 does not allow, beyond those that `escape_text` removes."""


def dfxml(image_name: str, volumes: Iterable[tuple[VolumeLayout, Iterable[dict[str, Any]]]]) -> Iterator[str]:
    """Yield the text of a document."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<dfxml xmlns="{NAMESPACE}" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:ls="{OWN}" '
    yield f'version="{SCHEMA_VERSION}">\n<metadata><dc:type>Disk Image</dc:type></metadata>\n'
    yield f"<creator><program>layoutscope</program><version>{__version__}</version></creator>\n"
    yield f"<source>{element('image_filename', image_name)}</source>\n"
    for layout, files in volumes:
        yield from _format_volume(layout, files)
    yield "</dfxml>\n"


def text(value: object) -> str:
    r"""Escape a text for XML: markup as entities, and characters that XML does not allow visibly.

    >>> text("a<b\x00\uffff")
    'a&lt;b\\u0000\\uffff'
    """
    return escape(_ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", escape_text(str(value))))


def element(name: str, value: object) -> str:
    """Format an element with a text."""
    return f"<{name}>{text(value)}</{name}>"


def _format_volume(layout: VolumeLayout, files: Iterable[dict[str, Any]]) -> Iterator[str]:
    facts = layout.facts
    yield f'<volume offset="{facts.image_offset}">'
    yield element("partition_offset", facts.image_offset) + element("block_size", facts.block_size_bytes)
    yield element("ftype_str", facts.variant) + element("block_count", facts.size_bytes // facts.block_size_bytes)
    yield "<allocated_only>1</allocated_only>\n"
    runs = _collect_runs(layout)
    for row in files:
        yield _format_file(facts, row, runs.get(row["file_id"], {}))
    yield f"{element('ls:name', facts.name)}{element('ls:view', facts.view)}</volume>\n"


def _collect_runs(layout: VolumeLayout) -> Runs:
    """Collect the extents of each fork in order, without blocks after its end."""
    extents = layout.columns("extents")
    chosen = extents.take((extents["flags"].filled(0) & FLAG_PAST_END) == 0)
    chosen = chosen.take(np.lexsort((chosen["logical_offset"].data, chosen["file_id"].data)))
    runs: Runs = {}
    columns = ("file_id", "fork", "logical_offset", "length_bytes", "image_offset")
    for number, fork, logical, length, image_offset in zip(*map(chosen.listed, columns), strict=True):
        runs.setdefault(number, {}).setdefault(fork, []).append((logical, length, image_offset))
    return runs


def _format_file(facts: VolumeFacts, row: dict[str, Any], forks: dict[str, list[tuple[int, int, int | None]]]) -> str:
    letter = LETTERS.get(row["kind"], "-")
    parts = [
        f"<parent_object>{element('inode', row['parent_id'])}</parent_object>" if row["path"] != "/" else "",
        element("filename", row["path"].removeprefix("/")),
        element("name_type", letter),
        _format_known("filesize", row["size_bytes"]),
        "<alloc_inode>1</alloc_inode><alloc_name>1</alloc_name>",
        "<compressed>1</compressed>" if row["flags"] & FLAG_COMPRESSED else "",
        element("inode", row["file_id"]),
        _format_known("mode", None if row["mode"] is None else row["mode"] & PERMISSIONS),
        _format_known("nlink", row["link_count"]),
        _format_known("uid", row["user_id"]),
        _format_known("gid", row["group_id"]),
        *(
            _format_known(name, None if row[column] is None else _format_time(row[column]))
            for name, column in _TIMES.items()
        ),
        _format_byte_runs(facts, forks[DATA]) if DATA in forks else "",
        *(
            f"<ls:fork name={quoteattr(text(fork))}>{_format_byte_runs(facts, runs)}</ls:fork>"
            for fork, runs in sorted(forks.items())
            if fork != DATA
        ),
    ]
    return f"<fileobject>{''.join(parts)}</fileobject>\n"


def _format_known(name: str, value: object) -> str:
    return "" if value is None else element(name, value)


def _format_time(value: Any) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond:06d}Z"


def _format_byte_runs(facts: VolumeFacts, runs: list[tuple[int, int, int | None]]) -> str:
    """Format byte runs; a hole has no offset and is filled with zeros."""
    each = (
        f'<byte_run file_offset="{logical}" '
        + (f'fs_offset="{at - facts.image_offset}" img_offset="{at}"' if at is not None else 'fill="0"')
        + f' len="{length}"/>'
        for logical, length, at in runs
    )
    return f"<byte_runs>{''.join(each)}</byte_runs>"


def evidence_json(report: dict[str, Any]) -> str:
    """Return the report of an examination as JSON."""
    return json.dumps(report, indent=1) + "\n"


def evidence_text(report: dict[str, Any]) -> str:
    """Return the report of an examination as text, one fact per line."""
    return "".join(escape_text(line) + "\n" for line in _lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"Report of an examination by {report['tool']} {report['version']}"
    yield ""
    yield f"Command:    {shlex.join(report['command'])}"
    for name in ("folder", "system", "started", "ended"):
        yield f"{f'{name.capitalize()}:':12}{report[name]}"
    yield f"Exit code:  {report['exit_code']}" + (f" ({report['error']})" if report["error"] else "")
    for image in report["images"]:
        files = image["files"]
        yield ""
        yield f"Examined:   {image['named']} ({format_count(len(files), 'file')}, opened for reading only)"
        for file in files:
            yield f"  file:     {file['path']}"
            yield _format_length(file)
            if file["modified"]:
                yield f"  changed:  {file['modified']}"
            if file["unread_bytes"]:
                yield f"  unread:   {file['unread_bytes']:,} bytes that the system did not give, hashed as zeros"
            yield f"  SHA-256:  {file['sha256_before']} before"
            yield f"            {file['sha256_after'] or 'cannot be read'} after"
    for result in report["written"]:
        yield ""
        yield f"Written:    {result['path']}"
        yield _format_length(result)
        yield f"  SHA-256:  {result['sha256']}"
    yield ""
    changed = sum(not file["unchanged"] for image in report["images"] for file in image["files"])
    yield (
        f"{changed} of the examined files differ{'s' if changed == 1 else ''} from before, or cannot be read again."
        if changed
        else "Every file examined has the same SHA-256 after the work as before it."
    )


def _format_length(file: dict[str, Any]) -> str:
    return f"  length:   {file['size_bytes']:,} bytes ({format_bytes(file['size_bytes'])})"
