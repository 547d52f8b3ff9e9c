"""Names in keys and values, and what attributes of certain names must be.

Apple File System Reference, File-System Objects. Names are UTF-8 and end with a zero byte, which their lengths count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs.check.names import hash_names, is_utf8
from layoutscope.filesystems.apfs.store.names import Names
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import (
    DREC_HASHED_KEY,
    SIBLING_VAL_FIXED,
    SNAP_METADATA_VAL,
    XATTR_DSTREAM,
    XATTR_KEY,
    XATTR_VAL,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.rows import CheckedRows, RowTraits
    from layoutscope.recordtypes import RecordType

IN_VALUES: Final = {"sibling_link": SIBLING_VAL_FIXED, "snap_metadata": SNAP_METADATA_VAL}
"""Records whose values end with a name."""
IN_KEYS: Final = ("dir_rec", "xattr", "snap_name")
"""Records whose keys do."""
_FLAG: Final = grammar.ApfsXattr.XattrFlag
_MOST_EMBEDDED: Final = 3804
_MOST_OF_NAME: Final = 256
_FINDER_BYTES: Final = 32
_OF_SYSTEM: Final = {
    b"com.apple.fs.symlink": True,
    b"com.apple.ResourceFork": False,
    b"com.apple.system.Security": False,
    b"com.apple.FinderInfo": False,
    b"com.apple.decmpfs": False,
}
"""Whether attributes of these names belong to the file system."""


def check_names(rows: CheckedRows, name: str, kind: RecordType, traits: RowTraits) -> None:
    """Hold the names in keys of one kind against the rules."""
    start, stop = rows.starts("key") + kind.width, rows.starts("key") + rows.lengths("key")
    _check_ends(rows, "key", name, start, stop)
    if name == "xattr":
        rows.report(stop - start > _MOST_OF_NAME, "key", "xattr: its name is longer than any may be")
    elif name == "dir_rec" and traits.hashed_names and rows.batch.level:
        # Keys of leaves are compared with all names of the volume.
        _check_hashes(rows, start, stop, traits)


def check_texts(rows: CheckedRows, name: str) -> None:
    """Hold the names in values of one kind against the rules."""
    if name in IN_VALUES:
        start = rows.starts("val") + IN_VALUES[name].width
        _check_ends(rows, "val", name, start, rows.starts("val") + rows.lengths("val"))
    elif name == "xattr":
        _check_attributes(rows)


def _check_ends(rows: CheckedRows, part: str, name: str, start: NDArray[np.int64], stop: NDArray[np.int64]) -> None:
    """A name ends with the first zero byte."""
    zeros = np.flatnonzero(rows.batch.buffer == 0)
    spot = np.minimum(np.searchsorted(zeros, start), max(len(zeros) - 1, 0))
    wrong = (stop <= start) | (zeros[spot] != stop - 1 if len(zeros) else np.ones(len(start), bool))
    rows.report(wrong, part, f"{name}: its name does not end with its first zero byte")


def _check_hashes(rows: CheckedRows, start: NDArray[np.int64], stop: NDArray[np.int64], traits: RowTraits) -> None:
    buffer, length = rows.batch.buffer, np.maximum(stop - start - 1, 0)
    data = [buffer[first : first + size] for first, size in zip(start.tolist(), length.tolist(), strict=True)]
    names = Names(np.concatenate(data), length)
    found, known = hash_names(names, folded=traits.is_folded)
    stored = rows.column("key", DREC_HASHED_KEY, DREC_HASHED_KEY.name_hash)
    message = "dir_rec: the hash in an index is not that of its name"
    rows.report(known & (found != stored), "key", message, (found, stored))
    if not names.is_text():
        wrong = np.array([not is_utf8(raw) for raw in names.raw()])
        rows.report(wrong, "key", "dir_rec: a name in an index is not UTF-8")


def _check_attributes(rows: CheckedRows) -> None:
    fixed = XATTR_VAL.fixed
    flags, size = (rows.column("val", XATTR_VAL, field) for field in (fixed.flags, fixed.len_xdata))
    is_stream = flags & np.uint16(_FLAG.data_stream) != 0
    wrong = is_stream & (size != XATTR_DSTREAM.width) | ~is_stream & (size > _MOST_EMBEDDED)
    rows.report(wrong, "val", "xattr: more data than it may embed, or no stream", field=fixed.len_xdata)
    start, length = rows.starts("key") + XATTR_KEY.width, rows.lengths("key") - XATTR_KEY.width - 1
    for name, is_system in _OF_SYSTEM.items():
        here = np.flatnonzero(length == len(name))
        here = here[(rows.batch.buffer[start[here][:, None] + np.arange(len(name))] == list(name)).all(axis=1)]
        wrong = np.zeros(len(flags), bool)
        wrong[here] = (flags[here] & np.uint16(_FLAG.file_system_owned) != 0) != is_system
        rows.report(wrong, "val", "xattr: it belongs to the file system or not, against its name", field=fixed.flags)
        if name == b"com.apple.FinderInfo":
            wrong = np.zeros(len(flags), bool)
            wrong[here] = ~is_stream[here] & (size[here] != _FINDER_BYTES)
            rows.report(wrong, "val", "xattr: information of the Finder has 32 bytes", field=fixed.len_xdata)
