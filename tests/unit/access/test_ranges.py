from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access import ranges
from layoutscope.access.host import HOSTS, SOURCES, HostProfile


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=20))
def test_runs_are_the_concatenated_ranges(runs):
    """The same as a loop over the runs."""
    start = np.array([first for first, _ in runs], np.int64)
    count = np.array([length for _, length in runs], np.int64)
    assert ranges.run_positions(start, count).tolist() == [first + i for first, length in runs for i in range(length)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_interleaved_places_fill_the_whole(groups):
    """The places of both parts together are each place once, and a group's parts follow each other."""
    counts = [np.array([pair[i] for pair in groups], np.int64) for i in range(2)]
    places = ranges.interleave(counts)
    assert sorted(np.concatenate(places).tolist()) == list(range(int(sum(map(np.sum, counts)))))
    merged = np.empty(sum(map(len, places)), np.int64)
    for part, place in enumerate(places):
        merged[place] = np.repeat(np.arange(len(groups)), counts[part]) * 2 + part
    assert merged.tolist() == sorted(merged.tolist())


@given(st.lists(st.integers(0, 9), max_size=30))
def test_first_places_are_where_values_are_new(values):
    """The same as a loop with a set."""
    seen: set[int] = set()
    wanted = [place for place, value in enumerate(values) if not (value in seen or seen.add(value))]
    assert ranges.first_places(np.array(values, np.int64), 10).tolist() == wanted


def test_every_property_of_a_host_has_its_source():
    """Nothing differs between hosts without a word on where it comes from."""
    properties = set(HostProfile.__dataclass_fields__) - {"name"}
    assert properties == set(SOURCES)
    assert all(len(SOURCES[name]) == len(HOSTS) for name in properties)
