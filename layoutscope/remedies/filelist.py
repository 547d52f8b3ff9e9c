"""The order in which all files are best read, as a list: by place on the disk, within what memory can hold.

The list has every name once that is no directory. Who can hold few names at once sorts the walk in windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.touches import nothing
from layoutscope.analysis.files import entry_paths
from layoutscope.arrays.lookup import find, first_places
from layoutscope.drive import service
from layoutscope.frozen import frozen
from layoutscope.remedies.filling import by_name, in_walk_order
from layoutscope.remedies.reading import first_places_on_disk
from layoutscope.walk.data import WalkPart, data_trace, read_in_turn
from layoutscope.walk.directories import lookups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.remedies.case import Case

    I64 = NDArray[np.int64]

ENTRY_BYTES: Final = 64
"""What a name in memory takes besides its path: number, place, and what points to them."""

PLACE, WALK, NAMES, INODES = "by place", "walk", "names", "inodes"
"""Orders that are timed: that of the list, the walk's, sorted by name, sorted by number."""

DEEPEST: Final = 1024


@frozen
class FileList:
    """A list of files.

    Attributes
    ----------
    paths : tuple of bytes
        From the root of the volume, beginning with ``./``, in the order in which they are best read.
    missing : tuple of str
        What could not be listed, with the reason.
    windows : int
        How many pieces of the walk were sorted, each by itself; 1 where memory holds everything.
    seconds : dict of str to float
        What reading them takes in this order, and in others.
    """

    paths: tuple[bytes, ...]
    missing: tuple[str, ...]
    windows: int
    seconds: dict[str, float]


def file_list(case: Case, memory_bytes: int | None = None, *, is_null_separated: bool = False) -> FileList:
    """List all files in the order in which they are best read.

    Parameters
    ----------
    case : Case
        The volume, its drive and host.
    memory_bytes : int, optional
        What names in memory may take; unlimited without.
    is_null_separated : bool
        Whether names may hold line ends.
    """
    entries = case.model.entries
    files = in_walk_order(case)
    files = files[~entries.is_directory[files]]
    rows = np.arange(len(entries))[entries.order]
    known = entry_paths(case.layout)
    told = [known[row] for row in rows[files].tolist()]
    paths = [b"." + path.encode("utf-8", "surrogatepass") for path in told]
    windows = _windows(paths, memory_bytes)
    at = first_places_on_disk(case.layout, entries.file_id[files])
    order = np.lexsort((entries.file_id[files], at, windows))
    is_writable = np.array([is_null_separated or b"\n" not in path for path in paths], bool)
    orders = {PLACE: files[order], WALK: files, NAMES: _without_folders(case, by_name(case))}
    orders[INODES] = files[np.argsort(entries.file_id[files], kind="stable")]
    seconds = {name: _seconds(case, chosen) for name, chosen in orders.items()}
    missing = [f"{path!r}: a line end in its name (-0 lists it)" for path in _of(told, ~is_writable)]
    left = int((~entries.is_directory).sum()) - len(files)
    missing += [f"{left:,} names that no walk from the root comes to"] if left else []
    listed = tuple(paths[place] for place in order.tolist() if is_writable[place])
    return FileList(listed, tuple(missing), int(windows.max(initial=0)) + 1, seconds)


def _of(texts: list[str], chosen: NDArray[np.bool_]) -> list[str]:
    return [texts[place] for place in np.flatnonzero(chosen).tolist()]


def _without_folders(case: Case, order: I64) -> I64:
    return order[~case.model.entries.is_directory[order]]


def _windows(paths: list[bytes], memory_bytes: int | None) -> I64:
    """Number the pieces of the walk that memory holds at once."""
    if memory_bytes is None:
        return np.zeros(len(paths), np.int64)
    end = np.cumsum([ENTRY_BYTES + len(path) for path in paths])
    return np.asarray((end - 1) // max(memory_bytes, 1), np.int64)


def _seconds(case: Case, files: I64) -> float:
    """Look each file up by its path, and read it when its turn comes."""
    model = case.model
    components, owner = on_the_way(case, files)
    new = first_places(components, len(model.entries))
    found, each = lookups(model, components[new])
    step = WalkPart(found, owner[new], np.full(len(new), each))
    _, first = np.unique(model.entries.file_id[files], return_index=True)
    has_data = model.entries.is_file[files] & (model.entries.size_bytes[files] > 0)
    wanted = np.sort(first)
    wanted = wanted[has_data[wanted]]
    reads = data_trace(model, read_in_turn(model, [step], (files[wanted], wanted), nothing()))
    return service(reads, case.drive, phases=1, start_offset_bytes=case.start_offset_bytes).seconds


def on_the_way(case: Case, files: I64) -> tuple[I64, I64]:
    """Find the entries on the way to each file or folder, from the root down, itself last.

    Parameters
    ----------
    case : Case
        The volume.
    files : (n,) int64 array
        Entries of its model.

    Returns
    -------
    int64 array, int64 array
        Entries of all ways, one after the other, and the place in `files` of what each leads to.
    """
    entries = case.model.entries
    folders = np.flatnonzero(entries.is_directory)
    above = find(entries.file_id[folders], entries.parent_id)
    parent = np.where(above >= 0, folders[np.maximum(above, 0)] if len(folders) else -1, -1)
    ways = [files]
    for _ in range(DEEPEST):
        upper = np.where(ways[-1] >= 0, parent[np.maximum(ways[-1], 0)], -1)
        if not (upper >= 0).any():
            break
        ways.append(upper)
    table = np.stack(ways[::-1], axis=1)
    exists = table >= 0
    owner = np.broadcast_to(np.arange(len(files))[:, None], table.shape)
    return table[exists], owner[exists]
