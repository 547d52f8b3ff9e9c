"""Volumes whose keys are known only to the hardware that made them."""

from __future__ import annotations

import json
from io import BytesIO

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS
from fixtures.apfs.structures.container import CONTAINER_FLAG_CRYPTO_SW, NX_SUPERBLOCK
from fixtures.apfs.structures.objects import OBJECT_HEADER_SIZE, ObjectType
from fixtures.apfs.writer import write
from tests.sparse import write_sparse

BLOCK_BYTES = 4096
LOCKED = "volume-hardware-locked"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Write an encrypted volume, and clear the software encryption flag in every superblock."""
    path = tmp_path_factory.mktemp("hardware") / "disk.img"
    expected = write(SCENARIOS["encrypted"], path)
    data = bytearray(path.read_bytes())
    area = next(item for item in expected.live.regions if item.type == "checkpoint-descriptor-area")
    for block in (0, *range(area.paddr, area.paddr + area.num_blocks)):
        where = block * BLOCK_BYTES
        if int.from_bytes(data[where + 24 : where + 26], "little") == ObjectType.NX_SUPERBLOCK & 0xFFFF:
            start = where + OBJECT_HEADER_SIZE
            at.put_field(data, start, NX_SUPERBLOCK, "nx_flags", lambda old: old & ~CONTAINER_FLAG_CRYPTO_SW)
            at.fix_checksum(data, where, BLOCK_BYTES)
    write_sparse(path, BytesIO(data))
    return path


@pytest.mark.parametrize("verb", ["scan", "check"])
@pytest.mark.parametrize("password", [(), ("--password", PASSWORD)])
def test_hardware_encryption_is_named_with_advice(run, image, verb, password):
    """No password is requested or tried: the finding gives advice, and data that need no key are shown."""
    result = run(verb, image, "--json", *password)
    document = json.loads(result.stdout)
    told = [item for volume in document["volumes"] for item in volume["findings"] if item["code"] == LOCKED]
    assert result.exit_code == 3
    assert [item["level"] for item in told] == ["warning"]
    assert "bound to the hardware" in told[0]["message"]
    assert "on the Mac it belongs to" in told[0]["message"]
    assert "password or recovery key unlocks" not in result.stdout


def test_what_needs_no_key_is_still_shown(run, image):
    """Name, object map and regions of the volume are in the report, and the advice is in its text."""
    document = json.loads(run("scan", image, "--json").stdout)
    assert document["volumes"][-1]["name"] == "Secret"
    text = " ".join(run("scan", image).stdout.split())
    assert LOCKED in text
    assert "Mac it belongs to" in text
