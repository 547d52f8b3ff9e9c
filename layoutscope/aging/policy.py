"""How a driver places what it is given: every parameter with its reason beside its value; what is assumed says so."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Policy:
    """A driver's rules."""

    # leaf_keep, index_keep, map_keep: share of a node that stays left of a split: of leaves, of index nodes, of what
    # maps them
    leaf_keep: float
    index_keep: float
    map_keep: float
    merge_share: float  # share of a node into which neighbours are merged; 0 where only empty ones go
    next_fit: bool  # whether blocks are taken behind the last ones that were, or the first free ones of the volume
    # whether nodes get their blocks at the end of a transaction, in key order, or when they change first
    at_commit: bool = False
    # files that are written in one transaction, where the blocks of the next two do not say it
    files_per_transaction: int = 1000
    # queue_blocks, buffer_blocks: blocks that wait to be freed, and that are written, when a transaction ends; 0 where
    # that is not known
    queue_blocks: int = 0
    buffer_blocks: int = 0
    waits: int = 0  # how many transactions later blocks are free that were left in one
    length_spread: float = 1.0  # factor within which the length of transactions is drawn
    ids_per_file: int = 1  # object ids that a replaced file uses up
    leaves_siblings: bool = False  # whether a rename leaves the records of a hard link behind
    split_less: int = 0  # bytes by which less stays left of a split, for each record of the node
    split_by_count: bool = False  # whether a node is split at a share of its records, not of its room
    assumes: tuple[str, ...] = ()  # what is assumed, a sentence each

    def drawn(
        self,
        share: float,  # where in its spread, from -1 to 1
    ) -> Policy:
        """Return the policy with transactions of another length.

        >>> as_it_is = Policy(0.5, 0.5, 0.5, 0.0, next_fit=False, files_per_transaction=100, length_spread=2.0)
        >>> as_it_is.drawn(-1).files_per_transaction
        50
        """
        factor = self.length_spread**share
        return replace(
            self,
            files_per_transaction=max(round(self.files_per_transaction * factor), 1),
            queue_blocks=round(self.queue_blocks * factor),
            buffer_blocks=round(self.buffer_blocks * factor),
        )
