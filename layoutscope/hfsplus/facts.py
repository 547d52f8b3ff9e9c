"""What a volume says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.hfsplus.volume import attribute_names, volume_uuid
from layoutscope.ondisk import grammar
from layoutscope.tables.layout import TreeFacts, VolumeFacts

if TYPE_CHECKING:
    from layoutscope.hfsplus.catalog import Catalog
    from layoutscope.hfsplus.tree import Tree
    from layoutscope.hfsplus.volume import Volume

_COMPARE = grammar.HfsplusBtree.KeyCompareType


def volume_facts(
    volume: Volume, trees: dict[str, Tree], catalog: Catalog, stack: tuple[str, ...], number: int | None
) -> VolumeFacts:
    """Put together name, identifier, geometry, features, trees and coverage."""
    header = volume.header
    variant = "HFSX" if volume.is_hfsx else "HFS+"
    return VolumeFacts(
        filesystem="hfsplus",
        variant=variant,
        volume=number,
        name=_volume_name(catalog),
        uuid=volume_uuid(header),
        stack=(*stack, variant),
        image_offset=volume.image_offset,
        size_bytes=volume.size_bytes,
        block_size_bytes=volume.block_size_bytes,
        case_sensitive=is_case_sensitive(volume, trees.get("catalog")),
        stamp=int(header.write_count),
        num_files=int(header.file_count),
        num_directories=int(header.folder_count),
        features=attribute_names(header),
        trees=tuple(_tree_facts(tree) for tree in trees.values()),
    )


def is_case_sensitive(volume: Volume, catalog: Tree | None) -> bool:
    """Whether names compare by their 16-bit numbers, which only HFSX can."""
    return volume.is_hfsx and catalog is not None and catalog.file.header.key_compare_type == _COMPARE.binary


def _volume_name(catalog: Catalog) -> str:
    """Name of the root folder, which is the volume's."""
    roots = (catalog.entries["parent_id"] == grammar.HfsplusVolume.Cnid.root_parent).nonzero()[0]
    return str(catalog.name[int(roots[0])]) if len(roots) else ""


def _tree_facts(tree: Tree) -> TreeFacts:
    header = tree.file.header
    return TreeFacts(
        tree=tree.file.tree,
        node_size_bytes=tree.file.node_size_bytes,
        height=int(header.tree_depth),
        num_nodes=int(header.total_nodes),
        num_free_nodes=int(header.free_nodes),
        num_leaf_records=int(header.leaf_records),
        root_node_id=int(header.root_node),
    )
