"""What a volume says of itself, and how much of its metadata could be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.hfsplus.contents.rules import num_missing_entries
from layoutscope.filesystems.hfsplus.layout.regions import NEEDED_BY_NOBODY, find_regions
from layoutscope.filesystems.hfsplus.records.catalog import EPOCH_SECONDS
from layoutscope.filesystems.hfsplus.tree.shape import nodes_apart
from layoutscope.filesystems.hfsplus.tree.tree import Tree, is_case_sensitive
from layoutscope.filesystems.hfsplus.volume.volume import HEADER_BYTES, attribute_names, volume_uuid
from layoutscope.ondisk import grammar
from layoutscope.tables.layout import TreeFacts, VolumeFacts

if TYPE_CHECKING:
    from layoutscope.arrays.columns import Mask
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.filesystems.hfsplus.volume.volume import Volume


def volume_facts(volume: Volume, contents: Contents, stack: tuple[str, ...], number: int | None) -> VolumeFacts:
    """Put together name, identifier, geometry, features, trees and coverage."""
    header, trees = volume.header, contents.trees
    variant = "HFSX" if volume.is_hfsx else "HFS+"
    known, read = _coverage(volume, contents)
    return VolumeFacts(
        filesystem="hfsplus",
        variant=variant,
        volume=number,
        name=_volume_name(contents.catalog),
        uuid=volume_uuid(header),
        stack=(*stack, variant),
        image_offset=volume.image_offset,
        size_bytes=volume.size_bytes,
        block_size_bytes=volume.block_size_bytes,
        case_sensitive=is_case_sensitive(volume, trees.get("catalog")),
        stamp=int(header.write_count),
        num_files=int(header.num_files),
        num_directories=int(header.num_folders),
        features=attribute_names(header),
        details=_details(volume, contents),
        trees=tuple(_tree_facts(tree) for tree in trees.values()),
        metadata_known_bytes=known,
        metadata_read_bytes=read,
        num_missing_entries=num_missing_entries(volume, contents.catalog),
    )


def _details(volume: Volume, contents: Contents) -> dict[str, str | int | float | bool]:
    header = volume.header
    details: dict[str, str | int | float | bool] = {
        # TN1150: of the dates of a volume this one alone is in local time; the others are in UTC.
        "created (local time)": _date(int(header.create_date)),
        "modified (UTC)": _date(int(header.modify_date), is_expanded=bool(header.has_expanded_times)),
        "checked (UTC)": _date(int(header.checked_date), is_expanded=bool(header.has_expanded_times)),
        "last mounted by": int(header.last_mounted_version).to_bytes(4, "big").decode("ascii", "replace"),
        "allocation blocks": int(header.num_blocks),
        "free blocks": int(header.num_free_blocks),
        "next CNID": int(header.next_catalog_id),
        "extended attributes": len(contents.attributes.file_id),
        "catalog clump bytes": int(header.catalog_file.len_clump),
        "attributes clump bytes": int(header.attributes_file.len_clump),
    }
    for name, count in (contents.stale or {}).items():
        details[f"stale {name} nodes"] = count
    if contents.journal is not None:
        details["journal"] = _journal(contents.journal)
        if contents.journal.header is not None and contents.journal.num_pending_bytes:
            details["journal pending bytes"] = contents.journal.num_pending_bytes
            details["journal pending from byte"] = int(contents.journal.header.ofs_start)
    return details


def _journal(journal: Journal) -> str:
    if not journal.size_bytes:
        return "on another device"
    order = "little-endian" if journal.is_little_endian else "big-endian"
    state = "no header" if journal.header is None else f"{order}, {journal.num_pending_bytes:,} bytes pending"
    return f"{journal.size_bytes:,} bytes at volume byte {journal.journal_offset:,}, {state}"


def _date(seconds: int, *, is_expanded: bool = False) -> str:
    if not seconds:
        return "never"
    return datetime.fromtimestamp(seconds - (0 if is_expanded else EPOCH_SECONDS), UTC).strftime("%Y-%m-%d %H:%M:%S")


def _coverage(volume: Volume, contents: Contents) -> tuple[int, int]:
    """Bytes of metadata in use, and those of them that are on the image and were read into it."""
    regions = find_regions(volume, contents.special, contents.journal, contents.trees.get("extents-overflow"))
    starts = np.array([region[2] for region in regions], np.int64)
    lengths = np.array([region[3] for region in regions], np.int64)
    # What nobody reads is not lost where it cannot be read.
    is_read = volume.is_readable(starts, lengths) | np.array([region[0] in NEEDED_BY_NOBODY for region in regions])
    known, read = int(lengths.sum()), int(lengths[is_read].sum())
    for tree in contents.trees.values():
        known += int(tree.file.used.sum()) * tree.file.node_size_bytes
        read += int((tree.file.used & tree.file.readable & ~_is_lost(tree)).sum()) * tree.file.node_size_bytes
    # Of a volume that only a sweep brought out, the header's place is known, and nothing of what it said.
    read -= HEADER_BYTES if volume.is_inferred else 0
    return known + _lost_trees(volume, contents), read


def _is_lost(tree: Tree) -> Mask:
    """Nodes that nothing leads to, and nodes with bad records: their bytes were read, but not all of what they say.

    The kind of the former does not matter, for that may be what is damaged.
    """
    # What is in its place by its keys alone may not be all that there was.
    return tree.nodes.damaged | tree.nodes.is_inferred | nodes_apart(tree.file, tree.nodes, tree.reach)


def _lost_trees(volume: Volume, contents: Contents) -> int:
    """Bytes of B-trees that could not be opened at all."""
    opened = {tree.file.file_id for tree in contents.trees.values()}
    cnids = grammar.HfsplusVolume.Cnid
    btrees = (cnids.extents_file, cnids.catalog_file, cnids.attributes_file)
    return sum(contents.special[cnid].num_blocks * volume.block_size_bytes for cnid in btrees if cnid not in opened)


def _volume_name(catalog: Catalog) -> str:
    """Name of the root folder, which is the volume's."""
    roots = (catalog.entries["parent_id"] == grammar.HfsplusVolume.Cnid.root_parent).nonzero()[0]
    return str(catalog.name.take(roots[:1]).to_list()[0]) if len(roots) else ""


def _tree_facts(tree: Tree) -> TreeFacts:
    header = tree.file.header
    return TreeFacts(
        tree=tree.file.tree,
        node_size_bytes=tree.file.node_size_bytes,
        height=int(header.tree_depth),
        num_nodes=int(header.num_nodes),
        num_free_nodes=int(header.num_free_nodes),
        num_leaf_records=int(header.leaf_records),
        root_node_id=int(header.root_node),
    )
