"""``plan`` on the command line: text, JSON and tables, and a clear line where there is nothing to plan."""

from __future__ import annotations

import csv
import io
import json

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write

APFS = "fixtures/images/apfs-scattered.img.zst"


def test_text_tells_the_best_first(run):
    """A table of what would help, how the first of it is done, and what would not help."""
    done = run("plan", APFS)
    assert done.exit_code == 0
    text = done.stdout
    assert text.index("What would help") < text.index("solid-state: ") < text.index("Would not help here")
    assert "Does not apply" not in text
    assert "Does not apply" in run("plan", APFS, "--all").stdout


def test_json_and_csv_have_every_remedy(run):
    """As many rows as remedies, in the same order, those that do not apply among them."""
    document = json.loads(run("plan", APFS, "--format", "json").stdout)
    names = [row["name"] for row in document["volumes"][0]["remedies"]]
    rows = list(csv.DictReader(io.StringIO(run("plan", APFS, "--format", "csv").stdout)))
    assert document["schema"] == "layoutscope.plan/1"
    assert [row["remedy"] for row in rows] == names
    assert len(set(names)) == len(names) > 20


def test_an_empty_volume_has_nothing_to_save(run, tmp_path):
    """No row is made up for it, and no drive is recommended."""
    empty = tmp_path / "empty.img"
    write(SCENARIOS["empty"], empty)
    done = run("plan", empty)
    assert done.exit_code == 0
    assert "What would help" not in done.stdout
    assert "nothing to save" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--order", "names"), "names"),
        (("--drive", "no-such-drive"), "no-such-drive"),
        (("--start-offset", "far"), "'far' is no number of bytes"),
    ],
)
def test_what_cannot_be_planned_is_refused(run, words, said):
    """With exit code 2, and what was wrong."""
    done = run("plan", APFS, *words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_list_and_its_script_are_written_once(run, tmp_path):
    """Every file of the volume once; what exists is not overwritten unasked, and a script needs its list."""
    listed, script = tmp_path / "files", tmp_path / "go.sh"
    done = run("plan", APFS, "--emit-order", listed, "--emit-script", script, "-0", "--memory", "64KiB")
    assert done.exit_code == 0
    paths = listed.read_bytes().split(b"\0")[:-1]
    assert len(set(paths)) == len(paths)
    assert f"{len(paths):,} files in the order in which they lie, sorted in" in " ".join(done.stdout.split())
    assert str(listed) in script.read_text()
    assert run("plan", APFS, "--emit-order", listed).exit_code == 2
    assert "--emit-order" in run("plan", APFS, "--emit-script", tmp_path / "other").stderr
    assert "names were left out" in run("plan", APFS, "--emit-order", tmp_path / "third", "--no-names").stderr
