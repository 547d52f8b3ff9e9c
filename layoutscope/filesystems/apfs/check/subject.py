"""What a check looks at: everything that was read of a container, and descriptions of its trees to read them again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from layoutscope.filesystems.apfs.check.consistency import Report
from layoutscope.filesystems.apfs.store.source import TreeSource, lead_type
from layoutscope.filesystems.apfs.volume.volume import fs_source
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import APFS_SUPERBLOCK, OMAP_PHYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.opening import Contents
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.filesystems.apfs.volume.snapshots import Snapshot
    from layoutscope.findings import Level

VOLUME: Final = APFS_SUPERBLOCK
MOST_CASES: Final = 100
"""So many cases of one kind are listed, each with its address; the others are counted."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A container under check.

    Attributes
    ----------
    container : Container
        The container.
    parts : ContainerParts
        What belongs to no volume.
    volumes : list of VolumeParts
        Every volume that could be opened.
    slots : dict
        Place of each volume in the container's list, by its number.
    whole : list of VolumeParts
        Volumes whose records were all read: what contradicts there follows from nothing else.
    is_whole : bool
        Whether every structure could be read, so that what is not claimed belongs to nothing.
    findings : list of Finding
        Collects what is wrong.
    """

    container: Container
    parts: ContainerParts
    volumes: list[VolumeParts]
    slots: dict[int, int]
    whole: list[VolumeParts]
    is_whole: bool
    findings: list[Finding]

    def report(
        self,
        code: str,
        structure: str,
        image_offset: int | None,
        message: str,
        expected: object = "",
        found: object = "",
        *,
        level: Level = "warning",
        device: int = 0,
    ) -> None:
        """Add a finding."""
        self.findings.append(Finding(code, level, structure, image_offset, message, str(expected), str(found), device))

    def records(self, parts: VolumeParts) -> Report:
        """Where findings about records of a volume's file-system tree go."""
        return Report(self.container.blocks, parts.fs.nodes, self.findings, MOST_CASES)

    def extents(self, parts: VolumeParts) -> Report:
        """Where findings about a volume's extents go."""
        nodes = parts.fext.nodes if len(parts.fext.nodes) else parts.fs.nodes
        return Report(self.container.blocks, nodes, self.findings, MOST_CASES)

    def references(self, parts: VolumeParts) -> Report:
        """Where findings about a volume's extent references go."""
        return Report(self.container.blocks, parts.extentref.nodes, self.findings, MOST_CASES)


def open_subject(contents: Contents) -> Subject:
    """Say what can be told of a container that was read."""
    container, volumes = contents.container, contents.volumes
    whole = [parts for parts in volumes if not parts.is_locked and _is_sound(parts.findings)]
    is_half = container.superblock.is_fusion and len(container.blocks.sources) < 2
    is_whole = _is_sound(contents.parts.findings) and not is_half and len(whole) == contents.num_volumes
    return Subject(container, contents.parts, volumes, contents.slots, whole, is_whole, [])


def of_volume(subject: Subject, parts: VolumeParts) -> Subject:
    """Look at one volume alone."""
    whole = [item for item in subject.whole if item is parts]
    return replace(subject, volumes=[parts], whole=whole, findings=[])


def _is_sound(findings: list[Finding]) -> bool:
    return all(item.level != "error" for item in findings)


def volume_roots(subject: Subject, parts: VolumeParts) -> Iterator[tuple[TreeSource, str, int]]:
    """Describe every tree of a volume that can be read, with structure and address of the field that names its root.

    Trees of snapshots come too, where they are not those of the volume.
    """
    state, blocks = parts.state, subject.container.blocks
    superblock, own = state.superblock, blocks.at(state.paddr)
    fields = [("extentref", "extentref_tree_oid"), ("snapmeta", "snap_meta_tree_oid")]
    if superblock.is_sealed and superblock.fext_tree_type & int(grammar.ApfsObject.ObjectFlag.physical):
        fields.append(("fext", "fext_tree_oid"))
    omap = blocks.at(superblock.omap_oid)
    for tree, field in (("omap", "tree_oid"), ("omap-snapshots", "snapshot_tree_oid")):
        root = getattr(state.omap_header, field)
        if root:
            where = omap + OMAP_PHYS.offset_of(field)
            yield _physical(subject, tree, root), "volume object map", where
    if not parts.is_locked:
        where = own + VOLUME.root_tree_oid.offset
        yield fs_source(blocks, subject.container.decoder, state, parts.cipher), "volume superblock", where
    for tree, field in fields:
        root = getattr(superblock, field)
        if root:
            yield _physical(subject, tree, root), "volume superblock", own + VOLUME.offset_of(field)
    for snapshot, where in snapshot_places(subject, parts, "extentref_tree_oid"):
        if snapshot.extentref_paddr:
            yield _physical(subject, "extentref", snapshot.extentref_paddr), snapshot.view, where


def snapshot_places(subject: Subject, parts: VolumeParts, field: str) -> Iterator[tuple[Snapshot, int]]:
    """Snapshots of a volume, each with the address of a field of its metadata."""
    report = Report(subject.container.blocks, parts.snapmeta.nodes, subject.findings)
    table = parts.snapmeta.records.get("snap_metadata")
    for row, snapshot in enumerate(parts.snapshots):
        yield snapshot, report.place(table, row, f"val.snap_metadata_val.fixed.{field}")[0]


def volume_sources(subject: Subject, parts: VolumeParts) -> Iterator[TreeSource]:
    """Describe every tree of a volume that can be read."""
    for source, _, _ in volume_roots(subject, parts):
        yield source


def container_sources(subject: Subject) -> Iterator[TreeSource]:
    """Describe the trees that belong to no volume."""
    if len(subject.container.omap.nodes):
        yield _physical(subject, "container-omap", subject.container.omap_header.tree_oid)
    yield from (source for _, source in queue_sources(subject))


def queue_sources(subject: Subject) -> Iterator[tuple[int, TreeSource]]:
    """Describe the trees of the free queues, each with the queue's number."""
    container, space = subject.container, subject.parts.space
    queues: Any = space.header.free_queues if space is not None else ()
    ephemerals = container.checkpoint.ephemerals
    for number, queue in enumerate(queues):
        item = ephemerals.get(queue.tree_oid) if queue.tree_oid else None
        if item is not None:
            yield (
                number,
                TreeSource(
                    "spaceman", container.blocks, container.decoder, item.oid, None, *lead_type("spaceman"),
                    container.xid, root_size_bytes=item.size_bytes, ephemerals=container.checkpoint.addresses,
                ),
            )  # fmt: skip


def _physical(subject: Subject, tree: str, root: int) -> TreeSource:
    container = subject.container
    return TreeSource(tree, container.blocks, container.decoder, root, None, *lead_type(tree), container.xid)
