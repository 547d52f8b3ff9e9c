"""All that is read of a volume: its trees, what they hold, and its free space.

TN1150, "HFS Plus Basics". The volume header leads to the special files; the extents-overflow file is read first, as it
completes the others; then the catalog, the attributes and the hot files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.contents.lost import report_losses
from layoutscope.filesystems.hfsplus.features import report_version
from layoutscope.filesystems.hfsplus.records import attributes as attributes_file
from layoutscope.filesystems.hfsplus.records import catalog as catalog_file
from layoutscope.filesystems.hfsplus.records.hotfiles import read_hot_files
from layoutscope.filesystems.hfsplus.records.overflow import extend_fork, overflow_leaves
from layoutscope.filesystems.hfsplus.records.rootfiles import report_unread_journal
from layoutscope.filesystems.hfsplus.tree.btree import TreePlace
from layoutscope.filesystems.hfsplus.tree.tree import Tree, first_rows, is_whole, read_tree
from layoutscope.filesystems.hfsplus.volume.fork import Fork, inline_fork, read_free_runs
from layoutscope.filesystems.hfsplus.volume.journal import find_journal, is_applied, replay_journal, report_pending
from layoutscope.filesystems.hfsplus.volume.volume import (
    Volume,
    alternate_header,
    open_volume,
    report_change,
    reread,
)
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import decoder_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.contents.sweep import Swept
    from layoutscope.filesystems.hfsplus.records.attributes import Attributes
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.tree.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.ondisk.grammar import HfsplusVolume

CNID = grammar.HfsplusVolume.Cnid


@frozen
class Contents:
    """All that was read of a volume."""

    journal: Journal | None  # the journal, where there is one
    special: dict[int, Fork]  # special files by their CNID
    trees: dict[str, Tree]  # B-trees by their names
    # catalog, attributes: what these trees hold
    catalog: Catalog
    attributes: Attributes
    # free_starts, free_counts: runs of free blocks
    free_starts: I64
    free_counts: I64
    stale: dict[str, int] | None = None  # nodes outside of the trees, by tree; None where nobody looked for them


@frozen
class KeptVolume:
    """What a check takes up of a volume that was read for its tables."""

    volume: Volume  # the volume as its journal leaves it
    contents: Contents  # all that was read of it
    forget: Callable[[], None]  # drops what the tables' own rules wrote down since: a check says the same more exactly


def reopened(request: VolumeRequest) -> tuple[Volume, Contents]:
    """Give what reading left of a volume, or read it: see :func:`open_contents`."""
    kept: KeptVolume | None = request.take_up()
    if kept is None:
        return open_contents(request)
    kept.forget()
    return kept.volume, kept.contents


def open_contents(request: VolumeRequest) -> tuple[Volume, Contents]:
    """Open a volume, apply its journal in memory if wanted, and read all of its metadata.

    Without a replay, transactions that the journal still holds are reported. With a sweep, broken trees are rebuilt and
    old copies counted.
    """
    source, start, space_bytes = request.source, request.image_offset, request.size_bytes
    decoder = decoder_named(request.decoder)
    found: Swept | None = None
    try:
        opened = open_volume(source, start, decoder, space_bytes)
    except FormatError as error:
        if not request.sweep:
            raise
        from layoutscope.filesystems.hfsplus.contents.salvage import salvage_volume

        opened, found = salvage_volume(
            source, start, decoder, error, space_bytes, is_start_named=request.is_start_named
        )
    report_version(opened)
    below = opened
    journal = find_journal(opened)
    if journal is not None:
        opened = _with_journal(opened, journal, is_applied=is_applied(request) and not opened.is_inferred)
    if request.sweep and found is None:
        from layoutscope.filesystems.hfsplus.contents.sweep import sweep

        found = sweep(opened)
    contents = read_contents(opened, journal, found)
    # The header as it lies: what the journal does to it in memory is no change.
    report_change(below)
    return opened, contents


def _with_journal(volume: Volume, journal: Journal, *, is_applied: bool) -> Volume:
    if not is_applied:
        report_pending(volume, journal)
        return volume
    overlay = replay_journal(volume, journal)
    return volume if overlay is None else reread(volume, overlay)


def read_contents(volume: Volume, journal: Journal | None = None, found: Swept | None = None) -> Contents:
    """Read all metadata of a volume, each block once; rebuild what is broken where nodes were looked for everywhere."""
    reader = _Trees(volume, found, special_forks(volume.header), journal)
    special = reader.special
    reader.overflow, _ = reader.read("extents-overflow", CNID.extents_file)
    for file_id, fork in special.items() if not volume.is_inferred else ():
        special[file_id] = extend_fork(fork, reader.overflow, file_id, catalog_file.DATA_FORK)
    catalog_tree, catalog_leaves = reader.read("catalog", CNID.catalog_file)
    attribute_tree, attribute_leaves = reader.read("attributes", CNID.attributes_file)
    assert isinstance(catalog_leaves, catalog_file.CatalogLeaves)  # noqa: S101  (for the type checker)
    assert isinstance(attribute_leaves, attributes_file.AttributeLeaves)  # noqa: S101  (for the type checker)
    catalog = catalog_file.collect_catalog(catalog_tree, catalog_leaves)
    every = {"extents-overflow": reader.overflow, "catalog": catalog_tree, "attributes": attribute_tree}
    every["hot-files"] = read_hot_files(volume, catalog, reader.overflow)
    trees = {name: tree for name, tree in every.items() if tree is not None}
    for tree in trees.values():
        report_losses(volume, tree, catalog)
    if journal is not None:
        report_unread_journal(volume, journal, catalog)
    rows = first_rows(list(trees.values()))
    return Contents(
        journal,
        special,
        trees,
        catalog,
        attributes_file.collect_attributes(attribute_tree, attribute_leaves, rows.get("attributes", 0)),
        *read_free_runs(volume, special[CNID.allocation_file]),
        None if found is None else _count_stale(volume, trees, found),
    )


def _count_stale(volume: Volume, trees: dict[str, Tree], found: Swept) -> dict[str, int]:
    from layoutscope.filesystems.hfsplus.contents.rebuild import report_stale

    return report_stale(volume, trees, found)


LEAVES: Final[dict[str, Callable[[], LeafDecoder]]] = {
    "extents-overflow": overflow_leaves,
    "catalog": catalog_file.CatalogLeaves,
    "attributes": attributes_file.AttributeLeaves,
}
"""What decodes the leaves of each tree."""


def special_forks(header: HfsplusVolume.VolumeHeader) -> dict[int, Fork]:
    """Forks of the special files as a volume header has them."""
    return {
        int(CNID.allocation_file): inline_fork(header.allocation_file),
        int(CNID.extents_file): inline_fork(header.extents_file),
        int(CNID.catalog_file): inline_fork(header.catalog_file),
        int(CNID.attributes_file): inline_fork(header.attributes_file),
        int(CNID.startup_file): inline_fork(header.startup_file),
    }


@dataclass(slots=True)
class _Trees:
    """Reads the trees of a volume, broken ones too."""

    volume: Volume  # receives findings
    found: Swept | None  # nodes that a sweep found
    # special files by their CNID; where a tree is found by the copy of the volume header alone, its fork is changed
    special: dict[int, Fork]
    journal: Journal | None
    overflow: Tree | None = None  # the extents-overflow file, once it was read

    def read(self, name: str, file_id: int) -> tuple[Tree | None, LeafDecoder]:
        """Read a tree; where it is broken, by the copy of the header and from its leaves."""
        place = TreePlace(name, file_id, self.special[file_id])
        leaves = LEAVES[name]()
        tree = read_tree(self.volume, place, leaves)
        if not self._is_broken(place, tree):
            return tree, leaves
        tree, leaves = self._rebuilt(place, tree, leaves)
        other = self._by_copy(place)
        if other is not None and _num_records(other[0]) >= _num_records(tree):
            return other
        return tree, leaves

    def _is_broken(self, place: TreePlace, tree: Tree | None) -> bool:
        """Whether part of a tree may not have been reached.

        Every volume has a catalog; the other trees may have come and gone, unless nothing tells that there are none.
        """
        if tree is not None:
            return not is_whole(tree)
        return bool(place.fork.num_blocks) or place.tree == "catalog" or self.volume.is_inferred

    def _rebuilt(self, place: TreePlace, tree: Tree | None, leaves: LeafDecoder) -> tuple[Tree | None, LeafDecoder]:
        """Rebuild a tree from its leaves, if that brings out other ones."""
        from layoutscope.filesystems.hfsplus.contents.rebuild import Beside, rebuild

        fresh = LEAVES[place.tree]()
        rebuilt = rebuild(self.volume, place, tree, fresh, Beside(self.found, self.journal))
        return (tree, leaves) if rebuilt is None else (rebuilt, fresh)

    def _by_copy(self, place: TreePlace) -> tuple[Tree | None, LeafDecoder] | None:
        """Read a tree by the extents that the copy of the volume header has of it; None where these are the same."""
        # The copy is written again only when a special file grows or moves (TN1150, "Volume Header"): old as its counts
        # are, its extents are good.
        header = alternate_header(self.volume)
        if header is None:
            return None
        fork = special_forks(header)[place.file_id]
        fork = extend_fork(fork, self.overflow, place.file_id, catalog_file.DATA_FORK)
        if fork.is_same(place.fork):
            return None
        leaves, other = LEAVES[place.tree](), place._replace(fork=fork)
        volume = replace(self.volume, log=self.volume.log.branch())
        tree = read_tree(volume, other, leaves)
        if tree is None or not len(tree.reach.leaves):
            return None
        self.special[place.file_id] = fork
        self.volume.log.extend(volume.log.findings)
        field = f"{place.tree.split('-')[0]}_file"
        self.volume.header_field(field).add(
            "volume-header-invalid", "error", f"the {place.tree} file lies where the copy of the header says"
        )
        return tree, leaves


def _num_records(tree: Tree | None) -> int:
    return 0 if tree is None else int(tree.nodes.num_records[tree.reach.leaves].sum())
