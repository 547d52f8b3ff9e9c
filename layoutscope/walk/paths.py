"""The order ``paths``: ``lstat`` of each path of a list, as ``git status`` does with its index.

Each component that was not seen before is looked up by name and then by number; no directory is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.arrays.lookup import first_places
from layoutscope.frames import pl
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

    Parameters
    ----------
    model : Model
        The volume.
    wanted : sequence of str
        Paths from the start, with ``/`` between components.
    start_id : int
        Directory in which the paths begin.

    Returns
    -------
    Touches, uint16 array
        The lookups, and the thread that makes each.
    """
    return looked_up(model, entries_on_paths(model, wanted, start_id))


def looked_up(model: Model, components: NDArray[np.int64]) -> tuple[Touches, NDArray[np.uint16]]:
    """Look up what was not seen before of each path, as :func:`paths` does.

    Parameters
    ----------
    model : Model
        The volume and its host.
    components : (n_paths, depth) int64 array
        Entries of each path from its start on; -1 for none.
    """
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

    Parameters
    ----------
    model : Model
        The volume and its host.
    wanted : sequence of str
        Paths, with ``/`` between components.
    start_id : int
        Directory in which they begin.

    Returns
    -------
    (n_paths, depth) int64 array
        Entries in the order of the components; -1 behind the last one, and from the first that does not exist.
    """
    # A list of paths may hold bytes that are no text; no name in the tables has them.
    words = [path.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for path in wanted]
    split = pl.Series(words, dtype=pl.String).str.strip_chars("/").str.split("/")
    depth = int(split.list.len().max() or 0)  # type: ignore[arg-type]
    if not len(model.entries):
        return np.full((len(split), depth), -1, np.int64)
    known = _by_name(model)
    parent = pl.Series(np.full(len(split), start_id, np.uint64))
    result = np.full((len(split), depth), -1, np.int64)
    for level in range(depth):
        name = _folded(split.list.get(level, null_on_oob=True), model)
        keys = pl.DataFrame({"parent_id": parent, "name": name})
        entry = keys.join(known, on=["parent_id", "name"], how="left", maintain_order="left")["entry"]
        result[:, level] = entry.fill_null(-1).to_numpy()
        below = np.where(result[:, level] >= 0, model.entries.file_id[np.maximum(result[:, level], 0)], np.uint64(0))
        parent = pl.Series(below)
    return result


def _by_name(model: Model) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "parent_id": model.entries.parent_id,
            "name": _folded(model.entries.names().series("name", pl.String()), model),
            "entry": np.arange(len(model.entries), dtype=np.int64),
        }
    )
    return frame.unique(["parent_id", "name"], keep="first", maintain_order=True)


def _folded(names: pl.Series, model: Model) -> pl.Series:
    """Names as the file system compares them."""
    facts, compared_by = model.layout.facts, model.driver.compared_by
    plain = names if facts.case_sensitive else names.str.to_lowercase()
    # A rule of Unicode is followed name by name; ASCII, of which most names are, is the same in all of them.
    others = (names.str.len_bytes() != names.str.len_chars()).fill_null(value=False)
    if not others.any():
        return plain
    told = pl.Series([compared_by(name, facts) for name in names.filter(others)], dtype=pl.String)
    return plain.scatter(others.arg_true(), told)
