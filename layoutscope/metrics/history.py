"""The history of a volume: the order in which files were created, and the transactions that wrote its nodes.

Input: entries and nodes. File systems number files in the order of creation, and copy-on-write file systems record the
transaction in each node.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.metrics.definition import DEFINITIONS, Metric
from layoutscope.metrics.files import FIRST_USER_ID, mean_or_none
from layoutscope.metrics.scatter import main_tree, select_own_nodes
from layoutscope.structs.arrays import find, is_head, order_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

    I64 = NDArray[np.int64]

NEXT_NUMBER = DEFINITIONS["next-number"]
CREATED_AS_LISTED = DEFINITIONS["created-as-listed"]
CREATED_BY_NAME = DEFINITIONS["created-by-name"]
BORN_AS_LISTED = DEFINITIONS["born-as-listed"]
STREAMS = DEFINITIONS["write-streams"]
FILL_BY_AGE = DEFINITIONS["leaf-fill-newest"]
FILES_PER_TRANSACTION = DEFINITIONS["files-per-transaction"]
BEHIND = DEFINITIONS["written-behind"]

SAMPLED_FILES: Final = 100_000
"""Approximate number of files compared on larger volumes, from a sample of the folders."""

CERTAIN_SIGMAS: Final = 4.0
"""Standard deviations from random order at which an order counts as the order of creation."""

FIRST_SHARE: Final = 0.99
"""Share of files newer than all folders at which folders count as created first."""

REUSED_BELOW: Final = 0.9
"""Share of transactions in disk order below which freed blocks were reused: 0.99 to 0.88 after one to five rounds of
replacing a twentieth of the files in the first free blocks, 0.6 after ten; 1 if blocks after the last ones are used."""

MIN_STREAM_SHARE: Final = 0.01
"""Streams with a smaller share of the leaves are ignored."""

MIN_TRANSACTIONS: Final = 10
"""Fewer transactions do not show the direction of allocation."""

MIN_FILES: Final = 100
"""Least number of files used to count the files of a transaction, if there are as many."""

STREAM_LEAVES: Final = 100_000
"""Number of leaves in key order, from the first, among which streams are counted."""

QUARTERS: Final = ("oldest quarter", "second quarter", "third quarter", "newest quarter")


def count_ascents(
    numbers: I64,  # of files, folder by folder
    is_behind: NDArray[np.bool_],  # whether a file is not the first of its folder
) -> tuple[int, int]:
    """Count the neighbours in a folder whose numbers differ, and those of them whose numbers ascend."""
    step = (numbers[1:] - numbers[:-1])[is_behind[1:]]
    return int((step != 0).sum()), int((step > 0).sum())


def rising_share(num_different: int, num_rising: int) -> float | None:
    """Return the share of ascending pairs among those that differ."""
    return num_rising / num_different if num_different else None


def excess_sigmas(num_different: int, num_rising: int) -> float:
    """Return the excess over a random order in standard deviations; the variance of a random order is n / 12."""
    return (num_rising - num_different / 2) / math.sqrt(max(num_different, 12) / 12)


def list_files(layout: VolumeLayout) -> tuple[Table, NDArray[np.bool_], I64 | None]:
    """List the files of all folders, or of an evenly spaced sample of them, in the order of listings.

    Returns the files, whether each is not the first of its folder, and the rows in the order of names within each
    folder; None if names are unknown.
    """
    entries = layout.columns("entries")
    files = entries.take(~entries["kind"].equals("directory") & entries["entry_rank"].is_known)
    parent, rank = files["parent_id"].data, files["entry_rank"].data
    if not ((parent[1:] > parent[:-1]) | ((parent[1:] == parent[:-1]) & (rank[1:] >= rank[:-1]))).all():
        files = files.take(np.lexsort((rank, parent)))
    folder = np.cumsum(is_head(files["parent_id"].data))
    files = files.take(folder % (len(files) // SAMPLED_FILES + 1) == 0)
    parent, names = files["parent_id"].data, files.texts("name")
    by_name = None
    if names.known is None or names.known.all():
        by_name = names.order_by_text(parent)
    return files, ~is_head(parent), by_name


def creation_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure how the order of creation agrees with the orders of listings and names."""
    files, is_behind, by_name = list_files(layout)
    number = files["file_id"].signed()
    follows = (number[1:] == number[:-1] + 1)[is_behind[1:]]
    yield Metric(NEXT_NUMBER, mean_or_none(follows), "files")
    yield Metric(CREATED_AS_LISTED, rising_share(*count_ascents(number, is_behind)), "files")
    if by_name is not None:
        yield Metric(CREATED_BY_NAME, rising_share(*count_ascents(number[by_name], is_behind)), "files")
    yield Metric(BORN_AS_LISTED, rising_share(*count_ascents(files["create_time"].signed(), is_behind)), "files")


AS_LISTED, BY_NAME, FOLDERS_FIRST = "hash", "alphabetical", "numbered"
"""Orders of creation, as priors name them: the order of listings, by name, and all folders before all files."""


def infer_creation_order(layout: VolumeLayout) -> str:
    """Infer the order in which the files of a volume were created; empty if their numbers do not show it.

    If folders are listed by name, the order of listings is that of names.
    """
    entries = layout.columns("entries")
    is_folder = entries["kind"].equals("directory")
    number = entries["file_id"].signed()
    is_own = number >= FIRST_USER_ID
    folders, others = number[is_folder & is_own], number[~is_folder & is_own]
    if len(folders) > 1 and len(others) and (others > np.quantile(folders, 0.99)).mean() > FIRST_SHARE:
        return FOLDERS_FIRST
    files, is_behind, by_name = list_files(layout)
    number = files["file_id"].signed()
    listed = excess_sigmas(*count_ascents(number, is_behind))
    named = listed if by_name is None else excess_sigmas(*count_ascents(number[by_name], is_behind))
    if max(listed, named) < CERTAIN_SIGMAS:
        return ""
    return AS_LISTED if listed > named + CERTAIN_SIGMAS else BY_NAME


def writing_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the transactions of the leaves of the enumerated tree; nothing if nodes record none."""
    tree = main_tree(layout)
    nodes = select_own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf") & nodes["key_rank"].is_known & nodes["xid"].is_known)
    if not len(leaves):
        return
    leaves = leaves.take(order_of(leaves["key_rank"].data))
    xid = leaves["xid"].signed()
    yield Metric(STREAMS, float(count_streams(xid[:STREAM_LEAVES])), tree)
    used, room = leaves["used_bytes"].filled(0), leaves["used_bytes"].filled(0) + leaves["free_bytes"].filled(0)
    oldest = np.argsort(xid, kind="stable")
    parts = zip(QUARTERS, np.array_split(oldest, len(QUARTERS)), strict=True)
    fills = [(name, float(used[part].sum() / max(room[part].sum(), 1))) for name, part in parts]
    yield Metric(FILL_BY_AGE, fills[-1][1], tree, tuple(fills))
    medians = [
        np.median(part)
        for part in np.split(leaves["image_offset"].signed()[oldest], np.flatnonzero(np.diff(xid[oldest])) + 1)
    ]
    yield Metric(BEHIND, float((np.diff(medians) > 0).mean()) if len(medians) >= MIN_TRANSACTIONS else None, tree)
    yield Metric(FILES_PER_TRANSACTION, files_per_transaction(layout, leaves), tree)


def count_streams(xid: I64) -> int:
    """Count the sequences of leaves that were written in key order.

    >>> count_streams(np.array([1, 1, 2, 9, 2, 9, 3]))
    2
    """
    # Each leaf continues the sequence with the newest last leaf that is not newer: a pile of patience sorting.
    tops: list[int] = []
    sizes: list[int] = []
    for number in (-xid).tolist():
        place = bisect_left(tops, number)
        if place == len(tops):
            tops.append(number)
            sizes.append(0)
        tops[place] = number
        sizes[place] += 1
    return int((np.array(sizes) >= MIN_STREAM_SHARE * len(xid)).sum())


def files_per_transaction(layout: VolumeLayout, leaves: Table) -> float | None:
    """Count the files per transaction, by the leaves of the inodes, for the median of the newest files."""
    entries = layout.columns("entries")
    files = entries.take(~entries["kind"].equals("directory"))
    number = files["file_id"].data
    place = find(leaves["row"].signed(), files["inode_node_row"].signed())
    newest = place[np.argsort(number, kind="stable")[-max(len(number) // 20, MIN_FILES) :]]
    _, shared = np.unique(leaves["xid"].data[newest[newest >= 0]], return_inverse=True)
    return float(np.median(np.bincount(shared)[shared])) if len(shared) else None
