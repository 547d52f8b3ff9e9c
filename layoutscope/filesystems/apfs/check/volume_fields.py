"""Rules of the fields of volume superblocks, live and of snapshots, and of the seal of a volume.

Apple File System Reference, Volumes, Snapshot Metadata and Sealed Volumes; what only apfsck says was seen to hold of
the volumes that macOS makes. Free are times, counters of files in states that were not read, and versions of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.apfs.check.objects import (
    OBSERVED,
    REFERENCE,
    RESERVED,
    STORAGE,
    TYPES,
    UNKNOWN,
    UNKNOWN_TO_WRITERS,
    columns_of,
    expect_storage,
    hold,
    passed,
)
from layoutscope.filesystems.apfs.features import VOLUME_INCOMPATIBLE
from layoutscope.structs import grammar
from layoutscope.structs.fieldrules import (
    NOT_ZERO,
    ZERO,
    FieldRule,
    Want,
    at_least,
    at_most,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.structs.records import APFS_SUPERBLOCK, INTEGRITY_META

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.structs.grammar import ApfsVolume

VOLUME, SEAL = APFS_SUPERBLOCK, INTEGRITY_META
FLAG, FEATURE = grammar.ApfsVolume.VolumeFlag, grammar.ApfsVolume.VolumeFeature
_SET_FLAGS: Final = int(
    FLAG.unencrypted | FLAG.onekey | FLAG.spilledover | FLAG.run_spillover_cleaner | FLAG.always_check_extentref
)
_FEATURES: Final = sum(int(bit) for bit in FEATURE) - int(FEATURE.defrag_prerelease)
"""The bit of pre-releases must not be set any more (reference, APFS_FEATURE_DEFRAG_PRERELEASE)."""
_FIRST_OID: Final = 1024
_FIRST_DOC_ID: Final = 3
_CRYPTO_VERSION: Final = 5
_NO_PROTECTION: Final = 6
_CLASSES: Final = (1, 2, 3, 4, _NO_PROTECTION, 14)
_VIRTUAL, _PHYSICAL = (int(TYPES.btree) | int(storage) for storage in (STORAGE.virtual, STORAGE.physical))


class _Facts(Struct, frozen=True):
    """What is known of a volume superblock besides its fields: the live one, and whether this is a snapshot's copy."""

    container: Container
    superblock: ApfsVolume.ApfsSuperblock
    live: ApfsVolume.ApfsSuperblock
    snapshots: tuple[tuple[int, int], ...]
    is_copy: bool

    def kind(self) -> Want:
        # The copy that a snapshot keeps is found by its address.
        return expect_storage(int(TYPES.fs), int(STORAGE.physical if self.is_copy else STORAGE.virtual))

    def age(self) -> Want:
        return passed(self.container.xid)

    def before(self) -> Want:
        return at_most(int(self.superblock.hdr.xid))

    def for_seal(self) -> Want:
        return NOT_ZERO if self.superblock.is_sealed else ZERO

    def of_live(self) -> Want | None:
        """A snapshot has none of its own: its copy of the superblock does not name those that go on."""
        return ZERO if self.is_copy else None

    def same_root(self) -> Want | None:
        return equals(int(self.live.root_tree_oid)) if self.is_copy else None

    def same_index(self) -> Want | None:
        return equals(int(self.live.fs_index)) if self.is_copy else None

    def next_number(self) -> Want | None:
        return at_most(int(self.live.next_obj_id)) if self.is_copy else None

    def role(self) -> Want | None:
        # The live superblock is compared while it is read.
        return one_of(*(int(role) for role in grammar.ApfsVolume.VolumeRole)) if self.is_copy else None

    def incompatible(self) -> Want | None:
        # The live superblock's are reported while it is read.
        return only_bits(VOLUME_INCOMPATIBLE.mask) if self.is_copy else None

    def snapshot_xid(self) -> Want:
        return one_of(0, *(xid for xid, _ in self.snapshots))

    def snapshot_copy(self) -> Want:
        return one_of(0, *(paddr for _, paddr in self.snapshots if paddr))

    def number(self) -> Want:
        stop = int(self.container.superblock.next_oid)
        return Want(
            lambda found: (found == 0) | ((found >= _FIRST_OID) & (found < stop)), f"0, or {_FIRST_OID} to {stop - 1}"
        )

    def quota(self) -> Want:
        least = max(int(self.superblock.num_reserve_blocks), 0 if self.is_copy else int(self.live.num_alloced_blocks))
        return Want(lambda found: (found == 0) | (found >= least), f"0, or at least {least}")

    def freed(self) -> Want:
        return at_most(int(self.superblock.num_blocks_ever_alloced))

    def epoch(self) -> Want:
        return at_most(int(self.superblock.next_obj_id)) if self.superblock.cloneinfo_xid else ZERO

    def clone_xid(self) -> Want:
        return passed(int(self.superblock.hdr.xid)) if self.superblock.cloneinfo_id_epoch else ZERO

    def protection(self) -> Want:
        return equals(_NO_PROTECTION) if self.superblock.is_unencrypted else one_of(*_CLASSES)

    def flags(self) -> Want:
        """A volume that is encrypted has its keys in the container's key bag."""
        key_bag = int(self.container.superblock.keylocker.num_blocks)
        none, one = int(FLAG.unencrypted), int(FLAG.onekey)
        return Want(
            lambda found: (found & none != 0) ^ (found & one != 0) | ((found & (none | one) == 0) & (key_bag > 0)),
            "unencrypted, or one key for all",
        )

    def group(self) -> Want | None:
        has_feature = int(self.superblock.features) & int(FEATURE.volgrp_system_ino_space)
        return None if has_feature else ZERO


VOLUME_RULES: Final[tuple[FieldRule[_Facts], ...]] = rules(
    "superblock-differs",
    f"{REFERENCE}, apfs_superblock_t; {OBSERVED}",
    (VOLUME.hdr.type_and_flags, _Facts.kind, "another type or storage"),
    (VOLUME.hdr.subtype, ZERO, "superblocks have no subtype"),
    (VOLUME.hdr.xid, _Facts.age, "not a transaction of this container's past"),
    (VOLUME.features, only_bits(_FEATURES), UNKNOWN),
    (VOLUME.readonly_compatible_features, ZERO, UNKNOWN_TO_WRITERS),
    (VOLUME.incompatible_features, _Facts.incompatible, UNKNOWN),
    (VOLUME.fs_index, _Facts.same_index, "another slot than the volume's"),
    (VOLUME.num_quota_blocks, _Facts.quota, "less than the volume reserves or uses"),
    (VOLUME.meta_crypto.major_version, equals(_CRYPTO_VERSION), "the only version"),
    (VOLUME.meta_crypto.minor_version, ZERO, "the only version"),
    (VOLUME.meta_crypto.cpflags, ZERO, UNKNOWN),
    (VOLUME.meta_crypto.persistent_class, _Facts.protection, "not the protection of such a volume"),
    (VOLUME.meta_crypto.key_revision, at_least(1), "keys are counted from 1"),
    (VOLUME.meta_crypto.unused, ZERO, RESERVED),
    (VOLUME.root_tree_type, one_of(_VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
    (VOLUME.extentref_tree_type, equals(_PHYSICAL), "another type or storage than that of its tree"),
    (VOLUME.snap_meta_tree_type, equals(_PHYSICAL), "another type or storage than that of its tree"),
    (VOLUME.fext_tree_type, one_of(0, _VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
    (VOLUME.reserved_type, one_of(0, _PHYSICAL), RESERVED),
    (VOLUME.reserved_oid, ZERO, RESERVED),
    (VOLUME.reserved, ZERO, RESERVED),
    *((field, _Facts.of_live, "a snapshot has none of its own")
      for field in (VOLUME.omap_oid, VOLUME.extentref_tree_oid, VOLUME.snap_meta_tree_oid)),
    (VOLUME.root_tree_oid, _Facts.same_root, "another tree than the volume's"),
    (VOLUME.role, _Facts.role, "no known role"),
    (VOLUME.next_obj_id, _Facts.next_number, "more than the volume has come to since"),
    (VOLUME.revert_to_xid, _Facts.snapshot_xid, "there is no such snapshot"),
    (VOLUME.revert_to_sblock_oid, _Facts.snapshot_copy, "there is no such snapshot"),
    (VOLUME.root_to_xid, _Facts.snapshot_xid, "there is no such snapshot"),
    (VOLUME.num_blocks_ever_freed, _Facts.freed, "more than were ever allocated"),
    (VOLUME.fs_flags, only_bits(_SET_FLAGS), UNKNOWN),
    (VOLUME.fs_flags, _Facts.flags, "neither unencrypted nor of one key, without a key bag"),
    (VOLUME.formatted_by.last_xid, _Facts.before, "a transaction that is still to come"),
    (VOLUME.modified_by.last_xid, _Facts.before, "a transaction that is still to come"),
    (VOLUME.next_doc_id, at_least(_FIRST_DOC_ID), "numbers below are reserved"),
    (VOLUME.er_state_oid, _Facts.number, "no number of an object of this container"),
    (VOLUME.snap_meta_ext_oid, _Facts.number, "no number of an object of this container"),
    (VOLUME.cloneinfo_id_epoch, _Facts.epoch, "of a transaction that is not named, or a number still to come"),
    (VOLUME.cloneinfo_xid, _Facts.clone_xid, "without an epoch, or still to come"),
    (VOLUME.volume_group_id, _Facts.group, "a member of a group without the feature of groups"),
    (VOLUME.integrity_meta_oid, _Facts.for_seal, "set where the volume is sealed, and only there"),
    (VOLUME.fext_tree_oid, _Facts.for_seal, "set where the volume is sealed, and only there"),
    level="warning",
)  # fmt: skip
"""Rules of volume superblocks."""


def check_superblocks(subject: Subject) -> None:
    """Superblocks of volumes and the copies that snapshots keep satisfy the rules of their fields."""
    for parts in subject.volumes:
        live = parts.state.superblock
        snapshots = tuple((int(item.xid), int(item.sblock_paddr)) for item in parts.snapshots)
        facts = _Facts(subject.container, live, live, snapshots, is_copy=False)
        _check_one(subject, "volume superblock", parts.state.paddr, facts)
        for item in parts.snapshots if parts.view == "live" else ():
            copy = _copy(subject, parts, int(item.sblock_paddr))
            if copy is not None:
                facts = _Facts(subject.container, copy, live, snapshots, is_copy=True)
                _check_one(subject, f"volume superblock of {item.view}", int(item.sblock_paddr), facts)


def _copy(subject: Subject, parts: VolumeParts, paddr: int) -> ApfsVolume.ApfsSuperblock | None:
    """Parse the superblock that a snapshot keeps; None where there is none."""
    blocks, kind = subject.container.blocks, type(parts.state.superblock)
    if not paddr or not blocks.readable(np.array([paddr], np.uint64), blocks.block_size)[0]:
        return None
    data = blocks.read_object(paddr)
    magic = VOLUME.magic
    if data[magic.offset : magic.offset + magic.width] != b"APSB":
        return None
    return grammar.parse(kind, data, structure="volume superblock", image_offset=blocks.at(paddr))


def _check_one(subject: Subject, name: str, paddr: int, facts: _Facts) -> None:
    hold(subject, name, VOLUME, [paddr], VOLUME_RULES, facts)
    fields = (VOLUME.volname, VOLUME.formatted_by.id, VOLUME.modified_by.id)
    found = columns_of(subject.container, VOLUME, paddr, (*fields, *_HISTORY))
    _check_texts(subject, name, paddr, {field: found[field] for field in fields[:2]})
    _check_history(subject, name, paddr, found)


_HISTORY: Final = (VOLUME.modified_by.timestamp, VOLUME.modified_by.last_xid, VOLUME.formatted_by.timestamp)


def _check_texts(subject: Subject, name: str, paddr: int, texts: dict[Any, NDArray[Any]]) -> None:
    """A volume has a name, and a program that made it; both end with a zero byte."""
    for field, values in texts.items():
        text = values.ravel()[0].tobytes()
        if text[0] == 0 or 0 not in text:
            log = subject.log.at(name, paddr, plus=field.offset)
            message = f"{field}: no text that ends with a zero byte"
            log.add("superblock-differs", "warning", message, found=text[:16].hex())


def _check_history(subject: Subject, name: str, paddr: int, found: dict[Any, NDArray[Any]]) -> None:
    """Programs that changed the volume stand newest first; behind the last one there is nothing."""
    entry = VOLUME.modified_by
    has_id = np.array([item.tobytes()[0] != 0 for item in found[entry.id].ravel()])
    times, xids = found[entry.timestamp].ravel(), found[entry.last_xid].ravel()
    width = entry.id.strides[0]

    def report(wrong: NDArray[np.bool_], field: Any, message: str) -> None:
        for row in np.flatnonzero(wrong)[:1].tolist():
            log = subject.log.at(name, paddr, plus=field.offset + row * width)
            log.add("superblock-differs", "warning", f"{field}[{row}]: {message}")

    report(~has_id & (times != 0), entry.timestamp, "an entry without program")
    report(~has_id & (xids != 0), entry.last_xid, "an entry without program")
    report(has_id & (xids == 0), entry.id, "an entry without transaction")
    report(has_id & (times == 0), entry.id, "an entry without time")
    report(np.append(False, has_id[1:] & ~has_id[:-1]), entry.id, "an entry behind the last one")
    both = has_id[1:] & has_id[:-1]
    report(np.append(False, both & (xids[1:] > xids[:-1])), entry.last_xid, "younger than the entry before it")


SEAL_RULES: Final[tuple[FieldRule[int], ...]] = rules(
    "seal-broken",
    f"{REFERENCE}, integrity_meta_phys_t",
    (
        SEAL.hdr.type_and_flags,
        expect_storage(int(TYPES.integrity_meta), int(STORAGE.virtual)),
        "another type or storage",
    ),
    (SEAL.hdr.subtype, ZERO, "integrity metadata have no subtype"),
    (SEAL.hdr.xid, passed, "not a transaction of this container's past"),
    (SEAL.version, one_of(1, 2), "no known version"),
    (SEAL.flags, only_bits(1), UNKNOWN),
    (SEAL.reserved, ZERO, RESERVED),
    level="warning",
)
"""Rules of the integrity metadata of a sealed volume."""


def check_integrity(subject: Subject) -> None:
    """Integrity metadata satisfy the rules of their fields, and name what broke the seal where one is broken."""
    for parts in subject.volumes:
        seal = parts.state.seal
        if seal is None:
            continue
        hold(subject, "integrity metadata", SEAL, [seal.paddr], SEAL_RULES, subject.container.xid)
        found = columns_of(subject.container, SEAL, seal.paddr, (SEAL.flags, SEAL.broken_xid))
        is_broken, xid = bool(found[SEAL.flags][0] & 1), int(found[SEAL.broken_xid][0])
        if is_broken != bool(xid) or xid > subject.container.xid:
            log = subject.log.at("integrity metadata", seal.paddr, plus=SEAL.broken_xid.offset)
            message = f"{SEAL.broken_xid}: set where the seal is broken, and only there"
            log.add("seal-broken", "warning", message, found=xid)
