"""How a driver places what it is given: every parameter with its reason beside its value; what is assumed says so."""

from __future__ import annotations

from dataclasses import dataclass


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
        Files that are written in one transaction.
    ids_per_file : int
        Object ids that a replaced file uses up.
    leaves_siblings : bool
        Whether a rename leaves the records of a hard link behind.
    split_less : int
        Bytes by which less stays left of a split, for each record of the node.
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
    ids_per_file: int = 1
    leaves_siblings: bool = False
    split_less: int = 0
    assumes: tuple[str, ...] = ()
