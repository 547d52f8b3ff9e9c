"""Read-only structure check of APFS containers.

Apple File System Reference. A check includes all steps of a scan. Then it reads every tree a second time with complete
keys, and accounts for every block. Each finding has the address of the field that contradicts the others. If two fields
disagree and the wrong one is unknown, the finding is at one of them, and its message says so.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import structs

from layoutscope.checks.apfs import btree, extents, inodes, namehashes, objects, scan, snapshots, spaceman
from layoutscope.checks.apfs.subject import open_subject
from layoutscope.checks.causes import About, Causes, Follows, deduplicate, from_one, name_causes
from layoutscope.checks.engine import Check, list_unchecked, run_checks
from layoutscope.filesystems.apfs.container import report_changes, uuid_text
from layoutscope.filesystems.apfs.layout import lone_half_layout
from layoutscope.filesystems.apfs.reader import read_container
from layoutscope.filesystems.contract import Checked, Unchecked
from layoutscope.findings import FindingLog
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.findings import Finding


_MAP_TREES: Final = ("omap", "omap-snapshots")
_ALL_TREES: Final = ("fs", "fext", "extentref", "snapmeta", *_MAP_TREES)
_FILE_TREES: Final = ("fs", "omap")


def explain_unread_trees(parts: VolumeParts) -> dict[str, str]:
    """Return the reasons why trees of a volume were not read completely; the key "" has reasons that apply to all."""
    reasons: dict[str, str] = {}
    for item in parts.log.findings:
        if item.level == "error":
            tree = re.match(r"([\w-]+) tree", item.structure)
            name = tree[1] if tree and tree[1] in _ALL_TREES else ""
            what = f"the {name} tree" if name else f"the {item.structure}"
            reasons.setdefault(name, f"{what} has errors ({item.code})")
    # Only the tree with names and extents of files is encrypted; the maps are not.
    return {"fs": "the volume is locked"} | reasons if parts.is_locked else reasons


def explain_unread_parts(contents: ContainerContents, unread: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """Return the reasons why a container's checks cannot cover its space or the blocks that its volumes claim."""
    container, lost = contents.container, len(contents.slots) - len(contents.volumes)
    claims = [f"{format_count(lost, 'volume')} cannot be opened"] if lost else []
    whys = dict.fromkeys(why for volume in unread.values() for why in volume.values())
    claims += [f"of one of its volumes: {why}" for why in whys]
    if container.superblock.is_fusion and len(container.blocks.sources) < len(("main", "second")):
        claims.append("half of the set is missing")
    broken = [item for item in container.log.findings if item.level == "error"]
    claims += [f"the {broken[0].structure} has errors ({broken[0].code})"] if broken else []
    found = {"space": "the space manager cannot be read"} if contents.space is None else {}
    return {**found, "claims": ", ".join(claims)} if claims else found


_BLOCKS: Final = {"block-claimed-twice", "block-claimed-free", "block-unclaimed"}
_RECORDS: Final = {
    *("inode-missing", "record-differs", "extent-invalid", "reference-differs", "snapshot-differs"),
    *("count-differs", "name-hash-differs", "seal-broken"),
}
"""Codes of findings that follow from missing records."""

_NODES: Final = {
    *("tree-unreadable", "node-missing", "node-invalid", "record-invalid", "subtree-missing", "tree-rebuilt"),
    *("node-header-differs", "keys-unordered", "checksum-mismatch", "stale-nodes"),
}
_LOST: Final = {"tree-unreadable", "node-missing", "node-invalid", "record-invalid", "subtree-missing"}
_DAMAGE: Final = _LOST | {"checksum-mismatch", "node-header-differs", "keys-unordered"}
_EVERYTHING: Final = _BLOCKS | _RECORDS | _NODES

_CAUSE_ROWS: Final[tuple[Follows, ...]] = (
    *(
        Follows(causes, _EVERYTHING | {"volume-unreadable", "spaceman-invalid", "checkpoint-invalid"})
        for causes in ({"truncated", "fusion-half", "container-changed"}, {"unread-area"})
    ),
    # A wrong entry of a map causes the loss of the object that it names, and of everything below that object.
    Follows({"object-map-differs"}, _NODES | {"volume-unreadable"}, is_of_named=True),
    # A damaged map no longer locates nodes of its trees, or a volume.
    Follows(
        _DAMAGE, {"node-missing", "tree-unreadable", "volume-unreadable"}, r"(container-)?omap tree", r"fs tree|volume"
    ),
    # Without the container's map, a search locates the volumes.
    Follows(
        _DAMAGE | {"checkpoint-invalid"},
        _EVERYTHING | {"volume-unreadable", "superblock-differs", "spaceman-invalid"},
        "container-omap tree|container object map",
        r"(?!container-omap tree)",
    ),
    Follows(_DAMAGE | {"volume-unreadable"}, {"tree-rebuilt"}, r"[\w-]+ tree|volume superblock|virtual object"),
    # Blocks that wait to become free are listed in separate trees.
    Follows(_DAMAGE | {"checkpoint-invalid"}, _BLOCKS | {"spaceman-invalid"}, "ephemeral object|spaceman tree"),
    from_one("volume-unreadable", _BLOCKS),
    *(
        from_one(code, _NODES | {"count-differs"}, of_tree=True)
        for code in ("checksum-mismatch", "node-invalid", "record-invalid", "node-missing", "node-header-differs")
    ),
    from_one("keys-unordered", _NODES | {"count-differs"}, of_tree=True),
    Follows(_LOST | {"checksum-mismatch"}, _RECORDS | _BLOCKS, r"(fs|fext|omap) tree"),
    Follows(_LOST | {"checksum-mismatch"}, {"reference-differs", *_BLOCKS}, "extentref tree"),
    Follows(_LOST | {"checksum-mismatch"}, {"snapshot-differs", *_BLOCKS}, "(snapmeta|omap-snapshots) tree"),
    Follows({"checksum-mismatch"}, _BLOCKS | {"spaceman-invalid"}, "chunk information"),
    from_one("spaceman-invalid", _BLOCKS),
    from_one("inode-missing", {"record-differs", "count-differs"}),
    from_one("extent-invalid", {"reference-differs", "count-differs", *_BLOCKS}),
    from_one("reference-differs", _BLOCKS),
    *(from_one(code, _BLOCKS) for code in ("block-claimed-twice", "block-claimed-free")),
)
"""Causes and their consequences, the deepest causes first."""

_TREES_BY_FIELD: Final = {
    "root_tree_oid": "fs",
    "extentref_tree_oid": "extentref",
    "snap_meta_tree_oid": "snapmeta",
    "fext_tree_oid": "fext",
    "tree_oid": "omap",
    "snapshot_tree_oid": "omap-snapshots",
}
"""The trees that fields lead to, by field name."""

_UNNUMBERED_OBJECTS: Final = {"chunk information": "chunk", "container object map": "container-omap"}
"""Objects without a number, which are identified by their address."""


def locate_object(item: Finding) -> About:
    """Return the object of a finding: structure names contain the numbers of nodes, objects and volumes."""
    if match := re.match(r"([\w-]+) tree, node (\d+)$", item.structure):
        # Nodes of free queues are ephemeral objects, located through the maps of a checkpoint.
        names = (("ephemeral", int(match[2])),) if match[1] == "spaceman" else ()
        return About(match[1], int(match[2]), names)
    if match := re.match(r"((?:container-)?omap) tree, entry of object (\d+)$", item.structure):
        # An entry whose object has another number concerns both objects: one of them is misplaced.
        numbers = [match[2], *([item.found] if item.expected == match[2] else [])]
        mapped = "fs" if match[1] == "omap" else "volume"
        return About(match[1], names=tuple((mapped, int(number)) for number in numbers))
    if match := re.match(r"(virtual|ephemeral) object (\d+)$", item.structure):
        return About("fs" if match[1] == "virtual" else match[1], int(match[2]))
    if match := re.match(r"checkpoint map of xid \d+, object (\d+)$", item.structure):
        return About(names=(("ephemeral", int(match[1])),))
    if item.code == "spaceman-invalid" and item.field.startswith("free_queues.tree_oid"):
        return About(names=(("ephemeral", int(item.found)),))
    if item.code == "tree-unreadable" and item.field in _TREES_BY_FIELD:
        return About(names=((_TREES_BY_FIELD[item.field], int(item.found.rpartition(" ")[2])),))
    if item.structure in _UNNUMBERED_OBJECTS:
        return About(_UNNUMBERED_OBJECTS[item.structure], item.image_offset)
    if match := re.match(r"volume (\d+)$", item.structure):
        return About("volume", int(match[1]))
    match = re.match(r"([\w-]+) tree", item.structure)
    return About(match[1] if match else "")


CAUSES: Final = Causes(
    _CAUSE_ROWS,
    ("checksum-mismatch", "checkpoint-invalid", "tree-unreadable", "node-invalid", "unread-area"),
    ("record-invalid", "node-header-differs", "keys-unordered"),
    ("object-map-differs",),
    locate_object,
)


CONTAINER_CHECKS: Final[dict[str, Check]] = {
    "numbers": Check(scan.check_numbers),
    "checkpoint-maps": Check(scan.check_maps),
    "superblock-fields": Check(objects.check_superblock),
    "superblock-copy": Check(objects.check_copy),
    "map-fields": Check(objects.check_map_headers),
    "reaper-fields": Check(objects.check_reaper),
    "mapping-fields": Check(objects.check_mappings),
    "space-fields": Check(spaceman.check_space, ("space",), takes=("space",)),
    "chunk-heads": Check(spaceman.check_heads, ("space",), takes=("space",)),
    "pool-versions": Check(spaceman.check_versions, ("space",), takes=("space",)),
    "map-head": Check(objects.check_container_omap),
    "jumpstart": Check(objects.check_jumpstart),
    "key-bags": Check(objects.check_keybags),
    "write-cache": Check(objects.check_write_cache),
    "newer-superblocks": Check(scan.check_newer),
    "chunk-checksums": Check(scan.check_space_blocks, ("space",)),
    "checkpoints": Check(objects.check_checkpoints),
    "volumes": Check(btree.check_lost_volumes),
    "sizes": Check(spaceman.check_sizes, ("space",), takes=("space",)),
    "internal-pool": Check(spaceman.check_pool, ("space",), takes=("space",)),
    "chunks": Check(spaceman.check_chunks, ("space",), takes=("space",)),
    "free-queues": Check(spaceman.check_queues, ("space",), takes=("space",)),
    "double-claims": Check(spaceman.check_double_claims, ("claims",)),
    "file-claims": Check(spaceman.check_file_claims, ("claims",)),
    "bitmaps": Check(spaceman.check_bitmaps, ("space", "claims"), takes=("space",)),
    "container-trees": Check(btree.check_container_trees),
}
"""Every check of a container, in order, with the structures that it requires."""

STATE_CHECKS: Final = (
    *("volume-counts", "entries", "links", "sibling-links", "directories", "name-hashes", "inodes"),
    *("streams", "stream-sizes", "attributes", "lost-records", "extents"),
)
"""Checks of a volume that also run on its snapshots."""


def _states(subject: Subject, parts: VolumeParts) -> None:
    snapshots.check_states(subject, parts, [VOLUME_CHECKS[name].run for name in STATE_CHECKS])


VOLUME_CHECKS: Final[dict[str, Check]] = {
    "roots": Check(btree.check_roots, _ALL_TREES),
    # These check other objects; reading reports if they are missing.
    "map-heads": Check(objects.check_volume_omap),
    "superblocks": Check(objects.check_superblocks),
    "integrity-metadata": Check(objects.check_integrity),
    "extended-metadata": Check(objects.check_extended_metadata),
    "object-maps": Check(btree.check_object_map, _ALL_TREES),
    "keys": Check(btree.check_keys, _ALL_TREES),
    "volume-identity": Check(scan.check_identity),
    "volume-counts": Check(scan.check_counts, requires=_ALL_TREES),
    "entries": Check(inodes.check_entries, requires=_FILE_TREES),
    "links": Check(inodes.check_links, requires=_FILE_TREES),
    "sibling-links": Check(inodes.check_sibling_links, requires=_FILE_TREES),
    "directories": Check(inodes.check_directories, requires=_FILE_TREES),
    "name-hashes": Check(namehashes.compare_names, _FILE_TREES),
    "inodes": Check(inodes.check_inode_notes, requires=(*_FILE_TREES, "fext")),
    "streams": Check(inodes.check_streams, requires=_FILE_TREES),
    "stream-sizes": Check(inodes.check_stream_sizes, requires=_FILE_TREES),
    "attributes": Check(inodes.check_attributes, requires=_FILE_TREES),
    "lost-records": Check(inodes.check_lost_inodes, requires=_FILE_TREES),
    "extents": Check(extents.check_shape, requires=(*_FILE_TREES, "fext")),
    "references": Check(extents.check_references, requires=_ALL_TREES),
    "reference-owners": Check(extents.check_owners, requires=_ALL_TREES),
    "snapshots": Check(snapshots.check_snapshots, requires=("snapmeta", *_MAP_TREES)),
    "snapshot-records": Check(snapshots.check_snapshot_records, ("snapmeta", *_MAP_TREES)),
    "seals": Check(objects.check_seals, ("fs",)),
    "states": Check(_states, requires=_ALL_TREES),
}
"""Every check of one volume; findings of reading come before all of them.

A check that would report records of unread trees as missing requires these trees.
"""


UNOPENED: Final = Checked((), len(VOLUME_CHECKS))
"""The result of a volume that cannot be opened; findings of the container include the reason."""


def check_container(request: VolumeRequest, without: Collection[str] = ()) -> dict[str, Checked]:
    """Check an APFS container, and return the results by volume UUID as text, with "" for the container itself."""
    contents: ContainerContents | None = request.take_up()
    if contents is None:
        alone = FindingLog()
        if not request.second and lone_half_layout(structs.replace(request, sweep=False), alone):
            lone_half = Unchecked("all rules", "this is half of a set, and the other one leads to all of it")
            return {"": Checked(tuple(alone.findings), len(CONTAINER_CHECKS), (lone_half,))}
        contents = read_container(request)
    subject = open_subject(contents)
    unread = {parts.state.number: explain_unread_trees(parts) for parts in contents.volumes}
    unread_parts = explain_unread_parts(contents, unread)
    unchecked = {"": list_unchecked(dict(sorted(CONTAINER_CHECKS.items())), unread_parts)}
    run = partial(run_checks, CONTAINER_CHECKS, unread_parts, without, subject)
    volumes = {"": _run(contents.container.log, subject.log, run)}
    num_outside = len(subject.log.findings)
    for parts in contents.volumes:
        missing, own = unread[parts.state.number], subject.branch()
        run = partial(run_checks, VOLUME_CHECKS, missing, without, own, parts)
        uuid = uuid_text(bytes(parts.state.superblock.vol_uuid))
        volumes.setdefault(uuid, []).extend(_run(parts.log, own.log, run))
        unchecked.setdefault(uuid, []).extend(list_unchecked(VOLUME_CHECKS, missing))
    report_changes(subject.reporting)
    volumes[""] += subject.log.findings[num_outside:]
    # A cause may be in another part of the container.
    unique = {uuid: deduplicate(findings) for uuid, findings in volumes.items()}
    owners = [uuid for uuid, findings in unique.items() for _ in findings]
    named = iter(name_causes([item for findings in unique.values() for item in findings], CAUSES, owners))
    return {
        uuid: Checked(
            tuple(islice(named, len(each))), len(VOLUME_CHECKS if uuid else CONTAINER_CHECKS), tuple(unchecked[uuid])
        )
        for uuid, each in unique.items()
    }


def _run(read: FindingLog, log: FindingLog, run: Callable[[], None]) -> list[Finding]:
    """Run checks that write into a log; `read` contains the findings of reading, and some checks add to it."""
    coarse = list(read.findings)
    run()
    fine = [*read.findings[len(coarse) :], *log.findings]
    # Reading reports a whole structure, a check the exact byte; a finding without an address only summarizes others.
    exact = {(item.code, item.structure) for item in fine if item.image_offset is not None}
    codes = {code for code, _ in exact}
    unrefined = (
        item
        for item in coarse
        if (item.code, item.structure) not in exact and (item.image_offset is not None or item.code not in codes)
    )
    return list(dict.fromkeys((*unrefined, *fine)))
