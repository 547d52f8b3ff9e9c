"""A volume's records and trees as a whole: streams, missing names, and claimed blocks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.contents import (
    VolumeParts,
    _is_live,
    account,
    is_deleted,
    list_devices,
    list_virtual_regions,
    list_volume_regions,
    num_missing_entries,
    stretches,
)
from layoutscope.filesystems.apfs.fsrecords import no_records
from layoutscope.filesystems.apfs.nodes import join, rows_of
from layoutscope.filesystems.apfs.omap import ObjectMap, view_at
from layoutscope.filesystems.apfs.source import TreeSource, locate_nodes
from layoutscope.filesystems.apfs.spaceman import Region
from layoutscope.findings import FindingLog
from tests.cases import for_each
from tests.unit.apfs.test_witnesses import COUNTS, DIRECTORY, FIFO, FILE, ROOT, SYMLINK, WHOLE, volume
from tests.unit.apfs.toys import BLOCK, mapping, node, object_map, store_of, virtual

REGULAR, FOLDER, LINK, PIPE = 8, 4, 10, 1
"""Types of directory records: DT_REG, DT_DIR, DT_LNK and DT_FIFO of POSIX."""


def count_missing(inodes, entries, *, has_errors=True, **declared) -> int:
    """Count the missing names of a volume whose entries are (parent, object, type)."""
    parts = volume(inodes, [parent for parent, *_ in entries], **COUNTS | declared)
    table = parts.fs.get("dir_rec")
    table["file_id"] = np.array([item for _, item, _ in entries], np.uint64)
    table["entry_type"] = np.array([kind for *_, kind in entries], np.uint8)
    parts.log.has_errors = has_errors
    return num_missing_entries(parts)


ENTRIES = [(2, 16, REGULAR), (2, 17, FOLDER), (17, 18, LINK)]


@for_each(
    "inodes, entries, more, missing",
    [
        (WHOLE, ENTRIES, {}, 0),
        ([(2, DIRECTORY, 1), *WHOLE[1:]], ENTRIES[1:], {}, 1),  # the file is not listed
        (WHOLE, ENTRIES[:2], {}, 1),  # the link is not listed
        ([ROOT, (16, FILE, 3), *WHOLE[2:]], ENTRIES, {}, 2),  # two of three hard links
        ([ROOT, (16, FILE, 3), *WHOLE[2:]], [*ENTRIES, (17, 16, REGULAR)], {}, 1),
        ([ROOT, (16, FILE, 1000), *WHOLE[2:]], ENTRIES, {}, 999),  # as many as the volume has objects
        ([ROOT, (16, FILE, 1001), *WHOLE[2:]], ENTRIES, {}, 0),  # more than that: the number itself is damaged
        ([ROOT, *WHOLE[2:]], ENTRIES, {}, 0),  # the inode is lost but its name exists
        ([(2, DIRECTORY, 1), *WHOLE[2:]], ENTRIES[1:], {}, 1),  # the inode and its name are lost
        ([ROOT, *WHOLE[2:]], ENTRIES, {"num_files": 4}, 3),  # one of four lost files has kept its name
        ([*WHOLE, (19, FIFO, 1)], [*ENTRIES, (17, 19, PIPE)], {"num_other_fsobjects": 1}, 0),
        (WHOLE[:3], ENTRIES, {}, 0),  # the inode of a link whose name exists
        ([ROOT, WHOLE[1], WHOLE[3]], ENTRIES, {}, 0),  # the inode of a directory whose name exists
        (WHOLE, [*ENTRIES, (17, 19, PIPE)], {"num_other_fsobjects": 2}, 1),
        (WHOLE, [*ENTRIES, (17, 3, REGULAR)], {"num_files": 2}, 1),  # number 3 is not a user's object
        (WHOLE, [*ENTRIES, (17, 19, REGULAR)], {"num_files": 2}, 0),
        ([(2, DIRECTORY, 2), (15, FILE, 5), *WHOLE[1:]], ENTRIES, {}, 0),  # neither is number 15
        ([(2, DIRECTORY, 1000 + 2), *WHOLE[1:]], ENTRIES, {}, 1000),  # as many entries as the volume has objects
        ([(2, DIRECTORY, 1001 + 2), *WHOLE[1:]], ENTRIES, {}, 0),
        (WHOLE, [(2, 17, FOLDER), (17, 18, LINK)], {"has_errors": False}, 0),  # the checks have reported it
        (WHOLE, ENTRIES, {"has_errors": False, "num_files": 3}, 2),
    ],
)
def test_names_that_inodes_directories_and_the_superblock_miss(inodes, entries, more, missing):
    """The root has a file and a directory, which contains a symbolic link."""
    assert count_missing(inodes, entries, **more) == missing


def test_files_without_links_wait_to_be_deleted():
    """A directory without children is empty, not deleted."""
    inodes = volume([(16, FILE, 0), (17, DIRECTORY, 0), (18, SYMLINK, 1)], []).fs.get("inode")
    assert is_deleted(inodes).tolist() == [True, False, False]


def runs(*pairs: tuple[int, int]):
    return np.array(pairs, np.int64).reshape(-1, 2)


MARK = 1 << 53


def container_of(blocks: int, second: int = 0):
    """Return the contents of a container whose space manager counts the blocks of both devices."""
    log = FindingLog(locate=lambda paddr: (paddr * BLOCK, 0))
    container = SimpleNamespace(
        device_blocks=(blocks, second), blocks=SimpleNamespace(block_size=BLOCK, tier2_mark=MARK), log=log
    )
    header = SimpleNamespace(devices=[SimpleNamespace(num_blocks=blocks), SimpleNamespace(num_blocks=second)])
    space = SimpleNamespace(header=header, free=runs((50, 10)))
    regions = [Region("some", "", 3, 2)]
    return SimpleNamespace(container=container, space=space, trees=[], lost=[], regions=regions, volumes=[])


def test_blocks_of_a_container_are_accounted():
    """Blocks of the devices of a set, and what claims them."""
    # Addresses of the second device start at its mark; a device has at most 2**44 blocks.
    assert list_devices(container_of(100)).tolist() == [[0, 100]]
    contents = container_of(2**44 + 1, 2**44 + 1)
    assert list_devices(contents).tolist() == [[0, 2**44], [MARK, 2**44]]
    contents.space = None
    assert list_devices(contents).tolist() == [[0, 2**44]]
    assert list_devices(container_of(100, 1)).tolist() == [[0, 100], [MARK, 1]]
    # Ten of 100 blocks are free; of the others, regions have 2, a lost root has 1 and the volume has 5.
    contents = container_of(100)
    contents.lost.append(rows_of("fs", {"paddr": np.array([70], np.uint64), "size_bytes": np.array([BLOCK])}))
    contents.volumes.append(claims_of([(10, 3)], [], [(20, 2)], []))
    assert sizes_of(account(contents)) == {
        "blocks": 100, "used blocks": 90, "free blocks": 10, "claimed blocks": 8, "unclaimed blocks": 82,
        "claimed but free blocks": 0,
    }  # fmt: skip
    # No block is known to be free.
    contents = container_of(100)
    contents.space = None
    contents.volumes.append(claims_of([(10, 3)], [], [], []))
    balance = account(contents)
    assert [balance[f"{kind} blocks"].tolist() for kind in ("free", "unclaimed")] == [[], [[0, 3], [5, 5], [13, 87]]]
    first, length = stretches(no_records("file_extent"), BLOCK)
    assert (len(first), len(length)) == (0, 0)


def sizes_of(balance):
    """Return the number of blocks of each set."""
    return {name: int(found[:, 1].sum()) for name, found in balance.items()}


def claims_of(nodes, regions, data, files):
    """Return a volume that claims runs of blocks."""
    four = [runs(*each) for each in (nodes, regions, data, files)]
    return SimpleNamespace(claims=four, claimed=np.concatenate(four))


def test_what_is_metadata_and_data_at_once_is_told():
    """Nodes are in 10 to 14, regions in 20, data in 14 and 15, files in 20 and in the container's own block 4.

    A node of the container is in 30 and 31, and data in 31 and 32.
    """
    contents = container_of(100)
    contents.trees.append(rows_of("omap", {"paddr": np.array([30], np.uint64), "size_bytes": np.array([2 * BLOCK])}))
    contents.volumes.append(claims_of([(10, 5)], [(20, 1)], [(14, 2), (31, 2)], [(20, 1), (4, 1)]))
    account(contents)
    assert [(item.code, item.image_offset) for item in contents.container.log.findings] == [
        ("block-claimed-twice", paddr * BLOCK) for paddr in (4, 14, 20, 31)
    ]


def test_roots_that_the_live_state_leads_to():
    """A file-system root is found by object map or address, the extent-reference tree by its number, others always.

    If the map has object 39 or 41, or nothing, in the block, but not root 40, the lost root is a snapshot's.
    """
    superblock = SimpleNamespace(root_tree_oid=40, extentref_tree_oid=50)
    for entry, tree, node_id, paddr, expected in (
        ((40, 7, 7), "fs", 40, 7, True),
        ((40, 7, 7), "fs", 40, 8, False),
        ((40, 7, 7), "fs", 40, 40, True),
        ((40, 7, 7), "extentref", 50, 50, True),
        ((40, 7, 7), "extentref", 51, 51, False),
        ((40, 7, 7), "snapmeta", 9, 9, True),
        ((39, 7, 8), "fs", 40, 8, False),
        ((41, 7, 8), "fs", 40, 8, False),
        ((40, 9, 8), "fs", 40, 0, False),
    ):
        state = SimpleNamespace(superblock=superblock, view=view_at(object_map(entry), 7))
        root = rows_of(tree, {"node_id": np.array([node_id], np.uint64), "paddr": np.array([paddr], np.uint64)})
        assert _is_live(root, state) == expected


def state_of(omap: ObjectMap, blocks: dict[int, bytes]):
    """Return a state whose map is in block 60, whose superblock is in block 61 and whose root is object 10."""
    superblock = SimpleNamespace(omap_oid=60, root_tree_oid=10)
    return SimpleNamespace(
        store=store_of(blocks), omap=omap, view=view_at(omap, 7), superblock=superblock, paddr=61, xid=7
    )


def test_regions_of_objects_that_no_tree_has():
    """Of five objects, one is a node that was read, one is deleted, one is outside, and one is hidden."""
    omap = object_map(
        (10, 7, 2), (11, 7, 3), (12, 7, 4), (13, 7, 90), (14, 7, 5),
        deleted=[False, True, False, False, False], encrypted=[False, False, False, False, True],
        size=[BLOCK, BLOCK, 2 * BLOCK, BLOCK, BLOCK],
    )  # fmt: skip
    state = state_of(omap, {2: virtual(10), 3: virtual(11), 4: node(12, [mapping(1, 1, 1)]), 5: bytes(BLOCK)})
    read = rows_of("fs", {"paddr": np.array([2], np.uint64)})
    regions = list_virtual_regions(state, [read, rows_of("fs")])
    assert [(item.type, item.owner, item.paddr, item.num_blocks) for item in regions] == [
        ("btree-node", "object 12, xid 7", 4, 2),
        ("locked", "object 14, xid 7", 5, 1),
    ]
    assert state.store.log.findings == []
    assert list_virtual_regions(state_of(object_map((10, 7, 2)), {2: virtual(10)}), [read]) == []
    # Object 10 has a wrong checksum; object 11 is of type 0x1234 (bytes 24 and 25).
    odd = bytearray(virtual(11))
    odd[24:26] = (0x1234).to_bytes(2, "little")
    store = {2: virtual(10)[:-1] + b"\1", 3: with_checksum(bytes(odd)), 4: virtual(12)}
    state = state_of(object_map((10, 7, 2), (11, 7, 3), (12, 7, 4)), store)
    list_virtual_regions(state, [rows_of("fs")])
    assert [(item.code, item.level, item.structure, item.image_offset) for item in state.store.log.findings] == [
        ("checksum-mismatch", "error", "virtual object 10", 2 * BLOCK),
        ("record-invalid", "warning", "virtual object 11", 3 * BLOCK),
    ]


def test_superblocks_of_all_states_are_regions():
    """Superblocks of the live state and of a snapshot give each block once; the first state that names it counts."""
    live = state_of(object_map((10, 7, 2)), {2: virtual(10)})
    snapshot = SimpleNamespace(xid=5, paddr=62)
    twice = SimpleNamespace(xid=4, paddr=62)
    claimed = [join("fs", [rows_of("fs", {"paddr": np.array([2], np.uint64)})])]
    regions = list_volume_regions(SimpleNamespace(), [live, snapshot, twice], claimed, [Region("other", "", 63)])
    assert sorted((item.paddr, item.type, item.owner) for item in regions) == [
        (60, "object-map", "volume object map"),
        (61, "volume-superblock", "live"),
        (62, "volume-superblock", "snapshot of xid 5"),
        (63, "other", ""),
    ]


def test_trees_count_once_and_missing_nodes_have_no_size():
    """Each tree of a volume counts once, keys open volumes, and missing nodes have no size."""
    # The live state's trees are in the views as well; trees of snapshots and lost trees are added.
    live, other, old, lost, gone = (rows_of("fs", {"paddr": np.array([number], np.uint64)}) for number in range(5))
    parts = SimpleNamespace(
        own_trees=lambda: [live], snapshot_extents=[SimpleNamespace(nodes=old)], lost=[lost], lost_of_snapshots=[gone],
        views={"live": live, "snapshot": other},
    )  # fmt: skip
    assert [int(nodes.paddr[0]) for nodes in VolumeParts._trees(parts)] == [0, 2, 3, 4, 1]
    # The map lacks node 11; its next object, 12, has 1,000 blocks, and node 10 is one block long, in block 3.
    store = store_of({2: bytes(BLOCK), 3: bytes(BLOCK)})
    view = view_at(object_map((10, 7, 3), (12, 7, 2), size=[BLOCK, 1000 * BLOCK]), 7)
    found = locate_nodes(TreeSource(store, "fs", 10, 7, view=view), np.array([10, 11], np.uint64))
    assert found.node_id.tolist() == [10]
    assert [item.message for item in store.log.findings] == ["no map knows this node"]
