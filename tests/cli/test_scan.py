from __future__ import annotations

import json
import re

import pytest

from layoutscope import scan
from layoutscope.report.json import result_document, result_json
from tests.docs.schemas import described_members, faults, schemas


def test_json_is_what_the_library_returns(run, image):
    """The document on standard output equals the one of the library's result."""
    result = run("scan", image, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(json.dumps(result_document(scan(image))))


def test_json_names_its_schema_and_is_ascii(run, image):
    """Readers can find the version, and no name reaches the terminal unescaped."""
    result = run("scan", image, "--json")
    assert json.loads(result.stdout)["schema"] == "layoutscope.scan/1"
    assert result.stdout.isascii()


def test_every_field_of_the_json_is_documented(cut_off, image):
    """The documents have the fields of the schema, and each of them has a meaning."""
    schema = schemas()["scan"]
    assert [path for path, text in described_members(schema) if not text] == []
    assert [faults(json.loads(result_json(scan(path))), schema) for path in (image, cut_off)] == [[], []]


def test_every_field_of_a_yardstick_is_documented(reference_image):
    """Small volumes have none."""
    document = json.loads(result_json(scan(reference_image("aged/apfs-20000-c20.img"))))
    assert any(volume["verdict"] and volume["verdict"]["yardsticks"] for volume in document["volumes"])
    assert faults(document, schemas()["scan"]) == []


def test_ids_of_64_bits_are_strings(image):
    """Readers with 53-bit numbers keep write counts and roots exact."""
    volume = result_document(scan(image, drives=()))["volumes"][0]
    assert isinstance(volume["stamp"], str)
    assert isinstance(volume["trees"][0]["declared"]["root_node_id"], str)


@pytest.mark.parametrize("columns", [80, 120])
def test_text_in_a_pipe_fits_and_has_no_control_codes(shell, image, columns):
    """No line is longer than the terminal; there is nothing but text and line ends."""
    import os

    result = shell("scan", image, env={**os.environ, "COLUMNS": str(columns)})
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout)
    assert not any(line.endswith(" ") for line in lines)


def test_details_show_all_that_was_measured(run, image):
    """Stack, trees, metrics, prediction with its causes, coverage: with an option, not on the first screen."""
    text = run("scan", image, "--details").stdout
    for part in ("GPT > partition 1 > HFS+", "Metadata by tree", "Next leaf is next on disk", "Rotation", "Coverage"):
        assert part in text
        assert part not in run("scan", image).stdout


def test_details_say_how_a_volume_was_written(run):
    """One sentence above the metrics; the first screen has none."""
    told = "Its files were created in the order of their names; its leaves were written in 4 streams;"
    image = "fixtures/images/apfs-scattered.img.zst"
    assert told in " ".join(run("scan", image, "--details", "--drive", "sata-ssd").stdout.split())
    assert "files were created" not in run("scan", image, "--drive", "sata-ssd").stdout


@pytest.mark.parametrize("kind", ["image", "apfs_image"])
def test_details_say_whose_time_a_time_is(run, request, kind):
    """Times in a volume's own facts are UTC and marked so; HFS+ stores its creation date in local time (TN1150)."""
    said = run("scan", request.getfixturevalue(kind), "--details").stdout
    before = re.findall(r"(?:\((UTC|local time)\)|(\w+))\s+\d{4}-\d\d-\d\d\s\d\d:\d\d:\d\d", said)
    assert before
    assert not [other for _, other in before if other]
    local = "created (local time)" in " ".join(said.split())
    assert local == (kind == "image")


def test_explain_prints_definitions_and_sources(run, image):
    """Every metric has its definition and source."""
    text = " ".join(run("scan", image, "--explain").stdout.split())
    assert "Conway" in text
    assert "Smith" in text
    assert "Source:" in text


def test_drives_are_chosen_by_name(run, image):
    """Only the named drives are predicted; the seconds are the sum of their causes."""
    document = json.loads(run("scan", image, "--json", "--drive", "sata-ssd", "--drive", "generic-7200").stdout)
    predictions = document["volumes"][0]["predictions"]
    assert [item["drive"] for item in predictions] == ["sata-ssd", "generic-7200"]
    for item in predictions:
        assert sum(item["causes_s"].values()) == pytest.approx(item["seconds"])
    assert predictions[0]["causes_s"]["seek"] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--drive", "abacus"], "unknown drive profile"),
        (["--host", "vms"], "unknown host 'vms'"),
        (["--partition", "7"], "no volume in partition 7"),
        (["--volume", "Nowhere"], "no volume 'Nowhere'"),
        (["--volume-at", "12"], "no volume starts at byte 12"),
        (["--volume-at", "soon"], "not a number of bytes"),
        (["--volume-at", "-1"], "not a number of bytes"),
    ],
)
def test_wrong_wishes_are_usage_errors(run, image, options, reason):
    """Unknown values are refused in one line, with exit code 2."""
    result = run("scan", image, *options)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_partition_and_volume_choose(run, image):
    """The one volume of the image is found by partition, name, number and address."""
    whole = json.loads(run("scan", image, "--json").stdout)["volumes"]
    start = whole[0]["image_offset"]
    for options in (["--partition", "1"], ["--volume", "Scattered"], ["--volume", "1"], ["--volume-at", start]):
        chosen = json.loads(run("scan", image, "--json", *options).stdout)["volumes"]
        assert [volume["image_offset"] for volume in chosen] == [start]


def test_damage_ends_with_3_and_strict_with_1(run, cut_off):
    """A truncated image is read as far as possible; strict makes it an error, in one line with the address."""
    result = run("scan", cut_off)
    assert result.exit_code == 3
    assert "DAMAGED" in result.stdout
    strict = run("scan", cut_off, "--strict")
    assert strict.exit_code == 1
    assert re.fullmatch(r"layoutscope: .* at byte [\d,]+: .*\n", strict.stderr)


def test_names_can_be_left_out(run, image):
    """No output has the name of the volume or of any file."""
    text = run("scan", image, "--no-names").stdout + run("scan", image, "--json", "--no-names").stdout
    assert "Scattered" not in text.replace("scattered.img", "")
    table = run("export", image, "--table", "entries", "--no-names").stdout
    names = run("export", image, "--table", "entries").stdout
    assert names.splitlines()[5].split(",")[4] not in ("", *table.splitlines()[5].split(","))


def test_map_is_written_and_not_overwritten(run, image, tmp_path):
    """The map is one page without network; an existing file needs --force, and is refused before the work."""
    target = tmp_path / "map.html"
    assert run("scan", image, "--map", target).exit_code == 0
    page = target.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") or page.lstrip().lower().startswith("<!doctype html>")
    again = run("scan", image, "--map", target)
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert run("scan", image, "--map", target, "--force").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]


@pytest.mark.parametrize(("more", "level", "exit_code"), [(1, "error", 3), (-1, "warning", 0)])
def test_what_is_missing_is_an_error_and_what_was_not_counted_a_warning(image, tmp_path, more, level, exit_code):
    """A header that counts one file more than found reports a loss; one that counts fewer does not."""
    data, target = bytearray(image.read_bytes()), tmp_path / "counted.img"
    at = data.index(b"H+\0\x04") + 32
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + more).to_bytes(4, "big")
    target.write_bytes(data)
    found = scan(target, drives="sata-ssd")
    assert found.volume.layout.findings["code", "level"].rows() == [("file-count-differs", level)]
    assert found.exit_code == exit_code
    assert (found.volume.layout.coverage < 1) is (level == "error")
