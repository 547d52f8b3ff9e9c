"""The public tables: all columns with type, unit and meaning.

Building, checking, exporting and documenting them have no other source (docs/reference/tables.md is generated from it).
Offsets are bytes from the start of the image. References between tables hold ``row`` values, never positions.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from layoutscope.frames import pl

NUMBERS: Final[dict[str, type[np.integer[Any]]]] = {
    "UInt8": np.uint8, "UInt32": np.uint32, "UInt64": np.uint64, "Int64": np.int64, "time": np.int64,
}  # fmt: skip
"""Types of columns of numbers as numpy's; times are microseconds since 1970, UTC."""

REFERENCE: Final = "row of nodes"
"""The unit of columns that refer to nodes."""


FORKS: Final = ("data", "resource", "orphan")
"""Words of the column ``fork`` that are not names of attributes."""
_ATTRIBUTE: Final = "attribute:"


def fork_of_attribute(name: str) -> str:
    """Return the word of the column ``fork`` for an attribute, whose name may be that of a fork.

    >>> fork_of_attribute("com.example.preview"), fork_of_attribute("data"), fork_of_attribute("attribute:data")
    ('com.example.preview', 'attribute:data', 'attribute:attribute:data')
    """
    return _ATTRIBUTE + name if name in FORKS or name.startswith(_ATTRIBUTE) else name


class Column(NamedTuple):
    """One column: its name, type, unit and meaning."""

    name: str
    kind: str  # name of a polars type, or `time`
    unit: str
    doc: str

    @property
    def dtype(self) -> Any:
        """The polars type."""
        return pl.Datetime("us", "UTC") if self.kind == "time" else getattr(pl, self.kind)


_ROW = Column("row", "UInt32", "", "stable key of the row")
_DEVICE = Column("device", "UInt8", "", "image of a Fusion set, 0 otherwise")
_VOLUME = Column("volume", "UInt32", "", "number of the volume on the image, from 1; null for a container's own")
_OFFSET = Column("image_offset", "Int64", "bytes", "start, from the start of the image")
_LENGTH = Column("length_bytes", "Int64", "bytes", "length")


def _ref(name: str, doc: str) -> Column:
    return Column(name, "UInt32", REFERENCE, doc)


TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "nodes": (
        _ROW,
        _DEVICE,
        _VOLUME,
        Column("tree", "Categorical", "", "which B-tree"),
        Column("node_id", "UInt64", "", "node number (HFS+) or oid (APFS)"),
        _OFFSET,
        Column("size_bytes", "Int64", "bytes", "size of the node"),
        # HFS+ has heights on the disk, from 1 at the leaf, APFS levels from 0; readers of HFS+ convert.
        Column("level", "UInt8", "", "depth from the leaves: 0 at the leaf; null in header, map and free nodes"),
        Column("kind", "Categorical", "", "leaf, index, header, map, free, locked, or unreadable: none of these"),
        Column("num_records", "UInt32", "", "records in the node"),
        Column("used_bytes", "UInt32", "bytes", "bytes of keys and values"),
        Column("free_bytes", "UInt32", "bytes", "bytes that further records could take"),
        Column("xid", "UInt64", "", "transaction that wrote the node (APFS); null in HFS+"),
        _ref("parent_row", "index node that points here; null at the root"),
        Column("key_rank", "UInt32", "", "place in key order among the nodes of its tree and level"),
        Column("first_key_id", "UInt64", "", "leading id of the first key: parent CNID or object id"),
        Column("last_key_id", "UInt64", "", "leading id of the last key"),
        _ref(
            "locator_row",
            "leaf that maps the address of the node, if any: of the object map (APFS), the overflow tree (HFS+)",
        ),
        Column(
            "state",
            "Categorical",
            "",
            "live, snapshot (held only by one), stale, or inferred (live, as far as a sweep can find out)",
        ),
        Column("valid", "Categorical", "", "how it was verified: checksum, child-hash, structure or no"),
        Column(
            "condition",
            "Categorical",
            "",
            "sound; damaged: bytes or records are not what its tree needs; unread: its bytes are outside the image or "
            "could not be read; locked: no key decrypts it. A damaged node without a usable record has no contents "
            "and no children, and metrics of fill and order leave it out; a listing that is led to it reads it. "
            "Free nodes are sound, whatever their bytes",
        ),
    ),
    "node_fragments": (
        _ref("node_row", "node in several pieces"),
        _DEVICE,
        _OFFSET,
        _LENGTH,
    ),
    "node_views": (
        _ref("node_row", "node that the view holds"),
        Column("view", "Categorical", "", "live, xid N or snapshot NAME"),
        _ref("parent_row", "its parent in that view"),
        Column("key_rank", "UInt32", "", "its place in key order in that view"),
    ),
    "regions": (
        _ROW,
        _DEVICE,
        _VOLUME,
        Column("type", "Categorical", "", "what the region holds"),
        Column("owner", "String", "", "which object or file it belongs to"),
        _OFFSET,
        _LENGTH,
    ),
    "extents": (
        _ROW,
        _DEVICE,
        _VOLUME,
        Column("file_id", "UInt64", "", "CNID or inode number"),
        Column(
            "fork",
            "Categorical",
            "",
            "data, resource, orphan (no file's) or the name of an attribute; after `attribute:` if it is one of these",
        ),
        Column("logical_offset", "Int64", "bytes", "place in the fork"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image; null in a hole"),
        _LENGTH,
        _ref("node_row", "leaf that holds the extent's record"),
        Column("flags", "UInt32", "", "1 shared, 2 encrypted, 4 past the end of the fork"),
    ),
    "entries": (
        _ROW,
        _VOLUME,
        Column("parent_id", "UInt64", "", "directory that lists the entry"),
        Column("file_id", "UInt64", "", "CNID or inode number, as stat shows it"),
        Column("name", "String", "", "name as shown; a '/' on an HFS+ disk is shown as ':'"),
        # HFS+ names may have any 16-bit units, including halves of surrogate pairs, which `name` cannot represent.
        Column("name_raw", "Binary", "", "name as stored"),
        Column("kind", "Categorical", "", "file, directory, symlink, fifo, socket, char-device, block-device"),
        Column("size_bytes", "Int64", "bytes", "logical size"),
        Column("link_count", "UInt32", "", "hard links"),
        Column("create_time", "time", "UTC", "creation"),
        Column("modify_time", "time", "UTC", "last change of the contents"),
        Column(
            "flags",
            "UInt32",
            "",
            "1 hard link, 2 compressed, 4 private metadata directory or in it, 8 directory link, "
            "16 contents with a file provider (APFS), 32 known by its thread alone (HFS+, after a sweep)",
        ),
        # By name in HFS+, by the hash of the name on most volumes of APFS.
        Column("entry_rank", "UInt32", "", "place in the order in which the file system lists the directory"),
        _ref("entry_node_row", "leaf with the directory entry"),
        _ref("inode_node_row", "leaf with the true inode"),
        _ref("thread_node_row", "leaf with the thread record (HFS+)"),
        _ref("xattr_node_row", "leaf with the first extended attribute"),
        _ref("dstream_node_row", "leaf with the data-stream record (APFS)"),
        _ref("listing_node_row", "of a directory: leaf in which the driver's listing starts"),
        _ref("listing_end_node_row", "of a directory: leaf in which a listing backwards sees that it is done (APFS)"),
        Column("valence", "UInt32", "", "of a directory: entries, as its record says"),
        Column("link_id", "UInt64", "", "of a hard link: CNID of the link itself (HFS+) or sibling id (APFS)"),
    ),
    "free": (
        _ROW,
        _DEVICE,
        _VOLUME,
        _OFFSET,
        _LENGTH,
    ),
    "findings": (
        _ROW,
        Column("code", "String", "", "identifier, see the table of codes"),
        Column("level", "String", "", "info, warning or error"),
        Column("structure", "String", "", "structure in the field's words"),
        _DEVICE,
        _OFFSET,
        Column("expected", "String", "", "what the format asks for"),
        Column("found", "String", "", "what is there"),
        Column("message", "String", "", "one sentence"),
    ),
}

CONDITIONS: Final = ("sound", "damaged", "unread", "locked")
"""Words of the column ``condition``."""

LIVE_STATES: Final = ("live", "inferred")
"""States of nodes in the view, or presumably in it after a sweep."""

OPTIONAL: Final = frozenset(
    {
        "xid",
        "locator_row",
        "dstream_node_row",
        "listing_node_row",
        "listing_end_node_row",
        "valence",
        "link_id",
        "thread_node_row",
        "xattr_node_row",
    }
)
"""Columns that a reader may omit; they are null then."""

DEFAULTS: Final = {"condition": "sound"}
"""Values of omitted columns."""

DATA_REGIONS: Final = ("data", "file-data", "snapshot-data", "referenced-data")
"""Types of regions with file contents: those of locked volumes, of snapshots, and outside all known extents."""

FLAG_SHARED: Final = 1
FLAG_ENCRYPTED: Final = 2
FLAG_PAST_END: Final = 4
"""Bits of ``extents.flags``."""

FLAG_HARD_LINK: Final = 1
FLAG_COMPRESSED: Final = 2
FLAG_PRIVATE: Final = 4
FLAG_DIRECTORY_LINK: Final = 8
FLAG_DATALESS: Final = 16
FLAG_INFERRED: Final = 32
"""Bits of ``entries.flags``."""
