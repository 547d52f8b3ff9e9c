"""Reported cases, rebuilt: files around a sound volume, for which scan and check must report the true state.

Each holds HFS+ "Base" (4 MiB, 36 files, 3 folders, a catalog in four extents) or APFS "Basic" (16 MiB, 40 files).
"""

from __future__ import annotations

import json
from functools import cache

import pytest
from typer.testing import CliRunner

from fixtures.apfs.plan import ContainerPlan
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import many
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.plan import Tree, VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from fixtures.wrappers import disc, expert_witness, im4p, sparse_image
from layoutscope import check, scan
from layoutscope.cli import app
from layoutscope.errors import FormatError
from tests.unit.image.containers.test_udif import ZLIB, placed, udif
from tests.unit.partition.builders import APFS, gpt_disk, gpt_entry

MIB, KIB = 1024**2, 1024


@cache
def base() -> bytes:
    tree = Tree(4096, pieces=4, shuffled=0.5)
    plan = VolumePlan(name="Base", total_blocks=1024, root=folders(3, 12), catalog=tree, gap_blocks=1)
    return bytes(render(plan)[0].to_bytearray())


@pytest.fixture(scope="module")
def basic(tmp_path_factory):
    path = tmp_path_factory.mktemp("basic") / "basic.img"
    write_apfs(ContainerPlan((ApfsVolume("Basic", many(40)),), block_count=4096), path)
    return path.read_bytes()


def many_files(tmp_path, files, missing):
    for number, data in enumerate(files, 1):
        if number != missing:
            (tmp_path / f"a.E{number:02}").write_bytes(data)
    return tmp_path / "a.E01"


def one(make):
    def write(tmp_path):
        (tmp_path / "a").write_bytes(make())
        return tmp_path / "a"

    return write


CASES = {
    "dmg with a list elsewhere": (
        one(lambda: placed(udif([(ZLIB, base())]), udif([(ZLIB, base())]).index(b"<?xml") // 2)),
        [("container-invalid", "warning")],
    ),
    "segment missing": (
        lambda folder: many_files(folder, expert_witness(base() + bytes(2 * MIB), packed=False, per_segment=48), 2),
        [("image-incomplete", "error")],
    ),
    "CD sectors": (one(lambda: disc(base())), []),
}
"""A finding of each level; the tests of each container have the others."""


@pytest.mark.parametrize(("write", "findings"), CASES.values(), ids=CASES)
def test_the_volume_is_read_and_nothing_is_claimed_of_it(tmp_path, write, findings):
    """Files and folders are those of the volume; findings concern the file around it and set the exit code."""
    path = write(tmp_path)
    result = scan(path, drives=())
    (volume,) = result.volumes
    facts = volume.layout.facts
    assert (facts.name, facts.num_files, facts.num_directories) == ("Base", 36, 3)
    assert volume.layout.coverage == 1
    assert not volume.findings
    assert [(item.code, item.level) for item in result.findings] == findings
    has_error = any(level == "error" for _, level in findings)
    assert result.exit_code == (3 if has_error else 0)
    checked = check(path)
    assert [(item.code, item.level) for item in checked.findings] == findings
    assert not any(each.findings for each in checked.volumes)
    assert checked.exit_code == (3 if findings else 0)


def test_findings_of_a_container_are_in_the_document(tmp_path):
    """JSON lists them with the image's findings, and the first screen shows them before the volume."""
    path = CASES["segment missing"][0](tmp_path)
    runner = CliRunner()
    document = json.loads(runner.invoke(app, ["scan", str(path), "--json"]).stdout)
    (finding,) = document["findings"]
    assert (finding["code"], finding["level"]) == ("image-incomplete", "error")
    assert "a.E02" in finding["message"]
    screen = runner.invoke(app, ["scan", str(path)]).stdout
    assert screen.index("a.E02") < screen.index("Volume 1")


def test_a_ramdisk_in_an_im4p_file(tmp_path, basic):
    """Addresses count from the start of the container, which begins at byte 35 of the file."""
    path = tmp_path / "a.dmg"
    path.write_bytes(im4p(basic))
    assert path.read_bytes().index(basic[:64]) == 35
    result = scan(path, drives=())
    assert result.parts[-1].layout.facts.num_files == 40
    assert result.exit_code == 0


@pytest.mark.parametrize("map_bytes", [0, 20480])
def test_an_image_that_ends_before_its_container(tmp_path, basic, map_bytes):
    path = tmp_path / "a.img"
    head = bytes(map_bytes)
    if map_bytes:
        last = (map_bytes + len(basic)) // 512 - 1
        disk = gpt_disk(map_bytes + len(basic) + MIB, [gpt_entry(APFS, map_bytes // 512, last)])
        head = bytes(disk.data[:map_bytes])
    path.write_bytes((head + basic)[: 400 * KIB])
    end = map_bytes + len(basic)
    with pytest.raises(FormatError) as error:
        scan(path, drives=())
    assert str(error.value).startswith(
        f"the image ends at byte 409,600, its container at {end:,}: checkpoint descriptor area at byte "
    )


def test_a_cut_image_within_a_container(tmp_path):
    """The missing part of a sparse image in a disk image is reported once, with the byte where the file ends."""
    image = sparse_image(base())
    path = tmp_path / "a.sparseimage"
    path.write_bytes(image[: len(image) - 512])
    result = scan(path, drives=())
    assert [item.code for item in result.findings] == ["image-incomplete"]
    assert f"{len(image) - 512:,}" in result.findings[0].message
    assert result.exit_code == 3
