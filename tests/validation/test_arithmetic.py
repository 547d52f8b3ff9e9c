"""The drive model against a hundred-line model that shares no code with it."""

from __future__ import annotations

from importlib import import_module
from itertools import product

import pytest

import layoutscope
from fixtures.large import WRITERS
from layoutscope.drive import load_profile, service
from layoutscope.drive.geometry import outer_track_sectors
from tests.validation.arithmetic import serve_seconds

SYSTEMS = ("apfs", "hfsplus")
SMALL = tuple(f"aged/{system}-20000-{age}.img" for system, age in product(SYSTEMS, ("c00", "c20")))
BY_MACOS = tuple(f"apple/{name}.raw" for name in ("hfsinspect_hfsj", "slate_20121008", "sparkle_apfs_lzma_aux"))
DRIVES = ("generic-7200", "generic-5400-2.5")
SHEET = {
    "rpm": 6000, "outer_mb_s": 1000 / 11, "inner_mb_s": 1000 / 11, "capacity_bytes": 10**12, "heads": 1,
    "track_to_track_ms": 1, "average_seek_ms": 10, "buffer_bytes": 16 * 10**6, "read_miss_ms": 0.1, "read_hit_ms": 0.1,
}  # fmt: skip


def farther_off(image, share):
    """Return the listings of an image on which the two models differ by more than a share, among all served.

    Both hosts are used, and drives with and without track buffering on arrival.
    """
    found = []
    for host in ("linux", "macos"):
        trace = layoutscope.trace(image, host=host)
        columns = trace.image_offset, trace.length_bytes, trace.think_us / 1e6
        reads = list(zip(*(column.tolist() for column in columns), strict=True))
        for drive, on_arrival in product(DRIVES, ("none", "track")):
            profile = load_profile(drive).with_figures(on_arrival=on_arrival)
            sheet = {key: figure.value for key, figure in profile.figures.items()}
            times = serve_seconds(reads, sheet) / service(trace, profile).seconds
            if abs(times - 1) > share:
                found.append(f"{image}, {host}, {drive}, {on_arrival}: {times:.2f}")
    return found


def test_listings_of_images_that_are_made(tmp_path):
    """Within 25 % of the drive model on four volumes of 20,000 files: fresh and after 20 cycles, created by hash."""
    images = []
    for system, cycles in product(SYSTEMS, (0, 20)):
        plan = import_module(WRITERS[system]).LargePlan(20_000, cycles, 1, order="hash")
        images.append(tmp_path / f"{system}-{cycles}.img")
        import_module(WRITERS[system]).write_large(plan, images[-1])
    assert [line for image in images for line in farther_off(image, 0.25)] == []


@pytest.mark.parametrize(
    "names",
    [(*SMALL, *BY_MACOS), pytest.param([name.replace("20000", "200000") for name in SMALL], marks=pytest.mark.slow)],
    ids=["small", "large"],
)
def test_listings_of_reference_images(reference_image, names):
    """Within 25 % on eleven volumes: of 20,000 and 200,000 files, fresh and aged, and three that macOS made."""
    assert [line for name in names for line in farther_off(reference_image(name), 0.25)] == []


@pytest.mark.parametrize(
    ("reads", "milliseconds"),
    [
        # One revolution takes 10 ms and a step to the next track 1 ms. Both bring 1 MB, so 10,000 bytes take 0.11 ms.
        # The clock starts at angle 0, and 0.1 ms have passed: 9.9 ms to wait.
        ([(0, 10_000, 0.0)], 10 + 0.11),
        # The next bytes come from the buffer at the speed of the platter.
        ([(0, 10_000, 0.0), (10_000, 10_000, 0.0)], 10 + 0.22),
        # After 5 ms they have long been read: a hit.
        ([(0, 10_000, 0.0), (10_000, 10_000, 5e-3)], 10 + 0.11 + 5 + 0.1),
        # Bytes before the first read were never read. At 5.21 ms the head is at 521,000: 9.69 ms until 490,000 comes.
        ([(500_000, 10_000, 0.0), (490_000, 10_000, 0.0)], 5 + 0.11 + 0.1 + 9.69 + 0.11),
        # One track on: the seek ends at 11.21 ms. The track begins 1 ms later than the first, so its byte 700,000 comes
        # at 8 ms of each revolution: 6.79 ms to wait.
        ([(0, 10_000, 0.0), (1_700_000, 10_000, 0.0)], 10 + 0.11 + 0.1 + 1 + 6.79 + 0.11),
        # Look-ahead ends half a track after a read, at 510,000, and a read across that place continues from there. That
        # place passes 5.1 ms after the start of the track; after the overhead 0.21 ms of a revolution have passed.
        ([(0, 10_000, 0.0), (505_000, 10_000, 20e-3)], 10 + 0.11 + 20 + 0.1 + 4.89 + 0.055),
    ],
)
def test_reads_that_are_worked_out_by_hand(reads, milliseconds):
    """Rotation, transfer, buffer and seek, each separately."""
    assert serve_seconds(reads, SHEET) * 1000 == pytest.approx(milliseconds)


def test_reading_on_has_the_rate_of_the_data_sheet():
    """Twenty contiguous tracks, on this disk and on one of the drive model with tracks of the same length."""
    reads = [(start, 250_000, 0.0) for start in range(0, 20 * 10**6, 250_000)]
    assert 20 / serve_seconds(reads, SHEET) == pytest.approx(1000 / 11, rel=0.06)
    profile = load_profile("generic-7200")
    track_bytes = 180e6 * (60 / 7200 + 0.6e-3)
    assert outer_track_sectors(profile) * 512 == pytest.approx(track_bytes, rel=0.02)


def test_what_passed_under_the_head_is_a_hit():
    """The head waits from byte 10,000 of the track on; the first 490,000 bytes that passed before x are buffered."""
    reads = [(500_000, 10_000, 0.0), (490_000, 10_000, 0.0)]
    assert serve_seconds(reads, SHEET | {"on_arrival": "track"}) * 1000 == pytest.approx(5 + 0.11 + 0.1)
    reads[1] = (0, 10_000, 0.0)  # passed before the head was there
    assert serve_seconds(reads, SHEET | {"on_arrival": "track"}) * 1000 > 5 + 0.11 + 0.2
