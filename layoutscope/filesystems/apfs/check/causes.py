"""What follows from what in an APFS container, so that each fault is told once.

From the superblock down: maps lead to nodes, nodes hold records, records hold extents, and blocks are counted last.
"""

from __future__ import annotations

import re
from typing import Final

from layoutscope.ondisk.consequences import Follows, from_one

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
_EVERYTHING: Final = _BLOCKS | _RECORDS | _NODES


CONTAINER_CAUSES: Final[tuple[Follows, ...]] = (
    Follows(
        frozenset({"truncated", "unread-area", "fusion-half", "container-changed"}),
        _EVERYTHING | {"volume-unreadable", "spaceman-invalid", "checkpoint-invalid"},
    ),
    # A wrong entry of a map loses a node and all that hangs on it, or a whole volume.
    from_one("object-map-differs", _EVERYTHING | {"volume-unreadable"}),
    # What a map has lost of itself it cannot name: nodes of the trees that it leads to, or a volume.
    Follows(
        _LOST | {"checksum-mismatch", "node-header-differs", "keys-unordered"},
        frozenset({"node-missing", "tree-unreadable", "tree-rebuilt", "volume-unreadable"}),
        r"(container-)?omap tree",
    ),
    from_one("volume-unreadable", _BLOCKS),
    *(
        from_one(code, _NODES | {"count-differs"}, of_tree=True)
        for code in ("checksum-mismatch", "node-invalid", "record-invalid", "node-missing", "node-header-differs")
    ),
    from_one("keys-unordered", _NODES | {"count-differs"}, of_tree=True),
    Follows(_LOST | {"checksum-mismatch"}, _RECORDS | _BLOCKS, r"(fs|fext|omap) tree"),
    Follows(_LOST | {"checksum-mismatch"}, frozenset({"reference-differs", *_BLOCKS}), "extentref tree"),
    Follows(_LOST | {"checksum-mismatch"}, frozenset({"snapshot-differs", *_BLOCKS}), "(snapmeta|omap-snapshots) tree"),
    from_one("spaceman-invalid", _BLOCKS),
    from_one("inode-missing", frozenset({"record-differs", "count-differs"})),
    from_one("extent-invalid", frozenset({"reference-differs", "count-differs", *_BLOCKS})),
    from_one("reference-differs", _BLOCKS),
    *(from_one(code, _BLOCKS) for code in ("block-claimed-twice", "block-claimed-free")),
)
"""Rows of causes, the deepest first."""

TREE_NAME: Final = re.compile(r"([\w-]+) tree")
"""How a finding names the tree that it is about."""
