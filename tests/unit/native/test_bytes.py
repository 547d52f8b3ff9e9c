"""Reads and checksums in C and in Python."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.image.raw import READ_PIECES
from layoutscope.structs.arrays import COPY_PIECES, ranges, starts_of, take_ranges
from layoutscope.structs.checksum import FLETCHER64, fletcher64
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced
from tests.unit.native.reference.checksum import plain_fletcher64


@EXAMPLES
@given(data=st.data())
def test_checksums_are_the_same(data):
    """Objects contain random bytes, zeros and ones, from one word to more than one partial sum takes."""
    shape = data.draw(st.integers(0, 5)), 4 * data.draw(st.sampled_from([2, 3, 1024, 1 << 15, (1 << 15) + 3]))
    fill = data.draw(st.sampled_from([0, 0xFF, None]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    blocks = random if fill is None else np.full(shape, fill, np.uint8)
    assert fletcher64(blocks).tolist() == plain_fletcher64(blocks)


@EXAMPLES
@given(size=EVIL, count=st.integers(0, 9), length=st.integers(0, 300))
def test_objects_of_any_size_are_summed_or_refused(size, count, length):
    """Nothing is read unless the product of the sizes equals the buffer's length."""
    fenced = Fenced(np.arange(length).astype(np.uint8), np.zeros(count, np.int64))
    accepted = FLETCHER64.attempt(fenced.copies[0], size, fenced.copies[1]) is not None
    assert accepted == (size >= 8 and size % 4 == 0 and size * count == length)
    assert fenced.hold()
    assert accepted or fenced.unchanged(0, 1)


LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the descriptor of a file of 200,000 bytes, the second half of which is a hole."""
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(np.random.default_rng(1).bytes(100_000))
    os.truncate(path, 200_000)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def read_one_by_one(file, pieces, target):
    """Read small pieces until one is too long or incomplete; return how many were read."""
    for k, (start, length, place) in enumerate(zip(*(column.tolist() for column in pieces), strict=True)):
        if length > LIMIT or os.preadv(file, [memoryview(target)[place : place + length]], start) != length:
            return k
    return pieces.shape[1]


@EXAMPLES
@given(data=st.data(), gap=st.sampled_from([0, 100, 32 * 1024]), room=st.sampled_from([0, 4096, 100_000]))
def test_the_same_pieces_are_read(file, data, gap, room):
    """The bytes are equal for any order and gaps, up to a piece that is too long or a failing request."""
    count = data.draw(st.integers(0, 12))
    starts = data.draw(st.lists(st.integers(0, 199_000), min_size=count, max_size=count))
    if data.draw(st.booleans()):
        starts.sort()
    lengths = data.draw(st.lists(st.sampled_from([0, 1, 512, 4096, LIMIT, LIMIT + 1]), min_size=count, max_size=count))
    pieces = np.array([starts, lengths, np.cumsum([0, *lengths])[:-1]], np.int64).reshape(3, count)
    fenced, theirs, used = Fenced(np.zeros(sum(lengths), np.uint8)), bytearray(sum(lengths)), np.zeros(2, np.int64)
    scratch = Fenced(np.zeros(room, np.uint8))
    done = READ_PIECES(file, LIMIT, gap, *pieces, scratch.copies[0], fenced.copies[0], used)
    expected = read_one_by_one(file, pieces, theirs)
    # A request for several pieces fails as a whole if its end fails.
    assert done == expected or (done < expected and max(starts[done:expected]) + max(lengths) > 200_000)
    whole = sum(lengths[:done])
    assert fenced.copies[0][:whole].tobytes() == bytes(theirs[:whole])
    assert used[0] <= done
    assert fenced.hold()
    assert scratch.hold()


def test_pieces_with_short_gaps_are_one_request(file):
    """Three sectors, each followed by a gap of one sector: one request of five sectors, or three of one each."""
    starts, sectors = np.array([0, 1024, 2048]), np.full(3, 512)
    for gap, room, used in ((512, 4096, [1, 2560]), (511, 4096, [3, 1536]), (512, 2559, [2, 2048])):
        counted = np.zeros(2, np.int64)
        buffers = np.zeros(room, np.uint8), np.zeros(1536, np.uint8)
        assert READ_PIECES(file, LIMIT, gap, starts, sectors, np.arange(3) * 512, *buffers, counted) == 3
        assert counted.tolist() == used


@EXAMPLES
@given(
    pieces=st.lists(st.tuples(EVIL, EVIL, EVIL), min_size=1, max_size=4), most=EVIL, gap=EVIL, sound=st.integers(0, 2)
)
def test_no_piece_goes_anywhere_else(file, pieces, most, gap, sound):
    """For offsets, lengths and places of any size, only the buffers are written, after valid pieces."""
    columns = np.array([(0, 8, 8)] * sound + pieces, np.int64).T.copy()
    fenced, scratch = Fenced(np.zeros(100, np.uint8)), Fenced(np.zeros(100, np.uint8))
    READ_PIECES.attempt(file, most, gap, *columns, scratch.copies[0], fenced.copies[0], np.zeros(2, np.int64))
    assert fenced.hold()
    assert scratch.hold()


@pytest.mark.parametrize("descriptor", [-1, 2**31, 2**62, 999])
def test_no_file_no_pieces(descriptor):
    """An invalid descriptor is refused, or nothing is read."""
    piece, room, used = np.array([[0], [4], [0]]), np.zeros(4, np.uint8), np.zeros(2, np.int64)
    assert READ_PIECES.attempt(descriptor, 64, 0, *piece, room, room.copy(), used) in (None, 0)


@EXAMPLES
@given(data=st.data(), length=st.integers(1, 60), evil=st.lists(st.tuples(EVIL, EVIL, EVIL), max_size=2))
def test_pieces_are_copied_or_refused(data, length, evil):
    """Pieces of any length, including zero, are copied to contiguous places in any order.

    Offsets, lengths and places of any size after them, and columns of unlike lengths, are refused or stay within the
    buffers.
    """
    lengths = np.array(data.draw(st.lists(st.sampled_from([0, 1, 7, length]), max_size=9)), np.int64)
    offsets = np.array([data.draw(st.integers(0, 60 - size)) for size in lengths.tolist()], np.int64)
    order = np.array(data.draw(st.permutations(range(len(lengths)))), np.int64)
    places = np.empty(len(lengths), np.int64)
    places[order] = starts_of(lengths[order])
    fenced = Fenced(np.zeros(int(lengths.sum()), np.uint8), np.arange(60, dtype=np.uint8))
    target, source = fenced.copies
    columns = np.concatenate([np.stack([offsets, lengths, places]), np.array(evil, np.int64).reshape(-1, 3).T], axis=1)
    done = COPY_PIECES.attempt(source, *columns.copy(), target)
    assert fenced.hold()
    assert fenced.unchanged(1)
    if not evil:
        assert done == len(lengths)
        for start, size, place in columns.T.tolist():
            assert target[place : place + size].tobytes() == source[start : start + size].tobytes()
    longer = [np.append(columns[number], 0) if number == len(evil) else columns[number].copy() for number in range(3)]
    assert COPY_PIECES.attempt(source, *longer, target) is None


@EXAMPLES
@given(data=st.data(), dtype=st.sampled_from([np.bool_, np.uint16, np.float32, np.int64]), width=st.integers(0, 3))
def test_ranges_of_rows_are_taken_as_by_their_places(data, dtype, width):
    """Columns have zero, one or several values per row; rows come in any order and repeatedly."""
    rows = data.draw(st.integers(0, 12))
    values = np.arange(rows * max(width, 1)).astype(dtype).reshape((rows, width) if width else (rows,))
    first = data.draw(st.lists(st.integers(0, rows), max_size=6))
    ends = [data.draw(st.integers(start, rows)) for start in first]
    starts = np.array(first, np.int64)
    counts = np.array(ends, np.int64) - starts
    found = take_ranges(values, starts, counts)
    assert found.dtype == values.dtype
    assert found.tolist() == values[ranges(starts, counts)].tolist()
