"""Fields of rare structures, on images of the scenarios that have them."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.encryption import encrypt_keybag
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from fixtures.fault import Fault, planted
from layoutscope.checks.apfs import objects
from layoutscope.filesystems.apfs.blocks import decrypt_blocks
from layoutscope.structs.records import ENTRY_HEAD, KEYBAG, NX_SUPERBLOCK, SPACEMAN_PHYS
from tests.fields.faults import found_on, outcomes
from tests.fields.places import fields_in_use
from tests.images.test_check_apfs_fields import BLOCK_BYTES, findings

HELD = {
    "jumpstart": (
        *("version", "len_efi_file", "reserved", "magic", "num_extents"),
        *("obj_phys.subtype", "obj_phys.type_and_flags", "obj_phys.oid"),
    ),
}
"""Fields that have rules, by scenario."""
KINDS = {"jumpstart": "efi_jumpstart"}


@pytest.mark.full
@pytest.mark.parametrize("scenario", HELD)
def test_changes_of_rare_structures_are_found(scenario, tmp_path):
    """Every change of a field with a rule is found; without a change there are no findings."""
    path = tmp_path / "disk.img"
    write(SCENARIOS[scenario], path)
    objects = fields_in_use(path)[KINDS[scenario]].values()
    fields = [several[0] for found in objects for name, several in found.items() if name.endswith(HELD[scenario])]
    assert len({each.address for each in fields}) >= len(HELD[scenario])
    assert found_on(path) == set()
    missed = [each for each in outcomes(path, fields, "little") if not each.codes and each.change != "exchange"]
    # The driver may end anywhere in its last block.
    assert {each.field.address.rpartition(".")[2] for each in missed} <= {"len_efi_file"}
    assert {each.change for each in missed} <= {"bit", "plus", "minus"}


BAG = [
    *((rule, 0) for rule in objects.make_bag_rules(1, 0, 0)),
    *((rule, KEYBAG.width) for rule in objects.ENTRY_RULES),
]


@pytest.mark.parametrize(("rule", "start"), BAG, ids=lambda item: str(getattr(item, "field", item)))
def test_broken_rule_of_a_key_bag_is_found_at_its_field(rule, start, victims):
    """The container's keybag is decrypted with its UUID, changed, and encrypted again."""

    def apply(image, expected):
        place = at.region("container-keybag", -1)(image, expected)
        uuid_at = at.superblock(image, expected) + NX_SUPERBLOCK.uuid.offset
        uuid = bytes(image[uuid_at : uuid_at + 16])
        data = bytearray(_turned(uuid, place // BLOCK_BYTES, bytes(image[place : place + BLOCK_BYTES])))
        where = start + rule.field.offset
        size = rule.field.scalar.itemsize
        data[where : where + size] = bytes(size) if rule.field is ENTRY_HEAD.len_key else b"\x77" * size
        at.fix_checksum(data, 0, BLOCK_BYTES)
        image[place : place + BLOCK_BYTES] = encrypt_keybag(uuid, place // BLOCK_BYTES, bytes(data))
        return place + where

    with planted(Fault("bag", "", "", "", apply, "encrypted"), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert rule.code in found


def _turned(uuid, paddr, block):
    plain = decrypt_blocks(
        uuid + uuid, np.frombuffer(block, np.uint8)[None, :], np.array([paddr], np.uint64), BLOCK_BYTES
    )
    return plain.tobytes()


def test_free_queue_with_more_nodes_than_its_limit_is_found(victims):
    """The limit is next to the queue; a driver that ignores it leaves a volume that apfsck calls damaged."""

    def apply(image, expected):
        start = at.ephemeral("nx_spaceman_oid")(image, expected)
        field = SPACEMAN_PHYS.free_queues.tree_node_limit
        where = start + field.offset
        image[where : where + 2] = bytes(2)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    with planted(Fault("limit", "", "", "", apply), victims) as image:
        found = {item.message for item in findings(image.path) if item.image_offset == image.where}
    assert "free_queues.tree_node_limit[0]: the queue has more nodes than it may have" in found
