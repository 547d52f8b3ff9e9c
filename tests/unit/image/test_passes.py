from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.image import MemorySource, passes
from layoutscope.image.passes import Want, read_alone, read_together
from layoutscope.image.source import RecordingSource

DATA = np.random.default_rng(5).integers(0, 256, 1 << 20, np.uint8)
SOURCE = MemorySource(DATA.tobytes())
OFFSETS = st.lists(st.integers(0, (1 << 20) - 8192), max_size=40)


def reader(source, steps, size, *, levels=None):
    """Read pieces at each step's offsets; return the start and content of each piece, by step."""
    found = []
    for number, offsets in enumerate(steps):
        got = {}

        def take(rows, data, offsets=offsets, got=got):
            got.update(zip(rows.tolist(), (row.tobytes() for row in data), strict=True))
            assert np.diff(np.array(offsets)[rows]).min(initial=0) >= 0

        more = 0 if levels is None else levels[number]
        yield [Want(source, np.array(offsets, np.int64), size, take, more)]
        found.append([got[row] for row in range(len(offsets))])
    return found


@given(st.lists(st.tuples(st.lists(OFFSETS, max_size=3), st.sampled_from([1, 512, 4096, 8192])), max_size=4))
def test_each_reader_gets_what_it_wanted(readers):
    """For any sizes and steps, every piece comes once, in address order."""
    read = read_together([reader(SOURCE, steps, size) for steps, size in readers])
    expected = [[[DATA[at : at + size].tobytes() for at in offsets] for offsets in steps] for steps, size in readers]
    assert read == expected


def test_readers_share_each_pass(monkeypatch):
    """Two readers of two steps each read parts of 8 KiB: two passes, each from start to end."""
    monkeypatch.setattr(passes, "PART_BYTES", 8192)
    source = RecordingSource(SOURCE)
    one = reader(source, [[900_000, 100_000], [500_000, 300_000]], 4096)
    other = reader(source, [[200_000, 800_000], [400_000]], 4096)
    read_together([one, other])
    assert source.recorded()[:, 0].tolist() == [100_000, 200_000, 800_000, 900_000, 300_000, 400_000, 500_000]


def test_passes_of_several_readers():
    """Leaves are one pass, and empty requests end."""
    # Leaves of a tree of two levels wait for those of a tree of three levels.
    source = RecordingSource(SOURCE)
    high = reader(source, [[500_000], [600_000], [100_000, 900_000]], 512, levels=[2, 1, 0])
    low = reader(source, [[400_000], [200_000, 800_000]], 512, levels=[1, 0])
    read_together([low, high])
    assert source.recorded()[:, 0].tolist() == [500_000, 400_000, 600_000, 100_000, 200_000, 800_000, 900_000]
    # One of three readers wants nothing, and one has an empty request.
    source = RecordingSource(SOURCE)
    assert read_together([reader(source, [], 1), reader(source, [[]], 1), reader(source, [[3]], 1)]) == [
        [], [[]], [[DATA[3:4].tobytes()]],
    ]  # fmt: skip
    assert read_together([]) == []


def test_each_device_is_crossed_once():
    """One reader wants pieces of two sources."""
    first, second = RecordingSource(SOURCE), RecordingSource(SOURCE)

    def both():
        yield [
            Want(first, np.array([70_000, 10]), 16, lambda *_: None),
            Want(second, np.array([60_000, 20]), 16, lambda *_: None),
        ]
        return "done"

    assert read_alone(both()) == "done"
    assert [each.recorded()[:, 0].tolist() for each in (first, second)] == [[10, 70_000], [20, 60_000]]
