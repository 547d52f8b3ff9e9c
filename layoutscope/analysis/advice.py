"""What a user can do about a finding, by its code.

The codes of one file system are known to its package alone. What all of them share is how they are named: by the
structure and by what is wrong with it, and it is the latter that tells what can be done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.files import ADJACENT, order_metrics
from layoutscope.metrics.space import select_own_nodes
from layoutscope.results.kit import LeafPolicy

if TYPE_CHECKING:
    from layoutscope.tables import VolumeLayout


ADVICE: Final = (
    (
        r"hardware-locked$",
        (
            "No password helps with an image: unlock the disk on the Mac it belongs to, and copy or clone it there "
            "to a disk with software encryption or none."
        ),
    ),
    (r"-locked$", "Give the password or the recovery key: --password - asks for it, --password-file FILE reads it."),
    (r"^fusion-half$", "Name the image of the other device: --second IMAGE."),
    (
        r"^unread-area$|^node-unreadable$|truncated$|^gpt-backup-missing$|^extent-outside$|^partition-outside$",
        (
            "The image may be incomplete: compare its size with the disk's, let ddrescue go on reading, and name its "
            "map with --ddrescue-map so that bad areas are not taken for zeros."
        ),
    ),
    (
        r"^changed-while-read$|^container-changed$|^not-unmounted$",
        "Unmount the volume and make the image once more; what was read of a disk in use need not fit together.",
    ),
    (r"^journal-external$", "Mount and unmount the disk with the device that holds its journal, then image it."),
    (
        r"^journal-(replayed|pending)$",
        "Nothing is wrong: the disk was not unmounted. --no-journal shows it as its bytes lie.",
    ),
    (
        r"^stale-|^superblock-older$|^hard-link-plain$|^tree-rebuilt$",
        "There is nothing to do: it is told so that numbers can be understood.",
    ),
    (
        r"^volume-unpartitioned$",
        (
            "The message has the entry that the partition map lacks. Write it to a copy of the disk with a program for "
            "such maps, or read the volume with --volume-at BYTES."
        ),
    ),
    (
        r"^start-uncertain$",
        (
            "If you know where the volume starts, --volume-at BYTES says so. Otherwise names and counts stand, but "
            "addresses may all be off by the same distance."
        ),
    ),
    (
        r"^restore-incomplete$",
        "Restore the volume again from its source. Files that are not listed were never written to it.",
    ),
    (
        r"^(feature|version)-unknown$",
        "A later system wrote the volume. Look for a later layoutscope; what is listed may be a part of what is there.",
    ),
    (
        r"^gpt-|^partition-",
        (
            "Volumes are found by their content, too; --volume-at BYTES reads one that no map names. Repair the map on "
            "a copy of the disk."
        ),
    ),
    (
        (
            r"differs?$|claimed|-reserved$|-duplicate$|-used$|-short$|-orphaned$|-unreached$|-zeroed$"
            r"|^(attribute|clump-size|flags|link|permissions|volume-field)-invalid$"
        ),
        (
            "What was read stands, but two places disagree. Let the file system's own check (Disk Utility, fsck) "
            "repair a copy of the disk; it may have been wrong for long."
        ),
    ),
    (
        r"",
        (
            "Something could not be read. --sweep looks at the whole volume for what damage has cut off; an older "
            "image of the disk may hold it. Repair nothing but a copy."
        ),
    ),
)
"""What to do, by what a code looks like; the first that fits."""


def what_to_do(code: str) -> str:
    """Say what a user can do about findings of a code."""
    return next(text for pattern, text in ADVICE if re.search(pattern, code))


TENTHS = np.linspace(0, 1, 11)


def leaf_policy(layout: VolumeLayout) -> LeafPolicy:
    """Sum up the leaves of the tree that enumerations walk."""
    tree = filesystem_of(layout).traits.main_tree
    # What snapshots alone hold was written for a state that is gone.
    nodes = select_own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf"))
    adjacent = next(metric.value for metric in order_metrics(layout, tree) if metric.definition is ADJACENT)
    if not leaves["xid"].is_known.any():
        return LeafPolicy(len(leaves), adjacent)
    xids = leaves["xid"].present().astype(np.int64)
    _, each = np.unique(xids, return_counts=True)
    middle, high = np.quantile(each, [0.5, 0.9])
    deciles = np.quantile(xids, TENTHS, method="lower")
    return LeafPolicy(
        len(leaves),
        adjacent,
        transactions=len(each),
        leaves_per_transaction=(float(middle), float(high), float(each.max())),
        xid_deciles=tuple(int(xid) for xid in deciles),
    )
