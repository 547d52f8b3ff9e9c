"""What a file system's model of writing is to those who let volumes age; each reader's package has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.aging.policy import Policy
    from layoutscope.aging.space import FreeBlocks
    from layoutscope.aging.trees import AgingTree, TreeLevel
    from layoutscope.aging.volume import AgingEntries, Data
    from layoutscope.aging.workloads import CycleKind

    I64 = NDArray[np.int64]


class AgingVolume(Protocol):
    """A volume between two cycles."""

    policy: Policy  # how its driver places
    block_bytes: int
    # entries, data, space: its entries, the extents of its files, its free blocks
    entries: AgingEntries
    data: Data
    space: FreeBlocks
    trees: dict[str, AgingTree]  # the trees that are followed, by name
    numbers: I64  # ids of files that were there in the beginning; further ones follow them
    next_ident: int  # the next number of a file
    keep_cycles: int  # how many cycles back snapshots hold what was replaced, where there are snapshots

    @property
    def main(self) -> str:
        """The tree that is enumerated."""

    @property
    def maps(self) -> str:
        """The tree that maps its nodes, if any."""

    @property
    def entry_bytes(self) -> dict[str, int]:
        """What a record takes in the table of a node, by tree."""

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin and end, by column of the table of entries."""

    def place_of(self, name: str, level: TreeLevel) -> I64:
        """Return where nodes of a tree lie, in bytes from the start of the volume."""

    def unused_table(self, name: str, count: I64) -> I64:
        """Return the bytes of nodes' tables that no record uses, by how many records they have."""

    def copy(self) -> Any:
        """Return the same volume, to be aged apart from this one."""

    def age(self, chosen: CycleKind, wanted: int, rng: np.random.Generator) -> None:
        """Let a cycle pass."""
