"""Walks over directories in C, touch by touch, compared with all touches laid out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access.trace import nothing, touches
from layoutscope.walk import visits as module
from layoutscope.walk.visits import Searches, Visits
from tests.unit.native.fences import EXAMPLES, Fenced, spoil


def volume(rng: np.random.Generator, count: int, *, with_loops: bool) -> SimpleNamespace:
    """Return nodes with paths, which may be loops, as on damaged volumes."""
    above = np.full(count, count) if with_loops else np.arange(count)
    parent, mapper = (
        np.where((rng.random(count) < 0.7) & (above > 0), rng.integers(0, 2**30, count) % np.maximum(above, 1), -1)
        for _ in range(2)
    )
    nodes = type("Nodes", (SimpleNamespace,), {"__len__": lambda self: len(self.parent)})
    driver = SimpleNamespace(leaves_are_chained=bool(rng.integers(2)), locator_cause="omap")
    size = rng.integers(1, 9, count)
    tables = nodes(parent=parent.astype(np.int32), mapper=mapper.astype(np.int32), size_bytes=size)
    # With or without a limit, which may be smaller than the largest node.
    limit = int(rng.integers(0, 5 * count)) if rng.integers(2) else None
    mounted = rng.integers(-1, count, 2).astype(np.int32), rng.integers(0, count, 1).astype(np.int32)
    driver.mounted = lambda *_: mounted
    host = SimpleNamespace(cache_keeps=float(rng.integers(2)) / 2)
    layout = SimpleNamespace(facts=None)
    return SimpleNamespace(nodes=tables, driver=driver, node_cache_bytes=limit, host=host, layout=layout, entries=None)


@st.composite
def walks(draw, *, with_loops: bool) -> tuple[Visits, SimpleNamespace]:
    """Return a walk and its volume: directories of any length and order, with or without optional parts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_nodes, num_entries, num_buffers = (draw(st.integers(low, 20)) for low in (1, 0, 0))

    def some_nodes(count: int) -> np.ndarray:
        return rng.integers(-1, num_nodes, count).astype(np.int32)

    def searches(count: int) -> Searches:
        causes = rng.choice(["name", "inode", "next", "xattr"], count).tolist()
        return Searches(tuple(some_nodes(num_entries) for _ in range(count)), tuple(causes), tuple(rng.random(count)))

    first = rng.integers(0, num_entries + 1, num_buffers)
    ids = rng.integers(0, 2**64, 8, np.uint64)
    is_listed_with_names = draw(st.booleans())
    has_before = num_entries > 0 and draw(st.booleans())
    walk = Visits(
        directory=np.arange(num_buffers), directory_id=rng.choice(ids, num_buffers),
        first=first, count=rng.integers(0, num_entries - first + 1),
        start=some_nodes(num_buffers), start_us=rng.random(num_buffers).astype(np.float32),
        leaf=np.sort(some_nodes(num_entries)), looked_up=searches(draw(st.integers(1, 4))),
        wanted=rng.random(num_entries) < 0.7, parent_id=np.full(num_entries, ids[0]),
        way=nothing() if draw(st.booleans()) else touches(some_nodes(3), "name", ids[:3], 7.0),
        before=rng.integers(-1, num_entries, num_buffers) if has_before else None,
        ahead=None if is_listed_with_names else rng.integers(0, num_entries - first + 1),
        listed=searches(draw(st.integers(1, 3))) if is_listed_with_names else Searches(),
        behind=some_nodes(num_buffers) if draw(st.booleans()) else None,
    )  # fmt: skip
    # In a real walk, the entries of a directory have its number.
    if num_buffers:
        walk.directory_id[:] = ids[0]
    return walk, volume(rng, num_nodes, with_loops=with_loops)


def same(ours: tuple, theirs: tuple) -> bool:
    """Return whether reads and times are equal to the last bit."""
    (reads, at_us), (their_reads, their_us) = ours, theirs
    names = ("node", "cause", "directory_id")
    return at_us.tolist() == their_us.tolist() and all(
        getattr(reads, name).tolist() == getattr(their_reads, name).tolist() for name in names
    )


@EXAMPLES
@given(with_loops=st.booleans(), data=st.data())
def test_the_same_is_read_at_the_same_time(with_loops, data):
    """Every read has its path, order and directory; the host's time is the sum of all earlier touches.

    The kernel refuses only loops, and caches of a limited size.
    """
    given_walk = data.draw(walks(with_loops=with_loops))
    ours = module.find_reads_natively(*given_walk)
    assert ours is not None or with_loops or given_walk[1].node_cache_bytes is not None
    assert ours is None or same(ours, module.find_reads_laid_out(*given_walk))


@EXAMPLES
@given(data=st.data(), given_walk=walks(with_loops=True))
def test_hostile_walks_touch_nothing_outside(data, given_walk):
    """Any number of any buffer is replaced, and any end is cut off."""
    with pytest.MonkeyPatch.context() as patch:
        calls = []
        patch.setattr(module, "VISIT_ONCE", SimpleNamespace(attempt=lambda *arguments: calls.append(arguments)))
        module.find_reads_natively(*given_walk)
    if not calls:
        return
    given_arguments = calls[0]
    flat = [each for one in given_arguments for each in (one if isinstance(one, list) else [one])]
    numbers = [k for k, each in enumerate(flat) if isinstance(each, int)]
    arrays = [each for each in flat if not isinstance(each, int)]
    fenced = Fenced(*spoil(data.draw, arrays))
    copies = list(fenced.copies)
    for number in numbers:
        copies.insert(number, flat[number])
    remade = [[copies.pop(0) for _ in one] if isinstance(one, list) else copies.pop(0) for one in given_arguments]
    module.VISIT_ONCE.attempt(*remade)
    assert fenced.hold()
    # The cache state, the host's time and the results are written; all buffers before them are read-only.
    read_only = [each for each in given_arguments[:13] if not isinstance(each, int)]
    assert fenced.unchanged(*range(sum(len(each) if isinstance(each, list) else 1 for each in read_only)))
