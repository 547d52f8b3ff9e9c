"""Images without any recognizable structure at the start: a sweep still finds their volumes."""

from __future__ import annotations

import json
from io import BytesIO

import pytest

from fixtures.apfs import scenarios as apfs
from fixtures.apfs.writer import write
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from tests.sparse import write_sparse

MIB = 1 << 20


def without(data, *places):
    data = bytearray(data)
    for start, length in places:
        data[start : start + length] = b"\xa5" * length
    return bytes(data)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Write images of both kinds, and one in a partition, without the structures that identify them."""
    folder = tmp_path_factory.mktemp("lost")
    plain = bytes(render(SCENARIOS["victim"])[0].to_bytearray())
    hfs = without(plain, (1024, 512), (len(plain) - 1024, 512))
    entry = bytes((0, 0, 2, 0, 0xAF, 0, 2, 0)) + (MIB // 512).to_bytes(4, "little")
    record = bytes(446) + entry + (len(hfs) // 512).to_bytes(4, "little") + bytes(48) + b"\x55\xaa"
    write(apfs.BASIC, folder / "apfs")
    blocks = [(0, 4096), (4096, 8 * 4096)]
    write_sparse(folder / "apfs", BytesIO(without((folder / "apfs").read_bytes(), *blocks)))
    (folder / "hfs").write_bytes(hfs)
    (folder / "mbr").write_bytes(record + bytes(MIB - 512) + hfs + bytes(MIB))
    return folder


@pytest.mark.parametrize(("name", "volume"), [("apfs", "Basic"), ("hfs", "Fixture"), ("mbr", "Fixture")])
def test_a_sweep_brings_volumes_out(run, lost, name, volume):
    """Without a sweep the image is an error in one line; with it the names are found, with coverage and exit code 3."""
    plain = run("scan", lost / name)
    assert (plain.exit_code, plain.stderr.count("\n")) == (1, 1)
    result = run("scan", lost / name, "--sweep", "--json")
    document = json.loads(result.stdout)
    found = [item for item in document["volumes"] if item["name"] == volume]
    assert result.exit_code == document["exit_code"] == 3
    assert len(found) == 1
    assert {found[0]["coverage"], document["volumes"][0]["coverage"]} != {1}
    assert document["coverage"] != 1
    checked = run("check", lost / name, "--sweep")
    assert checked.exit_code == 3
    assert "inferred" in " ".join(checked.stdout.split())
    listed = run("export", lost / name, "--sweep", "--table", "entries", "--format", "jsonl")
    assert len(listed.stdout.splitlines()) > 100


def test_a_sweep_of_noise_ends_as_without(run, tmp_path):
    """If nothing is left, the error is the same line."""
    path = tmp_path / "noise.img"
    path.write_bytes(bytes(range(256)) * 4096)
    results = [run("scan", path, *words) for words in ((), ("--sweep",))]
    assert {(item.exit_code, item.stderr) for item in results} == {(1, results[0].stderr)}
    assert "no HFS+ or APFS volume found" in results[0].stderr
