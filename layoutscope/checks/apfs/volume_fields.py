"""Rules of the fields of volume superblocks, of the live volume and of snapshots, and of a volume's seal.

Apple File System Reference, Volumes, Snapshot Metadata and Sealed Volumes; rules from apfsck alone were confirmed on
volumes made by macOS. Times, counts of files in states that were not read, and key versions have no rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.apfs.objects import (
    OTHER_TYPE,
    PHYSICAL_TREE,
    RESERVED,
    STORAGE,
    TYPES,
    UNKNOWN,
    UNKNOWN_TO_WRITERS,
    check_objects,
    expect_past,
    expect_storage,
    is_readable,
    make_header_rules,
    read_columns,
    read_numbers,
)
from layoutscope.checks.fieldrules import (
    NOT_ZERO,
    ZERO,
    Want,
    at_least,
    at_most,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.filesystems.apfs.features import VOLUME_INCOMPATIBLE
from layoutscope.structs import grammar, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.structs.grammar import ApfsVolume

VOLUME, SEAL = records.APFS_SUPERBLOCK, records.INTEGRITY_META
FLAG, FEATURE = grammar.ApfsVolume.VolumeFlag, grammar.ApfsVolume.VolumeFeature
_SET_FLAGS: Final = int(
    FLAG.unencrypted | FLAG.onekey | FLAG.spilledover | FLAG.run_spillover_cleaner | FLAG.always_check_extentref
)
_FEATURES: Final = sum(int(bit) for bit in FEATURE) - int(FEATURE.defrag_prerelease)
"""The bit of pre-releases must no longer be set (reference, APFS_FEATURE_DEFRAG_PRERELEASE)."""
_FIRST_OID: Final = 1024
_FIRST_DOC_ID: Final = 3
_CRYPTO_VERSION: Final = 5
_NO_PROTECTION: Final = 6
_CLASSES: Final = (1, 2, 3, 4, _NO_PROTECTION, 14)
_VIRTUAL, _PHYSICAL = (int(TYPES.btree) | int(storage) for storage in (STORAGE.virtual, STORAGE.physical))


def make_volume_rules(
    container: Container,
    superblock: ApfsVolume.ApfsSuperblock,
    live: ApfsVolume.ApfsSuperblock,
    snapshots: list[tuple[int, int]],  # transaction of each, and the address of its superblock
    *,
    is_copy: bool,  # whether it is the copy in a snapshot
) -> tuple[FieldRule, ...]:
    """Return the rules of a volume superblock (apfs_superblock_t, apfsck)."""
    stop = int(container.superblock.next_oid)
    own_number = Want(
        lambda found: (found == 0) | ((found >= _FIRST_OID) & (found < stop)), f"0, or {_FIRST_OID} to {stop - 1}"
    )
    least = max(int(superblock.num_reserve_blocks), 0 if is_copy else int(live.num_alloced_blocks))
    quota = Want(lambda found: (found == 0) | (found >= least), f"0, or at least {least}")
    # The keys of an encrypted volume are in the container's key bag.
    has_keys, unencrypted, one_key = (
        int(container.superblock.keylocker.num_blocks) > 0,
        int(FLAG.unencrypted),
        int(FLAG.onekey),
    )
    keys = Want(
        lambda found: (
            (found & unencrypted != 0) ^ (found & one_key != 0) | ((found & (unencrypted | one_key) == 0) & has_keys)
        ),
        "unencrypted, or one key for all",
    )
    has_groups = int(superblock.features) & int(FEATURE.volgrp_system_ino_space)
    is_past = at_most(int(superblock.hdr.xid))
    snapshot_xid, snapshot_copy = (
        one_of(0, *(xid for xid, _ in snapshots)),
        one_of(0, *(at for _, at in snapshots if at)),
    )
    sealed, with_seal = NOT_ZERO if superblock.is_sealed else ZERO, "set where the volume is sealed, and only there"
    # The copy in a snapshot is a physical object. Rules that reading applies to the live superblock are not repeated.
    return rules(
        "superblock-differs",
        *make_header_rules(
            VOLUME,
            "superblocks",
            expect_storage(TYPES.fs, STORAGE.physical if is_copy else STORAGE.virtual),
            container.xid,
        ),
        (VOLUME.features, only_bits(_FEATURES), UNKNOWN),
        (VOLUME.readonly_compatible_features, ZERO, UNKNOWN_TO_WRITERS),
        (VOLUME.incompatible_features, only_bits(VOLUME_INCOMPATIBLE.mask) if is_copy else None, UNKNOWN),
        (VOLUME.fs_index, equals(int(live.fs_index)) if is_copy else None, "another slot than the volume's"),
        (VOLUME.num_quota_blocks, quota, "less than the volume reserves or uses"),
        (VOLUME.meta_crypto.major_version, equals(_CRYPTO_VERSION), "the only version"),
        (VOLUME.meta_crypto.minor_version, ZERO, "the only version"),
        (VOLUME.meta_crypto.cpflags, ZERO, UNKNOWN),
        (
            VOLUME.meta_crypto.persistent_class,
            equals(_NO_PROTECTION) if superblock.is_unencrypted else one_of(*_CLASSES),
            "not the protection of such a volume",
        ),
        (VOLUME.meta_crypto.key_revision, at_least(1), "keys are counted from 1"),
        (VOLUME.meta_crypto.unused, ZERO, RESERVED),
        (VOLUME.root_tree_type, one_of(_VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
        (VOLUME.extentref_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (VOLUME.snap_meta_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (VOLUME.fext_tree_type, one_of(0, _VIRTUAL, _PHYSICAL), "another type or storage than that of a tree"),
        (VOLUME.reserved_type, one_of(0, _PHYSICAL), RESERVED),
        (VOLUME.reserved_oid, ZERO, RESERVED),
        (VOLUME.reserved, ZERO, RESERVED),
        # The copy of the superblock does not name trees that only the live volume has.
        *(
            (field, ZERO if is_copy else None, "a snapshot has none of its own")
            for field in (VOLUME.omap_oid, VOLUME.extentref_tree_oid, VOLUME.snap_meta_tree_oid)
        ),
        (VOLUME.root_tree_oid, equals(int(live.root_tree_oid)) if is_copy else None, "another tree than the volume's"),
        (VOLUME.role, one_of(*map(int, grammar.ApfsVolume.VolumeRole)) if is_copy else None, "no known role"),
        (
            VOLUME.next_obj_id,
            at_most(int(live.next_obj_id)) if is_copy else None,
            "more than the volume has come to since",
        ),
        (VOLUME.revert_to_xid, snapshot_xid, "there is no such snapshot"),
        (VOLUME.revert_to_sblock_oid, snapshot_copy, "there is no such snapshot"),
        (VOLUME.root_to_xid, snapshot_xid, "there is no such snapshot"),
        (
            VOLUME.num_blocks_ever_freed,
            at_most(int(superblock.num_blocks_ever_alloced)),
            "more than were ever allocated",
        ),
        (VOLUME.fs_flags, only_bits(_SET_FLAGS), UNKNOWN),
        (VOLUME.fs_flags, keys, "neither unencrypted nor of one key, without a key bag"),
        (VOLUME.formatted_by.last_xid, is_past, "a transaction that is still to come"),
        (VOLUME.modified_by.last_xid, is_past, "a transaction that is still to come"),
        (VOLUME.next_doc_id, at_least(_FIRST_DOC_ID), "numbers below are reserved"),
        (VOLUME.er_state_oid, own_number, "no number of an object of this container"),
        (VOLUME.snap_meta_ext_oid, own_number, "no number of an object of this container"),
        (
            VOLUME.cloneinfo_id_epoch,
            at_most(int(superblock.next_obj_id)) if superblock.cloneinfo_xid else ZERO,
            "of a transaction that is not named, or a number still to come",
        ),
        (
            VOLUME.cloneinfo_xid,
            expect_past(int(superblock.hdr.xid)) if superblock.cloneinfo_id_epoch else ZERO,
            "without an epoch, or still to come",
        ),
        (
            VOLUME.volume_group_id,
            None if has_groups else ZERO,
            "a member of a group without the feature of groups",
        ),
        (VOLUME.integrity_meta_oid, sealed, with_seal),
        (VOLUME.fext_tree_oid, sealed, with_seal),
    )


def check_superblocks(subject: Subject, parts: VolumeParts) -> None:
    """Check the fields of a volume's superblock and of its copies in snapshots."""
    live = parts.state.superblock
    snapshots = [(int(item.xid), int(item.sblock_paddr)) for item in parts.snapshots]

    def check(name: str, paddr: int, superblock: ApfsVolume.ApfsSuperblock, *, is_copy: bool) -> None:
        declared = make_volume_rules(subject.container, superblock, live, snapshots, is_copy=is_copy)
        check_objects(subject, name, VOLUME, [paddr], declared)
        fields = (VOLUME.volname, VOLUME.formatted_by.id, VOLUME.modified_by.id)
        found = read_columns(subject.container, VOLUME, paddr, (*fields, *_HISTORY))
        _check_texts(subject, name, paddr, {field: found[field] for field in fields[:2]})
        _check_history(subject, name, paddr, found)

    check("volume superblock", parts.state.paddr, live, is_copy=False)
    for item in parts.snapshots if parts.view == "live" else ():
        copy = _parse_copy(subject, parts, int(item.sblock_paddr))
        if copy is not None:
            check(f"volume superblock of {item.view}", int(item.sblock_paddr), copy, is_copy=True)


def _parse_copy(subject: Subject, parts: VolumeParts, paddr: int) -> ApfsVolume.ApfsSuperblock | None:
    """Parse the copy of the superblock in a snapshot; None if there is none."""
    blocks, magic = subject.container.blocks, VOLUME.magic
    if not paddr or not is_readable(subject.container, paddr):
        return None
    data = blocks.read_object(paddr)
    if data[magic.offset : magic.offset + magic.width] != b"APSB":
        return None
    kind = type(parts.state.superblock)
    return grammar.parse(kind, data, structure="volume superblock", image_offset=blocks.at(paddr))


_HISTORY: Final = (VOLUME.modified_by.timestamp, VOLUME.modified_by.last_xid, VOLUME.formatted_by.timestamp)


def _check_texts(subject: Subject, name: str, paddr: int, texts: dict[Any, NDArray[Any]]) -> None:
    """Check that the volume's name and the program that formatted it are set, and end with a zero byte."""
    for field, values in texts.items():
        text = values.ravel()[0].tobytes()
        if text[0] == 0 or 0 not in text:
            log = subject.log.at(name, paddr, plus=field.offset)
            message = f"{field}: no text that ends with a zero byte"
            log.add("superblock-differs", "warning", message, found=text[:16].hex())


def _check_history(subject: Subject, name: str, paddr: int, found: dict[Any, NDArray[Any]]) -> None:
    """Check that programs that changed the volume are listed newest first, and that unused entries are empty."""
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
    report(np.append(False, has_id[1:] & ~has_id[:-1]), entry.id, "an entry after the last one")
    both = has_id[1:] & has_id[:-1]
    report(np.append(False, both & (xids[1:] > xids[:-1])), entry.last_xid, "younger than the entry before it")


def make_seal_rules(xid: int) -> tuple[FieldRule, ...]:
    """Return the rules of the integrity metadata of a sealed volume (integrity_meta_phys_t)."""
    return rules(
        "seal-broken",
        *make_header_rules(SEAL, "integrity metadata", expect_storage(TYPES.integrity_meta, STORAGE.virtual), xid),
        (SEAL.version, one_of(1, 2), "no known version"),
        (SEAL.flags, only_bits(1), UNKNOWN),
        (SEAL.reserved, ZERO, RESERVED),
    )


def check_integrity(subject: Subject, parts: VolumeParts) -> None:
    """Check the fields of integrity metadata, and that a broken seal names its transaction."""
    seal, now = parts.state.seal, subject.container.xid
    if seal is None:
        return
    check_objects(subject, "integrity metadata", SEAL, [seal.paddr], make_seal_rules(now))
    flags, xid = read_numbers(subject.container, SEAL, seal.paddr, SEAL.flags, SEAL.broken_xid)
    if flags & 1 != bool(xid) or xid > now:
        log = subject.log.at("integrity metadata", seal.paddr, plus=SEAL.broken_xid.offset)
        message = f"{SEAL.broken_xid}: set where the seal is broken, and only there"
        log.add("seal-broken", "warning", message, found=xid)
