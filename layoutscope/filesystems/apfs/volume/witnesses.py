"""How many entries a volume must have by what it says of itself, whatever could be read of them.

Apple File System Reference, Volumes (apfs_num_files and its like) and File-System Objects (nchildren). They are kept
apart from the records that they count, so that they still stand where those are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import match
from layoutscope.filesystems.apfs.volume.volume import program
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

CONVERTER: Final = "hfs_convert"
"""It leaves wrong numbers of children behind, which no later change puts right."""

_KINDS: Final = grammar.ApfsInode.ModeFormat
_MIN_USER: Final = int(grammar.ApfsInode.InodeNumber.min_user)
# A directory record's type is the format bits of a mode, shifted as in ``IFTODT`` of POSIX.
_ENTRY_TYPES: Final = {
    "files": int(_KINDS.file) >> 12,
    "directories": int(_KINDS.directory) >> 12,
    "symbolic links": int(_KINDS.symlink) >> 12,
}

DECLARED: Final = {
    "files": "num_files",
    "directories": "num_directories",
    "symbolic links": "num_symlinks",
    "other objects": "num_other_fsobjects",
}
"""What a volume's superblock counts, by its fields."""


def num_missing_entries(parts: VolumeParts) -> int:
    """Count the names that are lost at the least: 0 of a locked volume, of which nothing is known.

    A file or directory whose inode is lost, and which a directory still lists, has kept its name.
    """
    if parts.is_locked:
        return 0
    found = inodes_by_kind(parts.fs.records.get("inode"))
    unknown = {what: max(declared_count(parts, what) - count, 0) for what, count in found.items()}
    # Names that inodes and directories count and have not are errors of the checks, which have passed over all of them.
    if not parts.log.has_errors and not any(unknown.values()):
        return 0
    return max(_missing_names(parts, unknown), _missing_children(parts))


def _missing_names(parts: VolumeParts, unknown: dict[str, int]) -> int:
    """Count names that inodes should have, and one for each `unknown` object that is counted and has neither."""
    inodes, drecs = parts.fs.records.get("inode"), parts.fs.records.get("dir_rec")
    if "file_id" not in drecs:
        return sum(unknown.values())
    named, first, times = np.unique(drecs["file_id"], return_index=True, return_counts=True)
    kinds = drecs["entry_type"][first]
    short = 0
    if "format" in inodes:
        spot, is_named = match(named, inodes["obj_id"])
        listed = np.where(is_named, times[spot] if len(times) else 0, 0)
        is_directory = inodes["format"] == int(_KINDS.directory)
        links = np.where(is_directory, 1, inodes["num_children_or_links"].astype(np.int64))
        # A number beyond all inodes is damaged itself, and no witness.
        is_own = (inodes["obj_id"] >= _MIN_USER) & (links > listed) & (links <= int(parts.state.superblock.next_obj_id))
        short = int((links - listed)[is_own].sum())
        has_inode = match(inodes["obj_id"], named)[1]
        kinds, named = kinds[~has_inode], named[~has_inode]
    kinds = kinds[named >= _MIN_USER]
    listed_alone = {what: int((kinds == code).sum()) for what, code in _ENTRY_TYPES.items()}
    listed_alone["other objects"] = len(kinds) - sum(listed_alone.values())
    return short + sum(max(count - listed_alone[what], 0) for what, count in unknown.items())


def declared_count(parts: VolumeParts, what: str) -> int:
    """Return what the superblock says of one kind of inodes, a key of `DECLARED`."""
    return int(getattr(parts.state.superblock, DECLARED[what]))


def inodes_by_kind(inodes: Columns) -> dict[str, int]:
    """Count inodes as superblocks do: without the root directory and the private one."""
    if "format" not in inodes:
        return dict.fromkeys(DECLARED, 0)
    kinds = grammar.ApfsInode.ModeFormat
    own = inodes["obj_id"] >= int(grammar.ApfsInode.InodeNumber.min_user)
    mode_format = inodes["format"][own & ~is_deleted(inodes)]
    counts = {
        "files": int((mode_format == int(kinds.file)).sum()),
        "directories": int((mode_format == int(kinds.directory)).sum()),
        "symbolic links": int((mode_format == int(kinds.symlink)).sum()),
    }
    return counts | {"other objects": len(mode_format) - sum(counts.values())}


def is_deleted(inodes: Columns) -> NDArray[np.bool_]:
    """Files without links that were still open: they wait in the private directory and count nowhere."""
    is_directory = inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory)
    result: NDArray[np.bool_] = ~is_directory & (inodes["num_children_or_links"] == 0)
    return result


def is_converted(parts: VolumeParts) -> bool:
    """Whether the volume was made of an HFS+ volume in place."""
    return program(parts.state.superblock.formatted_by).startswith(CONVERTER)


def _missing_children(parts: VolumeParts) -> int:
    """Count the entries that directories say they have, and have not."""
    inodes, drecs = parts.fs.records.get("inode"), parts.fs.records.get("dir_rec")
    if "format" not in inodes or is_converted(parts):
        return 0
    is_directory = inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory)
    listed = times_listed(inodes["obj_id"], drecs["obj_id"])
    short = inodes["num_children_or_links"].astype(np.int64) - listed
    # A number beyond all inodes is damaged itself, and no witness.
    sane = is_directory & (short > 0) & (short <= int(parts.state.superblock.next_obj_id))
    return int(short[sane].sum())


def times_listed(numbers: NDArray[np.uint64], parents: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count how many directory records each of some ascending numbers has; those of one directory lie together."""
    starts = np.flatnonzero(np.append(True, parents[1:] != parents[:-1])) if len(parents) else np.empty(0, np.int64)
    spot, found = match(numbers, parents[starts])
    counts = np.diff(starts, append=len(parents))
    return np.bincount(spot[found], counts[found], len(numbers)).astype(np.int64)
