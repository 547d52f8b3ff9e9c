"""Reads and checksums in C against those in Python."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.image.raw import READ_PIECES, SMALL_BYTES, plain_pieces
from layoutscope.ondisk.checksum import FLETCHER64, fletcher64, plain_fletcher64
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced

pytestmark = pytest.mark.usefixtures("native")


@EXAMPLES
@given(data=st.data())
def test_checksums_are_the_same(data):
    """Of random bytes, zeros and ones, in objects of a word up to more than a sum takes at once."""
    shape = data.draw(st.integers(0, 5)), 4 * data.draw(st.sampled_from([2, 3, 1024, 1 << 15, (1 << 15) + 3]))
    fill = data.draw(st.sampled_from([0, 0xFF, None]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    blocks = random if fill is None else np.full(shape, fill, np.uint8)
    assert fletcher64(blocks).tolist() == plain_fletcher64(blocks).tolist()


@EXAMPLES
@given(size=EVIL, count=st.integers(0, 9), length=st.integers(0, 300))
def test_objects_of_any_size_are_summed_or_refused(size, count, length):
    """Unless the sizes multiply to what there is, nothing is read."""
    fenced = Fenced(np.arange(length).astype(np.uint8), np.zeros(count, np.int64))
    accepted = FLETCHER64(fenced.copies[0], size, fenced.copies[1]) is not None
    assert accepted == (size >= 8 and size % 4 == 0 and size * count == length)
    assert fenced.hold()
    assert accepted or fenced.unchanged(0, 1)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the descriptor of a file of 200,000 bytes, the second half of which is a hole."""
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(np.random.default_rng(1).bytes(100_000))
    os.truncate(path, 200_000)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@EXAMPLES
@given(data=st.data())
def test_the_same_pieces_are_read(file, data):
    """As many, and the same bytes, up to one that is too long or leaves the file."""
    count = data.draw(st.integers(0, 12))
    starts = data.draw(st.lists(st.integers(0, 199_000), min_size=count, max_size=count))
    lengths = data.draw(
        st.lists(st.sampled_from([0, 1, 512, 4096, SMALL_BYTES, SMALL_BYTES + 1]), min_size=count, max_size=count)
    )
    pieces = np.array([starts, lengths, np.cumsum([0, *lengths])[:-1]], np.int64).reshape(3, count)
    fenced = Fenced(np.zeros(sum(lengths), np.uint8))
    theirs = bytearray(sum(lengths))
    done = READ_PIECES(file, SMALL_BYTES, *pieces, fenced.copies[0])
    assert done == plain_pieces(file, *pieces, memoryview(theirs))
    whole = sum(lengths[:done])
    assert fenced.copies[0][:whole].tobytes() == bytes(theirs[:whole])
    assert fenced.hold()


@EXAMPLES
@given(pieces=st.lists(st.tuples(EVIL, EVIL, EVIL), min_size=1, max_size=4), most=EVIL, sound=st.integers(0, 2))
def test_no_piece_goes_anywhere_else(file, pieces, most, sound):
    """Offsets, lengths and places of any size write into the buffer alone, after pieces that are sound."""
    columns = np.array([(0, 8, 8)] * sound + pieces, np.int64).T.copy()
    fenced = Fenced(np.zeros(100, np.uint8))
    READ_PIECES(file, most, *columns, fenced.copies[0])
    assert fenced.hold()


@pytest.mark.parametrize("descriptor", [-1, 2**31, 2**62, 999])
def test_no_file_no_pieces(descriptor):
    """What is no descriptor is refused, or nothing comes."""
    piece = np.array([[0], [4], [0]])
    assert READ_PIECES(descriptor, 64, *piece, np.zeros(4, np.uint8)) in (None, 0)
