"""Files that drivers find by their names in the root folder: the journal's and that of the hot files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK
from layoutscope.filesystems.hfsplus.records.links import ROOT_FOLDER
from layoutscope.filesystems.hfsplus.volume.fork import Fork
from layoutscope.filesystems.hfsplus.volume.journal import is_pending

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

JOURNAL_FILE: Final = ".journal"
HOT_FILES: Final = ".hotfiles.btree"


def find_root_file(catalog: Catalog, name: str) -> int:
    """Row of the entry of a file in the root folder by its name; -1 where there is none."""
    entries = catalog.entries
    rows = np.flatnonzero((entries["parent_id"] == ROOT_FOLDER) & (entries["is_folder"] == 0))
    matches = rows[catalog.name.take(rows).equal_to(name.encode())]
    return int(matches[0]) if len(matches) else -1


def data_fork_of(catalog: Catalog, row: int) -> Fork:
    """Return the data fork of an entry, as far as its own record has it."""
    forks = catalog.forks
    mine = (forks["entry"] == row) & (forks["fork_type"] == DATA_FORK)
    size = int(catalog.entries["data_size"][row])
    starts, counts = (forks[name][mine].astype(np.int64) for name in ("start_block", "block_count"))
    return Fork(size, starts, counts, np.full(len(starts), -1, np.int64))


def report_unread_journal(volume: Volume, journal: Journal, catalog: Catalog) -> None:
    """Report transactions in the journal's file, where the journal info block led to no journal header."""
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
