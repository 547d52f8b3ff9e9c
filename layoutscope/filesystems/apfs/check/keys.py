"""Whole keys of every tree: they ascend, and each index record leads to a node that begins with its key or after it.

Apple File System Reference, B-Trees and File-System Objects. While a tree is read, only the leading part of its keys
is compared; here hashes, names and numbers that follow are too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import Index, index_of
from layoutscope.filesystems.apfs.check.nodes import TreeNodes
from layoutscope.filesystems.apfs.check.record_fields import check_records
from layoutscope.filesystems.apfs.check.rows import traits_of
from layoutscope.filesystems.apfs.check.states import snapshot_sources
from layoutscope.filesystems.apfs.check.subject import MOST_CASES, InodeNotes, container_sources, volume_sources
from layoutscope.filesystems.apfs.store.btree import children_of
from layoutscope.filesystems.apfs.store.source import low_keys
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.ondisk import grammar, records
from layoutscope.ondisk.records import BTREE_NODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.filesystems.apfs.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import RecordColumn, RecordType

UNORDERED: Final = "keys-unordered"
RECORD: Final = grammar.ApfsRecord.RecordType
SECOND: Final = {
    "omap": records.OMAP_KEY.xid,
    "container-omap": records.OMAP_KEY.xid,
    "spaceman": records.FREE_QUEUE_KEY.paddr,
    "fext": records.FEXT_KEY.logical_addr,
}
"""The field that decides where the leading one is the same, in trees of one kind of record."""

NUMBERED: Final[dict[str, tuple[RecordType, RecordColumn]]] = {
    "file_extent": (records.FILE_EXTENT_KEY, records.FILE_EXTENT_KEY.logical_addr),
    "sibling_link": (records.SIBLING_KEY, records.SIBLING_KEY.sibling_id),
    "file_info": (records.FILE_INFO_KEY, records.FILE_INFO_KEY.lba),
}
"""The same for records of volumes."""

NAMED: Final = {"xattr": records.XATTR_KEY, "snap_name": records.SNAP_NAME_KEY, "dir_rec": records.DREC_KEY}
"""Records whose keys end with a name."""


class WholeKeys(NamedTuple):
    """Keys of consecutive records: two numbers that sort as the tree does, where the rest is, and each one's address.

    `name` is the place of the name in the buffer, `stop` where the key ends; equal where there is none. `child` is the
    node that an index record leads to.
    """

    lead: NDArray[np.uint64]
    second: NDArray[np.uint64]
    name: NDArray[np.int64]
    stop: NDArray[np.int64]
    image_offset: NDArray[np.int64]
    child: NDArray[np.uint64]


@dataclass(slots=True)
class Level:
    """Keys of one level of a tree: those of the level above with the nodes that they lead to, and what was seen."""

    above: WholeKeys | None = None
    children: Index = field(default_factory=lambda: index_of(np.empty(0, np.uint64)))
    own: list[WholeKeys] = field(default_factory=list)
    number: int = -1
    last: tuple[int, int, bytes] | None = None

    def enter(self, number: int) -> None:
        """Go down to a level."""
        if number != self.number:
            if self.own:
                self.above = WholeKeys(*(np.concatenate(column) for column in zip(*self.own, strict=True)))
                self.children = index_of(self.above.child)
            self.own, self.number, self.last = [], number, None


def check_container_keys(subject: Subject) -> None:
    """Compare all keys of the container's own trees."""
    for source in container_sources(subject):
        check_tree(subject, source)


def check_keys(subject: Subject) -> None:
    """Compare all keys of a volume's trees."""
    for parts in subject.volumes:
        for source in volume_sources(subject, parts):
            check_tree(
                subject, source, parts.state, notes=_notes(subject, parts, parts.view) if source.tree == "fs" else None
            )
        # States of a volume share most of their leaves; each is looked at once.
        known = parts.fs.nodes.paddr
        for view, state, source in snapshot_sources(subject, parts):
            check_tree(subject, source, state, known=known, notes=_notes(subject, parts, view))
            known = np.union1d(known, parts.views[view].paddr)


def _notes(subject: Subject, parts: VolumeParts, view: str) -> InodeNotes:
    return subject.inodes.setdefault((parts.state.number, view), InodeNotes())


def check_tree(
    # the container under check; its log is told which keys are out of order and which nodes are empty
    subject: Subject,
    source: TreeSource,
    state: Volume | None = None,
    known: NDArray[np.uint64] | None = None,
    notes: InodeNotes | None = None,
) -> None:
    """Compare the keys of one tree, level by level."""
    traits = traits_of(state)
    level, nodes = Level(), TreeNodes(subject)
    for batch in read_levels(source, known=known):
        level.enter(batch.level)
        keys = whole_keys(batch, hashed_names=traits.hashed_names)
        _check_order(subject, batch, keys, level)
        _check_bounds(subject, batch, keys, level)
        _check_empty(subject, batch)
        nodes.add(batch)
        check_records(subject, batch, traits, notes)
        if batch.level:
            level.own.append(keys)
        if len(keys.lead):
            level.last = _whole(batch.buffer, keys, -1)
    nodes.close()


def whole_keys(batch: ReadNodes, *, hashed_names: bool) -> WholeKeys:
    """Decode the keys of a batch of nodes."""
    source, slots = batch.tree.source, batch.slots
    # Whole keys do not sort by their bytes: numbers are little-endian, and the type of a record stands above its
    # object's number in one field, but counts after it (reference, j_key_t).
    lead = low_keys(source, batch.buffer, slots.key_start)
    second, name = np.zeros(len(slots), np.uint64), slots.key_start + slots.key_len
    if source.kind.key_type is records.J_KEY:
        _volume_keys(batch, second, name, hashed_names=hashed_names)
    elif source.tree in SECOND:
        second = batch.column("key", source.kind.key_type, SECOND[source.tree])
    within = slots.key_start - slots.node * batch.size_bytes
    where = source.blocks.image_offset(batch.places.paddr[slots.node]) + within
    child = np.zeros(len(slots), np.uint64)
    if batch.level:
        child[slots.val_len >= batch.tree.shape.sizes.child] = children_of(batch)[1]
    return WholeKeys(lead, second, name, slots.key_start + slots.key_len, where, child)


def _volume_keys(batch: ReadNodes, second: NDArray[np.uint64], name: NDArray[np.int64], *, hashed_names: bool) -> None:
    """Fill in what follows object and type in keys of file-system records."""
    slots = batch.slots
    kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
    forms = dict(NUMBERED)
    if hashed_names:
        # The length in the lower bits does not count, neither for linux-apfs-rw nor for apfsck.
        forms["dir_rec"] = (records.DREC_HASHED_KEY, records.DREC_HASHED_KEY.name_hash)
    for record, (key_type, column) in forms.items():
        rows = _of_kind(kinds, slots.key_len, record, key_type)
        second[rows] = batch.tree.source.decoder.column(key_type, batch.buffer, slots.key_start[rows], column)
    for record, plain in NAMED.items():
        form = records.DREC_HASHED_KEY if record in forms else plain
        rows = _of_kind(kinds, slots.key_len, record, form)
        name[rows] = slots.key_start[rows] + form.width


def _of_kind(
    kinds: NDArray[np.uint64], length: NDArray[np.int32], record: str, key_type: RecordType
) -> NDArray[np.int64]:
    return np.flatnonzero((kinds == int(RECORD[record])) & (length >= key_type.width))


def _whole(buffer: NDArray[np.uint8], keys: WholeKeys, row: int) -> tuple[int, int, bytes]:
    name = buffer[int(keys.name[row]) : int(keys.stop[row])].tobytes()
    return int(keys.lead[row]), int(keys.second[row]), name


def _check_order(subject: Subject, batch: ReadNodes, keys: WholeKeys, level: Level) -> None:
    """Each key comes after the one before it."""
    if not len(keys.lead):
        return
    before, after = (keys.lead[:-1], keys.second[:-1]), (keys.lead[1:], keys.second[1:])
    same = (before[0] == after[0]) & (before[1] == after[1])
    wrong = (after[0] < before[0]) | ((after[0] == before[0]) & (after[1] < before[1]))
    pairs = [(row + 1, _whole(batch.buffer, keys, row), _whole(batch.buffer, keys, row + 1)) for row in _rows(same)]
    if level.last is not None:
        pairs.insert(0, (0, level.last, _whole(batch.buffer, keys, 0)))
    rows = sorted(
        {row + 1 for row in _rows(wrong)} | {row for row, *both in pairs if _falls(batch.tree.source.tree, *both)}
    )
    for row in rows[:MOST_CASES]:
        _at_key(subject, batch, row).add(UNORDERED, "warning", "key is out of order")
    ties = [row for row, one, other in pairs if one[:2] == other[:2] and other[2] < one[2] and row not in rows]
    for row in ties[:MOST_CASES]:
        message = "of names with one hash, this one stands after one with greater bytes"
        _at_key(subject, batch, row).add(UNORDERED, "info", message)


def _rows(chosen: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(chosen).tolist()


def _falls(tree: str, one: tuple[int, int, bytes], other: tuple[int, int, bytes]) -> bool:
    """Tell whether a key is not after the one before it.

    Names of one hash may stand in any order: apfsck asks for that of their bytes, while linux-apfs-rw leaves them as
    they were created and finds them by the hash alone. What macOS does is not documented.
    """
    is_hashed = one[1] != 0 or tree not in {"fs", "snapmeta"}
    return other == one if is_hashed and other[:2] == one[:2] else other <= one


def _check_bounds(subject: Subject, batch: ReadNodes, keys: WholeKeys, level: Level) -> None:
    """The first key of a node is not before the key that leads to it."""
    if level.above is None:
        return
    lead, second, where = level.above.lead, level.above.second, level.above.image_offset
    firsts = np.flatnonzero(np.diff(batch.slots.node, prepend=-1) != 0)
    node = batch.slots.node[firsts]
    entry, known = level.children.find(batch.places.node_id[node])
    known &= lead[entry] == batch.places.low_key[node]
    firsts, node, entry = firsts[known], node[known], entry[known]
    wrong = (keys.lead[firsts] < lead[entry]) | (
        (keys.lead[firsts] == lead[entry]) & (keys.second[firsts] < second[entry])
    )
    # Drivers keep the keys of an index exact (apfsck asks for that), though a search needs no more than a bound.
    other = ~wrong & ((keys.lead[firsts] != lead[entry]) | (keys.second[firsts] != second[entry]))
    for chosen, message in (
        (wrong, "the key that leads to it is after its first key"),
        (other, "the key that leads to it is not its first key"),
    ):
        for number, row in zip(node[chosen].tolist(), entry[chosen].tolist(), strict=True):
            log = batch.at(number, log=subject.log)
            # The finding is about the node; the key that may be wrong stands in its parent.
            at = log.at_byte(log.structure, int(where[row]), log.device)
            at.add(UNORDERED, "warning", message)


def _check_empty(subject: Subject, batch: ReadNodes) -> None:
    """No node but a root is empty: a driver gives it back."""
    wrong = batch.check.is_sound & (batch.head["num_keys"] == 0) & (batch.places.parent >= 0)
    for number in np.flatnonzero(wrong)[:MOST_CASES].tolist():
        at = number * batch.size_bytes + BTREE_NODE.num_keys.offset
        log = batch.at(number, at, log=subject.log)
        log.add("node-header-differs", "error", "a node that is no root is empty")


def _at_key(subject: Subject, batch: ReadNodes, row: int) -> FindingLog:
    return batch.at(int(batch.slots.node[row]), int(batch.slots.key_start[row]), log=subject.log)
