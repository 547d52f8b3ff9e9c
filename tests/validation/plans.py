"""Plans of aged volumes without a preserved image, placed by the package's model of aging.

A file set is created on an empty volume, and a share of it is replaced repeatedly. Trees, free blocks and transactions
are those of `layoutscope.aging`; only the files, the size of the volume and its start are defined here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fixtures.fileset import populate, replaced, sizes
from layoutscope.aging.apfs import CHUNK_BLOCKS, MAP_BYTES, TREES, read_apfs
from layoutscope.aging.apfs import POLICIES as APFS_POLICIES
from layoutscope.aging.hfsplus import POLICIES as HFSPLUS_POLICIES
from layoutscope.aging.hfsplus import read_hfsplus
from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import RECORDS, AgingEntries, Cycle, plan_cycle
from layoutscope.tables import NULL_ROW, Values, VolumeFacts, VolumeLayout, build_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fixtures.fileset import FileSet, Population
    from layoutscope.aging.volume import AgingVolume, Policy
    from layoutscope.tables import Table

    I64 = NDArray[np.int64]

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
BLOCK: Final = 4096


@dataclass(frozen=True)
class Placement:
    """How a driver places data on one volume; each parameter that differs from the package's has a reason."""

    name: str
    filesystem: str
    volume_bytes: int
    data_offset: int  # first byte available to files, or to nodes of APFS
    policy: Policy
    reasons: tuple[tuple[str, str], ...]
    # catalog_offset, catalog_bytes, clump_bytes, node_bytes: start, initial size, growth step and node size of the
    # catalog
    catalog_offset: int = 0
    catalog_bytes: int = 0
    clump_bytes: int = 0
    node_bytes: int = BLOCK
    is_apart: bool = False  # whether APFS nodes are in the last chunk of the container, else among the data
    # creates_per_transaction, fresh_share: files created per transaction, and the share of a leaf that stays left of a
    # split during creation, where they differ from those during replacement
    creates_per_transaction: int = 0
    fresh_share: float = 0.0

    def state_reasons(self) -> list[str]:
        """Return the reasons: first for the values given here, then the package's assumptions about the driver."""
        return [f"{name}: {why}" for name, why in self.reasons] + [
            f"assumed: {why}" for why in self.policy.assumes.values()
        ]


LINUX_HFSPLUS: Final = Placement(
    name="linux-hfsplus",
    filesystem="hfsplus",
    volume_bytes=1024 * GIB,
    data_offset=901 * MIB,
    policy=HFSPLUS_POLICIES["linux"],
    catalog_offset=327 * MIB,
    catalog_bytes=294 * MIB,
    clump_bytes=294 * MIB,
    node_bytes=8 * KIB,
    reasons=(
        ("catalog_offset", "where the driver-made volumes of 1 TiB have it"),
        ("clump_bytes", "newfs_hfs: table of clumps by volume size, 294 MiB at 1 TiB"),
        ("data_offset", "behind bitmap, extents and attributes file of such a volume"),
    ),
)

MACOS_HFSPLUS: Final = Placement(
    name="macos-hfsplus",
    filesystem="hfsplus",
    volume_bytes=1000 * 10**9,
    data_offset=4 * GIB,
    policy=HFSPLUS_POLICIES["macos"],
    catalog_offset=356 * MIB,
    catalog_bytes=4 * 294 * MIB,
    clump_bytes=294 * MIB,
    node_bytes=8 * KIB,
    reasons=(
        ("catalog_offset", "behind bitmap, extents and attributes file in the metadata zone (hfs_metadatazone_init)"),
        ("catalog_bytes", "Apple's hfs allocates special files in the metadata zone: clumps follow each other there"),
        ("clump_bytes", "newfs_hfs: table of clumps by volume size, 294 MiB at 1 TB"),
        ("data_offset", "behind the metadata zone, which has a few GiB on such a volume"),
    ),
)

LINUX_APFS_INTERLEAVED: Final = Placement(
    name="linux-apfs-interleaved",
    filesystem="apfs",
    volume_bytes=1024 * GIB,
    data_offset=216_084_480,
    policy=APFS_POLICIES["linux"],
    creates_per_transaction=10_000,
    fresh_share=0.67,
    reasons=(
        ("data_offset", "first free block of the driver-made containers of 1 TiB"),
        ("creates_per_transaction", "transaction ids of the driver-made images: 200,000 files in 20"),
        ("fresh_share", "leaves of the fresh driver-made images: 0.70 full with 20,000 files, 0.68 with 200,000"),
        ("is_apart", "the variant of the driver that allocates nodes as data"),
    ),
)

LINUX_APFS: Final = replace(
    LINUX_APFS_INTERLEAVED,
    name="linux-apfs",
    volume_bytes=1 * GIB,
    data_offset=4_182_016,
    is_apart=True,
    reasons=(
        ("data_offset", "first free block of the driver-made containers of 1 GiB"),
        ("creates_per_transaction", "transaction ids of the driver-made images: 200,000 files in 20"),
        ("fresh_share", "leaves of the fresh driver-made images: 0.70 full with 20,000 files, 0.68 with 200,000"),
        ("is_apart", "linux-apfs-rw allocates nodes from the last chunk, upwards, then from the one before"),
    ),
)

MACOS_APFS: Final = Placement(
    name="macos-apfs",
    filesystem="apfs",
    volume_bytes=1000 * 10**9,
    data_offset=256 * MIB,
    policy=APFS_POLICIES["macos"],
    reasons=(
        ("data_offset", "assumed: behind the internal pool of the space manager"),
        ("is_apart", "the 2019 article: metadata are stored alongside the file data"),
    ),
)

ROOT_NUMBERS: Final = {"hfsplus": (1, 2, 16), "apfs": (1, 2, 15)}
"""Numbers that a new volume has used: the root's parent, the root, and the last reserved one."""

FIRST_NODE_ID: Final = 1026
"""Lowest virtual object id of a volume's nodes; lower ones belong to the container."""

ROOT_RECORD_BYTES: Final = (2 + 8 + 10 + 8) + (2 + 8 + 8 + 88) - 2 * 2
"""Thread and folder record of a catalog's root, named ``root``, without their offsets (TN1150, Catalog File)."""

NOTHING: Final = np.empty(0, np.int64)
ROOT: Final = 1
"""Index of the root among them."""


def aging(
    file_set: FileSet,
    placement: Placement,
    ages: Sequence[int],
    *,
    keep_cycles: int = 0,
    has_temporary_names: bool = True,  # whether files are replaced under another name first, or deleted first
) -> Iterator[VolumeLayout]:
    """Yield the states of a volume at the given ages in cycles, the youngest first."""
    population = populate(file_set)
    layout = _new_layout(placement, _entries(population, ROOT_NUMBERS[placement.filesystem]))
    volume = _created(placement, population)
    volume.keep_cycles = keep_cycles
    for cycle in range(max(ages) + 1):
        if cycle:
            _replace_files(volume, population, cycle, has_temporary_names=has_temporary_names)
        if cycle in ages:
            yield build_aged_layout(layout, volume)


def _created(placement: Placement, population: Population) -> AgingVolume:
    """Create all objects of a population on an empty volume, in order of their turns."""
    usual = placement.policy
    policy = replace(
        usual,
        files_per_transaction=placement.creates_per_transaction or usual.files_per_transaction,
        leaf_keep=placement.fresh_share or usual.leaf_keep,
    )
    volume: Any
    if placement.filesystem == "apfs":
        volume = read_apfs(_new_layout(placement, _root_entry(name_row=0, thread_row=None)), policy)
        volume.is_apart = placement.is_apart
    else:
        volume = read_hfsplus(_new_layout(placement, _root_entry(name_row=1, thread_row=1)), policy)
    volume.numbers = np.array(ROOT_NUMBERS[placement.filesystem])
    first = volume.next_ident = len(volume.numbers)
    volume.cursor = placement.data_offset // BLOCK
    ident = np.where(population.turn > 0, first - 1 + population.turn, ROOT)
    rank = population.name_rank if placement.filesystem == "hfsplus" else population.hash_rank
    for order in _phases(population):
        new = AgingEntries(
            source=order,
            parent=ident[population.parent[order]],
            ident=ident[order],
            place=rank[order],
            letters=population.name_length[order],
            size_bytes=sizes(population, 0)[order],
            is_directory=population.is_directory[order],
            is_file=~population.is_directory[order],
            seat=population.turn[order],
            has_sibling=np.zeros(len(order), bool),
            keys={},
        )
        volume.follow(
            Cycle(
                old=volume.entries.take(NOTHING),
                old_turn=NOTHING,
                new=new,
                is_replaced=np.zeros(len(new), bool),
                kept=volume.entries,
                num_turns=len(new),
                next_ident=int(ident.max()) + 1,
            )
        )
    volume.policy = usual
    tree = volume.trees[volume.main]
    volume.trees[volume.main] = replace(tree, leaf=replace(tree.leaf, keep_share=usual.leaf_keep))
    # A replaced file takes another number of blocks.
    volume.a_file = None
    return volume  # type: ignore[no-any-return]


def _phases(population: Population) -> list[I64]:
    """Return the groups to create: if all directories come before all files, trees grow at two places."""
    order = np.argsort(population.turn)[1:]
    is_directory = population.is_directory[order]
    return [order[is_directory], order[~is_directory]] if population.file_set.order == "numbered" else [order]


def _replace_files(volume: Any, population: Population, cycle: int, *, has_temporary_names: bool) -> None:
    """Replace the files that a cycle draws, in its order, with its drawn sizes."""
    files = volume.entries.is_file
    turn = np.full(len(population), len(population))
    chosen = replaced(population, cycle)
    turn[chosen] = np.arange(len(chosen))
    # A cycle writes files in order of their seats.
    volume.entries.seat = np.where(files, turn[volume.entries.source], -1)
    rng = np.random.default_rng([population.file_set.seed, cycle])
    work = np.arange(len(chosen)), NOTHING, NOTHING
    if has_temporary_names:
        volume.change(work, rng)
    else:
        planned = plan_cycle(volume.entries, work, volume.next_ident, volume.policy.ids_per_file, rng)
        volume.follow(replace(planned, is_replaced=np.zeros(len(chosen), bool)))


def _entries(population: Population, numbers: tuple[int, ...]) -> dict[str, Any]:
    """Return the columns of all objects without places; numbers are assigned in order of the turns."""
    number = np.where(population.turn > 0, numbers[-1] + population.turn, numbers[ROOT])
    parent = number[population.parent]
    parent[0] = numbers[0]
    names = population.name.astype("S40")
    names[0] = b"root"
    return {
        "parent_id": parent,
        "file_id": number,
        "name": [name.decode() for name in names.tolist()],
        "name_raw": names.tolist(),
        "kind": (np.where(population.is_directory, 0, 1), ("directory", "file")),
        "size_bytes": 0,
        "entry_rank": 0,
        "valence": np.zeros(len(population), np.int64),
    }


def _root_entry(name_row: int, thread_row: int | None) -> dict[str, Any]:
    return {
        "parent_id": np.array([1]),
        "file_id": np.array([2]),
        "name": ["root"],
        "name_raw": [b"root"],
        "kind": (np.zeros(1, np.int64), ("directory", "file")),
        "size_bytes": 0,
        "entry_rank": 0,
        "valence": np.zeros(1, np.int64),
        "entry_node_row": np.array([name_row]),
        "inode_node_row": np.array([name_row]),
        "thread_node_row": None if thread_row is None else np.array([thread_row]),
    }


def _new_layout(placement: Placement, entries: dict[str, Any]) -> VolumeLayout:
    """Return the layout of a volume that holds only its root."""
    is_apfs = placement.filesystem == "apfs"
    count = len(entries["kind"][0])
    every = {"volume": 0, "link_count": 1, "create_time": None, "modify_time": None, "flags": 0}
    every |= {f"{record}_node_row": None for record in RECORDS}
    facts = VolumeFacts(
        filesystem=placement.filesystem,
        variant={"apfs": "APFS", "hfsplus": "HFS+"}[placement.filesystem],
        volume=0,
        name=f"plan of {placement.name}",
        uuid="00000000-0000-0000-0000-000000000000",
        stack=("plan", placement.name),
        image_offset=0,
        size_bytes=placement.volume_bytes,
        block_size_bytes=BLOCK,
        case_sensitive=False,
        stamp=0,
        num_files=int(entries["kind"][0].sum()),
        num_directories=count - int(entries["kind"][0].sum()) - 1,
        details={"catalog clump bytes": placement.clump_bytes},
    )
    return VolumeLayout(
        facts=facts,
        nodes=_apfs_nodes(placement) if is_apfs else _catalog_nodes(placement),
        node_fragments=build_table("node_fragments", {}),
        entries=build_table("entries", {**every, **entries}),
        extents=build_table("extents", {} if is_apfs else _catalog_extent(placement)),
        regions=build_table("regions", {}),
        free=build_table("free", _free(placement)),
        findings=build_table("findings", {}),
    )


def _free(placement: Placement) -> dict[str, Any]:
    """Return the free space: everything from the first available byte, except the roots of APFS."""
    first, end = placement.data_offset // BLOCK, placement.volume_bytes // BLOCK
    taken = _first_node(placement) if placement.filesystem == "apfs" else first
    behind = taken + len(TREES) if placement.filesystem == "apfs" else first
    start, stop = np.array([first, behind]), np.array([taken, end])
    runs = stop > start
    return {
        "device": 0,
        "volume": 0,
        "image_offset": start[runs] * BLOCK,
        "length_bytes": (stop - start)[runs] * BLOCK,
    }


def _first_node(placement: Placement) -> int:
    """Return the first block of an APFS volume's nodes."""
    if placement.is_apart:
        return (placement.volume_bytes // BLOCK - 1) // CHUNK_BLOCKS * CHUNK_BLOCKS
    return placement.data_offset // BLOCK


def _catalog_extent(placement: Placement) -> dict[str, Any]:
    """Return the extent of the catalog file, number 4 (TN1150)."""
    return {
        "device": 0,
        "volume": 0,
        "file_id": np.array([4]),
        "fork": "data",
        "logical_offset": 0,
        "image_offset": placement.catalog_offset,
        "length_bytes": placement.catalog_bytes,
        "node_row": None,
        "flags": 0,
    }


def _catalog_nodes(placement: Placement) -> Table:
    """Return the nodes of a catalog: the header, the root with its two records, free nodes."""
    number = np.arange(placement.catalog_bytes // placement.node_bytes)
    return build_table(
        "nodes",
        {
            **_sound_nodes(np.minimum(number, 2), ("header", "leaf", "free"), number == 1),
            "tree": (np.zeros(len(number), np.int64), ("catalog",)),
            "node_id": number,
            "image_offset": placement.catalog_offset + number * placement.node_bytes,
            "size_bytes": placement.node_bytes,
            "used_bytes": np.where(number == 1, ROOT_RECORD_BYTES, 0),
        },
    )


def _apfs_nodes(placement: Placement) -> Table:
    """Return the roots of three empty trees at the start of the node area."""
    number = _first_node(placement) + np.arange(len(TREES))
    return build_table(
        "nodes",
        {
            **_sound_nodes(np.zeros(3, np.int64), ("leaf",), np.ones(3, bool)),
            "tree": (np.arange(len(TREES)), TREES),
            "node_id": np.where(number == number[0], FIRST_NODE_ID, number),
            "image_offset": number * BLOCK,
            "size_bytes": BLOCK,
            "used_bytes": np.array([200, MAP_BYTES, 0]),
            "num_records": np.array([2, 1, 0]),
            "first_key_id": np.zeros(3, np.int64),
            "locator_row": np.array([1, NULL_ROW, NULL_ROW], np.uint32),
        },
    )


def _sound_nodes(kind: I64, words: tuple[str, ...], is_leaf: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the columns that all nodes of a new volume share."""
    return {
        "device": 0,
        "volume": 0,
        "level": Values(np.zeros(len(kind), np.int64), is_leaf),
        "kind": (kind, words),
        "num_records": np.where(is_leaf, 2, 0),
        "used_bytes": np.where(is_leaf, 200, 0),
        "free_bytes": 0,
        "parent_row": None,
        "key_rank": Values(np.zeros(len(kind), np.int64), is_leaf),
        "first_key_id": None,
        "last_key_id": None,
        "state": (np.zeros(len(kind), np.int64), ("live",)),
        "valid": (np.zeros(len(kind), np.int64), ("structure",)),
    }
