"""How a driver places what it is given: every parameter with its reason beside its value; what is assumed says so."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Policy:
    """A driver's rules.

    Attributes
    ----------
    leaf_keep, index_keep, map_keep : float
        Share of a node that stays left of a split: of leaves, of index nodes, of what maps them.
    merge_share : float
        Share of a node into which neighbours are merged; 0 where only empty ones go.
    next_fit : bool
        Whether blocks are taken behind the last ones that were, or the first free ones of the volume.
    at_commit : bool
        Whether nodes get their blocks at the end of a transaction, in key order, or when they change first.
    files_per_transaction : int
        Files that are written in one transaction, where the blocks of the next two do not say it.
    queue_blocks, buffer_blocks : int
        Blocks that wait to be freed, and that are written, when a transaction ends; 0 where that is not known.
    waits : int
        How many transactions later blocks are free that were left in one.
    length_spread : float
        Factor within which the length of transactions is drawn.
    ids_per_file : int
        Object ids that a replaced file uses up.
    leaves_siblings : bool
        Whether a rename leaves the records of a hard link behind.
    split_less : int
        Bytes by which less stays left of a split, for each record of the node.
    split_by_count : bool
        Whether a node is split at a share of its records, not of its room.
    assumes : tuple of str
        What is assumed, a sentence each.
    """

    leaf_keep: float
    index_keep: float
    map_keep: float
    merge_share: float
    next_fit: bool
    at_commit: bool = False
    files_per_transaction: int = 1000
    queue_blocks: int = 0
    buffer_blocks: int = 0
    waits: int = 0
    length_spread: float = 1.0
    ids_per_file: int = 1
    leaves_siblings: bool = False
    split_less: int = 0
    split_by_count: bool = False
    assumes: tuple[str, ...] = ()

    def drawn(self, share: float) -> Policy:
        """Return the policy with transactions of another length.

        Parameters
        ----------
        share : float
            Where in its spread, from -1 to 1.

        Examples
        --------
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
