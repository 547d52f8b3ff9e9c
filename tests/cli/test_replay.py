"""``replay`` of macOS disk recordings: it finds the unit and start of blocks, and reports reads of other programs.

The workload is our own, on the committed APFS image, written in the lines of ``fs_usage``: 628 reads.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from fixtures.canvas import Canvas
from fixtures.partitions import APFS_TYPE, gpt
from layoutscope.drive.profile import profile_text
from tests.recordings import fs_usage_lines, line
from tests.unit.drive.toys import disk as toy_disk

START = 209_735_680
"""Start of the first volume on a Mac's disk, after the EFI partition."""


@pytest.fixture(scope="module")
def walk(apfs_image):
    """Return the reads of a macOS workload, and the service time of each on a drive, in microseconds."""
    reads = layoutscope.trace(apfs_image, host="macos")
    assert len(reads) == 628
    served = layoutscope.service(reads, layoutscope.load_profile("generic-7200"))
    return reads, served.reads_ms.service_ms * 1000


@pytest.fixture(scope="module")
def disk(apfs_image, tmp_path_factory):
    """Return a whole disk with the image as a partition."""
    volume = Canvas(apfs_image.stat().st_size)
    volume.put(0, apfs_image.read_bytes())
    target = tmp_path_factory.mktemp("disk") / "disk.img"
    gpt(volume, start_bytes=START, kind=APFS_TYPE).save(target)
    return target


@pytest.fixture
def score(run, apfs_image, tmp_path):
    """Return a function that replays lines against the image, and returns the document or the text."""

    def get(lines, *options, image=apfs_image, as_text=False):
        (tmp_path / "walk.txt").write_text("\n".join(lines) + "\n")
        words = ("replay", tmp_path / "walk.txt", "--against", image, "--drive", "generic-7200", *options)
        result = run(*words) if as_text else run(*words, "--json")
        assert result.exit_code == 0, result.stderr
        return " ".join(result.stdout.split()) if as_text else json.loads(result.stdout)

    return get


def met(document):
    """Return the shares of blocks and of pairs, and the reads used."""
    found = document["agreement"]
    return found["block_share"], found["pair_share"], document["recording"]["used"]


@pytest.mark.parametrize("unit", [512, 4096, 2048])
@pytest.mark.parametrize("is_partition", [False, True], ids=["same base", "relative to a partition"])
def test_unit_and_start_are_found(score, walk, disk, apfs_image, unit, is_partition):
    """Blocks of any unit, counted from the image's or the partition's start: all blocks and pairs match."""
    image = disk if is_partition else apfs_image
    reads, took = walk
    document = score(fs_usage_lines(reads, took, unit=unit), image=image)
    assert met(document) == (1, 1, 628)
    (place,) = document["recording"]["placed"]
    assert (place["unit_bytes"], place["image_offset"]) == (unit, START if is_partition else 0)
    assert document["recording"]["problem"] == ""


def test_the_page_shows_what_is_printed(score, walk, disk):
    """docs/workloads.md has the line for a container after the EFI partition, word for word."""
    reads, took = walk
    printed = score(fs_usage_lines(reads, took, unit=4096, device="disk3"), image=disk, as_text=True)
    (said,) = re.findall(r"disk3: .* are on nodes", printed)
    assert f"\n    {said}\n" in (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_the_host_is_that_of_the_recorder(score, walk):
    """A macOS recording is compared with macOS; another requested host is used, and gets the order wrong."""
    lines = list(fs_usage_lines(*walk))
    assert met(score(lines))[:2] == (1, 1)
    document = score(lines, "--host", "linux")
    assert met(document)[0] == 1
    assert met(document)[1] < 0.2
    steps = document["agreement"]["pairs_by_cause"]
    assert sum(steps_of for steps_of, _ in steps.values()) == 627
    assert sum(found for _, found in steps.values()) / 627 == pytest.approx(document["agreement"]["pair_share"])
    assert "steps by what they lead to: " in score(lines, "--host", "linux", as_text=True)


def test_reads_of_another_disk_are_left_out_and_counted(score, walk):
    """Every third line belongs to another disk: it is neither served nor scored, and reported."""
    mixed = []
    for number, text in enumerate(fs_usage_lines(*walk)):
        mixed.append(text)
        if number % 3 == 2:
            mixed.append(text.replace("/dev/disk2s1", "/dev/disk0s2").replace("D=0x0", "D=0x7"))
    document = score(mixed)
    assert met(document) == (1, 1, 628)
    assert document["recording"]["foreign"] == {"disk0s2": 209}
    assert document["reads"] == 628
    text = score(mixed, as_text=True)
    assert "628 reads used by find; 209 of other disks" in text
    assert "other disks, left out: disk0s2 209" in text
    assert "disk2s1: 628 reads, blocks of 512 bytes from byte 0; 628 of 628 are on nodes" in text


def test_reads_by_other_programs_are_apart(score, walk):
    """Spotlight reads nodes, too; the workload belongs to the program with most reads, or to the named one."""
    lines = list(fs_usage_lines(*walk))
    mixed = [text for each in lines for text in (each, each.replace("find.", "mds.") if each in lines[:50] else "")]
    document = score(filter(None, mixed))
    assert met(document) == (1, 1, 628)
    assert document["recording"]["others"] == {"mds": 50}
    named = score(filter(None, mixed), "--trace-process", "mds")
    assert named["recording"]["used"] == 50
    assert named["recording"]["others"] == {"find": 628}


def test_data_on_a_volume_of_the_same_container(score, walk, apfs_image):
    """Metadata are read from the container, files from a volume of it: both use the same blocks."""
    layout = layoutscope.read_layouts(apfs_image)[1]
    extent = layout.extents.sort("image_offset").row(0, named=True)
    inside = line(30_000e6, extent["image_offset"] // 4096, 4096, 100, call="RdData[S]", device="disk3s1")
    outside = line(30_000e6, extent["image_offset"] // 4096, 4096, 100, call="RdData[S]", device="disk4s1")
    lines = [inside, outside, *fs_usage_lines(*walk, unit=4096, device="disk3")]
    document = score(lines)
    assert document["recording"]["used"] == 629
    assert document["recording"]["foreign"] == {"disk4s1": 1}
    assert [place["device"] for place in document["recording"]["placed"]] == ["disk3", "disk3s1"]


def test_a_wrong_unit_is_called_wrong(score, walk):
    """The given unit puts almost no reads on nodes, and the one that puts all there is named."""
    lines, wrong = list(fs_usage_lines(*walk, unit=4096)), ("--trace-unit", "512", "--trace-at", "0")
    document = score(lines, *wrong)
    assert document["agreement"]["block_share"] < 0.05
    problem = document["recording"]["problem"]
    assert problem.startswith("only ")
    assert (
        "blocks of 4,096 bytes from byte 0 of the image put 100 % there, so that the unit or the start that was"
        in problem
    )
    assert problem[1:] in score(lines, *wrong, as_text=True)


def test_unit_start_device_and_process_can_be_given(score, walk):
    """Also a start before the image, for a trace of a disk that contains it. No unit helps if it is of another disk."""
    lines = list(fs_usage_lines(*walk, base=-START, device="disk0"))
    document = score(lines, "--trace-at", f"-{START}", "--trace-unit", "512", "--trace-device", "/dev/disk0")
    assert met(document) == (1, 1, 628)
    assert document["recording"]["placed"][0]["image_offset"] == -START
    moved = walk[0][np.arange(len(walk[0]))]
    moved.image_offset[:] += 512 * 1021
    problem = score(fs_usage_lines(moved, walk[1]))["recording"]["problem"]
    assert "whatever the unit and the start among those tried: the image is of another disk" in problem


def test_times_are_compared_with_the_drive_and_the_host(score, walk, apfs_image):
    """Written with this drive's times the ratio is 1, read by read and in total; a slower host takes longer."""
    document = score(fs_usage_lines(*walk), "--drive", "generic-5400-2.5")
    same, slower = document["measured"]
    assert same["ratio"] == pytest.approx(1, abs=0.001)
    assert slower["ratio"] < 0.9
    for outcome in same["outcomes"]:
        assert outcome["measured_ms"] == pytest.approx(outcome["predicted_ms"], rel=0.02)
    assert sum(outcome["reads"] for outcome in same["outcomes"]) == 628
    reads, took = walk
    slow = reads[np.arange(len(reads))]
    slow.think_us[:] = np.round(slow.think_us) * 10
    host = score(fs_usage_lines(slow, took))["host"]
    assert host["measured_us"] / host["model_us"] == pytest.approx(10, rel=0.02)
    # 3,892 files and 304 folders: no listing includes the root or the private directory.
    assert host["entries"] == len(layoutscope.read_layouts(apfs_image)[1].entries) - 2


def test_without_an_image_the_disk_with_most_reads_is_served(run, walk, tmp_path):
    """Without an image no unit or start can be found, and the output says so."""
    lines = [*fs_usage_lines(*walk), line(40_000e6, 8, 4096, 100, device="disk9")]
    (tmp_path / "walk.txt").write_text("\n".join(lines))
    text = " ".join(run("replay", tmp_path / "walk.txt", "--drive", "generic-7200").stdout.split())
    assert "blocks of 512 bytes from byte 0; assumed, because there is no image to check it against" in text
    assert "other disks, left out: disk9 1" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace-device", "disk7"], "no read of device 'disk7' (did you mean 'disk2s1'?). Choose from: disk2s1"),
        (["--trace-process", "fnid"], "no read of process 'fnid' (did you mean 'find'?)"),
        (["--trace-unit", "0"], "a block of a disk has 1 to 1,048,576 bytes, not 0"),
        (["--trace-at", "-x"], "is not a number of bytes"),
    ],
)
def test_wrong_wishes_are_refused_in_one_line(run, walk, tmp_path, options, message):
    """Exit code 2, with the valid values."""
    (tmp_path / "walk.txt").write_text("\n".join(fs_usage_lines(*walk)))
    result = run("replay", tmp_path / "walk.txt", "--drive", "generic-7200", *options)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr


def test_blocks_are_not_asked_of_a_trace_that_tells_bytes(run, tmp_path):
    """An iolog gives the byte address of each read."""
    (tmp_path / "one.log").write_text("fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 4096\n")
    result = run("replay", tmp_path / "one.log", "--drive", "generic-7200", "--trace-unit", "4096")
    assert result.exit_code == 2
    assert "apply only to a recording by blocks" in result.stderr


def test_lost_and_damaged_lines_are_told(score, walk):
    """The recorder's own message, and the number of the first damaged line."""
    lines = [*fs_usage_lines(*walk), "09:00:00.000100    RdMeta[S]       D=0x00000008  B=0x10"]
    lines.insert(0, "fs_usage: buffer overrun, events generated too quickly: 6")
    text = score(lines, as_text=True)
    assert "cut or damaged: 1 lines; it is line 630" in text
    assert "the recorder reports 1 times that it lost events: reads are missing" in text


# ``replay`` of any trace on any drive: options of the drive, and its JSON.


IOLOG = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 4096\n/dev/sdb read 25600000 4096\n"


@pytest.fixture
def replayed(run, tmp_path):
    """Return a function that replays two reads, 500 cylinders apart, on the disk of round numbers."""
    (tmp_path / "toy.toml").write_text(profile_text(toy_disk()))
    (tmp_path / "two.log").write_text(IOLOG)

    def get(*options):
        result = run("replay", tmp_path / "two.log", "--drive", tmp_path / "toy.toml", *options, "--json")
        return json.loads(result.stdout)["times"][0]

    return get


def test_the_time_of_the_drive_is_that_of_its_profile(replayed, run, tmp_path):
    """10.8 ms for the first read, 10.0 for the second (see tests/unit/drive/test_closed_forms.py)."""
    found = replayed("--buffer", "off")
    assert found["nominal_s"] == pytest.approx(0.0208, abs=1e-6)
    assert (found["whole_hit"], found["miss"]) == (0, 1)
    assert found["seconds_low"] < found["seconds"] < found["seconds_high"]
    parts = sum(found[f"{name}_ms"] for name in ("seek", "latency", "xfer", "rest"))
    assert parts == pytest.approx(found["mean_ms"])
    # 2 ms of host time before the second read reduce its wait, and are in the total.
    found = replayed("--buffer", "off", "--think-us", "2000")
    assert found["nominal_s"] == pytest.approx(0.0208, abs=1e-6)
    assert found["total_s"] - found["service_s"] == pytest.approx(0.002)
    refused = run("replay", tmp_path / "two.log", "--drive", "generic-7200", "--buffer", "warm")
    assert (refused.exit_code, "own, off, join, no-join" in refused.stderr) == (2, True)


def test_usual_drives_that_are_too_small_are_left_out(run, tmp_path):
    """A read after a terabyte is served by the larger usual drives; a named drive is not left out silently."""
    (tmp_path / "far.log").write_text(IOLOG.replace("25600000", "1099511623680"))
    result = run("replay", tmp_path / "far.log", "--json")
    drives = [one["drive"] for one in json.loads(result.stdout)["times"]]
    assert drives == ["generic-7200", "sata-ssd"]
    result = run("replay", tmp_path / "far.log", "--drive", "generic-5400-2.5")
    assert result.exit_code != 0
    assert "1,099,511,627,776" in result.stderr


def test_a_trace_of_another_image_is_doubted(run, reference_image, tmp_path):
    """The HFS+ reads match no APFS reads: unmatched predictions are counted, and the image is doubted."""
    apfs, hfsplus = (reference_image(f"aged/{name}-20000-c20.img") for name in ("apfs", "hfsplus"))
    run("trace", apfs, "--order", "names", "-o", tmp_path / "names.csv")
    words = ("replay", tmp_path / "names.csv", "--order", "names", "--drive", "sata-ssd", "--against")
    other, own = (" ".join(run(*words, image).stdout.split()) for image in (hfsplus, apfs))
    assert "Few reads match." in other
    assert "0 % of 942 recorded blocks were predicted, 3,172 more predicted" in other
    assert "Was this the image" not in own
    assert "100 % of 942 recorded blocks were predicted, no others predicted" in own
