"""Files that drivers find by name in the root folder: the journal's file and the hot-file B-tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus.btree import TreePlace
from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, ROOT_FOLDER
from layoutscope.filesystems.hfsplus.extents import FixedLeaves, extend_fork
from layoutscope.filesystems.hfsplus.forks import Fork
from layoutscope.filesystems.hfsplus.journal import is_pending
from layoutscope.filesystems.hfsplus.tree import Tree, read_tree
from layoutscope.structs import grammar
from layoutscope.structs.records import HOT_FILE_LEAF_RECORD

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.journal import Journal
    from layoutscope.filesystems.hfsplus.volume import Volume


JOURNAL_FILE: Final = ".journal"
HOT_FILES: Final = ".hotfiles.btree"


def find_root_file(catalog: Catalog, name: str) -> int:
    """Return the row of a file's entry in the root folder, by its name; -1 if there is none."""
    entries = catalog.entries
    rows = np.flatnonzero((entries["parent_id"] == ROOT_FOLDER) & (entries["is_folder"] == 0))
    matches = rows[catalog.name.take(rows).equal_to(name.encode())]
    return int(matches[0]) if len(matches) else -1


def data_fork_of(catalog: Catalog, row: int) -> Fork:
    """Return the data fork of an entry, with only the extents in its own record."""
    forks = catalog.forks
    mine = (forks["entry"] == row) & (forks["fork_type"] == DATA_FORK)
    size = int(catalog.entries["data_size"][row])
    starts, counts = (forks[name][mine].astype(np.int64) for name in ("start_block", "block_count"))
    return Fork(size, starts, counts, np.full(len(starts), -1, np.int64))


def report_unread_journal(volume: Volume, journal: Journal, catalog: Catalog) -> None:
    """Report transactions in the journal's file if the journal info block led to no journal header."""
    row = -1 if journal.header is not None else find_root_file(catalog, JOURNAL_FILE)
    fork = data_fork_of(catalog, row) if row >= 0 else None
    if fork is None or not len(fork.start_blocks):
        return
    at = int(fork.start_blocks[0]) * volume.block_size_bytes
    if at != journal.journal_offset and is_pending(volume, at):
        message = "the file .journal holds transactions, to which the journal info block does not lead; not applied"
        volume.log.at("journal info block", journal.info_offset).add(
            "journal-invalid", "error", message, expected=f"a journal at volume byte {at:,}"
        )


LEAF_RECORD: Final = HOT_FILE_LEAF_RECORD
MAGIC: Final = grammar.HfsplusHotfiles.HotFilesMagic.hot_files


def read_hot_files(volume: Volume, catalog: Catalog, overflow: Tree | None) -> Tree | None:
    """Read the hot-file B-tree.

    Return None if there is none, if it cannot be opened, or if a file merely has its name.
    """
    # The volume header has no field for this tree, and its CNID is that of an ordinary file.
    row = find_root_file(catalog, HOT_FILES)
    if row < 0:
        return None
    file_id = int(catalog.entries["file_id"][row])
    fork = extend_fork(data_fork_of(catalog, row), overflow, file_id, DATA_FORK)
    # Each hot file has two records; its thread record has a temperature of 0xFFFFFFFF.
    fields = (LEAF_RECORD.key.file_id, LEAF_RECORD.key.temperature)
    leaves = FixedLeaves(LEAF_RECORD, fields)
    # Findings in a file that merely has this name are dropped.
    log = volume.log.branch()
    tree = read_tree(replace(volume, log=log), TreePlace("hot-files", file_id, fork), leaves)
    if tree is not None:
        # The second record of the header node, which other trees do not use (TN1150, User Data Record).
        info = grammar.parse(
            grammar.HfsplusHotfiles.HotFilesInfo, tree.file.user_data, structure="hot-file user data", image_offset=0
        )
        if int(info.magic) != MAGIC:
            return None
    volume.log.extend(log.findings)
    return tree
