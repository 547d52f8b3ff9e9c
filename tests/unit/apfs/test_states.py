"""States of a container: which one is shown, whether it is whole, and how many of its nodes are still valid."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.errors import TruncatedError
from layoutscope.filesystems.apfs.btree import read_omap
from layoutscope.filesystems.apfs.container import Container, _compare_copies, _report_truncation, report_changes
from layoutscope.filesystems.apfs.fsrecords import RecordTree
from layoutscope.filesystems.apfs.snapshots import (
    Snapshot,
    _count_mapped_nodes,
    _is_whole,
    describe_state,
    list_snapshots,
    no_such_state,
    snapshot_view,
)
from layoutscope.filesystems.apfs.volume import _flags
from layoutscope.findings import FindingLog
from layoutscope.structs import grammar
from layoutscope.tables import TextColumn
from tests.unit.apfs.toys import BLOCK, child, mapping, node, object_map, store_of, virtual

KINDS = grammar.ApfsObject.ObjectType
SUPERBLOCK, MAP = int(KINDS.nx_superblock), int(KINDS.checkpoint_map)


@pytest.mark.parametrize(
    ("ring", "wanted", "younger", "expected"),
    [
        ([(SUPERBLOCK, 19), (SUPERBLOCK, 20)], None, None, "live"),
        ([(SUPERBLOCK, 19), (SUPERBLOCK, 20)], 20, None, "live"),  # the newest one, by its number
        ([(SUPERBLOCK, 20), (SUPERBLOCK, 21)], 20, None, "xid 20"),
        ([(SUPERBLOCK, 20), (MAP, 21)], 20, None, "live"),  # a map is no state
        ([(SUPERBLOCK, 20), (SUPERBLOCK, 21)], 19, None, "live"),  # the number of a snapshot
        ([], 20, None, "live"),
        ([(SUPERBLOCK, 20)], None, (21, 0, "a part of its checkpoint is damaged"), "xid 20"),  # traces of a younger one
    ],
)
def test_what_the_state_that_was_opened_is_called(ring, wanted, younger, expected):
    """It is the state of transaction 20."""
    kind, xid = (np.array([each[place] for each in ring], np.int64) for place in (0, 1))
    area = SimpleNamespace(kind=kind, xid=xid.astype(np.uint64))
    assert describe_state(SimpleNamespace(area=area, xid=20, younger=younger), wanted) == expected


ROOT = [child(10, 3, 2), child(20, 4, 3)]
LEAVES = {2: node(2, [mapping(10, 3, 90)]), 3: node(3, [mapping(20, 4, 92)])}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({3: LEAVES[3][:-1] + b"\1"}, False),  # a damaged leaf
        ({1: node(1, [ROOT[0], child(20, 4, 50)], level=1, root=(2, 3))}, False),  # a missing leaf
    ],
)
def test_a_map_is_whole_with_all_nodes_that_it_leads_to(changed, expected):
    """A root in block 1 with two leaves; a map of one node is whole, and a lost map is not."""
    blocks = {1: node(1, ROOT, level=1, root=(2, 3)), **LEAVES}
    assert _is_whole(read_omap(store_of(blocks | changed), "omap", 1, 7)) == expected
    alone = {1: node(1, [mapping(10, 3, 90)], root=(1, 1))}
    assert _is_whole(read_omap(store_of(alone), "omap", 1, 7))
    assert not _is_whole(None)


def test_nodes_that_still_hold_are_counted():
    """Of seven objects, one is newer than the state, one damaged, one another object, one of another transaction.

    One is hidden and counts if it is referenced, one is after the end, and one is whole.
    """
    omap = object_map(
        (10, 7, 2), (11, 7, 3), (12, 7, 4), (13, 7, 5), (14, 7, 6), (15, 9, 7), (16, 7, 90),
        encrypted=[False, False, False, False, True, False, False],
    )  # fmt: skip
    blocks = {2: virtual(10), 3: virtual(11)[:-1] + b"\1", 4: virtual(99), 5: virtual(13, xid=6), 7: virtual(15, xid=9)}
    container = SimpleNamespace(blocks=store_of(blocks).blocks)
    assert _count_mapped_nodes(container, omap, 7) == (6, 2)
    assert _count_mapped_nodes(container, omap, 9) == (7, 3)
    assert _count_mapped_nodes(container, omap, 6) == (0, 0)
    # The former count if they are referenced; the latter are not verified and do not count.
    omap = object_map((10, 7, 2), (11, 7, 3), bare=[True, False], size=[BLOCK, 2 * BLOCK])
    container = SimpleNamespace(blocks=store_of({2: bytes(BLOCK), 4: bytes(BLOCK)}).blocks)
    assert _count_mapped_nodes(container, omap, 7) == (2, 1)


def records(*rows: tuple[str, int, int, int, int]) -> RecordTree:
    """Return snapshots: name, transaction, time, superblock and tree of extent references."""
    raw = [name.encode() for name, *_ in rows]
    names = TextColumn(np.frombuffer(b"".join(raw), np.uint8), np.array([len(name) for name in raw]))
    columns = (np.array(column, np.uint64) for column in list(zip(*rows, strict=True))[1:])
    fields = ("obj_id", "create_time", "sblock_oid", "extentref_tree_oid")
    return RecordTree({"snap_metadata": {"name": names, **dict(zip(fields, columns, strict=True))}})


def test_snapshots_are_in_order_and_fields_of_superblocks_are_located():
    """Snapshots in order, flags of an encryption, and fields of superblocks."""
    listed = list_snapshots(records(("before", 5, 1000, 70, 80), ("after", 9, 2000, 71, 81)))
    assert listed == [Snapshot("before", 5, 1000, 70, 80), Snapshot("after", 9, 2000, 71, 81)]
    assert [item.view for item in listed] == ["snapshot before", "snapshot after"]
    assert list_snapshots(RecordTree()) == []
    # Bits 0 and 1 are encrypting and decrypting (ERSB_FLAG_ENCRYPTING, ERSB_FLAG_DECRYPTING).
    assert _flags(0) == ["state unknown"]
    assert _flags(1) == ["encrypting"]
    assert _flags(3) == ["encrypting", "decrypting"]
    # The number of blocks is at byte 40 of the superblock.
    store = store_of({0: bytes(BLOCK)})
    container = SimpleNamespace(log=store.log, checkpoint=SimpleNamespace(paddr=3))
    for field in ("", "num_blocks"):
        Container.at_superblock(container, field).add("structure-invalid", "error", "words")
    assert [item.image_offset for item in store.log.findings] == [3 * BLOCK, 3 * BLOCK + 40]


@pytest.mark.parametrize(
    ("name", "xid", "expected"),
    [
        ("after", None, "snapshot after"),
        (None, 5, "snapshot before"),
        (None, 7, None),
        ("other", None, None),
        ("before", 20, "snapshot before"),  # the container's own transaction says nothing
        ("after", 5, None),
        ("after", 9, "snapshot after"),
    ],
)
def test_a_snapshot_is_found_by_name_and_by_transaction(monkeypatch, name, xid, expected):
    listed = [Snapshot("before", 5, 1000, 70, 80), Snapshot("after", 9, 2000, 71, 81)]
    monkeypatch.setattr("layoutscope.filesystems.apfs.snapshots.read_snapshots", lambda *_: listed)
    assert snapshot_view(SimpleNamespace(xid=20), SimpleNamespace(), name, xid) == expected


def test_what_is_there_in_place_of_a_state(monkeypatch):
    rows = [SimpleNamespace(kind="checkpoint", label="20"), SimpleNamespace(kind="snapshot", label="before")]
    monkeypatch.setattr("layoutscope.filesystems.apfs.snapshots.states_of", lambda _: rows)
    assert no_such_state(None, "x", None) == ("no snapshot 'x'. Choose from: checkpoint 20, snapshot before")
    assert no_such_state(None, None, 7).startswith("no state of transaction 7. ")


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, []),
        ({"xid": 19}, ["superblock-older"]),
        ({"xid": 21}, []),
        ({"uuid": b"b"}, ["structure-invalid"]),
        ({"len_block": 8192}, ["structure-invalid"]),
        ({"uuid": b"b", "xid": 19}, ["superblock-older", "structure-invalid"]),
    ],
)
def test_the_copy_in_block_0_is_compared(changed, codes):
    """It may be older than the checkpoint (transaction 20), but must not be of another container."""
    values = {"xid": 20, "uuid": b"a", "len_block": 4096}

    def superblock(xid, **others):
        return SimpleNamespace(hdr=SimpleNamespace(xid=xid), **others)

    log = FindingLog()
    _compare_copies(log, superblock(**values | changed), superblock(**values))
    assert [item.code for item in log.findings] == codes


@pytest.mark.parametrize(("after", "is_told"), [([20], False), ([20, 21], True), ([], True), (None, True)])
def test_a_container_that_changed_is_told(monkeypatch, after, is_told):
    """Its newest superblock was of transaction 20; then the image is cut, or has none."""

    def area_of(xids):
        return SimpleNamespace(
            kind=np.full(len(xids), SUPERBLOCK), xid=np.array(xids, np.uint64), paddr=np.arange(len(xids))
        )

    def read_area(*_):
        if after is None:
            raise TruncatedError("cut", structure="image", image_offset=0)
        return area_of(after)

    log = FindingLog()
    monkeypatch.setattr("layoutscope.filesystems.apfs.container.read_descriptor_area", read_area)
    container = SimpleNamespace(area=area_of([19, 20]), blocks=None, at_superblock=lambda: log.at("it", 0))
    report_changes(container)
    assert [item.code for item in log.findings] == ["container-changed"] * is_told
    for finding in log.findings:
        assert (finding.expected, finding.found) == ("20", str(max(after or [0])))


@pytest.mark.parametrize(("num_blocks", "is_told"), [(4, False), (5, True), (6, True)])
def test_a_container_that_is_larger_than_the_image_is_told(num_blocks, is_told):
    """It is reported if a whole block is missing, but not if only part of a block is."""
    store = store_of({3: bytes(BLOCK)})
    _report_truncation(store, (num_blocks,))
    found = [(item.code, item.image_offset, item.expected, item.found) for item in store.log.findings]
    assert found == [("truncated", 0, f"{num_blocks * BLOCK} bytes", f"{4 * BLOCK} bytes")] * is_told
