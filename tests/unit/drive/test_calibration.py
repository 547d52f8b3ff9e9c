"""Calibration of the drive model itself: the measurement must recover the figures that were put in."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.api.drives import OF_A_FILE, add_note, measure_drive
from layoutscope.drive import load_profile
from layoutscope.drive.calibration import fitting
from layoutscope.drive.calibration.plan import HIT_BYTES, STREAMS, Calibration, make_log, read_log
from layoutscope.drive.geometry import read_listed_zones
from layoutscope.drive.profile import parse_profile, profile_text
from layoutscope.errors import ImageError, UsageError
from tests.cases import for_each
from tests.unit.drive.fakes import FakeDrive
from tests.unit.drive.lesser import without_map
from tests.unit.drive.toys import drive_set, flash
from tests.validation.calibration import CURVE_MUST, curve_error


@pytest.fixture(scope="module")
def drive():
    """Return a disk whose zones, skews and seeks are known."""
    return without_map(load_profile("cheetah9lp"))


@pytest.fixture(scope="module")
def found(drive):
    """Measure it once, in less than a minute."""
    fake = FakeDrive(drive)
    one = measure_drive(fake, "mine", [(k * 40_960, 4096) for k in range(300)])
    assert fake.now_ms < 1000 * fitting.LONGEST_S
    return one


def test_turn_tracks_and_seeks_are_found(found, drive):
    """The measurement finds the figures that were put in."""
    # The speed is within 1e-4, because the clock of the model has no jitter.
    assert found.profile.number("rpm") == pytest.approx(10_045, rel=1e-4)
    # Half of the 16 places are within 1 % of the zone's track size; some sweeps cross two zones.
    tracks, _ = fitting.fit_disk(found.log)
    zones = read_listed_zones(drive)
    true = zones.sectors[np.searchsorted(zones.first_lbn, tracks.offset / 512, side="right") - 1] * 512
    assert np.median(np.abs(tracks.track_bytes / true - 1)) < 0.01
    # Root mean square of overhead plus seek, over pairs of places at ten distances from a hundred tracks on.
    assert curve_error(drive, *fitting.fit_disk(found.log)) < CURVE_MUST
    assert found.profile.text("on_arrival", "") == "none"
    assert "arrival" not in found.log.step


@pytest.mark.full
def test_a_slow_drive_is_measured_within_a_minute():
    """The slowest drives read fewer pairs, but the walk is still known within a few per cent."""
    fake = FakeDrive(load_profile("generic-5400-2.5"))
    one = measure_drive(fake, "mine", [(k * 40_960, 4096) for k in range(300)])
    assert fake.now_ms < 1000 * fitting.LONGEST_S
    assert len(one.log.of("pairs")) >= fitting.FEWEST_ROUNDS * fitting.ROUND
    assert one.known < 0.02
    assert "The predicted walk of the image is known within" in one.profile.note


def test_what_is_known_is_of_the_walk(found):
    """Sequential reads do not move the arm; for a walk without moves, reads all over the drive count."""
    tracks, _ = fitting.fit_disk(found.log)
    moved = fitting.moves_of(found.log, tracks, [(0, 4096), (4096, 4096), (1 << 30, 4096), (0, 4096)])
    assert len(moved) == 2
    assert moved[0] == pytest.approx(moved[1], rel=1e-3)
    assert (
        len(fitting.moves_of(found.log, tracks, [(0, 4096), (4096, 4096)]))
        == len(fitting.moves_of(found.log, tracks, []))
        == 1999
    )


def test_segments_are_counted(found, drive):
    """Three reads are held when reads come back, last one first; between two and four streams agree with that."""
    assert found.profile.number("segments") == drive.number("segments") == 3
    assert fitting.count_streams(found.log) == (2, 4)
    without_back = found.log.take(found.log.step != "back")
    assert fitting.count_segments(without_back) == 2
    assert "Streams that are read ahead at once: 3." in found.profile.note
    told = np.char.startswith(found.log.step, "streams")
    assert fitting.count_segments(without_back.take(~told[found.log.step != "back"])) == fitting.UNKNOWN_SEGMENTS
    # Streams are counted by their names.
    # A drive that holds 100 single reads but keeps up two streams has two segments as far as a walk is concerned.
    rows = [("hits", 0, 4096, 0, 100_000)] * 9
    for count, quick in ((1, True), (2, True), (4, False)):
        rows += [
            (f"streams{count}", 0, 4096, 0, 100_000 if quick and k >= count else 8_000_000) for k in range(4 * count)
        ]
    rows += [("back", 0, 4096, 0, 100_000)] * 100
    assert fitting.count_segments(make_log(1 << 30, rows)) == 2
    # The step's name can be followed by anything.
    rows = [("hits", 0, 4096, 0, 100_000), *((f"streams{word}", 0, 4096, 0, 9) for word in ("", "x", "²", "-1", "1e3"))]
    assert fitting.count_streams(make_log(1 << 30, rows)) == (0, np.inf)


@pytest.mark.full
@pytest.mark.parametrize(("segments", "expected"), [(1, (1, 2)), (5, (4, 8)), (16, (16, 32)), (64, (64, np.inf))])
def test_as_many_streams_are_kept_up_as_there_are_segments(segments, expected):
    """Between 1 and 64 streams are read in turn, on a disk with the given number of segments."""
    plan = Calibration(FakeDrive(load_profile("generic-7200").with_figures(segments=segments)))
    plan.hits(4)
    plan.interleaved()
    assert fitting.count_streams(plan.log) == expected
    assert expected[0] <= STREAMS


DISK = load_profile("generic-7200").with_figures(capacity_bytes=200 * 10**9)


def stripe(disks, chunk_kib):
    """Return the profile of a stripe of some disks."""
    return drive_set("stripe", *[DISK] * disks, chunk_bytes=chunk_kib << 10)


@pytest.mark.parametrize(
    ("profile", "mirror", "kind"),
    [
        (DISK, None, fitting.ONE),
        (load_profile("atlas10k5"), None, fitting.ONE),
        (without_map(load_profile("cheetah9lp")), None, fitting.ONE),
        (DISK, "first", fitting.ONE),
        (DISK, "turns", fitting.MIRROR),
        (DISK, "nearest", fitting.MIRROR),
        (stripe(2, 16), None, fitting.STRIPE),
        (stripe(2, 64), None, fitting.STRIPE),
        (stripe(2, 1024), None, fitting.STRIPE),
        (drive_set("concat", DISK, DISK), None, fitting.UNTOLD),
    ],
)
def test_arms_are_counted(profile, mirror, kind):
    """One disk, mirrors by how they share reads, and stripes are told apart; a concatenation is none of these."""
    plan = Calibration(FakeDrive(profile, mirror=mirror, jitter_ms=0.02))
    plan.arms()
    found, free, pairs = fitting.count_arms(plan.log)
    assert found == kind, (free, pairs)
    assert fitting.count_arms(plan.log.take(np.arange(len(plan.log)) > 0))[0] == fitting.UNTRIED


class OneAtATime(FakeDrive):
    """A drive behind a bus that allows one command at a time."""

    def read_together(self, offsets, length, _depth):
        """Read one piece after another."""
        return sum(self.read(offset, length)[1] for offset in offsets)


def test_a_stripe_is_told_without_a_queue():
    """The arms alone, which stay where they are, identify it."""
    for profile, kind in ((DISK, fitting.ONE), (stripe(2, 64), fitting.STRIPE)):
        plan = Calibration(OneAtATime(profile))
        plan.arms()
        assert fitting.count_arms(plan.log)[0] == kind


@pytest.mark.full
@pytest.mark.parametrize(
    ("profile", "mirror", "words"),
    [
        (stripe(2, 16), None, "Looks like a stripe of two disks"),
        (DISK, "turns", "Looks like a mirror that shares its reads"),
    ],
)
def test_a_set_is_measured_as_a_whole(profile, mirror, words):
    """Tracks and seeks of two disks are not invented: what the reads do not show is assumed from a drive class."""
    one = measure_drive(FakeDrive(profile, mirror=mirror), "mine", [])
    assert words in one.profile.note
    assert not len(one.log.of("tracks"))
    assert one.profile.kind == "hdd"
    assert one.profile.number("capacity_bytes") == profile.capacity_bytes
    assert one.profile.figures["track_to_track_ms"].kind == one.profile.figures["on_arrival"].kind == "assumed"
    # Two reads of a place are whole turns apart on a stripe, but not on a mirror whose disks take turns.
    assert ("no rhythm was found" in one.profile.note) == bool(mirror)
    assert mirror or one.profile.number("rpm") == pytest.approx(7200, rel=1e-4)


@pytest.mark.full
def test_the_turn_is_measured_where_the_buffer_holds_all_that_was_read():
    """With 300 tracks in the buffer, rereading 300 places shows no turn, but rereading 600 does.

    Tracks cannot be measured then, so the rest is assumed of a class.
    """
    drive = load_profile("generic-7200").with_figures(on_arrival="track", segments=300, buffer_bytes=300 << 20)
    fake = FakeDrive(drive)
    one = measure_drive(fake, "mine", [])
    assert (len(one.log.of("held")), len(one.log.of("turn"))) == (2 * 300, 2 * 600)
    assert one.profile.number("rpm") == pytest.approx(7200, rel=1e-5)
    assert one.profile.text("on_arrival", "") == "track"
    assert "most like generic-7200" in one.profile.title
    assert not len(one.log.of("tracks"))
    assert fake.now_ms < 1000 * fitting.LONGEST_S


@pytest.mark.parametrize("on_arrival", ["none", "track"])
@pytest.mark.parametrize("name", ["generic-7200", "generic-5400-2.5", "cheetah9lp", "cheetah15k5"])
def test_the_short_measurement_tells_the_main_figures(name, on_arrival):
    """In seven seconds: rotation, on-arrival read-ahead, overhead and mean seek; the rest is assumed from a class."""
    drive = load_profile(name).with_figures(on_arrival=on_arrival)
    fake = FakeDrive(drive, jitter_ms=0.02)
    one = measure_drive(fake, "mine", [], is_short=True)
    assert fake.now_ms < 7000
    assert one.profile.number("rpm") == pytest.approx(drive.number("rpm"), rel=1e-3)
    assert one.profile.text("on_arrival", "") == on_arrival
    assert one.profile.number("read_hit_ms") == pytest.approx(drive.number("read_hit_ms"), rel=0.05)
    assert "most like generic-" in one.profile.title
    assert 0.02 < one.known < 0.06
    if name.startswith("generic-"):
        # If the drive is one of the classes, it is identified by rotation, rate and the mean of random reads.
        assert one.profile.title == f"mine: most like {name}"
        within = 2 * one.known * (one.profile.number("average_seek_ms") + 30_000 / one.profile.number("rpm"))
        assert one.profile.number("average_seek_ms") == pytest.approx(drive.number("average_seek_ms"), abs=within)
        for figure in ("outer_mb_s", "inner_mb_s"):
            assert one.profile.number(figure) == pytest.approx(drive.number(figure), rel=0.05)
    assert fitting.judge_log(read_log(one.log.text(), "log"), "mine").profile.figures == one.profile.figures


@pytest.mark.full
@pytest.mark.parametrize(
    "figures",
    [
        {"segment_sectors": 2500},
        {"look_ahead": "track", "segment_sectors": 5000, "join": "next-sector"},
    ],
)
def test_the_way_to_read_ahead_is_told(figures):
    """Each method is compared at its best size: a track-sized segment is not mistaken for look-ahead to the end."""
    drive = DISK.with_figures(**figures)
    one = measure_drive(FakeDrive(drive), "mine", []).profile
    assert one.text("look_ahead", "") == drive.text("look_ahead", "")
    if drive.text("look_ahead", "") == "segment":
        expected = drive.number("segment_sectors", 3164)
        assert one.number("segment_sectors") == pytest.approx(expected, rel=0.01)
    assert one.number("read_miss_ms") == pytest.approx(drive.number("read_miss_ms"), rel=0.1)


@pytest.mark.full
def test_a_drive_that_keeps_its_track_is_measured_as_well(drive):
    """The downward reads that measure other drives are hits here, but turn, seeks, buffer and walks are still found."""
    keeping = FakeDrive(drive.with_figures(on_arrival="track"))
    one = measure_drive(keeping, "mine", [(k * 40_960, 4096) for k in range(300)])
    assert one.profile.text("on_arrival", "") == "track"
    assert one.profile.number("rpm") == pytest.approx(10_045, rel=1e-4)
    assert one.profile.number("segments") == 3
    assert one.held_back == pytest.approx({"uniform": 1, "walk": 1}, abs=0.05)
    assert curve_error(drive, *fitting.fit_disk(one.log)) < CURVE_MUST
    assert keeping.now_ms < 1000 * fitting.LONGEST_S
    again = fitting.judge_log(read_log(one.log.text(), "log"), "mine")
    assert again.profile.figures == one.profile.figures


def test_what_was_held_back_speaks_for_the_profile(found):
    """400 random reads are within 3 % on the mean, 300 of a synthetic walk within 5 %, and the note says so."""
    assert (list(found.held_back), len(found.log.of("walk"))) == (["uniform", "walk"], 300)
    assert found.held_back["uniform"] == pytest.approx(1, abs=0.03)
    assert found.held_back["walk"] == pytest.approx(1, abs=0.05)
    assert f"{found.held_back['walk']:.3f} times" in found.profile.note
    # Held-back reads of another drive do not match the profile.
    slower = found.log.step == "uniform"
    log = replace(found.log, ns=(found.log.ns * np.where(slower, 1.2, 1)).astype(int))
    assert "off by more than 3%" in add_note(fitting.judge_log(log, "mine")).profile.note
    assert "off by more" not in found.profile.note


def test_the_profile_carries_its_covariance(found, tmp_path):
    """The covariance is read back as written; drives drawn from it differ no more than it says."""
    again = parse_profile(profile_text(found.profile), name="mine", folder=tmp_path)
    assert again.spread.figures[:3] == ("rpm", "read_hit_ms", "seek_ms[0]")
    draws = np.random.default_rng(1).standard_normal((50, len(again.spread.figures)))
    longest = [again.drawn(normal).numbers("seek_ms")[-1] for normal in draws]
    assert 0 < np.std(np.log(longest)) < 0.1


def test_files_and_flash_are_no_disks():
    """Holes, files and flash are distinguished from disks."""
    # Reads of a sparse file take a microsecond or two, which the note mentions; it does not for reads of 100 us.
    log = make_log(1 << 30, [("kind", 4096 * k, 4096, 10_000 * k, 1_700) for k in range(60)])
    quick = replace(measure_drive(FakeDrive(flash()), "mine", []), log=log)
    assert "took under 1.7 us, as no drive does" in add_note(quick).profile.note
    assert "no drive" not in measure_drive(FakeDrive(flash()), "mine", []).profile.note
    # Title and note of a file's profile, also if fitted to its log, say so; those of a drive do not.
    fake = FakeDrive(flash())
    plain = measure_drive(fake, "mine", [])
    fake.is_file = True
    measured = measure_drive(fake, "mine", [])
    for one in (measured, add_note(fitting.judge_log(read_log(measured.log.text(), "log"), "mine"))):
        assert one.profile.title == f"{plain.profile.title} (a file, no drive)"
        assert one.profile.note.startswith(OF_A_FILE)
    assert not plain.log.is_file
    assert OF_A_FILE not in plain.profile.note
    # Flash has 100 us at 4 KiB, 100 MB/s beyond 8 KiB, and serves four reads in parallel.
    one = measure_drive(FakeDrive(flash()), "mine", [])
    assert one.profile.kind == "ssd"
    assert one.profile.numbers("latency_us") == pytest.approx([100, 201.92, 693.44, 1348.8], rel=1e-3)
    assert one.profile.number("parallel_reads") == 2  # 100 MB/s allows no more parallel reads of 4 KiB
    assert len(one.tracks) == 0


class Failing(FakeDrive):
    """A drive whose thousandth read fails."""

    def read(self, offset, length):
        """Read until a read fails."""
        if self.reads == 1000:
            raise ImageError("byte 7: input/output error")
        return super().read(offset, length)


def test_it_stops_at_the_first_error(drive):
    """No read follows the error, and the thousand reads before it are logged."""
    logs = []
    failing = Failing(drive)
    with pytest.raises(ImageError, match="byte 7"):
        measure_drive(failing, "mine", [], logs.append)
    assert failing.reads == 1000
    assert [len(log) for log in logs] == [1000 - 48]  # two simultaneous reads are one row


def test_the_plan_is_always_the_same(drive):
    """Its places are drawn with a fixed seed."""
    plans = [Calibration(FakeDrive(drive)) for _ in range(2)]
    for plan in plans:
        plan.is_flash()
        plan.skips()
        plan.pairs(100, 100_000)
    assert plans[0].rows == plans[1].rows


def test_drives_that_cannot_be_measured(drive):
    """Neither a small drive, nor a larger image, nor a few reads."""
    # A drive of a megabyte is not measured.
    with pytest.raises(UsageError, match="too small"):
        Calibration(FakeDrive(flash(capacity_bytes=1 << 20)))
    # The refusal comes before any read.
    fake = FakeDrive(drive)
    with pytest.raises(UsageError, match="larger than the drive"):
        measure_drive(fake, "mine", [(drive.capacity_bytes, 4096)])
    assert fake.reads == 0
    with pytest.raises(UsageError, match="too few"):
        fitting.fit_curve(np.ones(9), np.ones(9), 8.0)


def test_reads_without_a_rhythm_are_no_disk():
    """Reads that take random times have no turn."""
    random = np.random.default_rng(1)
    rows, at_ns = [], 0
    for name in ("turn", "turn-wide"):
        for k in range(50):
            taken = int(random.uniform(1e6, 9e6))
            rows.append((name, (1 << 30) - 4096 * k, 4096, at_ns, taken))
            at_ns += taken
    with pytest.raises(UsageError, match="show no rotation"):
        fitting.fit_turn_ms(make_log(1 << 31, rows))


@pytest.mark.parametrize(("count", "later_ns"), [(40, 10**7), (400, 1 << 58)])
def test_a_strangers_log_has_no_turn_without_end(count, later_ns):
    """Too few places are read twice, or reads centuries apart would need too much memory."""
    rows = [("turn", k << 20, 4096, later_ns * k // count, 9_000_000) for k in range(count)]
    with pytest.raises(UsageError, match="too few reads"):
        fitting.fit_turn_ms(make_log(1 << 40, rows))


HEAD, SIZE = "step,offset,length,at_ns,ns\n", "capacity,0,4096,0,0\n"
WRONG = ("", "pairs,0,x,0,1", "pairs,0,4096,0", "pairs,4096,4096,0,1", "pairs,-1,1,0,1", "pairs,0,4096,0,0")


@for_each("text", ["", "a,b\n1,2\n", HEAD, HEAD + "pairs,0,4096,0,1\n", *(f"{HEAD}{SIZE}{row}\n" for row in WRONG)])
def test_what_is_no_log_is_refused(text):
    """A wrong header, no capacity, no reads, invalid numbers, and reads beyond the end are refused."""
    with pytest.raises(UsageError, match=r"mine\.csv"):
        read_log(text, "mine.csv")


def test_hits_are_known_though_the_computer_is_late():
    """Hits take 100 us plus 10 us per KiB and are late by 20 us on the mean; one size alone gives no rate."""
    late = np.random.default_rng(4).exponential(20_000, 150)
    rows = [
        ("again", 0, size := HIT_BYTES[k % 3], k << 20, round(100_000 + size * 40_000 / 4096 + late[k]))
        for k in range(150)
    ]
    hits = fitting.hit_figures(make_log(1 << 30, rows))
    assert hits["read_hit_ms"] == pytest.approx(0.1, rel=0.01)
    assert hits["interface_mb_s"] == pytest.approx(102.4, rel=0.05)
    assert set(fitting.hit_figures(make_log(1 << 30, rows[::3]))) == {"read_hit_ms"}


def test_segments_are_told_though_the_computer_is_late():
    """The drive reads on while the computer is late; modelled so, the true segments beat ones that are a fifth off."""
    drive = load_profile("atlas10k5")
    plan = Calibration(FakeDrive(drive, jitter_ms=0.02))
    for step in (plan.ladder, plan.hits, plan.streams):
        step()
    near = plan.log.of("before", "again", "stream", "paced")
    late = fitting.late_ms(plan.log, len(near))
    assert late.mean() == pytest.approx(0.02, rel=0.25)
    sizes = (102, 128, 154)
    sought, punctual = (
        [
            fitting.measure_misfit(near, fitting.serve_log_ms(near, lag, drive.with_figures(segment_sectors=size)))
            for size in sizes
        ]
        for lag in (late, 0 * late)
    )
    assert np.argmin(sought) == 1
    assert sought[1] < punctual[1] / 2


@pytest.mark.full
def test_a_log_without_streams_or_hits_gives_a_profile(found):
    """Figures that these steps measure are left unset; the turn and the seeks are still found."""
    for gone in (("again",), ("rates", "again", "hits")):
        part = found.log.take(~np.isin(found.log.step, gone))
        assert fitting.judge_log(part, "mine").profile.number("rpm") == pytest.approx(
            found.profile.number("rpm"), rel=1e-3
        )
    assert fitting.longest_step_ms(found.log.take(found.log.step != "rates"), fitting.fit_disk(found.log)[0]) == np.inf


@pytest.mark.parametrize("steps", [("pairs",), ("turn", "turn-wide"), ("sizes",), ("turn", "turn-wide", "tracks")])
def test_a_log_that_lacks_steps_is_refused(found, steps):
    """The error names the missing steps; no figure is invented."""
    part = found.log.of(*steps)
    if steps == ("sizes",):
        part = make_log(1 << 30, [("sizes", 0, 4096, 0, 100_000)])
    with pytest.raises(UsageError):
        fitting.judge_log(part, "mine")
