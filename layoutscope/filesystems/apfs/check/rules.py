"""Read-only structure check of APFS containers.

Apple File System Reference. A check reads everything that a scan reads and compares all that a scan compares; then it
reads every tree once more with whole keys, and counts every block. Each finding carries the address of the field that
contradicts the others; if two places disagree and the wrong one is unknown, it is at one of them, as
the message says.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems import contract
from layoutscope.filesystems.apfs.check import extents, inodes, names, nodes, objects, records, space, volume_fields
from layoutscope.filesystems.apfs.check.subject import open_subject
from layoutscope.filesystems.apfs.container import report_changes, uuid_text
from layoutscope.filesystems.apfs.fsrecords import no_records
from layoutscope.filesystems.contract import Unchecked
from layoutscope.findings import MAX_CASES, Finding, FindingLog, replace_refined
from layoutscope.structs.fieldrules import About, Causes, Follows, deduplicate, from_one, name_causes_of
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns


_MAPS: Final = ("omap", "omap-snapshots")
_EVERY: Final = ("fs", "fext", "extentref", "snapmeta", *_MAPS)
_FILES: Final = ("fs", "omap")

HALF_ALONE: Final = Unchecked("all rules", "this is half of a set, and the other one leads to all of it")


def unread_trees(parts: VolumeParts) -> dict[str, str]:
    """Say of each tree of a volume that was not read whole why not; of "" what concerns all of them."""
    found: dict[str, str] = {}
    for item in parts.log.findings:
        if item.level == "error":
            tree = re.match(r"([\w-]+) tree", item.structure)
            name = tree[1] if tree and tree[1] in _EVERY else ""
            what = f"the {name} tree" if name else f"the {item.structure}"
            found.setdefault(name, f"{what} has errors ({item.code})")
    # Names, extents of files and the records next to them are encrypted together; the maps are not.
    return {"fs": "the volume is locked"} | found if parts.is_locked else found


def reasons(needs: tuple[str, ...], unread: Mapping[str, str]) -> list[str]:
    """Say why a check that needs some trees cannot look at all of them; nothing if it can."""
    return [reason for tree, reason in unread.items() if needs and (not tree or tree in needs)]


def unchecked_rules(checks: Mapping[str, tuple[Any, tuple[str, ...]]], unread: Mapping[str, str]) -> list[Unchecked]:
    """List the checks that could not cover all their subjects."""
    found = {name: reasons(needs, unread) for name, (_, needs) in checks.items()}
    return [Unchecked(name, ", ".join(why)) for name, why in found.items() if why]


def unread_parts(contents: ContainerContents, unread: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """Say why not all that a container's checks are about was read: its space, and what all volumes claim of it."""
    container, lost = contents.container, contents.num_volumes - len(contents.volumes)
    claims = [f"{format_count(lost, 'volume')} cannot be opened"] if lost else []
    whys = dict.fromkeys(why for volume in unread.values() for why in volume.values())
    claims += [f"of one of its volumes: {why}" for why in whys]
    if container.superblock.is_fusion and len(container.blocks.sources) < len(("main", "second")):
        claims.append("half of the set is missing")
    broken = [item for item in container.log.findings if item.level == "error"]
    claims += [f"the {broken[0].structure} has errors ({broken[0].code})"] if broken else []
    found = {"space": "the space manager cannot be read"} if contents.parts.space is None else {}
    return {**found, "claims": ", ".join(claims)} if claims else found


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
"""Objects without a number, which are identified by their address."""

_VIRTUAL: Final = {"omap": "fs", "container-omap": "volume"}
"""Which objects are found through an object map."""


def about(item: Finding) -> About:
    """Return which object a finding is about: readers and checks name nodes, objects and volumes by their numbers."""
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


def _references(subject: Subject, parts: VolumeParts) -> None:
    physical = _list_references(parts)
    if physical is None:
        return
    if not parts.snapshots:
        extents.check_extent_references(parts, physical, subject.references(parts))
    elif len(parts.snapshots) == len(parts.snapshot_extents):
        extents.check_shared_references(parts, subject.log, MAX_CASES)


def _owners(subject: Subject, parts: VolumeParts) -> None:
    physical = _list_references(parts)
    if physical is not None:
        extents.check_owners(parts, physical, subject.references(parts))


def _list_references(parts: VolumeParts) -> Columns | None:
    """Return extent references of a live state, of which none may be where all are those of snapshots."""
    physical = parts.extentref.records.get("extent")
    return None if parts.view != "live" else physical if "refcnt" in physical else no_records("extent")


def _extents(subject: Subject, parts: VolumeParts) -> None:
    if len(parts.file_extents()["obj_id"]):
        extents.check_shape(subject.container.blocks, parts.file_extents(), subject.extents(parts))


def _container_trees(subject: Subject) -> None:
    nodes.check_container_trees(subject)
    nodes.check_container_map(subject)
    records.check_container_keys(subject)


CONTAINER_CHECKS: Final[dict[str, tuple[Callable[[Subject], None], tuple[str, ...]]]] = {
    "numbers": (lambda subject: inodes.check_numbers(subject.reporting), ()),
    "checkpoint-maps": (lambda subject: inodes.check_maps(subject.reporting), ()),
    "superblock-fields": (objects.check_superblock, ()),
    "superblock-copy": (objects.check_copy, ()),
    "map-fields": (objects.check_map_headers, ()),
    "reaper-fields": (objects.check_reaper, ()),
    "mapping-fields": (objects.check_mappings, ()),
    "space-fields": (space.check_space, ("space",)),
    "chunk-heads": (space.check_heads, ("space",)),
    "pool-versions": (space.check_versions, ("space",)),
    "map-head": (objects.check_container_omap, ()),
    "jumpstart": (objects.check_jumpstart, ()),
    "key-bags": (objects.check_keybags, ()),
    "write-cache": (objects.check_write_cache, ()),
    "newer-superblocks": (lambda subject: inodes.check_newer(subject.reporting), ()),
    "chunk-checksums": (lambda subject: inodes.check_space_blocks(subject.container, subject.parts), ("space",)),
    "checkpoints": (nodes.check_checkpoints, ()),
    "volumes": (nodes.check_lost_volumes, ()),
    "sizes": (space.check_sizes, ("space",)),
    "internal-pool": (space.check_pool, ("space",)),
    "chunks": (space.check_chunks, ("space",)),
    "free-queues": (space.check_queues, ("space",)),
    "double-claims": (space.check_double_claims, ("claims",)),
    "file-claims": (space.check_file_claims, ("claims",)),
    "bitmaps": (space.check_bitmaps, ("space", "claims")),
    "container-trees": (_container_trees, ()),
}
"""Every check of a container as a whole, in the order in which they run, with what must be whole for it."""

OF_STATES: Final = (
    *("volume-counts", "entries", "links", "sibling-links", "directories", "name-hashes", "inodes"),
    *("streams", "stream-sizes", "attributes", "lost-records", "extents"),
)
"""Checks of a volume that the states of its snapshots are put to."""

VOLUME_CHECKS: Final[dict[str, tuple[Callable[[Subject, VolumeParts], None], tuple[str, ...]]]] = {
    "roots": (nodes.check_roots, _EVERY),
    # These are about other objects, which reading reports.
    "map-heads": (objects.check_volume_omap, ()),
    "superblocks": (volume_fields.check_superblocks, ()),
    "integrity-metadata": (volume_fields.check_integrity, ()),
    "extended-metadata": (objects.check_extended_metadata, ()),
    "object-maps": (nodes.check_object_map, _EVERY),
    "keys": (records.check_keys, _EVERY),
    "volume-identity": (
        lambda subject, parts: inodes.check_identity(parts, subject.slots[parts.state.number]),
        (),
    ),
    "volume-counts": (lambda _, parts: inodes.check_counts(parts), _EVERY),
    "entries": (records.check_entries, _FILES),
    "links": (lambda subject, parts: inodes.check_links(parts, subject.records(parts)), _FILES),
    "sibling-links": (records.check_sibling_links, _FILES),
    "directories": (records.check_directories, _FILES),
    "name-hashes": (lambda subject, parts: names.compare_names(parts, subject.records(parts)), _FILES),
    "inodes": (inodes.check_inode_notes, (*_FILES, "fext")),
    "streams": (lambda subject, parts: inodes.check_streams(parts, subject.records(parts)), _FILES),
    "stream-sizes": (records.check_stream_sizes, _FILES),
    "attributes": (lambda subject, parts: inodes.check_attributes(parts, subject.records(parts)), _FILES),
    "lost-records": (records.check_lost_inodes, _FILES),
    "extents": (_extents, (*_FILES, "fext")),
    "references": (_references, _EVERY),
    "reference-owners": (_owners, _EVERY),
    "snapshots": (lambda _, parts: extents.check_snapshots(parts), ("snapmeta", *_MAPS)),
    "snapshot-records": (extents.check_snapshot_records, ("snapmeta", *_MAPS)),
    "seals": (extents.check_seals, ("fs",)),
    "states": (
        lambda subject, parts: extents.check_states(subject, parts, [VOLUME_CHECKS[name][0] for name in OF_STATES]),
        _EVERY,
    ),
}
"""Every check of one volume, with the trees that must be whole for it; what reading finds comes before all of them."""

ALWAYS: Final = frozenset(
    {
        *("roots", "map-heads", "superblocks", "integrity-metadata", "extended-metadata", "object-maps", "keys"),
        *("volume-identity", "name-hashes", "snapshot-records", "seals"),
    }
)
"""Checks of a volume that run on what was read of trees that are not whole: they say nothing of what is missing."""


class CheckedContainer(Struct, frozen=True):
    """What was found."""

    outside: list[Finding]  # outside of volumes
    volumes: dict[str, list[Finding]]  # of each volume, by its UUID as people write it
    # rules that could be applied only in part, by the same UUIDs; those of the container itself by ""
    unchecked: dict[str, list[Unchecked]] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [*self.outside, *(item for found in self.volumes.values() for item in found)]

    def of(self, uuid: str | None) -> contract.Checked:
        """Return what concerns one volume, or the container itself."""
        if uuid is None:
            return contract.Checked(tuple(self.outside), len(CONTAINER_CHECKS), tuple(self.unchecked.get("", ())))
        findings, unchecked = self.volumes.get(uuid, ()), self.unchecked.get(uuid, ())
        return contract.Checked(tuple(findings), len(VOLUME_CHECKS), tuple(unchecked))


def name_causes(found: CheckedContainer) -> CheckedContainer:
    """Report everything once, and name causes, which may be in another part of the container."""
    outside, *volumes = [deduplicate(findings) for findings in (found.outside, *found.volumes.values())]
    of = ["" for _ in outside] + [uuid for uuid, each in zip(found.volumes, volumes, strict=True) for _ in each]
    told = iter(name_causes_of([*outside, *(item for each in volumes for item in each)], CAUSES, of))
    first = list(islice(told, len(outside)))
    return replace(
        found,
        outside=first,
        volumes={uuid: list(islice(told, len(each))) for uuid, each in zip(found.volumes, volumes, strict=True)},
    )


def run_checks(contents: ContainerContents, without: Collection[str] = ()) -> CheckedContainer:
    """Check the structure of a container that was read."""
    subject = open_subject(contents)
    unread = {parts.state.number: unread_trees(parts) for parts in contents.volumes}
    checks = dict(sorted(CONTAINER_CHECKS.items()))
    unchecked = {"": unchecked_rules(checks, unread_parts(contents, unread))}
    calls = [partial(check, subject) for name, (check, _) in CONTAINER_CHECKS.items() if name not in without]
    outside = _run(contents.container.log, subject.log, calls)
    volumes, seen = dict[str, list[Finding]](), len(subject.log.findings)
    for parts in contents.volumes:
        lost, own = unread[parts.state.number], subject.branch()
        calls = [
            partial(check, own, parts)
            for name, (check, needs) in VOLUME_CHECKS.items()
            if name not in without and (name in ALWAYS or not reasons(needs, lost))
        ]
        uuid = uuid_text(bytes(parts.state.superblock.vol_uuid))
        volumes.setdefault(uuid, []).extend(_run(parts.log, own.log, calls))
        unchecked.setdefault(uuid, []).extend(unchecked_rules(VOLUME_CHECKS, lost))
    report_changes(subject.reporting)
    return name_causes(CheckedContainer([*outside, *subject.log.findings[seen:]], volumes, unchecked))


def _run(read: FindingLog, log: FindingLog, calls: Iterable[Callable[[], None]]) -> list[Finding]:
    """Run checks that write into a log; `read` is what reading found, and some checks add to it."""
    coarse = list(read.findings)
    for call in calls:
        call()
    fine = [*read.findings[len(coarse) :], *log.findings]
    # Reading finds what is wrong with a structure, a check the byte of it; what has no place is what others sum up.
    exact = {(item.code, item.structure) for item in fine if item.image_offset is not None}
    codes = {code for code, _ in exact}

    def is_refined(item: Finding) -> bool:
        return (item.code, item.structure) in exact or (item.image_offset is None and item.code in codes)

    return list(dict.fromkeys(replace_refined(coarse, fine, is_refined)))
