"""States of a container: which one is shown, whether it is whole, and how many of its nodes are still valid."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.errors import FormatError, TruncatedError
from layoutscope.filesystems.apfs.btree import read_omap
from layoutscope.filesystems.apfs.container import Container, _compare_copies, _report_truncation, report_changes
from layoutscope.filesystems.apfs.fsrecords import RecordTree
from layoutscope.filesystems.apfs.nodes import rows_of
from layoutscope.filesystems.apfs.snapshots import (
    Snapshot,
    _checkpoint_state,
    _count_mapped_nodes,
    _is_whole,
    _snapshot_states,
    count_dropped_nodes,
    describe_state,
    list_snapshots,
    no_such_state,
    snapshot_view,
)
from layoutscope.filesystems.apfs.volume import _flags
from layoutscope.filesystems.contract import ReadableState
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


def test_nodes_without_header_and_of_several_blocks():
    """The former count if they are referenced; the latter are not verified and do not count."""
    omap = object_map((10, 7, 2), (11, 7, 3), bare=[True, False], size=[BLOCK, 2 * BLOCK])
    container = SimpleNamespace(blocks=store_of({2: bytes(BLOCK), 4: bytes(BLOCK)}).blocks)
    assert _count_mapped_nodes(container, omap, 7) == (2, 1)


def test_nodes_that_the_newest_state_has_given_up(monkeypatch):
    """None if nothing newer is given; one of two if a newer map has the other; both of a lost volume."""
    nodes = rows_of("fs", {"paddr": np.array([2, 3], np.uint64)})
    state = SimpleNamespace(number=1, superblock=SimpleNamespace(hdr=SimpleNamespace(oid=40)))
    newest = SimpleNamespace(store=store_of({0: bytes(BLOCK)}))

    def open_volume(*arguments):
        assert arguments[2:] == (40, 1)
        return SimpleNamespace(omap=SimpleNamespace(paddr=np.array([3, 9], np.uint64)))

    def lose_volume(*_):
        raise FormatError("lost", structure="volume superblock", image_offset=None)

    assert count_dropped_nodes(None, state, nodes) == {}
    for opened, expected in ((open_volume, 1), (lose_volume, 2)):
        monkeypatch.setattr("layoutscope.filesystems.apfs.snapshots.open_volume", opened)
        assert count_dropped_nodes(newest, state, nodes) == {"nodes given up since": expected}


def records(*rows: tuple[str, int, int, int, int]) -> RecordTree:
    """Return snapshots: name, transaction, time, superblock and tree of extent references."""
    raw = [name.encode() for name, *_ in rows]
    names = TextColumn(np.frombuffer(b"".join(raw), np.uint8), np.array([len(name) for name in raw]))
    columns = (np.array(column, np.uint64) for column in list(zip(*rows, strict=True))[1:])
    fields = ("obj_id", "create_time", "sblock_oid", "extentref_tree_oid")
    return RecordTree({"snap_metadata": {"name": names, **dict(zip(fields, columns, strict=True))}})


def test_snapshots_are_listed_in_their_order():
    listed = list_snapshots(records(("before", 5, 1000, 70, 80), ("after", 9, 2000, 71, 81)))
    assert listed == [Snapshot("before", 5, 1000, 70, 80), Snapshot("after", 9, 2000, 71, 81)]
    assert [item.view for item in listed] == ["snapshot before", "snapshot after"]
    assert list_snapshots(RecordTree()) == []


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


def test_flags_of_an_encryption_under_way():
    """Bits 0 and 1 are encrypting and decrypting (ERSB_FLAG_ENCRYPTING, ERSB_FLAG_DECRYPTING)."""
    assert _flags(0) == ["state unknown"]
    assert _flags(1) == ["encrypting"]
    assert _flags(3) == ["encrypting", "decrypting"]


def test_snapshots_that_are_lost_are_counted(monkeypatch):
    """One of three snapshots is listed; its map names two nodes, one of them still valid; another volume is lost."""
    name = "layoutscope.filesystems.apfs.snapshots"
    omap, store = object_map((10, 5, 2), (11, 5, 3)), store_of({0: bytes(BLOCK)})
    state = SimpleNamespace(name="Data", omap=omap, superblock=SimpleNamespace(num_snapshots=3))

    def open_volume(*arguments):
        if arguments[2] == 41:
            raise FormatError("lost", structure="volume superblock", image_offset=None)
        return state

    monkeypatch.setattr(f"{name}.open_volume", open_volume)
    monkeypatch.setattr(f"{name}.read_snapshots", lambda *_: [Snapshot("before", 5, 1000, 70, 80)])
    monkeypatch.setattr(f"{name}._count_mapped_nodes", lambda _, omap, xid: (len(omap.oid), 1) if xid == 5 else (0, 0))
    for is_whole, is_open in ((True, True), (True, False), (False, True)):
        monkeypatch.setattr(f"{name}._is_whole", lambda _, found=is_whole: found)
        monkeypatch.setattr(f"{name}._is_open", lambda *_, found=is_open: found)
        superblock = SimpleNamespace(fs_oid=[40, 41])
        assert _snapshot_states(SimpleNamespace(store=store, superblock=superblock)) == [
            ReadableState("snapshot", "before", 5, "Data", 1000, is_whole and is_open, 2, 1),
            ReadableState("snapshot", "2 lost", 0, "Data", 0, False, 0, 0),
            ReadableState("snapshot", "unknown", 0, "volume 2", 0, False, 0, 0),
        ]
    container = SimpleNamespace(store=store, superblock=superblock)
    for count, labels in ((1, ["before", "unknown"]), (2, ["before", "1 lost", "unknown"])):
        state.superblock.num_snapshots = count
        assert [row.label for row in _snapshot_states(container)] == labels


@pytest.mark.parametrize(
    ("errors", "num_volumes", "is_whole", "expected"),
    [((), 2, True, True), (("damage",), 2, True, False), ((), 1, True, False), ((), 2, False, False)],
)
def test_a_checkpoint_is_whole_with_its_volumes_and_their_maps(monkeypatch, errors, num_volumes, is_whole, expected):
    """Both slots have a volume; four of the five nodes that each map names are valid. The later change is reported."""
    name = "layoutscope.filesystems.apfs.snapshots"
    volumes = [
        (SimpleNamespace(volname=title + b"\0", last_mod_time=time), 60) for title, time in ((b"A", 9), (b"B", 5))
    ]
    monkeypatch.setattr(f"{name}.checkpoints.open_checkpoint", lambda *_: (None, errors))
    monkeypatch.setattr(f"{name}.volumes_at", lambda *_: volumes[:num_volumes])
    monkeypatch.setattr(f"{name}.read_map_at", lambda *_: "map")
    monkeypatch.setattr(f"{name}._count_mapped_nodes", lambda *_: (5, 4))
    monkeypatch.setattr(f"{name}._is_whole", lambda _: is_whole)
    superblock = SimpleNamespace(hdr=SimpleNamespace(xid=20), fs_oid=[40, 0, 41])
    state = _checkpoint_state(SimpleNamespace(store=None, area=None), 3, superblock)
    names = ", ".join("AB"[:num_volumes])
    assert state == ReadableState("checkpoint", "20", 20, names, 9, expected, 5 * num_volumes, 4 * num_volumes)


def test_a_checkpoint_without_a_map_counts_no_nodes(monkeypatch):
    name = "layoutscope.filesystems.apfs.snapshots"
    monkeypatch.setattr(f"{name}.checkpoints.open_checkpoint", lambda *_: (None, ()))
    monkeypatch.setattr(f"{name}.volumes_at", lambda *_: [(SimpleNamespace(volname=b"A", last_mod_time=9), 60)])
    monkeypatch.setattr(f"{name}.read_map_at", lambda *_: None)
    superblock = SimpleNamespace(hdr=SimpleNamespace(xid=20), fs_oid=[40])
    state = _checkpoint_state(SimpleNamespace(store=None, area=None), 3, superblock)
    assert state == ReadableState("checkpoint", "20", 20, "A", 9, False, 0, 0)


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


def test_findings_about_a_superblock_are_at_its_fields():
    """The number of blocks is at byte 40 of the superblock."""
    store = store_of({0: bytes(BLOCK)})
    container = SimpleNamespace(log=store.log, checkpoint=SimpleNamespace(paddr=3))
    for field in ("", "num_blocks"):
        Container.at_superblock(container, field).add("structure-invalid", "error", "words")
    assert [item.image_offset for item in store.log.findings] == [3 * BLOCK, 3 * BLOCK + 40]
