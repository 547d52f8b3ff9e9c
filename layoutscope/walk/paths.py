"""The order ``paths``: ``lstat`` of each path of a list, as ``git status`` does with its index.

Each component that was not seen before is looked up by name and then by number; no directory is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.paths import path_component
from layoutscope.arrays.lookup import first_places
from layoutscope.walk.directories import lookups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches


def paths(model: Model, wanted: Sequence[str], start_id: int) -> tuple[Touches, NDArray[np.uint16]]:
    """Look paths up, component by component.

    Several threads take a slice of the list each, as git's ``preload-index`` does, and are taken to go forward in step:
    what they read is certain, but whose read comes first differs from one run to the next (recorded).
    """
    return looked_up(model, entries_on_paths(model, wanted, start_id))


def looked_up(
    model: Model,
    components: NDArray[np.int64],  # entries of each path from its start on; -1 for none
) -> tuple[Touches, NDArray[np.uint16]]:
    """Look up what was not seen before of each path, as :func:`paths` does."""
    order, thread = _in_step(len(components), model.host.threads)
    components = components[order]
    exists = components >= 0
    found, threads = components[exists], np.broadcast_to(thread[:, None], components.shape)[exists]
    new = first_places(found, len(model.entries))
    made, each = lookups(model, found[new])
    return made, np.repeat(threads[new], each)


def _in_step(count: int, threads: int) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Order of the paths when each thread does one of its slice in turn, and the thread of each."""
    size = -(-count // max(threads, 1)) or 1
    thread, step = np.divmod(np.arange(count), size)
    order = np.lexsort((thread, step))
    return order, thread[order].astype(np.uint16)


def entries_on_paths(model: Model, wanted: Sequence[str], start_id: int = ROOT_ID) -> NDArray[np.int64]:
    """Find the entry of every component.

    Entries in the order of the components; -1 behind the last one, and from the first that does not exist.
    """
    # A list of paths may hold bytes that are no text; no name in the tables has them.
    words = [path.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for path in wanted]
    split = [components_of(path) for path in words]
    depth = max(map(len, split), default=0)
    result = np.full((len(split), depth), -1, np.int64)
    reached = dict.fromkeys(range(len(split)), start_id)
    for level in range(depth):
        known = _by_name(model, set(reached.values()))
        below: dict[int, int] = {}
        for row, parent in reached.items():
            entry = known.get((parent, _folded(split[row][level], model))) if level < len(split[row]) else None
            if entry is not None:
                result[row, level] = entry
                below[row] = int(model.entries.file_id[entry])
        reached = below
    return result


def components_of(path: str) -> list[str]:
    r"""Part a path into its names; doubled slashes and ``.``, as ``find .`` prints it, lead nowhere else.

    A ``..`` is taken for a name, which no file has: one that is called so is found as ``\u002e\u002e``.
    """
    return [name for name in path.split("/") if name not in ("", ".")]


def missing_paths(wanted: Sequence[str], found: NDArray[np.int64]) -> tuple[str, ...]:
    """List the paths that do not exist, though a part of the way to them may."""
    there = (found >= 0).sum(axis=1).tolist()
    return tuple(path for path, count in zip(wanted, there, strict=True) if count < len(components_of(path)))


def _by_name(model: Model, parents: set[int]) -> dict[tuple[int, str], int]:
    """The first entry of each name in some directories, by directory and name as it is compared."""
    entries = model.entries
    places = np.flatnonzero(np.isin(entries.parent_id, np.array(list(parents), np.uint64)))
    rows = zip(places.tolist(), entries.parent_id[places].tolist(), entries.names(places).to_list(), strict=True)
    known: dict[tuple[int, str], int] = {}
    for entry, parent, name in rows:
        if name is not None:
            known.setdefault((parent, _folded(path_component(name), model)), entry)
    return known


def _folded(name: str, model: Model) -> str:
    """Return a name as the file system compares it."""
    facts = model.layout.facts
    if not name.isascii():
        return model.driver.compared_by(name, facts)
    # ASCII, of which most names are, is the same in all rules of Unicode.
    return name if facts.case_sensitive else name.lower()
