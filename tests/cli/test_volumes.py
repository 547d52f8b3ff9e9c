"""IMAGE:VOLUME selects one volume, wherever a command takes an image."""

from __future__ import annotations

import json
import shutil

import pytest

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import read_layouts


def test_a_volume_is_chosen_by_name_and_by_number(run, image):
    """Both are values of --volume."""
    whole = run("predict", image, "--volume", "1", "--json").stdout
    for name in ("1", "Scattered"):
        assert run("predict", f"{image}:{name}", "--json").stdout == whole


VERBS = ("scan", "predict", "trace", "check", "inspect --at 0", "export --table nodes", "map -o OUT")


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_take_one_volume(run, image, tmp_path, verb):
    """Every command for images accepts it; an unknown volume is reported with the available ones."""
    name, *words = [word.replace("OUT", str(tmp_path / "a.html")) for word in verb.split()]
    assert run(name, f"{image}:scattered", *words).exit_code == 0
    absent = run(name, f"{image}:Scatered", *words, *(["--force"] if name == "map" else []))
    assert absent.exit_code == 2
    assert "no volume 'Scatered' (did you mean 'Scattered'?)" in absent.stderr


def test_a_file_with_a_colon_in_its_name_is_opened(run, image, tmp_path):
    """An existing file of that exact path takes precedence."""
    shutil.copy(image, tmp_path / "disk:1")
    assert run("scan", tmp_path / "disk:1", "--json").exit_code == 0
    assert run("scan", f"{tmp_path / 'disk:1'}:1", "--json").exit_code == 0


def test_neither_part_alone_is_a_volume(run, image):
    """A missing image is reported as it was typed."""
    assert "no.img:Data: no such file" in run("scan", "no.img:Data").stderr
    assert run("scan", f"{image}:").exit_code == 1


def test_two_answers_to_one_question_are_refused(run, image):
    """The colon and --volume must not name different volumes."""
    assert run("scan", f"{image}:1", "--volume", "1").exit_code == 0
    result = run("scan", f"{image}:1", "--volume", "2")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_the_image_of_a_volume_is_not_written_over(run, image, tmp_path):
    """It is an input, even if its name is followed by a volume."""
    own = tmp_path / "disk.img"
    shutil.copy(image, own)
    before = own.read_bytes()
    for words in (["scan", f"{own}:1", "--map", own, "--force"], ["map", f"{own}:1", "-o", own, "--force"]):
        result = run(*words)
        assert result.exit_code == 2
        assert "is read as input" in result.stderr
    assert own.read_bytes() == before


def test_two_volumes_of_one_container_are_compared(run, tmp_path):
    """Both sides are from one image: each shows its volume's name with its figures."""
    path = tmp_path / "macos.img"
    write(SCENARIOS["volumes"], path)
    found = json.loads(run("compare", f"{path}:System", f"{path}:Data", "--json").stdout)
    assert found["names"] == ["macos.img, APFS, 'System'", "macos.img, APFS, 'Data'"]
    entries = next(row["values"] for row in found["metrics"] if row["name"] == "entries")
    listed = [read_layouts(path, volume=name) for name in ("System", "Data")]
    assert entries == [layout.entries.height for (layout,) in listed]


def test_two_file_systems_of_one_disk_are_compared(run, reference_image):
    """HFS+ and APFS in two partitions of one disk are compared."""
    path = reference_image("driver/gpt-both.img")
    found = json.loads(run("compare", f"{path}:1", f"{path}:2", "--json").stdout)
    assert [side.split(", ")[1] for side in found["names"]] == ["HFS+", "APFS"]
    assert run("map", f"{path}:1", f"{path}:2", "-o", path.with_name("both.html"), "--force").exit_code == 0
    path.with_name("both.html").unlink()


def test_numbers_count_from_one_everywhere(run, tmp_path):
    """Volume 2 of JSON, tables and text is the one that --volume 2 and IMAGE:2 read."""
    path = tmp_path / "macos.img"
    write(SCENARIOS["volumes"], path)
    document = json.loads(run("scan", path, "--json").stdout)
    numbers = {volume["volume"]: volume["name"] for volume in document["volumes"]}
    assert numbers == {None: "", 1: "System", 2: "Data", 3: "VM"}
    (data,) = read_layouts(path, volume="2")
    assert (data.facts.name, data.facts.volume) == ("Data", 2)
    assert data.entries["volume"].unique().to_list() == [2]
    assert 'Volume 2: APFS "Data"' in run("scan", f"{path}:2").stdout
