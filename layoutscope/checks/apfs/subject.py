"""The subject of a check: all contents of a container, and descriptions of its trees for a second reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from layoutscope.checks.engine import Table
from layoutscope.display import Struct
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.spaceman import queue_source
from layoutscope.filesystems.apfs.volume import fs_source
from layoutscope.findings import MAX_CASES
from layoutscope.structs import grammar, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.snapshots import Snapshot
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.filesystems.apfs.spaceman import Space
    from layoutscope.findings import FindingLog

    # Takes a table of a tree, words before the numbers of its objects, and a code; returns `Table.report` of its rows.
    Reporter = Callable[..., Callable[..., None]]


Notes = dict[str, list["NDArray[Any]"]]
"""Properties of inodes that no table contains: columns with a row per inode, as one array per batch."""


class Subject(Struct, frozen=True):
    """A container under check."""

    contents: ContainerContents
    is_whole: bool  # whether every structure could be read, so unclaimed blocks belong to nothing
    log: FindingLog  # receives the findings
    most: int = MAX_CASES  # maximum number of listed cases per kind
    # properties of inodes, noted while trees were read, by volume number and view
    inodes: dict[tuple[int, str], Notes] = field(default_factory=dict)

    @property
    def container(self) -> Container:
        """The container itself."""
        return self.contents.container

    @property
    def reporting(self) -> Container:
        """The container with the check's log, for checks that write into the container's log."""
        return replace(self.container, store=replace(self.container.store, log=self.log))

    @property
    def space(self) -> Space | None:
        """The space manager."""
        return self.contents.space

    @property
    def silent_store(self) -> Store:
        """Store for the second reading of trees; its findings are dropped, as the first reading reported them."""
        return self.container.store.apart()

    def branch(self) -> Subject:
        """Return the same container with a separate log."""
        return replace(self, log=self.log.branch())

    def reporter(self, nodes: NodeRows, *, most: int | None = None) -> Reporter:
        """Return a function that prepares reports of problems in the records of the tree with these nodes."""

        def for_table(table: Columns, what: str, code: str = "record-differs") -> Callable[..., None]:
            at = lambda row, field: self.at(nodes, table, row, field, f"{what} {table['obj_id'][row]}")  # noqa: E731
            return Table(at, code, "warning", most or self.most).report

        return for_table

    def at(self, nodes: NodeRows, table: Columns, row: int, field: str, structure: str) -> FindingLog:
        """Bind the log to a field of a record of a tree; the name of the field begins with its part and type."""
        part, type_name, path = field.split(".", 2)
        plus = int(table[f"{part}_at"][row]) + getattr(records, type_name.upper()).offset_of(path)
        return self.log.at(structure, int(nodes.paddr[table["node"][row]]), plus=plus)


def get_extent_nodes(parts: VolumeParts) -> NodeRows:
    """Return the nodes with file extents: sealed volumes have a separate tree for them."""
    return parts.fext.nodes if len(parts.fext.nodes) else parts.fs.nodes


def open_subject(contents: ContainerContents) -> Subject:
    """Prepare the check of a container that was read."""
    container, volumes = contents.container, contents.volumes
    num_whole = sum(not parts.is_locked and not parts.log.has_errors for parts in volumes)
    is_half = container.superblock.is_fusion and len(container.blocks.sources) < 2
    is_whole = not container.log.has_errors and not is_half and num_whole == len(contents.slots)
    return Subject(contents, is_whole, container.log.branch())


def list_volume_roots(subject: Subject, parts: VolumeParts) -> Iterator[tuple[TreeSource, FindingLog]]:
    """Describe every readable tree of a volume, with a log bound to the field that names its root.

    Trees of snapshots are included, except those that the volume shares.
    """
    state, store, xid = parts.state, subject.silent_store, subject.container.xid
    superblock = state.superblock
    fields = [("extentref", "extentref_tree_oid"), ("snapmeta", "snap_meta_tree_oid")]
    if superblock.is_sealed and superblock.fext_tree_type & int(grammar.ApfsObject.ObjectFlag.physical):
        fields.append(("fext", "fext_tree_oid"))
    for tree, link in (("omap", "tree_oid"), ("omap-snapshots", "snapshot_tree_oid")):
        root = getattr(state.omap_header, link)
        if root:
            plus = records.OMAP_PHYS.offset_of(link)
            log = subject.log.at("volume object map", superblock.omap_oid, plus=plus).within(link)
            yield TreeSource(store, tree, root, xid), log
    if not parts.is_locked:
        yield fs_source(store, state, parts.key), _locate_superblock(subject, parts, "root_tree_oid")
    for tree, link in fields:
        root = getattr(superblock, link)
        if root:
            yield TreeSource(store, tree, root, xid), _locate_superblock(subject, parts, link)
    for snapshot, log in list_snapshots_with_logs(subject, parts, "extentref_tree_oid"):
        if snapshot.extentref_paddr:
            yield TreeSource(store, "extentref", snapshot.extentref_paddr, xid), log


def _locate_superblock(subject: Subject, parts: VolumeParts, field: str) -> FindingLog:
    plus = records.APFS_SUPERBLOCK.offset_of(field)
    return subject.log.at("volume superblock", parts.state.paddr, plus=plus).within(field)


def list_snapshots_with_logs(subject: Subject, parts: VolumeParts, field: str) -> Iterator[tuple[Snapshot, FindingLog]]:
    """List snapshots of a volume, each with a log bound to a field of its metadata."""
    tree, path = parts.snapmeta, f"val.snap_metadata_val.fixed.{field}"
    for row, snapshot in enumerate(parts.snapshots):
        yield snapshot, subject.at(tree.nodes, tree.get("snap_metadata"), row, path, snapshot.view)


def list_container_sources(subject: Subject) -> Iterator[TreeSource]:
    """Describe the trees that belong to no volume."""
    container = subject.container
    if len(container.omap.nodes):
        yield TreeSource(subject.silent_store, "container-omap", container.omap_header.tree_oid, container.xid)
    yield from (source for _, source in list_queue_sources(subject))


def list_queue_sources(subject: Subject) -> Iterator[tuple[int, TreeSource]]:
    """Describe the trees of the free queues, each with the queue's number."""
    space = subject.space
    for number, queue in enumerate(space.header.free_queues if space is not None else ()):
        source = queue_source(subject.silent_store, subject.container.checkpoint, queue.tree_oid)
        if source is not None:
            yield number, source


def locate_byte(subject: Subject, batch: ReadNodes, position: int, name: str = "") -> FindingLog:
    """Bind the log to a byte of a batch of nodes; the structure is its node, unless a name is given."""
    return batch.at(position // batch.size_bytes, position, name=name, log=subject.log)
