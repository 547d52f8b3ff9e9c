"""A disk that fills during a batch: one line, no partial file that counts, and no row lost."""

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import layoutscope
from layoutscope.api.outputs import OutputError
from layoutscope.fleet.jobs import FleetJob, FleetLimits, FleetSource
from layoutscope.fleet.store import MIN_FREE_BYTES, FleetFolder
from layoutscope.tables.capture import is_capture
from tests.cli.test_batch_cluster import TABLES, assert_same

IMAGES = Path(__file__).parents[2] / "fixtures/images"
DISKS = 8
FULL = "its disk has no room left: what was read is kept, and --resume takes it up where there is room again"


def mount(*words):
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("no small disk can be mounted here: there is no mount")
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Disks, and a batch of them on a disk with free space."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "disks").mkdir()
    for number in range(DISKS):
        shutil.copy(IMAGES / "hfsplus-scattered.img.zst", folder / "disks" / f"disk {number}.img.zst")
    layoutscope.batch(folder / "disks", folder / "fleet", drives=["generic-7200"], workers=2)
    return folder


@pytest.mark.parametrize("size", ["1200k", "64k", "16k"])
def test_a_disk_that_fills_ends_the_batch_in_one_line(calm, tmp_path, size):
    """Every row is complete with its capture; with free space again, the batch resumes to the undisturbed result."""
    with small_disk(tmp_path / "small", size) as small:
        command = [sys.executable, "-m", "layoutscope", "batch", calm / "disks", "-o", small / "fleet", "-j", "2"]
        drive = ["--drive", "generic-7200"]
        done = subprocess.run([*map(str, command), *drive], capture_output=True, text=True, timeout=240, check=False)
        told = [line for line in done.stderr.splitlines() if f" of {DISKS}: " not in line]
        assert (done.returncode, told) == (1, [f"layoutscope: {small / 'fleet'}: {FULL}"])
        assert done.stderr.count("no space left on device") <= 1
        folder = FleetFolder(small / "fleet")
        rows = [folder.read_row(file.stem) for file in (small / "fleet/rows").iterdir()]
        assert all((row["status"] == "complete") == bool(row["capture"]) for row in rows)
        assert all(is_capture(small / "fleet" / row["capture"]) for row in rows if row["capture"])
        assert not list((small / "fleet/work").iterdir())
        assert not [name for name in TABLES if (small / f"fleet/{name}.parquet").exists()]
        mount("-o", "remount,size=16m", small)
        kept = [row for row in rows if row["capture"]]
        again = layoutscope.batch(calm / "disks", small / "fleet", drives=["generic-7200"], resume=True)
        assert again.kept == len(kept)
        assert_same(small / "fleet", calm / "fleet")


def test_tables_that_do_not_fit_replace_none(calm, tmp_path):
    """All tables appear or none: those of an earlier batch stay together."""
    with small_disk(tmp_path / "small", "4m") as small:
        fleet = Path(shutil.copytree(calm / "fleet", small / "fleet"))
        before = {name: (fleet / f"{name}.parquet").read_bytes() for name in TABLES}
        left = shutil.disk_usage(small).free
        (small / "other").write_bytes(bytes(left - 12 * 1024))  # space for one table, not for all
        with pytest.raises(OutputError, match=FULL.replace("--resume", "resume=True")):
            FleetFolder(fleet).write_tables([file.stem for file in (fleet / "rows").iterdir()][::-1], {})
        assert {name: (fleet / f"{name}.parquet").read_bytes() for name in TABLES} == before
        assert not list(fleet.glob(".*"))


def test_a_source_that_alone_is_too_large_ends_nothing(tmp_path):
    """If others have space, it is a row; a source that failed for another reason does not end a batch either."""
    if shutil.disk_usage(tmp_path).free < MIN_FREE_BYTES:
        pytest.skip("there is no room on this disk")
    job = FleetJob(FleetSource("large.img"), str(tmp_path), FleetLimits(1 << 30, 60.0))
    document = {"path": job.source.path, "status": "failed", "message": "its results cannot be written: "}
    FleetFolder(tmp_path).check_room({**document, "message": document["message"] + "no space left on device"})


def test_what_failed_for_another_reason_ends_nothing_on_a_full_disk(tmp_path):
    """A nearly full disk can still take the small rows of unreadable sources."""
    with small_disk(tmp_path / "small", "64k") as small:
        folder, failed = FleetFolder(small), {"status": "failed", "message": "no such file or directory"}
        folder.check_room(failed)
        folder.check_room({"status": "complete", "message": "no space left on device"})
        with pytest.raises(OutputError, match=FULL.replace("--resume", "resume=True")):
            folder.check_room({**failed, "message": "its results cannot be written: no space left on device"})
