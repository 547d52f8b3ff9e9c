"""How the drivers of APFS place what they write: each number with where it comes from; what is assumed says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.aging.policy import Policy

if TYPE_CHECKING:
    from layoutscope.tables import VolumeLayout

LENGTHS: Final = "Lengths of transactions are drawn within a factor of two."

LINUX: Final = Policy(
    # linux-apfs-rw (node.c) moves half of the records of a full node to a new one.
    split_by_count=True,
    leaf_keep=0.5,
    index_keep=0.5,
    map_keep=0.5,
    merge_share=0.0,
    next_fit=False,
    # Its constants, since 0.3.12: so many blocks wait to be freed, or are written, when a transaction ends.
    queue_blocks=10_000,
    buffer_blocks=65_536,
    # It ends earlier where nothing is written for a tenth of a second.
    length_spread=1.25,
    # The inode of the temporary file, and a sibling for each of its two names.
    ids_per_file=3,
    leaves_siblings=True,
    assumes=("A transaction ends when 10,000 blocks wait to be freed, as the Linux driver's do since 0.3.12.",),
)
# Before, 4,096 of the last five transactions waited together.
LINUX_BEFORE: Final = replace(
    LINUX,
    queue_blocks=4096,
    waits=4,
    assumes=("A transaction ends when 4,096 blocks of five wait to be freed, as the Linux driver's did up to 0.3.9.",),
)

MACOS: Final = Policy(
    leaf_keep=0.86,
    index_keep=0.86,
    map_keep=0.86,
    merge_share=0.5,
    next_fit=True,
    at_commit=True,
    length_spread=2.0,
    assumes=(
        "A transaction writes 1,000 files.",
        LENGTHS,
        "Nodes are written at the end of a transaction, in the order of their keys.",
        "Blocks are taken behind those that were taken last.",
        "Neighbours that fill half a node together are merged.",
    ),
)

POLICIES: Final = {"linux": LINUX, "macos": MACOS}
BEFORE: Final = "EA Fernández"
"""What the Linux driver wrote into volumes before it wrote its version."""


def policy_of(layout: VolumeLayout, host: str) -> Policy:
    """Return how the driver of a host places, as of its version that wrote a volume last, where that is known."""
    if host == "linux" and BEFORE in str(layout.facts.details.get("modified by", "")).partition("(xid")[0]:
        return LINUX_BEFORE
    return POLICIES[host]
