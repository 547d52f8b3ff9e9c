from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import FormatError, UnreadError
from layoutscope.image.failing import (
    COARSE_BYTES,
    MAX_ATTEMPTS,
    MAX_FAILED_READS,
    FailingError,
    FailingSource,
    RescuedSource,
    around_failures,
)
from layoutscope.image.remembered import RememberedSource
from layoutscope.image.source import MemorySource, ReadCounter, Source, Window

SECTOR = 512
DATA = bytes(range(1, 256)) * 4112  # 1,048,560 bytes, none of them zero


class Disk(Source):
    """A disk that fails in some areas and records the failed requests."""

    def __init__(self, *bad: tuple[int, int], size_bytes: int = len(DATA)) -> None:
        self.name, self.size_bytes, self.counter = "disk", size_bytes, ReadCounter()
        self.bad = list(bad)
        self.refused: list[tuple[int, int]] = []

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        stop = image_offset + len(target)
        if any(image_offset < end and start < stop for start, end in self.bad):
            self.refused.append((image_offset, len(target)))
            raise UnreadError("cannot be read: input/output error", structure="", image_offset=image_offset)
        target[:] = DATA[image_offset:stop]


def filled(source: Source, start: int, length: int) -> bytes:
    """Read into a buffer that has other content before."""
    target = bytearray(b"\xff" * length)
    source.read_into(start, memoryview(target))
    return bytes(target)


def test_a_request_that_fails_loses_the_sector_alone():
    """Sectors 3 and 9 are lost; their neighbours in the same request are read."""
    source = FailingSource(Disk((3 * SECTOR + 7, 3 * SECTOR + 8), (9 * SECTOR, 10 * SECTOR)))
    data = filled(source, 0, 16 * SECTOR)
    assert source.unread_ranges().tolist() == [[3 * SECTOR, SECTOR], [9 * SECTOR, SECTOR]]
    for number in range(16):
        expected = bytes(SECTOR) if number in (3, 9) else DATA[number * SECTOR : (number + 1) * SECTOR]
        assert data[number * SECTOR : (number + 1) * SECTOR] == expected
    # On a drive with sectors of 4,096 bytes, nothing smaller is requested.
    disk = Disk((5000, 5001))
    disk.sector_size_bytes = 4096
    source = FailingSource(disk)
    filled(source, 0, 16384)
    assert source.unread_ranges().tolist() == [[4096, 4096]]
    # Systems read 4,096 bytes or fail; the sector after the page is read.
    source = FailingSource(Disk((8192, 12288)))
    filled(source, 0, 65536)
    assert source.unread_ranges().tolist() == [[8192, 4096]]


def test_a_failing_sector_costs_only_itself():
    """A failing sector is read once, and its neighbours are kept."""
    # A failing disk takes time for each attempt, so the second read makes none.
    disk = Disk((4096, 8192))
    source = FailingSource(disk)
    first = filled(source, 0, 65536)
    asked = len(disk.refused)
    assert filled(source, 0, 65536) == first
    assert asked
    assert len(disk.refused) == asked
    # Of three pieces, the middle one is lost, before the failure is known and after.
    source = FailingSource(Disk((8192, 8704)))
    starts, lengths = np.array([0, 8000, 20000]), np.array([100, 300, 50])
    for _ in range(2):
        data = source.read_extents(starts, lengths).tobytes()
        assert data[:100] == DATA[:100]
        assert data[100:292] == DATA[8000:8192]
        assert data[292:400] == bytes(108)
        assert data[400:] == DATA[20000:20050]
        assert source.touches_unread(starts, lengths).tolist() == [False, True, False]
    # A lost track of 256 KiB counts as lost in full, with at most a quarter more.
    start, stop = 3 * COARSE_BYTES, 7 * COARSE_BYTES
    disk = Disk((start, stop))
    source = FailingSource(disk)
    filled(source, 0, len(DATA))
    ((first, length),) = source.unread_ranges().tolist()
    assert first == start
    assert stop <= first + length <= stop + (stop - start) // 4
    assert len(disk.refused) < MAX_FAILED_READS / 4


def test_single_reads_raise_with_the_address_that_fails():
    """Zeros are never returned as if they were data."""
    source = FailingSource(Disk((4096, 4608)))
    with pytest.raises(UnreadError, match="at byte 4,096: cannot be read: input/output error"):
        source.read(1024, 8192)
    assert source.read(1024, 3072) == DATA[1024:4096]
    assert source.read(4608, 10) == DATA[4608:4618]
    # Windows see failed areas relative to their start; errors have the image's address.
    window = Window(FailingSource(Disk((4096, 4608))), 4000, 4000)
    with pytest.raises(UnreadError, match="at byte 4,096"):
        window.read(0, 500)
    assert window.unread_ranges().tolist() == [[96, 512]]


def test_an_error_that_passes_loses_nothing():
    """Data that is read in the retry by sector is not lost."""
    disk = Disk((4096, 4608))
    source = FailingSource(disk)
    real = disk._fetch_into

    def once(image_offset: int, target: memoryview) -> None:
        try:
            real(image_offset, target)
        finally:
            disk.bad.clear()

    disk._fetch_into = once
    assert filled(source, 0, 8192) == DATA[:8192]
    assert not len(source.unread_ranges())


def test_a_disk_that_fails_too_often_is_left_alone():
    """One line says so, and no more requests are made than allowed."""
    disk = Disk(*((start, start + SECTOR) for start in range(0, len(DATA), 2 * SECTOR)))
    source = FailingSource(disk)
    with pytest.raises(FailingError, match="fails too often: 256 reads failed") as caught:
        filled(source, 0, len(DATA))
    assert "\n" not in str(caught.value)
    assert len(disk.refused) == MAX_FAILED_READS
    with pytest.raises(FailingError):
        source.read(len(DATA) - 10, 10)


def test_areas_of_a_map_and_areas_that_fail_come_together():
    """A map marks the first sector as unread, and the disk fails at the third; each keeps its own message."""
    rescued = RescuedSource(Disk((1024, 1536)), np.array([[0, 512]]))
    with FailingSource(RememberedSource(rescued, keeps_all=False)) as source:  # as images are opened
        assert filled(source, 0, 2048) == bytes(512) + DATA[512:1024] + bytes(512) + DATA[1536:2048]
        assert source.unread_ranges().tolist() == [[0, 512], [1024, 512]]
        with pytest.raises(UnreadError, match="never read from the disk"):
            source.read(0, 512)
        with pytest.raises(UnreadError, match="cannot be read"):
            source.read(1024, 512)


def test_work_is_done_again_until_nothing_new_fails():
    """Work is repeated only for new failures."""
    # No data is lost, and nothing is read twice.
    source = FailingSource(MemorySource(DATA))
    calls = []
    assert around_failures([source], lambda: calls.append(0) or source.read(0, 1000)) == DATA[:1000]
    assert (len(calls), source.counter.reads, source.unread_ranges().tolist()) == (1, 1, [])
    # The first attempt takes zeros for data; the second one knows the failed areas.
    source = FailingSource(Disk((4096, 4608)))
    attempts = []

    def work() -> str:
        attempts.append(source.unread_ranges().tolist())
        filled(source, 4096, 512)
        return "gap" if attempts[-1] else "zeros"

    assert around_failures([source], work) == "gap"
    assert attempts == [[], [[4096, 512]]]


def test_errors_and_attempts_have_an_end():
    """Errors caused by zeros are dropped; an error that persists is reported."""
    source = FailingSource(Disk((4096, 4608)))

    def work() -> None:
        known = len(source.unread_ranges())
        filled(source, 4096, 512)
        raise FormatError("second" if known else "first", structure="x", image_offset=0)

    with pytest.raises(FormatError, match="second"):
        around_failures([source], work)
    # Work that hits another bad sector each time ends with one line.
    failing = FailingSource(Disk((0, len(DATA))))
    attempts = []

    def go_on() -> None:
        attempts.append(0)
        filled(failing, len(attempts) * 2 * SECTOR, SECTOR)

    with pytest.raises(FailingError, match="other areas failed in each of 64 readings"):
        around_failures([failing], go_on)
    assert len(attempts) == MAX_ATTEMPTS
