"""``plan`` on the command line: text, JSON and tables, and a clear line if there is nothing to plan."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest

from fixtures.hfsplus.plan import File, VolumePlan
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import read_layouts
from layoutscope.zstd import zstd

APFS = "fixtures/images/apfs-scattered.img.zst"


def test_every_form_has_the_remedies_in_their_order(run):
    """Useful ones, how to carry out the first, then those that do not help; JSON and CSV have all, a row each."""
    text = run("plan", APFS).stdout
    assert text.index("Remedies, largest") < text.index("solid-state: ") < text.index("Does not help here")
    assert "Does not apply" not in text
    assert "Does not apply" in run("plan", APFS, "--all").stdout
    document = json.loads(run("plan", APFS, "--format", "json").stdout)
    names = [row["name"] for row in document["volumes"][0]["remedies"]]
    assert document["schema"] == "layoutscope.plan/1"
    assert [row["remedy"] for row in rows_of(run, APFS)] == names
    assert len(set(names)) == len(names) > 20


def test_nothing_is_said_to_help_where_nothing_is_read(run, reference_image, tmp_path):
    """If a listing reads nothing after the mount, as of an empty volume, no remedy is ranked."""
    main, tier2 = (reference_image(f"fusion/{name}.img") for name in ("main", "tier2"))
    write(SCENARIOS["empty"], tmp_path / "empty.img")
    done, empty = run("plan", main, "--second", tier2, "--host", "macos"), run("plan", tmp_path / "empty.img")
    assert (done.exit_code, empty.exit_code) == (0, 0)
    assert not re.search("Remedies, largest|Together", done.stdout + empty.stdout)
    assert "Note: the work reads nothing beyond the mount: there is nothing to save" in done.stdout
    assert "nothing to save" in empty.stdout
    assert "there is nothing to save" not in run("plan", APFS).stdout


def test_what_is_quick_on_every_drive_is_said_to_be_first(run, tmp_path):
    """A short listing is noted before its remedies; one above a second on some drives is not."""
    small, said = tmp_path / "small.img", "Under a second: nothing to improve."
    write(SCENARIOS["populated"], small)
    text = run("plan", small).stdout
    assert text.index(said) < text.index("Remedies, largest")
    assert "Nothing to improve." in " ".join(run("scan", small).stdout.split())
    for slow in (APFS, "fixtures/images/hfsplus-scattered.img.zst"):
        assert said not in run("plan", slow, "--host", "linux").stdout


def test_a_volume_of_one_file_is_no_ground_for_advice(run, tmp_path):
    """With few reads no remedy helps, or the text says that they are too few to judge by."""
    write(VolumePlan(root=(File("alone"),)), tmp_path / "one.img")
    done = run("plan", tmp_path / "one.img", "--emit-order", tmp_path / "listed")
    assert done.exit_code == 0
    told = " ".join(done.stdout.split())
    assert "too few to judge a remedy by" in told or "there is nothing to save" in told
    assert (tmp_path / "listed").read_bytes() == b"./alone\n"
    assert "too few to judge" not in run("plan", APFS).stdout


@pytest.fixture
def damaged(tmp_path):
    """A volume that lost a leaf of its tree."""
    source = Path(APFS)
    leaf = next(
        item.nodes.filter(tree="fs", level=0, state="live")["image_offset"][0]
        for item in read_layouts(source)
        if item.entries.height
    )
    data = bytearray(zstd.decompress(source.read_bytes()))
    data[leaf : leaf + 4096] = bytes(4096)
    (tmp_path / "damaged.img").write_bytes(data)
    return tmp_path / "damaged.img"


def test_a_damaged_volume_is_predicted_and_planned_as_far_as_it_was_read(run, damaged):
    """Times leave out lost data. The plan says so first and proposes no copy, unlike the plan for a sound volume."""
    left_out = "was read, with 2 errors. The times do not include what is missing.\n"
    for order in ("fts", "all"):
        words = ("--order", order, "--drive", "sata-ssd")
        assert left_out in run("predict", damaged, *words).stdout
        assert left_out not in run("predict", APFS, *words).stdout
    found = run("plan", damaged, "--all").stdout
    assert "99.3 % of the known metadata was read, with 2 errors. The plan covers only what was read." in found
    assert "Note: what could not be read is not in the plan" in found
    copies = [row for row in rows_of(run, damaged) if row["remedy"].startswith("copied-")]
    assert len(copies) == 3
    assert all("part of the volume could not be read" in row["why_not"] for row in copies)
    assert not any(row["why_not"] for row in rows_of(run, APFS) if row["remedy"].startswith("copied-"))
    assert "was read" not in run("plan", APFS).stdout


def test_how_long_remedies_last_is_told_on_request(run):
    """A forecast gives this figure, and runs only if requested."""
    (asked,) = json.loads(run("plan", APFS, "--host", "linux", "--lasts", "10", "--format", "json").stdout)["volumes"]
    (plain,) = json.loads(run("plan", APFS, "--host", "linux", "--format", "json").stdout)["volumes"]
    assert (asked["pace"]["cycles"], asked["pace"]["now_s"], plain["pace"]) == (10, asked["seconds"], None)
    assert asked["pace"]["then_s"] > asked["pace"]["now_s"]
    lasts = {row["name"]: (row["kind"], row["lasts_cycles"]) for row in asked["remedies"] if (row["saved_s"] or 0) > 0}
    assert all((kind == "volume") == (cycles is not None) for kind, cycles in lasts.values())
    assert {row["lasts_cycles"] for row in plain["remedies"]} == {None}


def rows_of(run, image):
    return list(csv.DictReader(io.StringIO(run("plan", image, "--format", "csv").stdout)))


def test_paths_that_have_gone_are_named_and_the_others_copied(run, tmp_path):
    """A list gets outdated: tar names missing files, copies the others, and ends with an error."""
    listed, script, source = tmp_path / "files", tmp_path / "go.sh", tmp_path / "source"
    run("plan", APFS, "--emit-order", listed, "--emit-script", script, "-0")
    first, second, *_ = (path.decode() for path in listed.read_bytes().split(b"\0"))
    (source / second).parent.mkdir(parents=True)
    (source / second).write_text("here")
    done = subprocess.run(
        ["sh", script, "tar", source, tmp_path / "out.tar"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert first in done.stderr
    told = subprocess.run(["tar", "-tf", tmp_path / "out.tar"], capture_output=True, text=True, check=True).stdout
    assert told == f"{second}\n"


def test_a_list_and_its_script_are_written_once(run, tmp_path):
    """Every file of the volume appears once; existing files are kept unless forced, and a script needs its list."""
    listed, script = tmp_path / "files", tmp_path / "go.sh"
    done = run("plan", APFS, "--emit-order", listed, "--emit-script", script, "-0", "--memory", "64KiB")
    assert done.exit_code == 0
    paths = listed.read_bytes().split(b"\0")[:-1]
    assert len(set(paths)) == len(paths)
    assert f"{len(paths):,} files in disk order, sorted in" in " ".join(done.stdout.split())
    assert str(listed) in script.read_text()
    assert run("plan", APFS, "--emit-order", listed).exit_code == 2
    assert "--emit-order" in run("plan", APFS, "--emit-script", tmp_path / "other").stderr
    assert "names were left out" in run("plan", APFS, "--emit-order", tmp_path / "third", "--no-names").stderr
