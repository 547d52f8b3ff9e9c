"""Which records are missing where part of a tree cannot be read.

Apple File System Reference, B-Trees: an index record leads to a node whose keys begin with its own and end before the
next record's. So the objects are known whose records may be missing, even though nothing of the node can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CHILD_VAL, J_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.fsrecords import RecordTables
    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.findings import FindingLog

NO_LIMIT: Final = 2**64 - 1
MOST_NAMED: Final = 10
MOST_LISTED: Final = 100


class Entries(NamedTuple):
    """Index records of one level: first key of what they lead to, the child, and where they say so."""

    low: NDArray[np.uint64]
    child: NDArray[np.uint64]
    image_offset: NDArray[np.int64]
    device: NDArray[np.uint8]


@frozen
class Loss:
    """A subtree that cannot be read."""

    node_id: int  # its topmost node
    level: int  # level of that node, 0 at the leaf
    # low, high: its keys are from `low` to before `high`, as `low_keys` counts
    low: int
    high: int
    # image_offset, device: the index record's value that leads to it
    image_offset: int
    device: int


def find_losses(source: TreeSource) -> tuple[list[Loss], bool]:
    """Read a tree once more and list the subtrees that are missing; also whether its root could be read."""
    losses: list[Loss] = []
    above: list[Entries] = []
    own: list[Entries] = []
    sound: list[NDArray[np.uint64]] = []
    level = -1
    for batch in read_levels(source.apart()):
        if batch.level != level:
            losses += _missing(above, sound, level)
            above, own, sound, level = own, [], [], batch.level
        sound.append(batch.places.node_id[batch.check.is_sound])
        if batch.level:
            own.append(_entries(batch))
    losses += _missing(above, sound, level)
    if level > 0:
        # The walk ends early where a whole level is missing.
        losses += _missing(own, [], level - 1)
    return losses, bool(level >= 0 and (above or any(len(part) for part in sound)))


def _entries(batch: ReadNodes) -> Entries:
    source, slots = batch.tree.source, batch.slots
    oid = batch.column("val", CHILD_VAL, CHILD_VAL.oid)
    if batch.tree.shape.is_hashed:
        oid = oid + np.uint64(source.root_oid)
    paddr = batch.places.paddr[slots.node]
    within = slots.val_start - slots.node * batch.size_bytes
    where = source.blocks.image_offset(paddr) + within + CHILD_VAL.oid.offset
    return Entries(batch.keys, oid, where, source.blocks.split(paddr)[0])


def _missing(above: list[Entries], sound: list[NDArray[np.uint64]], level: int) -> list[Loss]:
    if not above:
        return []
    low, child, where, device = (np.concatenate(column) for column in zip(*above, strict=True))
    known = np.concatenate([np.empty(0, np.uint64), *sound])
    rows = np.flatnonzero(~np.isin(child, known))
    # What an index record leads to ends where the next one begins; nothing says where the last one ends.
    high = np.append(low[1:], np.uint64(NO_LIMIT))
    columns = (child[rows], low[rows], high[rows], where[rows], device[rows])
    return [
        Loss(node, level, a, b, at, dev) for node, a, b, at, dev in zip(*(c.tolist() for c in columns), strict=True)
    ]


def report_losses(source: TreeSource, records: RecordTables | None, log: FindingLog) -> None:
    """Say of every missing subtree of a tree what it held."""
    tell_losses(find_losses(source)[0], source, records, log)


def tell_losses(losses: list[Loss], source: TreeSource, records: RecordTables | None, log: FindingLog) -> None:
    """Say of missing subtrees of a tree, as :func:`find_losses` lists them, what they held."""
    for loss in losses[:MOST_LISTED]:
        what = _objects(source, loss, records)
        name = f"{source.tree} tree, node {loss.node_id}"
        message = f"what it holds is missing: {what}"
        log.at_byte(name, loss.image_offset, loss.device).add("subtree-missing", "error", message)
    if len(losses) > MOST_LISTED:
        further = losses[MOST_LISTED]
        message = f"{len(losses) - MOST_LISTED:,} further subtrees are missing"
        log.at_byte(f"{source.tree} tree", further.image_offset, further.device).add(
            "subtree-missing", "error", message
        )


def _objects(source: TreeSource, loss: Loss, records: RecordTables | None) -> str:
    if source.kind.key_type is not J_KEY:
        low, high = loss.low, loss.high
        return f"keys from {low}" + ("" if high == NO_LIMIT else f" to {high}")
    # The number of a record's type stands in the low bits of the sorting number.
    low, high = loss.low >> 4, loss.high >> 4
    text = f"objects from {low}" + ("" if loss.high == NO_LIMIT else f" to {high}")
    return text + _known(low, high, records) if records is not None else text


def _known(low: int, high: int, records: RecordTables) -> str:
    """Name the files and directories in a range of numbers that directory entries elsewhere still name."""
    drecs: dict[str, Any] = records.get("dir_rec")
    if "file_id" not in drecs:
        return ""
    inside = (drecs["file_id"] >= np.uint64(low)) & (drecs["file_id"] <= np.uint64(high))
    kind = int(grammar.ApfsInode.ModeFormat.directory) >> 12
    directories = np.unique(drecs["file_id"][inside & (drecs["entry_type"] == kind)])
    others = int(inside.sum()) - len(directories)
    numbers = ", ".join(str(number) for number in directories[:MOST_NAMED].tolist())
    more = " and more" if len(directories) > MOST_NAMED else ""
    named = f" ({numbers}{more})" if numbers else ""
    return f"; entries elsewhere name {len(directories)} directories{named} and {others} other files there"
