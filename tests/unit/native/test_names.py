"""The order of names in C and in numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.filesystems.hfsplus.keys import MISPLACED_NAMES, Keys, misplaced
from layoutscope.filesystems.hfsplus.names import case_table, place_names, show_names, swap_to_disk_order
from layoutscope.structs.leaves import Texts
from tests.unit.hfsplus.written import find_misplaced
from tests.unit.native.fences import EXAMPLES, Fenced, spoil

TABLE = case_table().astype(np.int32)
UNITS = st.sampled_from("aAbBzZ/:\0\u200c\u00e9\u00c9\u0410\u0430\uffff\ud800\udc00")
"""Letters of both cases, an ignorable one, one that decomposes, and units that sort last."""


@st.composite
def keys(draw):
    """Return folder numbers and names, as shown and as stored; in any order, some rows with the same name."""
    texts = draw(st.lists(st.text(UNITS, max_size=20), min_size=1, max_size=12))
    raw = [text.encode("utf-16-be", "surrogatepass") for text in texts]
    others = [b"" if text.isascii() else units for text, units in zip(texts, raw, strict=True)]
    text = joined([text.encode("utf-8", "replace") for text in texts])
    some = draw(st.none() | st.lists(st.integers(0, len(raw) - 1), max_size=20))
    rows = None if some is None else np.array(some, np.int64)
    count = len(raw) if rows is None else len(rows)
    numbers = np.array(draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)), np.int64)
    order = range(count) if rows is None else rows.tolist()
    return numbers, show_names(text, joined(others), rows), [raw[row] for row in order]


def joined(raw):
    """Concatenate texts."""
    return Texts(np.frombuffer(bytearray(b"".join(raw)), np.uint8), np.array(list(map(len, raw)), np.uint32))


@EXAMPLES
@given(given_keys=keys(), is_folded=st.booleans())
def test_the_same_keys_are_misplaced(given_keys, is_folded):
    """Keys compare by number, then by name, with and without case; the kernel did not refuse."""
    numbers, kept, raw = given_keys
    found = misplaced(numbers, *kept, is_folded=is_folded)
    counts = np.array([len(each) // 2 for each in raw], np.int64)
    units = swap_to_disk_order(np.frombuffer(b"".join(raw), np.uint16))
    twin = Keys(numbers, units, np.cumsum(counts) - counts, counts, is_folded)
    assert found.tolist() == find_misplaced(twin)
    # Python compares lists by their first items that differ; a list comes before longer ones that start with it.
    order = [np.frombuffer(each, ">u2").tolist() for each in raw]
    if is_folded:
        order = [[TABLE[unit] for unit in units if TABLE[unit]] for units in order]
    pairs = list(zip(numbers.tolist(), order, strict=True))
    assert found.tolist() == [bool(at) and pairs[at] <= pairs[at - 1] for at in range(len(pairs))]
    table = TABLE if is_folded else TABLE[:0]
    assert MISPLACED_NAMES.attempt(numbers, *place_names(*kept), table, np.empty(len(numbers), np.uint8)) == found.sum()


@EXAMPLES
@given(data=st.data(), given_keys=keys())
def test_places_outside_are_refused(data, given_keys):
    """For any arrays, nothing is written outside the result; references outside the names are refused."""
    numbers, kept, _ = given_keys
    arrays = [numbers, *place_names(*kept), TABLE, np.zeros(len(numbers), np.uint8)]
    fenced = Fenced(*spoil(data.draw, arrays))
    found = MISPLACED_NAMES.attempt(*fenced.copies)
    assert fenced.hold()
    assert fenced.unchanged(*range(8))
    _, plain, starts, lengths, others, other_starts, other_lengths, _, _ = fenced.copies
    if found is not None:
        is_other = other_lengths != 0 if len(other_lengths) else np.zeros(len(starts), np.bool_)
        assert len(starts) == len(lengths) == len(is_other)
        for names, at, size, chosen in (
            (plain, starts, lengths, ~is_other),
            (others, other_starts, other_lengths, is_other),
        ):
            rows = np.flatnonzero(chosen)
            for first, length in zip(at[rows].tolist(), size[rows].tolist(), strict=True):
                assert 0 <= first <= first + length <= len(names)
