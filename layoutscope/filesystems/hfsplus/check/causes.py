"""What follows from what on an HFS+ volume, so that each fault is told once.

From the header down: extents of special files hold the trees, nodes hold records, records hold extents, and blocks are
counted last. A wrong one of these makes all that comes behind it differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from layoutscope.ondisk.consequences import About, Causes, Follows, from_one

if TYPE_CHECKING:
    from layoutscope.findings import Finding

_BLOCKS: Final = frozenset(
    {"block-claimed-twice", "block-claimed-free", "block-unclaimed", "free-count-differs", "allocation-file-unreadable"}
)
"""What the allocation file is compared with comes last of all."""

_TREE: Final = frozenset(
    {
        *("tree-unreachable", "tree-rebuilt", "subtree-missing", "leaf-chain-broken", "node-links-differ"),
        *("node-unreached", "node-map-differs", "node-map-short", "tree-count-differs", "tree-size-differs"),
        *("tree-header-differs", "index-key-differs", "node-not-zeroed", "stale-nodes"),
    }
)
"""What shows in the shape of a tree."""

_OF_CATALOG: Final = frozenset(
    {
        *("thread-differs", "thread-orphaned", "parent-missing", "cnid-duplicate", "next-cnid-used"),
        *("valence-differs", "folder-count-differs", "file-count-differs", "hard-link-broken", "link-count-differs"),
        *("link-chain-broken", "link-invalid", "flags-invalid", "permissions-invalid", "encodings-differ"),
        *("attribute-orphaned", "attribute-flag-differs", "extents-orphaned", "extents-gap", "hot-file-differs"),
    }
)
"""What differs where a record of the catalog is missing."""

_OF_OVERFLOW: Final = frozenset(
    {"extents-gap", "extents-orphaned", "extents-invalid", "fork-size-differs", "tree-size-differs", "node-unreadable"}
)
_OF_ATTRIBUTES: Final = frozenset({"attribute-invalid", "attribute-flag-differs", "attribute-orphaned"})
_NODE: Final = ("node-invalid", "records-invalid", "pointer-invalid", "keys-unordered")
_LOST: Final = frozenset(
    {
        *("tree-header-invalid", "node-unreadable", "tree-unreachable", "subtree-missing", "unread-area", "truncated"),
        *_NODE,
        *("tree-count-differs", "index-key-differs", "leaf-chain-broken"),
    }
)
"""Behind which records of a tree may be missing."""

_EXTENTS: Final = frozenset({"extent-outside", "extents-invalid", "fork-size-differs"})
_EVERYTHING: Final = _BLOCKS | _TREE | _OF_CATALOG | _OF_OVERFLOW | _OF_ATTRIBUTES


_ROWS: Final[tuple[Follows, ...]] = (
    # What was never read explains whatever is missing.
    Follows(frozenset({"truncated", "unread-area"}), _EVERYTHING | _LOST),
    # What continues in a lost part of the overflow tree is shorter than its header says, and pointers of a tree lead
    # behind its end.
    Follows(
        frozenset({"tree-header-invalid", "node-unreadable", *_NODE}),
        frozenset({"fork-size-differs", "extents-gap", "allocation-file-short", "pointer-invalid"}),
        "extents-overflow",
        "(?!extents-overflow)",
    ),
    # Of the header's own faults a fork's is the deepest: its copy differs, and its tree lies elsewhere.
    Follows(
        _EXTENTS | {"allocation-file-short", "clump-size-invalid", "volume-field-invalid", "block-claimed-twice"},
        _EVERYTHING | _LOST | {"alternate-header-differs"},
        r"volume header|the \w+ file",
    ),
    Follows(
        frozenset({"volume-header-invalid"}),
        _EVERYTHING | _LOST | {"alternate-header-differs", "clump-size-invalid", "volume-header-lost"},
    ),
    from_one("tree-header-invalid", _TREE | {*_NODE}, of_tree=True),
    from_one("node-unreadable", _TREE | {*_NODE}, of_tree=True),
    from_one("node-invalid", _TREE | {*_NODE}, of_tree=True),
    from_one("records-invalid", _TREE | {*_NODE}, of_tree=True),
    from_one("pointer-invalid", _TREE | {"keys-unordered"}, of_tree=True),
    from_one("keys-unordered", _TREE, of_tree=True),
    from_one("index-key-differs", _TREE, of_tree=True),
    from_one("tree-unreachable", _TREE, of_tree=True),
    from_one("subtree-missing", _TREE, of_tree=True),
    from_one("leaf-chain-broken", _TREE, of_tree=True),
    from_one("node-links-differ", _TREE, of_tree=True),
    from_one("node-map-short", _TREE, of_tree=True),
    from_one("node-map-differs", _TREE, of_tree=True),
    Follows(_LOST, _OF_CATALOG | _BLOCKS, "catalog"),
    Follows(_LOST, _OF_OVERFLOW | _OF_CATALOG | _BLOCKS | _TREE, "extents-overflow"),
    # Attributes hold the first link of a folder, and what a compressed file is made of.
    Follows(_LOST, _OF_ATTRIBUTES | _BLOCKS | {"link-chain-broken", "compression-differs"}, "attributes"),
    Follows(_LOST, frozenset({"hot-file-differs"}), "hot-files"),
    Follows(frozenset({"cnid-duplicate", "cnid-reserved"}), (_OF_CATALOG | _BLOCKS) - {"cnid-duplicate"}),
    from_one("thread-differs", _OF_CATALOG - {"flags-invalid", "encodings-differ"}),
    from_one("thread-orphaned", _OF_CATALOG | _BLOCKS),
    from_one("parent-missing", frozenset({"valence-differs", "folder-count-differs"})),
    from_one("flags-invalid", frozenset({"link-chain-broken", "link-count-differs", "attribute-flag-differs"})),
    from_one("hard-link-broken", frozenset({"link-chain-broken", "link-count-differs", "link-invalid"})),
    from_one("link-chain-broken", frozenset({"link-count-differs"})),
    from_one("extents-orphaned", frozenset({"fork-size-differs", "extents-gap", *_BLOCKS})),
    from_one("extents-invalid", frozenset({"fork-size-differs", "extents-gap", *_BLOCKS})),
    from_one("extent-outside", frozenset({"fork-size-differs", "extents-gap", "extents-invalid", *_BLOCKS})),
    from_one("fork-size-differs", frozenset({"extents-gap", *_BLOCKS})),
    from_one("extents-gap", _BLOCKS),
    from_one("attribute-orphaned", frozenset({"attribute-flag-differs"})),
    from_one("attribute-invalid", _OF_ATTRIBUTES | _BLOCKS),
    from_one("block-claimed-twice", _BLOCKS),
    from_one("block-claimed-free", _BLOCKS),
    from_one("block-unclaimed", _BLOCKS),
)
"""Rows of causes, the deepest first."""

_OF_TREE: Final = re.compile(r"(catalog|attributes|extents-overflow|hot-files) (?:(?:node|record)s?(?: (\d+))?|B-tree)")
_LINKS: Final = frozenset({"leaf-chain-broken", "node-links-differ"})
"""Codes of links, which say by number where they lead, and where they should."""


def about(item: Finding) -> About:
    """Tell which node of which tree a finding is about: readers and checks name both by their numbers.

    A subtree that is missing is named by its topmost node, though the pointer to that tells of it.
    """
    found = _OF_TREE.match(item.structure)
    if found is None:
        return About()
    if item.structure.endswith("B-tree header node"):
        return About(found[1], 0)
    ends = (item.found, item.expected) if item.code in _LINKS else ()
    names = tuple((found[1], int(end)) for end in ends if end.isdigit() and int(end))
    return About(found[1], int(found[2]) if found[2] else None, names)


CAUSES: Final = Causes(
    _ROWS,
    ("tree-header-invalid", "node-unreadable", "node-invalid", "records-invalid"),
    ("pointer-invalid", "keys-unordered"),
    (),
    about,
)
