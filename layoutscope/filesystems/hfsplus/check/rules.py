"""Read-only structure check of HFS+ and HFSX volumes.

TN1150. A check reads everything that a scan reads, and then every record again with all its fields: so each finding
carries the address of the field that contradicts the others. If two numbers disagree and the wrong one is unknown, the
finding is at one of them, and the message says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.contract import Checked, Unchecked
from layoutscope.filesystems.hfsplus.check import catalog, nodes, space, volume_fields
from layoutscope.filesystems.hfsplus.check.subject import Subject, read_subject
from layoutscope.filesystems.hfsplus.contents import reopened
from layoutscope.findings import replace_refined
from layoutscope.structs import grammar
from layoutscope.structs.fieldrules import About, Causes, Follows, deduplicate, from_one, name_causes_of
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.check.subject import TreeRecords
    from layoutscope.findings import Finding


CNID = grammar.HfsplusVolume.Cnid

OF_HEADER: Final = frozenset(
    {
        *("unmounted", "volume-counts", "volume-fields", "special-sizes", "allocation-size", "overflow-starts"),
        *("double-claims", "allocation"),
    }
)
"""Checks of what the volume header says, which contradict nothing where it was made up, or is an old copy."""

_CATALOG, _ATTRIBUTES, _OVERFLOW, _HOT_FILES = "catalog", "attributes", "extents-overflow", "hot-files"
_SPACE, _UNUSED, _HEADERS = "allocation file", "unused nodes", "header nodes"
_TREES: Final = (_CATALOG, _ATTRIBUTES, _OVERFLOW, _HOT_FILES)

_FILES: Final = {
    _CATALOG: int(CNID.catalog_file),
    _OVERFLOW: int(CNID.extents_file),
    _ATTRIBUTES: int(CNID.attributes_file),
}


def unchecked_rules(subject: Subject) -> Iterator[Unchecked]:
    """Yield the checks that could not cover all their subjects, each with its reasons."""
    lacking = _lacking(subject)
    for name, (_, _, needs) in CHECKS.items():
        reasons = [lacking[need] for need in needs if need in lacking]
        if subject.volume.is_inferred and name in OF_HEADER:
            reasons.insert(0, "the volume header is lost")
        if reasons:
            yield Unchecked(name, ", ".join(reasons))


def _lacking(subject: Subject) -> dict[str, str]:
    """Say of each part of the volume that was not read whole what is lacking."""
    told = {(item.code, item.structure.partition(" ")[0]) for item in subject.volume.log.findings}
    found = {}
    for tree in _TREES:
        fork = subject.contents.special.get(_FILES.get(tree, 0))
        if tree not in subject.trees:
            # Every volume has a catalog; of the other trees one without blocks was never made.
            if tree == _CATALOG or ("tree-header-invalid", tree) in told or (fork is not None and fork.num_blocks):
                found[tree] = f"the {tree} B-tree cannot be read"
        elif reason := _unread_part(subject.trees[tree]):
            found[tree] = reason
    if any(code == "allocation-file-unreadable" for code, _ in told):
        found[_SPACE] = "the allocation file cannot be read"
    if headers := sorted({tree for code, tree in told if code == "tree-header-invalid"}):
        found[_HEADERS] = f"the header node of the {headers[0]} B-tree is damaged"
    files = [located.tree.file for located in subject.trees.values()]
    if unused := sum(int((~file.used & ~file.readable).sum()) for file in files):
        found[_UNUSED] = _count(unused, "unused node")
    return found


def _unread_part(located: TreeRecords) -> str:
    """Say what of a tree was not read; nothing where all of it was."""
    file, reach = located.tree.file, located.tree.reach
    if not len(reach.leaves) and int(file.header.leaf_records):
        return f"no leaf of the {located.name} B-tree can be reached"
    lost = max(int((file.used & ~file.readable).sum()), len(reach.missing) + len(reach.misled))
    flaws = len(located.flaws["at"])
    noun = "node" if lost else "record"
    return _count(lost or flaws, noun, f" of the {located.name} B-tree") if lost or flaws else ""


def _count(number: int, noun: str, of: str = "") -> str:
    return f"{format_count(number, noun)}{of} cannot be read"


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
    # Among the header's own faults, a fork's is the deepest: its copy differs, and its tree is elsewhere.
    Follows(
        _EXTENTS | {"allocation-file-short", "clump-size-invalid", "volume-field-invalid", "block-claimed-twice"},
        _EVERYTHING | _LOST | {"alternate-header-differs"},
        r"volume header|the \w+ file",
    ),
    Follows(
        frozenset({"volume-header-invalid"}),
        _EVERYTHING | _LOST | {"alternate-header-differs", "clump-size-invalid", "volume-header-lost"},
    ),
    *(
        from_one(code, _TREE | {*_NODE}, of_tree=True)
        for code in ("tree-header-invalid", "node-unreadable", "node-invalid", "records-invalid")
    ),
    from_one("pointer-invalid", _TREE | {"keys-unordered"}, of_tree=True),
    *(
        from_one(code, _TREE, of_tree=True)
        for code in (
            *("keys-unordered", "index-key-differs", "tree-unreachable", "subtree-missing", "leaf-chain-broken"),
            *("node-links-differ", "node-map-short", "node-map-differs"),
        )
    ),
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
    *(from_one(code, _BLOCKS) for code in ("block-claimed-twice", "block-claimed-free", "block-unclaimed")),
)
"""Rows of causes, the deepest first."""

_OF_TREE: Final = re.compile(r"(catalog|attributes|extents-overflow|hot-files) (?:(?:node|record)s?(?: (\d+))?|B-tree)")
_LINKS: Final = frozenset({"leaf-chain-broken", "node-links-differ"})
"""Codes of links, which say by number where they lead, and where they should."""


def about(item: Finding) -> About:
    """Return which node of which tree a finding is about: readers and checks name both by their numbers.

    A missing subtree is named by its topmost node, although the pointer to that node reveals it.
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

CHECKS: Final[dict[str, tuple[Callable[..., None], tuple[str, ...], tuple[str, ...]]]] = {
    "unmounted": (space.check_unmounted, (), ()),
    "volume-counts": (space.check_volume_counts, ("catalog",), (_CATALOG,)),
    "volume-fields": (volume_fields.check_volume_fields, (), (_CATALOG, _OVERFLOW)),
    "special-sizes": (space.check_special_sizes, (), ()),
    "allocation-size": (space.check_allocation_size, (), ()),
    "tree-headers": (space.check_tree_headers, (), (*_TREES, _HEADERS)),
    "key-compare": (space.check_key_compare, ("catalog",), (_CATALOG,)),
    "key-lengths": (space.check_key_lengths, (), (*_TREES, _HEADERS)),
    "header-nodes": (nodes.check_header_nodes, (), (*_TREES, _HEADERS)),
    "map-nodes": (nodes.check_map_nodes, (), (*_TREES, _HEADERS)),
    "unused-nodes": (nodes.check_unused_nodes, (), (*_TREES, _UNUSED)),
    "descriptors": (nodes.check_descriptors, (), _TREES),
    "record-offsets": (nodes.check_record_offsets, (), _TREES),
    "keys": (nodes.check_keys, (), _TREES),
    "index-links": (nodes.check_index_links, (), _TREES),
    "pointers": (nodes.check_pointers, (), _TREES),
    "index-keys": (nodes.check_index_keys, (), _TREES),
    "key-order": (nodes.check_key_order, (), _TREES),
    "record-types": (catalog.check_record_types, (), (_CATALOG, _ATTRIBUTES, _OVERFLOW)),
    "ids": (catalog.check_ids, ("catalog",), (_CATALOG,)),
    "parents": (catalog.check_parents, ("catalog",), (_CATALOG,)),
    "threads": (catalog.check_threads, ("catalog",), (_CATALOG,)),
    "valence": (catalog.check_valence, ("catalog",), (_CATALOG,)),
    "subfolders": (catalog.check_subfolders, ("catalog",), (_CATALOG,)),
    "catalog-fields": (catalog.check_catalog_fields, ("catalog",), (_CATALOG,)),
    "link-targets": (catalog.check_link_targets, ("catalog",), (_CATALOG,)),
    "link-counts": (catalog.check_link_counts, ("catalog",), (_CATALOG,)),
    "link-chains": (catalog.check_link_chains, ("catalog",), (_CATALOG,)),
    "first-links": (catalog.check_first_links, ("catalog",), (_CATALOG,)),
    "fork-sizes": (space.check_fork_sizes, ("catalog",), (_CATALOG, _OVERFLOW)),
    "extents": (space.check_extents, (), (_CATALOG, _OVERFLOW, _ATTRIBUTES)),
    "unused-extents": (volume_fields.check_unused_extents, (), (_CATALOG, _OVERFLOW)),
    "overflow-records": (space.check_overflow_records, ("overflow",), (_CATALOG, _OVERFLOW)),
    "overflow-starts": (space.check_overflow_starts, ("catalog", "overflow"), (_CATALOG, _OVERFLOW)),
    "attribute-values": (space.check_attribute_values, ("attributes",), (_ATTRIBUTES,)),
    "attribute-owners": (space.check_attribute_owners, ("catalog", "attributes"), (_CATALOG, _ATTRIBUTES)),
    "attribute-flags": (space.check_attribute_flags, ("catalog", "attributes"), (_CATALOG, _ATTRIBUTES)),
    "compressed-files": (catalog.check_compressed_files, ("catalog",), (_CATALOG, _ATTRIBUTES)),
    "hot-files": (catalog.check_hot_files, ("hot_files",), (_CATALOG, _HOT_FILES)),
    "double-claims": (space.check_double_claims, (), (_CATALOG, _OVERFLOW, _ATTRIBUTES)),
    "allocation": (space.check_allocation, (), (_CATALOG, _OVERFLOW, _ATTRIBUTES, _SPACE)),
}
"""Checks by their names, in the order in which they run.

With each come the records that it takes besides the subject, without which it does not run, and what must have been
read whole for it to be about everything.
"""

BY_NODE: Final = ("records-invalid", "pointer-invalid", "node-invalid")
"""What reading reports of a whole node, and a check of the byte in it."""


def check_volume(request: VolumeRequest, without: Container[str] = ()) -> list[Finding]:
    """Check the structure of an HFS+ or HFSX volume; names of checks that are left out may be given."""
    return list(checked_volume(request, without).findings)


def checked_volume(request: VolumeRequest, without: Container[str] = ()) -> Checked:
    """Check the structure of a volume, and say which rules could not be checked on all of it."""
    volume, contents = reopened(request)
    seen = len(volume.log.findings)
    subject = read_subject(volume, contents)
    for name, (check, takes, _) in CHECKS.items():
        records = [getattr(subject, each) for each in takes]
        if name not in without and None not in records and not (volume.is_inferred and name in OF_HEADER):
            check(subject, *records)
    read, fine = volume.log.findings[:seen], volume.log.findings[seen:]
    # Reading reports for a whole node what a check reports for the byte in it.
    exact = {(item.code, item.structure) for item in fine if item.code in BY_NODE}
    places = {(item.code, item.image_offset) for item in fine}
    found = replace_refined(
        read, fine, lambda item: (item.code, item.structure) in exact or (item.code, item.image_offset) in places
    )
    return Checked(name_causes_of(deduplicate(found), CAUSES), len(CHECKS), tuple(unchecked_rules(subject)))
