"""Where partition maps and image formats list many of a kind, the chosen decoder reads them: a slip of one shows."""

from __future__ import annotations

import pytest

from layoutscope.api.check import verify
from layoutscope.errors import UnreadError
from layoutscope.image import MemorySource
from layoutscope.image.containers import udif
from layoutscope.ondisk.decoder import BULK, GRAMMAR
from layoutscope.partition import corestorage, find_volumes, gpt
from layoutscope.recordtypes import RecordType
from tests.unit.image.containers.test_udif import PLAIN, ZLIB
from tests.unit.image.containers.test_udif import udif as disk_image
from tests.unit.partition.builders import APFS, HFS, apfs, gpt_disk, gpt_entry, hfs_plus

MIB = 1024**2


def swapped(record_type: RecordType, one: str, other: str) -> RecordType:
    """Return a record type that tells one of two fields of the same width for the other; its grammar stays right."""
    names = {one: other, other: one}
    members = record_type._members
    return RecordType(record_type.type_name, **{names.get(name, name): kind for name, kind in members.items()})


def partitioned() -> bytes:
    """Write a disk of two partitions."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095, "one"), gpt_entry(APFS, 4096, 8000, "two")])
    hfs_plus(disk, MIB, MIB)
    apfs(disk, 2 * MIB)
    return bytes(disk.data)


def test_entries_of_a_gpt(monkeypatch):
    """Two decoders find the same partitions, and others once the record type takes a first sector for the last."""
    source = MemorySource(partitioned())
    assert find_volumes(source, BULK) == find_volumes(source, GRAMMAR)
    slip = swapped(gpt.ENTRY, "starting_lba", "ending_lba")
    monkeypatch.setattr(gpt, "ENTRY", slip)
    assert find_volumes(source, GRAMMAR).partitions
    assert not find_volumes(source, BULK).partitions


def test_pieces_of_a_disk_image(monkeypatch):
    """Two decoders list the same pieces; with places and lengths confused, a piece of no bytes is told."""
    content = bytes(range(256)) * 4
    source = MemorySource(disk_image([(PLAIN, content), (ZLIB, content)]))
    assert [udif.open_udif(source, decoder).read(0, 2048) for decoder in (BULK, GRAMMAR)] == [content * 2] * 2
    monkeypatch.setattr(udif, "PIECE", swapped(udif.PIECE, "ofs_stored", "len_stored"))
    assert udif.open_udif(source, GRAMMAR).read(0, 1024) == content
    with pytest.raises(UnreadError):
        udif.open_udif(source, BULK).read(0, 1024)


def test_blocks_of_core_storage(monkeypatch):
    """Two decoders name the same logical volume; with type and version confused, one of them names none."""
    pytest.importorskip("cryptography")
    from fixtures.corestorage import PhysicalVolumePlan, physical_volume

    source = MemorySource(bytes(physical_volume(PhysicalVolumePlan())))
    assert find_volumes(source, BULK) == find_volumes(source, GRAMMAR)
    monkeypatch.setattr(corestorage, "HEAD", swapped(corestorage.HEAD, "version", "block_type"))
    (parsed,), (gathered,) = (find_volumes(source, decoder).candidates for decoder in (GRAMMAR, BULK))
    assert "Macintosh HD" in parsed.about
    assert "Macintosh HD" not in gathered.about


def test_verify_compares_partitions(monkeypatch, tmp_path):
    """What lies where is a row of the verdict, so that a slip in the types of partitions is told."""
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import write

    path = tmp_path / "disk.img"
    write(SCENARIOS["gpt"], path)
    sound = verify(path).tables[0]
    assert (sound.table, sound.differences) == ("volumes", ())
    monkeypatch.setattr(gpt, "ENTRY", swapped(gpt.ENTRY, "type_guid", "unique_guid"))
    found = verify(path)
    assert found.exit_code
    assert "partitions differ" in found.tables[0].differences
