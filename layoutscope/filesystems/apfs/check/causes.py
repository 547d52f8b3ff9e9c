"""What follows from what in an APFS container, so that each fault is told once.

From the superblock down: maps lead to nodes, nodes hold records, records hold extents, and blocks are counted last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from layoutscope.ondisk.consequences import About, Causes, Follows, from_one

if TYPE_CHECKING:
    from layoutscope.findings import Finding

_BLOCKS: Final = frozenset({"block-claimed-twice", "block-claimed-free", "block-unclaimed"})
_RECORDS: Final = frozenset(
    {
        *("inode-missing", "record-differs", "extent-invalid", "reference-differs", "snapshot-differs"),
        *("count-differs", "name-hash-differs", "seal-broken"),
    }
)
"""What differs where records are missing."""

_NODES: Final = frozenset(
    {
        *("tree-unreadable", "node-missing", "node-invalid", "record-invalid", "subtree-missing", "tree-rebuilt"),
        *("node-header-differs", "keys-unordered", "checksum-mismatch", "stale-nodes"),
    }
)
_LOST: Final = frozenset({"tree-unreadable", "node-missing", "node-invalid", "record-invalid", "subtree-missing"})
_DAMAGE: Final = _LOST | {"checksum-mismatch", "node-header-differs", "keys-unordered"}
_EVERYTHING: Final = _BLOCKS | _RECORDS | _NODES


_ROWS: Final[tuple[Follows, ...]] = (
    *(
        Follows(causes, _EVERYTHING | {"volume-unreadable", "spaceman-invalid", "checkpoint-invalid"})
        for causes in (frozenset({"truncated", "fusion-half", "container-changed"}), frozenset({"unread-area"}))
    ),
    # A wrong entry of a map loses the object that it names; what that held follows from the object.
    Follows(frozenset({"object-map-differs"}), _NODES | {"volume-unreadable"}, is_of_named=True),
    # What a map has lost of itself it cannot name: nodes of the trees that it leads to, or a volume.
    Follows(
        _DAMAGE,
        frozenset({"node-missing", "tree-unreadable", "volume-unreadable"}),
        r"(container-)?omap tree",
        r"fs tree|volume",
    ),
    # Without the container's map, volumes are what a search made of them.
    Follows(
        _DAMAGE | {"checkpoint-invalid"},
        _EVERYTHING | {"volume-unreadable", "superblock-differs", "spaceman-invalid"},
        "container-omap tree|container object map",
        r"(?!container-omap tree)",
    ),
    Follows(
        _DAMAGE | {"volume-unreadable"}, frozenset({"tree-rebuilt"}), r"[\w-]+ tree|volume superblock|virtual object"
    ),
    # What waits to become free is in trees of its own.
    Follows(_DAMAGE | {"checkpoint-invalid"}, _BLOCKS | {"spaceman-invalid"}, "ephemeral object|spaceman tree"),
    from_one("volume-unreadable", _BLOCKS),
    *(
        from_one(code, _NODES | {"count-differs"}, of_tree=True)
        for code in ("checksum-mismatch", "node-invalid", "record-invalid", "node-missing", "node-header-differs")
    ),
    from_one("keys-unordered", _NODES | {"count-differs"}, of_tree=True),
    Follows(_LOST | {"checksum-mismatch"}, _RECORDS | _BLOCKS, r"(fs|fext|omap) tree"),
    Follows(_LOST | {"checksum-mismatch"}, frozenset({"reference-differs", *_BLOCKS}), "extentref tree"),
    Follows(_LOST | {"checksum-mismatch"}, frozenset({"snapshot-differs", *_BLOCKS}), "(snapmeta|omap-snapshots) tree"),
    Follows(frozenset({"checksum-mismatch"}), _BLOCKS | {"spaceman-invalid"}, "chunk information"),
    from_one("spaceman-invalid", _BLOCKS),
    from_one("inode-missing", frozenset({"record-differs", "count-differs"})),
    from_one("extent-invalid", frozenset({"reference-differs", "count-differs", *_BLOCKS})),
    from_one("reference-differs", _BLOCKS),
    *(from_one(code, _BLOCKS) for code in ("block-claimed-twice", "block-claimed-free")),
)
"""Rows of causes, the deepest first."""

_NODE: Final = re.compile(r"([\w-]+) tree, node (\d+)$")
_OBJECT: Final = re.compile(r"(virtual|ephemeral) object (\d+)$")
_MAPPING: Final = re.compile(r"checkpoint map of xid \d+, object (\d+)$")
_ENTRY: Final = re.compile(r"((?:container-)?omap) tree, entry of object (\d+)$")
_TREE: Final = re.compile(r"([\w-]+) tree")
_VOLUME: Final = re.compile(r"volume (\d+)$")

_ROOTS: Final = {
    "root_tree_oid": "fs",
    "extentref_tree_oid": "extentref",
    "snap_meta_tree_oid": "snapmeta",
    "fext_tree_oid": "fext",
    "tree_oid": "omap",
    "snapshot_tree_oid": "omap-snapshots",
}
"""The trees that fields lead to, by the names of the fields."""

_BY_PLACE: Final = {"chunk information": "chunk", "container object map": "container-omap"}
"""What has no number, and is told by its address."""

_VIRTUAL: Final = {"omap": "fs", "container-omap": "volume"}
"""Which objects are found through an object map."""


def about(item: Finding) -> About:
    """Tell which object a finding is about: readers and checks name nodes, objects and volumes by their numbers."""
    if found := _NODE.match(item.structure):
        # Nodes of free queues are ephemeral objects, which the maps of a checkpoint lead to.
        names = (("ephemeral", int(found[2])),) if found[1] == "spaceman" else ()
        return About(found[1], int(found[2]), names)
    if found := _ENTRY.match(item.structure):
        # An entry whose object has another number is about both: one of them is not found where it should be.
        numbers = [found[2], *([item.found] if item.expected == found[2] else [])]
        return About(found[1], names=tuple((_VIRTUAL[found[1]], int(number)) for number in numbers))
    if found := _OBJECT.match(item.structure):
        return About("fs" if found[1] == "virtual" else found[1], int(found[2]))
    if found := _MAPPING.match(item.structure):
        return About(names=(("ephemeral", int(found[1])),))
    if item.code == "spaceman-invalid" and item.field.startswith("free_queues.tree_oid"):
        return About(names=(("ephemeral", int(item.found)),))
    if item.code == "tree-unreadable" and item.field in _ROOTS:
        return About(names=((_ROOTS[item.field], int(item.found.rpartition(" ")[2])),))
    if item.structure in _BY_PLACE:
        return About(_BY_PLACE[item.structure], item.image_offset)
    if found := _VOLUME.match(item.structure):
        return About("volume", int(found[1]))
    found = _TREE.match(item.structure)
    return About(found[1] if found else "")


CAUSES: Final = Causes(
    _ROWS,
    ("checksum-mismatch", "checkpoint-invalid", "tree-unreadable", "node-invalid", "unread-area"),
    ("record-invalid", "node-header-differs", "keys-unordered"),
    ("object-map-differs",),
    about,
)
