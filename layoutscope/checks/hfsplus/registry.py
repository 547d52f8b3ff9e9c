"""Read-only structure check of HFS+ and HFSX volumes.

TN1150. A check reads everything that a scan reads, and then all records again with all their fields. Each finding thus
has the address of the field that contradicts the others. If two numbers disagree and the wrong one is unknown, the
finding is at one of them, and the message says so.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from layoutscope.checks.causes import About, Causes, Follows, deduplicate, from_one, name_causes
from layoutscope.checks.engine import Check, list_unchecked, run_checks
from layoutscope.checks.hfsplus import btree, catalog, volume
from layoutscope.checks.hfsplus.records import Subject, read_subject
from layoutscope.filesystems.contract import Checked
from layoutscope.filesystems.hfsplus.contents import reopened
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Container

    from layoutscope.checks.hfsplus.records import TreeRecords
    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.findings import Finding


_CATALOG, _ATTRIBUTES, _OVERFLOW, _HOT_FILES = "catalog", "attributes", "extents-overflow", "hot-files"
_SPACE, _UNUSED, _HEADERS = "allocation file", "unused nodes", "header nodes"
# The volume header does not count if it was inferred or is an old copy.
_HEADER: Final = "volume header"
_TREES: Final = (_CATALOG, _ATTRIBUTES, _OVERFLOW, _HOT_FILES)

_FILES: Final = {
    _CATALOG: int(volume.CNID.catalog_file),
    _OVERFLOW: int(volume.CNID.extents_file),
    _ATTRIBUTES: int(volume.CNID.attributes_file),
}


def _find_lacking_parts(subject: Subject) -> dict[str, str]:
    """Describe the missing data of each part of the volume that was not read completely."""
    reported = {(item.code, item.structure.partition(" ")[0]) for item in subject.volume.log.findings}
    reasons = {_HEADER: "the volume header is lost"} if subject.volume.is_inferred else {}
    for tree in _TREES:
        fork = subject.contents.special.get(_FILES.get(tree, 0))
        if tree not in subject.trees:
            # Each volume has a catalog; another tree without blocks does not exist.
            if tree == _CATALOG or ("tree-header-invalid", tree) in reported or (fork is not None and fork.num_blocks):
                reasons[tree] = f"the {tree} B-tree cannot be read"
        elif reason := _describe_unread_part(subject.trees[tree]):
            reasons[tree] = reason
    if any(code == "allocation-file-unreadable" for code, _ in reported):
        reasons[_SPACE] = "the allocation file cannot be read"
    if headers := sorted({tree for code, tree in reported if code == "tree-header-invalid"}):
        reasons[_HEADERS] = f"the header node of the {headers[0]} B-tree is damaged"
    files = [located.tree.file for located in subject.trees.values()]
    if unused := sum(int((~file.used & ~file.readable).sum()) for file in files):
        reasons[_UNUSED] = f"{format_count(unused, 'unused node')} cannot be read"
    return reasons


def _describe_unread_part(located: TreeRecords) -> str:
    """Describe the missing part of a tree; empty if it was read completely."""
    file, reach = located.tree.file, located.tree.reach
    if not len(reach.leaves) and int(file.header.leaf_records):
        return f"no leaf of the {located.name} B-tree can be reached"
    lost = max(int((file.used & ~file.readable).sum()), len(reach.missing) + len(reach.misled))
    flaws = len(located.flaws["at"])
    count = format_count(lost, "node") if lost else format_count(flaws, "record")
    return f"{count} of the {located.name} B-tree cannot be read" if lost or flaws else ""


_BLOCK_CODES: Final = {
    *("block-claimed-twice", "block-claimed-free", "block-unclaimed"),
    *("free-count-differs", "allocation-file-unreadable"),
}
"""Codes of the comparison with the allocation file, which are the last consequences."""

_TREE_CODES: Final = {
    *("tree-unreachable", "tree-rebuilt", "subtree-missing", "leaf-chain-broken", "node-links-differ"),
    *("node-unreached", "node-map-differs", "node-map-short", "tree-count-differs", "tree-size-differs"),
    *("tree-header-differs", "index-key-differs", "node-not-zeroed", "stale-nodes"),
}
"""Codes of the shape of a tree."""

_CATALOG_CODES: Final = {
    *("thread-differs", "thread-orphaned", "parent-missing", "cnid-duplicate", "next-cnid-used"),
    *("valence-differs", "folder-count-differs", "file-count-differs", "hard-link-broken", "link-count-differs"),
    *("link-chain-broken", "link-invalid", "flags-invalid", "permissions-invalid", "encodings-differ"),
    *("attribute-orphaned", "attribute-flag-differs", "extents-orphaned", "extents-gap", "hot-file-differs"),
}
"""Codes of consequences of a missing catalog record."""

_OVERFLOW_CODES: Final = {
    *("extents-gap", "extents-orphaned", "extents-invalid"),
    *("fork-size-differs", "tree-size-differs", "node-unreadable"),
}
_ATTRIBUTE_CODES: Final = {"attribute-invalid", "attribute-flag-differs", "attribute-orphaned"}
_NODE_CODES: Final = ("node-invalid", "records-invalid", "pointer-invalid", "keys-unordered")
_LOST_CODES: Final = {
    *("tree-header-invalid", "node-unreadable", "tree-unreachable", "subtree-missing", "unread-area", "truncated"),
    *(*_NODE_CODES, "tree-count-differs", "index-key-differs", "leaf-chain-broken"),
}
"""Codes after which records of a tree may be missing."""

_EXTENT_CODES: Final = {"extent-outside", "extents-invalid", "fork-size-differs"}
_ALL_CODES: Final = _BLOCK_CODES | _TREE_CODES | _CATALOG_CODES | _OVERFLOW_CODES | _ATTRIBUTE_CODES

_ROWS: Final[tuple[Follows, ...]] = (
    # Unread areas explain anything that is missing.
    Follows({"truncated", "unread-area"}, _ALL_CODES | _LOST_CODES),
    # A fork that continues in a lost part of the overflow tree is shorter than its header says, and pointers of its
    # tree lead beyond its end.
    Follows(
        {"tree-header-invalid", "node-unreadable", *_NODE_CODES},
        {"fork-size-differs", "extents-gap", "allocation-file-short", "pointer-invalid"},
        "extents-overflow",
        "(?!extents-overflow)",
    ),
    # Among the faults of the header, that of a fork is the deepest: the copy of the header differs, and the tree of the
    # fork is elsewhere.
    Follows(
        _EXTENT_CODES | {"allocation-file-short", "clump-size-invalid", "volume-field-invalid", "block-claimed-twice"},
        _ALL_CODES | _LOST_CODES | {"alternate-header-differs"},
        r"volume header|the \w+ file",
    ),
    Follows(
        {"volume-header-invalid"},
        _ALL_CODES | _LOST_CODES | {"alternate-header-differs", "clump-size-invalid", "volume-header-lost"},
    ),
    *(
        from_one(code, _TREE_CODES | {*_NODE_CODES}, of_tree=True)
        for code in ("tree-header-invalid", "node-unreadable", "node-invalid", "records-invalid")
    ),
    from_one("pointer-invalid", _TREE_CODES | {"keys-unordered"}, of_tree=True),
    *(
        from_one(code, _TREE_CODES, of_tree=True)
        for code in (
            *("keys-unordered", "index-key-differs", "tree-unreachable", "subtree-missing", "leaf-chain-broken"),
            *("node-links-differ", "node-map-short", "node-map-differs"),
        )
    ),
    Follows(_LOST_CODES, _CATALOG_CODES | _BLOCK_CODES, "catalog"),
    Follows(_LOST_CODES, _OVERFLOW_CODES | _CATALOG_CODES | _BLOCK_CODES | _TREE_CODES, "extents-overflow"),
    # Attributes hold the first link of a folder, and the data of a compressed file.
    Follows(_LOST_CODES, _ATTRIBUTE_CODES | _BLOCK_CODES | {"link-chain-broken", "compression-differs"}, "attributes"),
    Follows(_LOST_CODES, {"hot-file-differs"}, "hot-files"),
    Follows({"cnid-duplicate", "cnid-reserved"}, (_CATALOG_CODES | _BLOCK_CODES) - {"cnid-duplicate"}),
    from_one("thread-differs", _CATALOG_CODES - {"flags-invalid", "encodings-differ"}),
    from_one("thread-orphaned", _CATALOG_CODES | _BLOCK_CODES),
    from_one("parent-missing", {"valence-differs", "folder-count-differs"}),
    from_one("flags-invalid", {"link-chain-broken", "link-count-differs", "attribute-flag-differs"}),
    from_one("hard-link-broken", {"link-chain-broken", "link-count-differs", "link-invalid"}),
    from_one("link-chain-broken", {"link-count-differs"}),
    from_one("extents-orphaned", {"fork-size-differs", "extents-gap", *_BLOCK_CODES}),
    from_one("extents-invalid", {"fork-size-differs", "extents-gap", *_BLOCK_CODES}),
    from_one("extent-outside", {"fork-size-differs", "extents-gap", "extents-invalid", *_BLOCK_CODES}),
    from_one("fork-size-differs", {"extents-gap", *_BLOCK_CODES}),
    from_one("extents-gap", _BLOCK_CODES),
    from_one("attribute-orphaned", {"attribute-flag-differs"}),
    from_one("attribute-invalid", _ATTRIBUTE_CODES | _BLOCK_CODES),
    *(from_one(code, _BLOCK_CODES) for code in ("block-claimed-twice", "block-claimed-free", "block-unclaimed")),
)
"""Rows of causes, the deepest first."""


def locate_node(item: Finding) -> About:
    """Return the tree and the node of a finding, which readers and checks include by number.

    A missing subtree is identified by its topmost node, although the pointer to that node is at fault.
    """
    pattern = r"(catalog|attributes|extents-overflow|hot-files) (?:(?:node|record)s?(?: (\d+))?|B-tree)"
    match = re.match(pattern, item.structure)
    if match is None:
        return About()
    if item.structure.endswith("B-tree header node"):
        return About(match[1], 0)
    # Findings about links have the numbers of the actual and the expected node.
    ends = (item.found, item.expected) if item.code in ("leaf-chain-broken", "node-links-differ") else ()
    names = tuple((match[1], int(end)) for end in ends if end.isdigit() and int(end))
    return About(match[1], int(match[2]) if match[2] else None, names)


CAUSES: Final = Causes(
    _ROWS,
    ("tree-header-invalid", "node-unreadable", "node-invalid", "records-invalid"),
    ("pointer-invalid", "keys-unordered"),
    (),
    locate_node,
)

CHECKS: Final[dict[str, Check]] = {
    "unmounted": Check(volume.check_unmounted, requires=(_HEADER,)),
    "volume-counts": Check(volume.check_volume_counts, (_CATALOG,), requires=(_HEADER,), takes=("catalog",)),
    "volume-fields": Check(volume.check_volume_fields, (_CATALOG, _OVERFLOW), requires=(_HEADER,)),
    "special-sizes": Check(volume.check_special_sizes, requires=(_HEADER,)),
    "allocation-size": Check(volume.check_allocation_size, requires=(_HEADER,)),
    "tree-headers": Check(btree.check_tree_headers, (*_TREES, _HEADERS)),
    "key-compare": Check(btree.check_key_compare, (_CATALOG,), takes=("catalog",)),
    "key-lengths": Check(btree.check_key_lengths, (*_TREES, _HEADERS), each="trees"),
    "header-nodes": Check(btree.check_header_nodes, (*_TREES, _HEADERS), each="headed_trees"),
    "map-nodes": Check(btree.check_map_nodes, (*_TREES, _HEADERS), each="headed_trees"),
    "unused-nodes": Check(btree.check_unused_nodes, (*_TREES, _UNUSED), each="trees"),
    "descriptors": Check(btree.check_descriptors, _TREES, each="trees"),
    "record-offsets": Check(partial(btree.report_flaws, btree.OFFSET_FLAWS), _TREES, each="trees"),
    "keys": Check(partial(btree.report_flaws, btree.KEY_FLAWS), _TREES, each="trees"),
    "index-links": Check(btree.check_index_links, _TREES, each="trees"),
    "pointers": Check(btree.check_pointers, _TREES, each="trees"),
    "index-keys": Check(btree.check_index_keys, _TREES, each="trees"),
    "key-order": Check(btree.check_key_order, _TREES, each="trees"),
    "record-types": Check(catalog.check_record_types, (_CATALOG, _ATTRIBUTES, _OVERFLOW)),
    "ids": Check(catalog.check_ids, (_CATALOG,), takes=("catalog",)),
    "parents": Check(catalog.check_parents, (_CATALOG,), takes=("catalog",)),
    "threads": Check(catalog.check_threads, (_CATALOG,), takes=("catalog",)),
    "valence": Check(catalog.check_valence, (_CATALOG,), takes=("catalog",)),
    "subfolders": Check(catalog.check_subfolders, (_CATALOG,), takes=("catalog",)),
    "catalog-fields": Check(catalog.check_catalog_fields, (_CATALOG,), takes=("catalog",)),
    "link-targets": Check(catalog.check_link_targets, (_CATALOG,), takes=("catalog",)),
    "link-counts": Check(catalog.check_link_counts, (_CATALOG,), takes=("catalog",)),
    "link-chains": Check(catalog.check_link_chains, (_CATALOG,), takes=("catalog",)),
    "first-links": Check(catalog.check_first_links, (_CATALOG,), takes=("catalog",)),
    "fork-sizes": Check(volume.check_fork_sizes, (_CATALOG, _OVERFLOW), takes=("catalog",)),
    "extents": Check(volume.check_extents, (_CATALOG, _OVERFLOW, _ATTRIBUTES)),
    "unused-extents": Check(volume.check_unused_extents, (_CATALOG, _OVERFLOW)),
    "overflow-records": Check(volume.check_overflow_records, (_CATALOG, _OVERFLOW), takes=("overflow",)),
    "overflow-starts": Check(
        volume.check_overflow_starts, (_CATALOG, _OVERFLOW), requires=(_HEADER,), takes=("catalog", "overflow")
    ),
    "attribute-values": Check(volume.check_attribute_values, (_ATTRIBUTES,), takes=("attributes",)),
    "attribute-owners": Check(volume.check_attribute_owners, (_CATALOG, _ATTRIBUTES), takes=("catalog", "attributes")),
    "attribute-flags": Check(volume.check_attribute_flags, (_CATALOG, _ATTRIBUTES), takes=("catalog", "attributes")),
    "compressed-files": Check(catalog.check_compressed_files, (_CATALOG, _ATTRIBUTES), takes=("catalog",)),
    "hot-files": Check(catalog.check_hot_files, (_CATALOG, _HOT_FILES), takes=("hot_files",)),
    "double-claims": Check(volume.check_double_claims, (_CATALOG, _OVERFLOW, _ATTRIBUTES), requires=(_HEADER,)),
    "allocation": Check(volume.check_allocation, (_CATALOG, _OVERFLOW, _ATTRIBUTES), requires=(_HEADER, _SPACE)),
}
"""Checks by name, in the order in which they run."""


def check_volume(request: VolumeRequest, without: Container[str] = ()) -> Checked:
    """Check the structure of an HFS+ or HFSX volume; `without` has the names of checks to skip."""
    opened, contents = reopened(request)
    num_read = len(opened.log.findings)
    subject = read_subject(opened, contents)
    unread = _find_lacking_parts(subject)
    run_checks(CHECKS, unread, without, subject)
    read, fine = opened.log.findings[:num_read], opened.log.findings[num_read:]
    # The reader reports for a whole node what a check reports for the exact byte.
    by_node = ("records-invalid", "pointer-invalid", "node-invalid")
    exact = {(item.code, item.structure) for item in fine if item.code in by_node}
    places = {(item.code, item.image_offset) for item in fine}
    unrefined = (
        item
        for item in read
        if (item.code, item.structure) not in exact and (item.code, item.image_offset) not in places
    )
    found = deduplicate((*unrefined, *fine))
    return Checked(name_causes(found, CAUSES), len(CHECKS), tuple(list_unchecked(CHECKS, unread)))
