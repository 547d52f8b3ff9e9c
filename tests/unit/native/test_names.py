"""The order of names in C against that in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.filesystems.hfsplus.tree.folding import case_table
from layoutscope.filesystems.hfsplus.tree.keys import MISPLACED_NAMES, Keys, misplaced, without_case
from layoutscope.filesystems.hfsplus.tree.names import StoredNames, in_disk_order
from tests.unit.native.fences import EXAMPLES, Fenced, spoil

pytestmark = pytest.mark.usefixtures("native")

TABLE = case_table().astype(np.int32)
UNITS = st.sampled_from("aAbBzZ\0\u200c\u00e9\u00c9\u0410\u0430\uffff\ud800\udc00")
"""Letters of both cases, an ignorable one, one that decomposes, and what sorts last."""


@st.composite
def keys(draw):
    """Return numbers of folders, bytes of names, and where each name lies: in any order, some in the same place."""
    texts = draw(st.lists(st.text(UNITS, max_size=9), min_size=1, max_size=12))
    raw = [text.encode("utf-16-be", "surrogatepass") for text in texts]
    lengths = np.array([len(each) for each in raw], np.int64)
    rows = np.array(draw(st.lists(st.integers(0, len(raw) - 1), max_size=20)), np.int64)
    numbers = np.array(draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))), np.int64)
    starts = np.cumsum(lengths) - lengths
    return numbers, np.frombuffer(b"".join(raw), np.uint8), starts[rows], lengths[rows]


@EXAMPLES
@given(given_keys=keys(), is_folded=st.booleans())
def test_the_same_keys_are_misplaced(given_keys, is_folded):
    """By number first, then by name, with and without regard to case; the kernel did not refuse."""
    numbers, data, starts, lengths = given_keys
    found = misplaced(numbers, StoredNames(data, starts, lengths), is_folded=is_folded)
    twin = Keys(numbers, in_disk_order(data.copy().view(np.uint16)), starts // 2, lengths // 2)
    assert found.tolist() == (without_case(twin) if is_folded else twin).misplaced().tolist()
    table = TABLE if is_folded else TABLE[:0]
    assert MISPLACED_NAMES(numbers, data, starts, lengths, table, np.empty(len(numbers), np.uint8)) == found.sum()


@EXAMPLES
@given(data=st.data(), given_keys=keys())
def test_places_outside_are_refused(data, given_keys):
    """Whatever the arrays say, nothing is written outside of the result; what leaves the names is refused."""
    numbers, names, starts, lengths = given_keys
    arrays = [numbers, names, starts, lengths, TABLE, np.zeros(len(numbers), np.uint8)]
    fenced = Fenced(*spoil(data.draw, arrays))
    found = MISPLACED_NAMES(*fenced.copies)
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 2, 3, 4)
    _, names, starts, lengths, _, _ = fenced.copies
    if found is not None:
        assert len(starts) == len(lengths)
        assert all(
            0 <= at <= at + size <= len(names) for at, size in zip(starts.tolist(), lengths.tolist(), strict=True)
        )
