"""Hashes of names in C and in numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.checks.apfs.namehashes import HASH_PLAIN_NAMES, MASK, hash_names
from layoutscope.filesystems.apfs.fsrecords import TextColumn
from tests.unit.native.fences import EXAMPLES, Fenced, is_same, spoil
from tests.unit.native.reference.checksum import hash_plain_names

CHARACTERS = st.sampled_from("aAzZ@[`{\x7f\0é\u0130ß\u0378\U0001f600")
"""Letters of both cases, their neighbours, the last ASCII one, folding that grows, an unassigned one."""


@st.composite
def names(draw):
    """Return names as stored: ASCII and others, empty ones, and some that are not text."""
    texts = draw(st.lists(st.one_of(st.text(CHARACTERS, max_size=9), st.text("aB.9", max_size=20)), max_size=12))
    raw = [text.encode() for text in texts]
    if draw(st.booleans()):
        raw.append(b"\xff\xfe")
    return TextColumn(np.frombuffer(b"".join(raw), np.uint8), np.array([len(each) for each in raw], np.uint16))


@EXAMPLES
@given(data=st.data(), given_names=names(), is_folded=st.integers(-1, 2))
def test_the_same_names_have_the_same_hashes(data, given_names, is_folded):
    """ASCII names have the hash of one by one, without a refusal, and other names are passed on.

    For any lengths, no write is outside the results, and no read outside the names.
    """
    count = len(given_names)
    arrays = [
        given_names.data, given_names.length.astype(np.int64), np.zeros(count, np.int32), np.zeros(count, np.uint8),
    ]  # fmt: skip
    fenced = Fenced(*spoil(data.draw, arrays))
    raw, lengths, hashes, known = fenced.copies
    found = HASH_PLAIN_NAMES.attempt(raw, lengths, is_folded, MASK, hashes, known)
    assert fenced.hold()
    assert fenced.unchanged(0, 1)
    if found is not None:
        assert len(lengths) == len(hashes) == len(known)
        assert min(lengths.tolist(), default=0) >= 0
        assert sum(lengths.tolist()) <= len(raw)
    if is_folded in (0, 1):
        twin, is_plain = hash_plain_names(given_names, folded=bool(is_folded))
        if is_same(arrays, fenced.originals):
            assert (found, known.tolist(), hashes.tolist()) == (sum(is_plain), is_plain, twin)
        whole, is_known = hash_names(given_names, folded=bool(is_folded))
        assert whole[is_plain].tolist() == np.array(twin)[is_plain].tolist()
        assert (is_known >= np.array(is_plain)).all()
