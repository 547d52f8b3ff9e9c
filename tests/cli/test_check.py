from __future__ import annotations

import json

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from fixtures.partitions import gpt
from layoutscope import read_layouts
from layoutscope.findings import CODES

MIB = 1 << 20


@pytest.mark.parametrize("which", ["image", "apfs_image"])
def test_the_committed_images_are_clean(run, request, which):
    """The images of the fixture writers have no contradictions."""
    result = run("check", request.getfixturevalue(which), "--json")
    document = json.loads(result.stdout)
    worse = [finding for item in document["volumes"] for finding in item["findings"] if finding["level"] != "info"]
    assert worse == []
    assert (result.exit_code, document["is_clean"]) == (0, True)


@pytest.mark.parametrize("name", ["dissect_jhfs_converted", "dissect_case_sensitive_beta", "hfsinspect_hfsj"])
def test_oddities_of_other_systems_are_no_damage(run, reference_image, name):
    """Traces of hfs_convert, a pre-release and an unclean unmount are information; the exit code is 0."""
    result = run("check", reference_image(f"apple/{name}.raw"), "--json")
    document = json.loads(result.stdout)
    found = [*document["findings"], *(item for volume in document["volumes"] for item in volume["findings"])]
    assert {item["level"] for item in found} == {"info"}
    assert (result.exit_code, document["is_clean"]) == (0, True)


def test_damage_is_reported_with_code_address_and_meaning(run, cut_off, image):
    """A truncated image is not clean; each finding has a documented code, and the worst have a location."""
    result = run("check", cut_off, "--json")
    document = json.loads(result.stdout)
    findings = [*document["findings"], *(finding for item in document["volumes"] for finding in item["findings"])]
    assert result.exit_code == 3
    assert {finding["code"] for finding in findings} <= set(CODES)
    assert any(finding["level"] == "error" and finding["image_offset"] is not None for finding in findings)
    assert all(finding["meaning"] == CODES[finding["code"]] for finding in findings)
    text = run("check", cut_off).stdout
    assert text.endswith("not clean\n")
    assert all((finding["cause"] or finding)["code"] in text for finding in findings)
    assert "layoutscope explain CODE" in text
    assert "explain" not in run("check", image).stdout


def test_predictions_say_what_they_leave_out(run, cut_off):
    """Text and JSON of a prediction have the coverage and the number of errors of each volume."""
    (volume, *_) = json.loads(run("predict", cut_off, "--json").stdout)["volumes"]
    assert volume["coverage"] < 1
    assert volume["errors"] > 0
    assert "do not include what is missing" in " ".join(run("predict", cut_off).stdout.split())


SAYING_NOTHING = {
    "predict": (), "predict --json": (), "compare": ("image",), "series": ("image",), "trace": (),
    "export --table nodes": (), "inspect --at 1024": (), "extract -o OUT": (), "predict --ncdu OUT": (),
}  # fmt: skip
"""Commands whose results show no findings, and their other arguments."""


@pytest.mark.parametrize("verb", sorted(SAYING_NOTHING))
def test_every_verb_tells_that_an_image_is_damaged(run, cut_off, image, tmp_path, verb):
    """Coverage and errors are one line on standard error, with exit code 3; a sound image has neither."""
    name, *words = [str(tmp_path / "out") if word == "OUT" else word for word in verb.split()]
    damaged = run(name, cut_off, *[cut_off for _ in SAYING_NOTHING[verb]], *words, "--force")
    if damaged.exit_code == 2:
        damaged = run(name, cut_off, *[cut_off for _ in SAYING_NOTHING[verb]], *words)
    assert damaged.exit_code == 3
    told = [line for line in damaged.stderr.splitlines() if "% of the known metadata was read" in line]
    assert len(told) == 1
    (tmp_path / "out").unlink(missing_ok=True)
    sound = run(name, image, *[image for _ in SAYING_NOTHING[verb]], *words)
    assert sound.exit_code == 0
    assert "metadata was read" not in sound.stderr


def test_an_image_that_lacks_no_metadata_says_that_it_is_short(run, apfs_image, tmp_path):
    """Its last block is missing, and was unused: that is reported, not 100 % and no error."""
    short = tmp_path / "short.img"
    short.write_bytes(apfs_image.read_bytes()[:-4096])
    done = run("predict", short, "--drive", "sata-ssd")
    assert done.exit_code == 3
    assert "the image ends before its volume does; all metadata known of it was read" in done.stderr
    assert run("predict", apfs_image, "--drive", "sata-ssd").stderr == ""


@pytest.fixture
def changed_count(image, tmp_path):
    """Return a copy whose volume header counts one file more, with the place and the old number."""
    facts = read_layouts(image)[0].facts
    data = bytearray(image.read_bytes())
    # TN1150: the volume header starts 1024 bytes into the volume, its file count 32 bytes into the header.
    place = facts.image_offset + 1024 + 32
    data[place : place + 4] = (facts.num_files + 1).to_bytes(4, "big")
    target = tmp_path / "changed.img"
    target.write_bytes(data)
    return target, place, facts.num_files


def test_a_finding_names_the_field(run, changed_count):
    """JSON, CSV, SARIF and text give both numbers and the grammar's field, with the address of the changed byte."""
    target, place, number = changed_count
    checked = run("check", target, "--format", "json")
    document = json.loads(checked.stdout)
    (finding,) = [each for item in document["volumes"] for each in item["findings"] if each["level"] != "info"]
    assert (checked.exit_code, finding["field"], finding["image_offset"]) == (3, "num_files", place)
    assert str(number) in finding["expected"] + finding["found"]
    rows = run("check", target, "--format", "csv").stdout.splitlines()
    assert rows[0] == "volume,level,code,structure,field,device,image_offset,message,expected,found,cause"
    assert any(f",file-count-differs,volume header,num_files,0,{place}," in row for row in rows[1:])
    sarif = json.loads(run("check", target, "--format", "sarif").stdout)
    assert {each["ruleId"] for each in sarif["runs"][0]["results"]} >= {"file-count-differs"}
    text = run("check", target, "--explain").stdout
    assert "volume header/num_files" in text
    assert f"file-count-differs: {CODES['file-count-differs']}" in text


def test_what_came_between_two_images_and_rules(run, image, changed_count):
    """The changed image against the sound one has the new fault; the reverse, and against itself, none."""
    target, *_ = changed_count
    came = run("check", image, target, "--json")
    document = json.loads(came.stdout)
    found = [each["code"] for item in document["volumes"] for each in item["findings"] if each["level"] != "info"]
    assert (came.exit_code, found, document["before"]) == (3, ["file-count-differs"], str(image))
    again = json.loads(run("check", target, target, "--json").stdout)
    assert [each for item in again["volumes"] for each in item["findings"]] == []
    # A volume that counts more files than were found was not read completely: nothing is new, but it is not clean.
    assert (again["is_clean"], len(again["unchecked"])) == (False, 1)
    assert run("check", target, image).exit_code == 0
    assert run("check", target, "--rule", "file-count-differs").exit_code == 3
    said = "no problems found for valence-differs only, but the check was incomplete\n"
    assert run("check", target, "--rule", "valence-differs").stdout.endswith(said)
    assert run("check", image, "--rule", "valence-differs").stdout.endswith("\nclean for valence-differs only\n")


def test_what_is_not_read_is_named(run, reference_image, image):
    """A clean result applies to the volumes that are read; others on the disk are named, with and without JSON."""
    path = reference_image("apple/hfsinspect_MBR.raw")
    other = "MBR > partition 2 > FAT16"
    for words in (("check",), ("scan", "--details")):
        assert f"\nNot read: {other}\n" in "\n" + run(*words, path).stdout
        assert "Not read" not in run(*words, image).stdout
    assert json.loads(run("check", path, "--json").stdout)["other_contents"] == [other]
    assert f"\nNot read: {other}\n" in run("scan", path).stdout
    assert "Not read" not in run("scan", image).stdout


def test_a_side_that_is_unknown_is_not_shown(run, tmp_path):
    """A signature has more than one valid value, so none is shown as expected."""
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(gpt(render(SCENARIOS["attributes"])[0], start_bytes=MIB).to_bytearray()))
    with path.open("r+b") as file:
        file.seek(MIB + 1024)
        file.write(bytes(2))
    text = run("check", path).output
    assert "unexpected value of signature (found 0)" in " ".join(text.split())
