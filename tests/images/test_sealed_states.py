"""Sealed volumes with snapshots: each state has its own seal or none, as on every macOS system volume since 11."""

from __future__ import annotations

import polars as pl
import pytest

import layoutscope
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import Create, FilePlan, TakeSnapshot, Touch, TransactionPlan
from fixtures.apfs.scenarios import SEALED, SEALED_DEEP, container
from fixtures.apfs.writer import write
from layoutscope.structs.records import APFS_SUPERBLOCK
from tests.cases import for_each

BLOCK = 4096
SEALED_FLAG = 0x20
STEPS = (TransactionPlan((TakeSnapshot("os"),)), TransactionPlan((Touch("short"), Create(FilePlan("new")))))


@pytest.fixture(scope="module", params=["flat", "deep"])
def sealed(request, tmp_path_factory):
    """A sealed volume with a sealed snapshot; their roots, and so their hashes, differ."""
    path = tmp_path_factory.mktemp("sealed") / f"{request.param}.img"
    base = {"flat": SEALED, "deep": SEALED_DEEP}[request.param]
    write(container(base, transactions=STEPS, block_count=16384), path)
    return path


def volume(path, verb=layoutscope.scan, **options):
    return verb(path, drives=(), **options).parts[-1]


def superblocks(path):
    """Return the places of the superblocks of the snapshot and the live state."""
    regions = volume(path).layout.regions.with_columns(pl.col("type").cast(pl.String))
    found = regions.filter(pl.col("type") == "volume-superblock").select("owner", "image_offset").rows()
    return {("live" if owner == "live" else "os"): at for owner, at in found}


def changed(path, target, places, change):
    """Change blocks of a copy, and correct their checksums."""
    data = bytearray(path.read_bytes())
    for at in places:
        block = bytearray(data[at : at + BLOCK])
        change(block)
        data[at : at + BLOCK] = with_checksum(bytes(block))
    target.write_bytes(data)
    return target


def unseal(block):
    block[APFS_SUPERBLOCK.offset_of("incompatible_features")] &= ~SEALED_FLAG


def names(found):
    return sorted(found.layout.entries["name"])


@pytest.mark.full
@for_each("unsealed", [(), ("live",), ("os",), ("live", "os")])
@for_each("state", ["live", "os"])
def test_each_state_is_sealed_by_its_own_superblock(sealed, tmp_path, unsealed, state):
    """Both states have all entries, whichever of them are sealed, and no damage is found."""
    path = changed(sealed, tmp_path / "copy.img", [superblocks(sealed)[name] for name in unsealed], unseal)
    options = {"snapshot": "os"} if state == "os" else {}
    result = layoutscope.scan(path, drives=(), **options)
    found = result.parts[-1]
    assert result.exit_code == 0
    assert result.coverage == 1
    assert ("new" in names(found)) == (state == "live")
    assert "short" in names(found)
    assert found.layout.facts.details.get("seal") == (None if state in unsealed else "intact")
    assert found.layout.extents.height > 0


def test_snapshot_is_verified_against_its_own_seal(sealed, tmp_path):
    """A changed byte of the root that only the snapshot has is damage of the snapshot."""
    nodes = volume(sealed).layout.nodes.with_columns(pl.col("tree", "state").cast(pl.String))
    roots = nodes.filter((pl.col("tree") == "fs") & pl.col("parent_row").is_null())
    at = roots.filter(pl.col("state") == "snapshot")["image_offset"][0]
    data = bytearray(sealed.read_bytes())
    data[at + BLOCK // 2] ^= 1
    damaged = tmp_path / "damaged.img"
    damaged.write_bytes(data)
    result = layoutscope.scan(damaged, drives=(), snapshot="os")
    assert result.exit_code == 3
    assert "checksum-mismatch" in {finding.code for finding in result.parts[-1].findings}
    assert names(volume(damaged)) == names(volume(sealed))


def test_tree_is_read_without_its_seal(sealed, tmp_path):
    """With damaged integrity metadata the tree cannot be verified, but nothing of it is lost."""
    regions = volume(sealed).layout.regions.with_columns(pl.col("type").cast(pl.String))
    places = regions.filter(pl.col("type") == "integrity-meta")["image_offset"].to_list()
    assert places
    data = bytearray(sealed.read_bytes())
    for at in places:
        data[at + 40] ^= 1
    damaged = tmp_path / "damaged.img"
    damaged.write_bytes(data)
    result = layoutscope.scan(damaged, drives=())
    assert result.exit_code == 3
    assert names(result.parts[-1]) == names(volume(sealed))


def test_check_of_a_sealed_volume_with_a_snapshot_is_clean(sealed):
    """Neither state is compared with the other's seal."""
    assert [item for item in layoutscope.check(sealed).findings if item.level != "info"] == []
