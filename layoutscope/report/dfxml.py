"""Files with their byte runs as Digital Forensics XML.

https://github.com/dfxml-working-group/dfxml_schema, whose order of elements is kept. A file object has one list of byte
runs: those of its data. Other forks (resource forks, attributes with extents of their own) stand behind it in this
project's own namespace, as the schema allows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from layoutscope.analysis.files import PERMISSIONS
from layoutscope.report import escape_text
from layoutscope.report.timeline import LETTERS
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_PAST_END
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from layoutscope.tables import VolumeFacts, VolumeLayout

    Runs = dict[int, dict[str, list[tuple[int, int, int | None]]]]

SCHEMA_VERSION: Final = "2.0.0-beta.0"
NAMESPACE: Final = "http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML"
OWN: Final = "urn:layoutscope:dfxml"
"""Namespace of what the schema has no word for."""

DATA: Final = "data"
_TIMES: Final = {"mtime": "modify_time", "ctime": "change_time", "atime": "access_time", "crtime": "create_time"}
_ILLEGAL: Final = re.compile("[\ufffe\uffff]")
"""What XML 1.0 cannot hold in any form, and escaping does not take away already."""


def dfxml(image_name: str, volumes: Iterable[tuple[VolumeLayout, Iterable[dict[str, Any]]]]) -> Iterator[str]:
    """Yield the text of a document."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<dfxml xmlns="{NAMESPACE}" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:ls="{OWN}" '
    yield f'version="{SCHEMA_VERSION}">\n<metadata><dc:type>Disk Image</dc:type></metadata>\n'
    yield f"<creator><program>layoutscope</program><version>{__version__}</version></creator>\n"
    yield f"<source>{element('image_filename', image_name)}</source>\n"
    for layout, files in volumes:
        yield from _volume(layout, files)
    yield "</dfxml>\n"


def text(value: object) -> str:
    r"""Write a text for XML: its own signs as entities, and what XML cannot hold made visible.

    >>> text("a<b\x00\uffff")
    'a&lt;b\\u0000\\uffff'
    """
    return escape(_ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", escape_text(str(value))))


def element(name: str, value: object) -> str:
    """Write an element with a text in it."""
    return f"<{name}>{text(value)}</{name}>"


def _volume(layout: VolumeLayout, files: Iterable[dict[str, Any]]) -> Iterator[str]:
    facts = layout.facts
    yield f'<volume offset="{facts.image_offset}">'
    yield element("partition_offset", facts.image_offset) + element("block_size", facts.block_size_bytes)
    yield element("ftype_str", facts.variant) + element("block_count", facts.size_bytes // facts.block_size_bytes)
    yield "<allocated_only>1</allocated_only>\n"
    runs = _runs(layout)
    for row in files:
        yield _file(facts, row, runs.get(row["file_id"], {}))
    yield f"{element('ls:name', facts.name)}{element('ls:view', facts.view)}</volume>\n"


def _runs(layout: VolumeLayout) -> Runs:
    """Collect the extents of each fork, in the order of the fork; what lies behind its end is left out."""
    extents = layout.columns("extents")
    chosen = extents.take((extents["flags"].filled(0) & FLAG_PAST_END) == 0)
    chosen = chosen.take(np.lexsort((chosen["logical_offset"].data, chosen["file_id"].data)))
    found: Runs = {}
    columns = ("file_id", "fork", "logical_offset", "length_bytes", "image_offset")
    for number, fork, logical, length, at in zip(*map(chosen.listed, columns), strict=True):
        found.setdefault(number, {}).setdefault(fork, []).append((logical, length, at))
    return found


def _file(facts: VolumeFacts, row: dict[str, Any], forks: dict[str, list[tuple[int, int, int | None]]]) -> str:
    letter = LETTERS.get(row["kind"], "-")
    parts = [
        f"<parent_object>{element('inode', row['parent_id'])}</parent_object>" if row["path"] != "/" else "",
        element("filename", row["path"].removeprefix("/")),
        element("name_type", letter),
        _known("filesize", row["size_bytes"]),
        "<alloc_inode>1</alloc_inode><alloc_name>1</alloc_name>",
        "<compressed>1</compressed>" if row["flags"] & FLAG_COMPRESSED else "",
        element("inode", row["file_id"]),
        _known("mode", None if row["mode"] is None else row["mode"] & PERMISSIONS),
        _known("nlink", row["link_count"]),
        _known("uid", row["user_id"]),
        _known("gid", row["group_id"]),
        *(_known(name, None if row[column] is None else _time(row[column])) for name, column in _TIMES.items()),
        _byte_runs(facts, forks[DATA]) if DATA in forks else "",
        *(
            f"<ls:fork name={quoteattr(text(fork))}>{_byte_runs(facts, runs)}</ls:fork>"
            for fork, runs in sorted(forks.items())
            if fork != DATA
        ),
    ]
    return f"<fileobject>{''.join(parts)}</fileobject>\n"


def _known(name: str, value: object) -> str:
    return "" if value is None else element(name, value)


def _time(value: Any) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond:06d}Z"


def _byte_runs(facts: VolumeFacts, runs: list[tuple[int, int, int | None]]) -> str:
    """Write runs; a hole has no place and is filled with zeros."""
    each = (
        f'<byte_run file_offset="{logical}" '
        + (f'fs_offset="{at - facts.image_offset}" img_offset="{at}"' if at is not None else 'fill="0"')
        + f' len="{length}"/>'
        for logical, length, at in runs
    )
    return f"<byte_runs>{''.join(each)}</byte_runs>"
