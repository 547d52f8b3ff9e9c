from __future__ import annotations

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.image import MemorySource, remembered
from layoutscope.image.remembered import RememberedSource
from layoutscope.image.source import RecordingSource

DATA = np.random.default_rng(6).integers(0, 256, 300_000, np.uint8).tobytes()
PIECES = st.lists(st.tuples(st.integers(0, 199_999), st.sampled_from([0, 1, 512, 4096, 70_000])), max_size=20)


def made(*, keeps_all=True):
    inner = RecordingSource(MemorySource(DATA))
    return RememberedSource(inner, keeps_all=keeps_all), inner


@pytest.fixture
def opened():
    """Return a remembering source, and the wrapped one, which records its requests."""
    source, inner = made()
    with source:
        yield source, inner


def read_all(source, pieces):
    starts, lengths = (np.array(column, np.int64) for column in (zip(*pieces, strict=True) if pieces else ([], [])))
    return source.read_extents(starts, lengths).tobytes()


@given(st.lists(st.one_of(PIECES, st.tuples(st.integers(0, 199_999), st.integers(0, 90_000))), max_size=8))
def test_any_reads_give_the_bytes_of_the_source(reads):
    """Reads alone or together, in any order and overlap."""
    with made()[0] as source:
        for read in reads:
            if isinstance(read, list):
                assert read_all(source, read) == b"".join(DATA[at : at + length] for at, length in read)
            else:
                at, length = read
                assert source.read(at, length) == DATA[at : at + length]


def test_what_was_read_is_not_read_again(opened):
    """It is not read as it was, in other pieces, or as part of a long read, which requests only the rest."""
    source, inner = opened
    read_all(source, [(4096, 4096), (8192, 4096), (50_000, 512)])
    source.read(0, 100)
    before = len(inner.recorded())
    read_all(source, [(50_000, 512), (4100, 8000), (0, 50)])
    source.read(6000, 3000)
    assert len(inner.recorded()) == before
    long = bytearray(100_000)
    source.read_into(0, memoryview(long))
    assert bytes(long) == DATA[:100_000]
    assert inner.recorded()[before:].tolist() == [[100, 4096], [12_288, 50_000], [50_512, 100_000]]


@pytest.mark.parametrize(("keeps_all", "asked"), [(True, 0), (False, 1)])
def test_memory_is_bounded(monkeypatch, keeps_all, asked):
    """With room for one piece of 4 KiB the second is read again, unless all are kept in a file."""
    monkeypatch.setattr(remembered, "MEMORY_BYTES", 5000)
    source, inner = made(keeps_all=keeps_all)
    with source:
        read_all(source, [(0, 4096)])
        read_all(source, [(8192, 4096)])
        before = len(inner.recorded())
        assert read_all(source, [(0, 4096), (8192, 4096)]) == DATA[:4096] + DATA[8192:12_288]
    assert len(inner.recorded()) - before == asked


def test_a_full_disk_costs_reads_and_nothing_else(monkeypatch, opened):
    """Data that cannot be written is read again."""
    source, inner = opened

    def refuse(_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(source._file, "write", refuse)
    for _ in range(2):
        assert read_all(source, [(0, 4096)]) == DATA[:4096]
    assert len(inner.recorded()) == 2
