"""``validate``: kits made from the committed APFS image with our own workload, in the format of a Mac's kit.

The files are those of docs/drives.md. A faulty kit is reported with the reason: another unit or disk, a missing
workload. Malicious archives are refused in one line.
"""

from __future__ import annotations

import gzip
import io
import json
import plistlib
import tarfile
import tracemalloc
from itertools import pairwise

import pytest

import layoutscope
from layoutscope.api.measure import measure_drive
from layoutscope.errors import ImageError
from layoutscope.image import opening
from tests.recordings import fs_usage_lines
from tests.unit.drive.fakes import FakeDrive
from tests.unit.drive.toys import flash

DRIVE = "generic-7200"
ORDERS = {"find": {"stat": False}, "ls": {}, "bulk": {"order": "bulk"}}


@pytest.fixture(scope="module")
def files(apfs_image, tmp_path_factory):
    """Return the files of a kit by name: three workloads at twice the host's time, on a drive as its profile says."""
    folder = tmp_path_factory.mktemp("capture")
    layoutscope.scan(apfs_image, drives=(), names=False).save(folder / "metadata.lscope")
    made = {f"metadata.lscope/{place.relative_to(folder / 'metadata.lscope').as_posix()}": place.read_bytes()
            for place in (folder / "metadata.lscope").rglob("*") if place.is_file()}  # fmt: skip
    for name, order in ORDERS.items():
        reads = layoutscope.trace(apfs_image, host="macos", **order)
        reads.think_us[:] = reads.think_us.round() * 2
        served = layoutscope.service(reads, layoutscope.load_profile(DRIVE)).reads_ms.service_ms * 1000
        lines = fs_usage_lines(reads, served, unit=4096, device="disk5", process=name)
        made[f"walk-{name}.fs_usage.txt"] = ("\n".join(lines) + "\n").encode()
        made[f"walk-{name}.fs_usage.err.txt"] = b""
        seconds = (reads.think_us.sum() + served.sum()) / 1e6
        made[f"walk-{name}.time.txt"] = b"real %.2f\nuser 0.10\nsys 0.40\n" % seconds
        made[f"walk-{name}.count.txt"] = b"    4198\n"
    return made | {
        "kit.txt": b"kit = 1\nvolume = blanked\ndevice = disk4s2\ncontainer = disk5\nphysical = disk4\n",
        "steps.tsv": b"step\tstatus\tseconds\tnote\ncalibrate\t-\t0\tno perl\nwalk-find\t0\t3\t\n",
        "sw_vers.txt": b"ProductName:\t\tmacOS\nProductVersion:\t\t14.5\nBuildVersion:\t\t23F79\n",
        "sysctl.txt": b"hw.memsize: 17179869184\nhw.model: MacBookPro18,3\nkern.maxvnodes: 263168\n",
        "volume.plist": plistlib.dumps({"DeviceBlockSize": 4096}),
        "physical.plist": plistlib.dumps({"MediaName": "Some|Disk", "SolidState": False}),
    }


@pytest.fixture
def packed(tmp_path):
    """Return a function that packs files and further members as the kit's script does."""

    def pack(content, *members):
        target = tmp_path / "layoutscope-kit.tar.gz"
        with tarfile.open(target, "w:gz") as made:
            for name, data in content.items():
                member = tarfile.TarInfo(f"kit/{name}")
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
            for member in members:
                made.addfile(member, io.BytesIO(bytes(member.size)))
        return target

    return pack


@pytest.fixture
def scored(run, packed):
    """Return a function that validates files and returns the document."""

    def get(content, *options):
        result = run("validate", packed(content), "--drive", DRIVE, *options, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return get


def test_every_walk_meets_its_prediction(scored, files):
    """All blocks and pairs, all metadata on nodes, the drive at its pace, the host at half of the measured time."""
    document = scored(files)
    assert [walk["name"] for walk in document["walks"]] == ["find", "ls", "bulk"]
    for walk in document["walks"]:
        found = walk["replay"]
        assert (found["agreement"]["block_share"], found["agreement"]["pair_share"]) == (1, 1), walk["name"]
        assert found["recording"]["on_nodes"] == found["recording"]["tried"] == found["reads"] > 300
        assert found["measured"][0]["ratio"] == pytest.approx(1, abs=0.01)
        assert found["host"]["measured_us"] / found["host"]["model_us"] == pytest.approx(2, rel=0.03)
        assert (walk["entries"], walk["cpu_s"], walk["notes"]) == (4198, 0.5, [])
        assert walk["is_hit"] is True


def test_what_the_leaves_tell(scored, files, apfs_image):
    """Transactions and leaves per transaction, counted independently from the table of nodes."""
    nodes = layoutscope.read_layouts(apfs_image)[1].nodes.filter(tree="fs", kind="leaf", state="live")
    counts = nodes.group_by("xid").len()["len"]
    policy = scored(files)["policy"]
    assert (policy["leaves"], policy["transactions"]) == (len(nodes), len(counts))
    assert policy["leaves_per_transaction"][2] == counts.max()
    assert (policy["xid_deciles"][0], policy["xid_deciles"][-1]) == (nodes["xid"].min(), nodes["xid"].max())
    ordered = nodes.sort("key_rank")["image_offset"].to_list()
    adjacent = sum(after == before + 4096 for before, after in pairwise(ordered))
    assert policy["adjacent_share"] == pytest.approx(adjacent / (len(ordered) - 1))


def test_the_text_has_the_rows_for_the_table(run, packed, files):
    """What it was made on, one row per workload, skipped parts; table characters in names are escaped."""
    result = run("validate", packed(files), "--drive", DRIVE)
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "macOS 14.5 on MacBookPro18,3; APFS disk4s2, disk4 (Some|Disk, rotating)" in words
    assert "Predicted for generic-7200, as asked for" in words
    assert "left out or failed: calibrate no perl" in words
    assert "| macOS 14.5 | Some/Disk | 16.0 GiB | APFS | 4,198 | find | fts --no-stat |" in words
    assert words.count("| yes |") == 3


def test_the_drive_is_that_of_its_model(run, packed, files):
    """A profile that matches the model, else the usual one of the kind."""
    known = files | {"physical.plist": plistlib.dumps({"MediaName": "APPLE SSD AP0256J", "SolidState": True})}
    assert "by its model APPLE SSD AP0256J" in " ".join(run("validate", packed(known)).stdout.split())
    flash = files | {"physical.plist": plistlib.dumps({"MediaName": "Nobody's", "SolidState": True})}
    assert "Predicted for sata-ssd, since no profile is of its model" in " ".join(
        run("validate", packed(flash)).stdout.split()
    )


def test_the_drive_is_that_of_the_calibration(run, packed, files):
    """The kit's measurement takes precedence over its model; --drive takes precedence over both."""
    log = measure_drive(FakeDrive(flash()), "mine", []).log.text().encode()
    known = {"physical.plist": plistlib.dumps({"MediaName": "APPLE SSD AP0256J", "SolidState": True})}
    kit = packed(files | known | {"calibration.csv": log})
    result = run("validate", kit, "--json")
    document = json.loads(result.stdout)
    assert document["profile"].startswith("kit, by its own calibration: Measured with")
    found = document["walks"][1]["replay"]
    causes = found["expected"][0]["causes_s"]
    assert sum(causes.values()) - causes["host"] == pytest.approx(found["reads"] * 100e-6, rel=0.01)
    assert "calibration" not in json.loads(run("validate", kit, "--drive", DRIVE, "--json").stdout)["profile"]


@pytest.mark.parametrize(
    "data", [b"kit: no such disk\n", b"step,offset,length,at_ns,ns\ncapacity,0,4096,0,0\nturn,0,4096,0,1\n"]
)
def test_a_calibration_that_tells_nothing_is_not_used(run, packed, files, data):
    """The model's profile is used instead, with the reason."""
    known = {"physical.plist": plistlib.dumps({"MediaName": "APPLE SSD AP0256J", "SolidState": True})}
    words = " ".join(run("validate", packed(files | known | {"calibration.csv": data})).stdout.split())
    assert "by its model APPLE SSD AP0256J (not by its calibration: " in words


def test_the_rows_tell_of_the_leaves(run, packed, files, scored):
    """Each row has the share of contiguous leaves, leaves per transaction, and transactions by tenths."""
    policy = scored(files)["policy"]
    words = " ".join(run("validate", packed(files), "--drive", DRIVE).stdout.split())
    middle, high, most = policy["leaves_per_transaction"]
    tenths = ", ".join(f"{xid:,}" for xid in policy["xid_deciles"])
    cell = (
        f"{policy['transactions']:,} transactions: {middle:g} leaves each (90 % {high:g}, most {most:g}) | {tenths} |"
    )
    assert words.count(cell) == 3


def test_a_slow_walk_is_no_hit(scored, files):
    """Ten minutes are outside the range of a workload of seconds."""
    document = scored(files | {"walk-ls.time.txt": b"real 600.00\nuser 0.10\nsys 0.40\n"})
    assert [walk["is_hit"] for walk in document["walks"]] == [True, False, True]


def test_a_kit_of_another_unit_says_so(scored, files):
    """The block size from diskutil is not the one that puts reads on nodes."""
    document = scored(files | {"volume.plist": plistlib.dumps({"DeviceBlockSize": 512})})
    assert document["walks"][0]["notes"] == ["its blocks have 4,096 bytes, diskutil says 512"]


def test_a_walk_on_another_disk_says_so(scored, files):
    """The recording's reads are on nodes, but of a disk that is not the kit's."""
    content = files["walk-ls.fs_usage.txt"].replace(b"/dev/disk5", b"/dev/disk7")
    document = scored(files | {"walk-ls.fs_usage.txt": content})
    assert document["walks"][1]["notes"] == ["its reads are on disk7, the kit is of disk4s2"]
    assert document["walks"][0]["notes"] == []


def test_a_walk_of_other_blocks_says_what_is_wrong(scored, files):
    """Blocks that never match nodes: the capture is not of that state of the disk."""
    content = files["walk-ls.fs_usage.txt"].replace(b"D=0x0", b"D=0x7")
    problem = scored(files | {"walk-ls.fs_usage.txt": content})["walks"][1]["replay"]["recording"]["problem"]
    assert problem.startswith("only 0 % of 628 reads are on nodes")


@pytest.mark.parametrize(
    ("gone", "changed", "why"),
    [
        ("walk-ls.fs_usage.txt", {}, "it was not recorded"),
        ("", {"walk-ls.fs_usage.txt": b"TIMESTAMP\n09:00:00.0001 RdMeta[S] D=0x8  B=0x1"}, "line 2 is cut or damaged"),
        ("", {"walk-ls.fs_usage.txt": b""}, "its recording holds no reads"),
    ],
)
def test_a_walk_that_is_missing_is_told(scored, files, gone, changed, why):
    """The others are still scored."""
    walks = scored({name: data for name, data in (files | changed).items() if name != gone})["walks"]
    assert why in walks[1]["why_not"]
    assert [walk["why_not"] for walk in (walks[0], walks[2])] == ["", ""]


def test_lost_events_are_told(run, packed, files):
    """The recorder reports it on standard error."""
    lost = files | {"walk-ls.fs_usage.err.txt": b"fs_usage: buffer overrun, events generated too quickly: 6\n"}
    assert "lost events: reads are missing" in " ".join(run("validate", packed(lost), "--drive", DRIVE).stdout.split())


def test_without_a_capture_an_image_can_be_given(scored, files, apfs_image):
    """A kit without a capture gives no score; a given image replaces it."""
    bare = {name: data for name, data in files.items() if not name.startswith("metadata")}
    document = scored(bare)
    assert {walk["why_not"] for walk in document["walks"]} == {
        "the kit has no capture of the volume; --against takes one"
    }
    assert document["policy"] is None
    document = scored(bare, "--against", apfs_image)
    assert document["walks"][0]["replay"]["agreement"]["pair_share"] == 1


def test_a_kit_that_names_nothing_is_told_in_words(run, tmp_path):
    """The text has words where the device name would be."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "kit.txt").write_text("kit = 1\n")
    first = run("validate", tmp_path / "kit").stdout.splitlines()[0]
    assert first.endswith("an unnamed Mac; an unnamed volume")


def test_a_folder_is_a_kit_too(run, tmp_path, files):
    """An unpacked kit need not be packed again."""
    for name, data in files.items():
        (tmp_path / "kit" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kit" / name).write_bytes(data)
    document = json.loads(run("validate", tmp_path / "kit", "--drive", DRIVE, "--json").stdout)
    assert all(walk["is_hit"] for walk in document["walks"])


def member(name, kind=tarfile.REGTYPE, size=0, link=""):
    """Return a member of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    return made


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (member("../kit.txt"), "'../kit.txt' is not in the folder 'kit'"),
        (member("kit/../../x"), "is not in the folder 'kit'"),
        (member("/etc/passwd"), "'/etc/passwd' is not in the folder 'kit'"),
        (member("kit/a\x1b[31m"), "is not in the folder 'kit'"),
        (member("kit/sysctl.txt", tarfile.SYMTYPE, link="/etc/passwd"), "is a link or a device"),
        (member("kit/x", tarfile.LNKTYPE, link="kit/kit.txt"), "is a link or a device"),
        (member("kit/x", tarfile.CHRTYPE), "is a link or a device"),
        (member("kit/kit.txt"), "is in the archive twice"),
    ],
    ids=["up", "up inside", "absolute", "control", "symbolic link", "hard link", "device", "twice"],
)
def test_hostile_archives_are_refused_in_one_line(run, packed, files, bad, message):
    """Nothing of them is read or written."""
    result = run("validate", packed({"kit.txt": files["kit.txt"]}, bad))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert message in result.stderr
    assert "\x1b" not in result.stderr


def test_an_archive_that_unpacks_without_end_is_refused(run, tmp_path, monkeypatch):
    """Too large a member, too many, and headers stored as files: refused before they fill the memory."""
    monkeypatch.setattr(opening, "MAX_UNPACKED_BYTES", 1 << 24)
    monkeypatch.setattr(opening, "MAX_MEMBER_BYTES", 1 << 23)
    target = tmp_path / "kit.tar.gz"
    header = member("kit/x", size=1 << 36)
    with gzip.open(target, "wb", 1) as file:
        file.write(header.tobuf())
        file.write(bytes(1 << 20))
    assert "member 1, 'kit/x', has 68,719,476,736 bytes: too large" in run("validate", target).stderr
    header = member("kit/x", tarfile.XHDTYPE, size=1 << 30)
    with gzip.open(target, "wb", 1) as file:
        file.write(header.tobuf())
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(ImageError, match="unpacks to more than 16,777,216 bytes"):
        opening.list_files_in_archive(target, "kit")
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "is a kit without a version"),
        ({"kit.txt": b"kit = 2\n"}, "is a kit of version '2'; version 1 can be read"),
        ({"kit.txt": b"kit = 1\n", "metadata.img.zst": b"nothing"}, "metadata.img.zst"),
        ({"kit.txt": b"kit = 1\n", "metadata.lscope/manifest.json": b"{"}, "metadata.lscope"),
    ],
)
def test_what_is_no_kit_is_refused_in_one_line(run, packed, content, message):
    """It says what is wrong, and nothing about the unpacked folder."""
    result = run("validate", packed(content))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert message in result.stderr
    assert "layoutscope-kit.tar.gz" in result.stderr


def test_a_cut_archive_is_refused(run, packed, files, tmp_path):
    """In the middle of a file, and in the middle of the compressed data."""
    data = packed(files).read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 4):
        (tmp_path / "cut.tar.gz").write_bytes(data[:length])
        result = run("validate", tmp_path / "cut.tar.gz")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1), length


@pytest.mark.parametrize("name", ["volume.plist", "physical.plist", "sysctl.txt", "sw_vers.txt", "steps.tsv"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0", b"<?xml version='1.0'?><plist><array/></plist>", b"a\nb: c"])
def test_damaged_facts_are_none(scored, files, name, data):
    """The kit's facts about its Mac may be anything; workloads are scored without them."""
    assert scored(files | {name: data})["walks"][0]["is_hit"] is True


def test_a_second_walk_and_the_answers_are_told(tmp_path):
    """A repeated workload follows the others; the user's answers on disk and fill level are kept."""
    folder = tmp_path / "kit"
    folder.mkdir()
    (folder / "kit.txt").write_text("kit = 1\ndisks = My Book = Duo, 5400 rpm\nfilled = CCC, from APFS\n")
    (folder / "walk-find-2.time.txt").write_text("real 3.5\nuser 0.1\nsys 0.2\n")
    found = layoutscope.validate(folder)
    assert [(walk.name, walk.order, walk.real_s) for walk in found.walks if walk.real_s] == [
        ("find-2", "fts --no-stat", 3.5)
    ]
    assert (found.machine.disks, found.machine.filled) == ("My Book = Duo, 5400 rpm", "CCC, from APFS")
    assert "Disks: My Book = Duo, 5400 rpm" in str(found)
