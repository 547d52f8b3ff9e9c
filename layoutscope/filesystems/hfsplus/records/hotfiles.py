"""The hot-file B-tree: which files are read often and therefore were moved to the metadata zone.

TN1150, "Hot Files". Unlike the other trees it is an ordinary file, which is found by its name in the root folder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK
from layoutscope.filesystems.hfsplus.records.overflow import FixedLeaves, extend_fork
from layoutscope.filesystems.hfsplus.records.rootfiles import HOT_FILES, data_fork_of, find_root_file
from layoutscope.filesystems.hfsplus.tree.btree import TreePlace
from layoutscope.filesystems.hfsplus.tree.tree import Tree, read_tree
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import HOT_FILE_KEY, HOT_FILE_LEAF_RECORD

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

LEAF_RECORD: Final = HOT_FILE_LEAF_RECORD
MAGIC: Final = grammar.HfsplusHotfiles.HotFilesMagic.hot_files


def read_hot_files(volume: Volume, catalog: Catalog, overflow: Tree | None) -> Tree | None:
    """Read the hot-file B-tree.

    None where there is none, where it cannot be opened, or where a file has its name only.
    """
    # The volume header has no field for this tree, whose CNID is that of any file.
    row = find_root_file(catalog, HOT_FILES)
    if row < 0:
        return None
    file_id = int(catalog.entries["file_id"][row])
    fork = extend_fork(data_fork_of(catalog, row), overflow, file_id, DATA_FORK)
    # Each hot file has two records; that of its thread has a temperature of 0xFFFFFFFF.
    fields = (LEAF_RECORD.key.file_id, LEAF_RECORD.key.temperature)
    leaves = FixedLeaves(LEAF_RECORD, fields, HOT_FILE_KEY, HOT_FILE_KEY.temperature)
    # What is found in a file that has nothing but the name is nobody's business.
    log = volume.log.branch()
    tree = read_tree(replace(volume, log=log), TreePlace("hot-files", file_id, fork), leaves)
    if tree is not None and _magic(tree) != MAGIC:
        return None
    volume.log.extend(log.findings)
    return tree


def _magic(tree: Tree) -> int:
    # The second record of the header node, which the other trees leave unused (TN1150, User Data Record).
    info = grammar.parse(
        grammar.HfsplusHotfiles.HotFilesInfo, tree.file.user_data, structure="hot-file user data", image_offset=0
    )
    return int(info.magic)
