"""What each check needs of a volume, and which of them could not be held against all that they are about.

A check of what was lost, or read in part, still looks at what is left. It is named with the reason, so that nobody
takes its silence for a statement about the rest. A tree that a volume does not have breaks no rule, and is no reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.contract import Unchecked
from layoutscope.ondisk import grammar
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.hfsplus.check.located import TreeRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject

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

NEEDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("unmounted", "special-sizes", "allocation-size"), ()),
    **dict.fromkeys(("volume-counts", "key-compare"), (_CATALOG,)),
    "volume-fields": (_CATALOG, _OVERFLOW),
    **dict.fromkeys(("tree-headers", "key-lengths", "header-nodes", "map-nodes"), (*_TREES, _HEADERS)),
    "descriptors": _TREES,
    "unused-nodes": (*_TREES, _UNUSED),
    **dict.fromkeys(("record-offsets", "keys", "index-links", "pointers", "index-keys", "key-order"), _TREES),
    "record-types": (_CATALOG, _ATTRIBUTES, _OVERFLOW),
    **dict.fromkeys(("ids", "parents", "threads", "valence", "subfolders", "catalog-fields"), (_CATALOG,)),
    **dict.fromkeys(("link-targets", "link-counts", "link-chains", "first-links"), (_CATALOG,)),
    **dict.fromkeys(("fork-sizes", "unused-extents", "overflow-records", "overflow-starts"), (_CATALOG, _OVERFLOW)),
    "extents": (_CATALOG, _OVERFLOW, _ATTRIBUTES),
    "attribute-values": (_ATTRIBUTES,),
    **dict.fromkeys(("attribute-owners", "attribute-flags", "compressed-files"), (_CATALOG, _ATTRIBUTES)),
    "hot-files": (_CATALOG, _HOT_FILES),
    "double-claims": (_CATALOG, _OVERFLOW, _ATTRIBUTES),
    "allocation": (_CATALOG, _OVERFLOW, _ATTRIBUTES, _SPACE),
}
"""By the name of each check what must have been read whole for it to be about everything."""

_FILES: Final = {
    _CATALOG: int(CNID.catalog_file),
    _OVERFLOW: int(CNID.extents_file),
    _ATTRIBUTES: int(CNID.attributes_file),
}


def unchecked_rules(subject: Subject) -> Iterator[Unchecked]:
    """Yield the checks that were not held against all that they are about, each with its reasons."""
    lacking = _lacking(subject)
    for name, needs in NEEDS.items():
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
