"""A volume of a container: its superblock, object map, seal and encryption.

Apple File System Reference, Volumes and Sealed Volumes. The nodes of a sealed volume's file-system tree have no header.
Each index entry holds the hash of its child, and the integrity metadata holds the root's hash.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import omap as omaps
from layoutscope.filesystems.apfs.btree import open_omap, read_nodes
from layoutscope.filesystems.apfs.fsrecords import RecordTree, walk_record_tree
from layoutscope.filesystems.apfs.keybag import unlock
from layoutscope.filesystems.apfs.nodes import LOCKED, UNREAD, NodeRows, join
from layoutscope.filesystems.apfs.objects import Objects, objects_of
from layoutscope.filesystems.apfs.source import Store, TreeSource, mapped_nodes
from layoutscope.filesystems.apfs.spaceman import Details, Region
from layoutscope.filesystems.apfs.verify import hash_size, read_virtual
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column
from layoutscope.structs.records import APFS_SUPERBLOCK, ER_STATE_HEAD, GBITMAP_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.btree import Pool, ReadNodes
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.fsrecords import RecordsAhead
    from layoutscope.filesystems.apfs.omap import ObjectMap, OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.image.passes import Reading
    from layoutscope.structs.grammar import ApfsContainer, ApfsVolume

    State = grammar.ApfsEncryption.ErStateV1 | grammar.ApfsEncryption.ErState


def format_disk_time(nanoseconds: int) -> str:
    """Return a time on disk as text in UTC; empty if it is not set."""
    seconds = nanoseconds // 10**9
    # Up to the year 4147: later values are from damaged fields, and may exceed the range of dates.
    if not 0 < seconds < 2**36:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


class Volume(Struct, frozen=True):
    """An opened volume, before its file-system tree is read."""

    store: Store  # blocks to read from, and the log for findings about this volume
    number: int  # its number on the image
    superblock: ApfsVolume.ApfsSuperblock  # superblock of the state that is read
    paddr: int  # its address
    xid: int  # transaction of the state that is read
    omap_header: ApfsContainer.OmapPhys  # header of its object map; it leads to no tree, 0, if the map is lost
    view: OmapView  # its object map as of this state
    omap_snapshots: NodeRows  # tree of the snapshots in the object map
    seal: Seal | None = None  # set if the volume is sealed

    @property
    def name(self) -> str:
        """Name as stored in the superblock."""
        return decode_stored_name(self.superblock)

    @property
    def omap(self) -> ObjectMap:
        """Its object map: all versions of all objects."""
        return self.view.omap

    @property
    def log(self) -> FindingLog:
        """Log for findings about this volume."""
        return self.store.log

    def at_superblock(self, field: str = "") -> FindingLog:
        """Bind the log to the superblock, or to a field of it."""
        plus = APFS_SUPERBLOCK.offset_of(field) if field else 0
        return self.log.at("volume superblock", self.paddr, plus=plus)


def decode_stored_name(superblock: ApfsVolume.ApfsSuperblock) -> str:
    """Return the name that a volume superblock stores."""
    # 256 bytes of UTF-8; those after the first zero byte have no meaning.
    return bytes(superblock.volname).split(b"\0", 1)[0].decode(errors="replace")


def list_volumes(container: Container) -> list[tuple[int, int]]:
    """List slot and oid of every volume of a container."""
    # The oid of an empty slot is 0; empty slots may be between others.
    return [(slot, oid) for slot, oid in enumerate(container.superblock.fs_oid) if oid]


def open_volume(container: Container, store: Store, oid: int, number: int) -> Volume:
    """Open a volume's live state."""
    blocks, xid = store.blocks, container.xid
    superblock, paddr = read_virtual(
        blocks, grammar.ApfsVolume.ApfsSuperblock, container.view, oid, "volume superblock"
    )
    header, omap = open_omap(store, "omap", superblock.omap_oid, xid)
    view = omaps.view_at(omap, xid)
    # Only a sealed volume has integrity metadata, which is needed to verify the hashes of nodes.
    seal = read_seal(store, view, superblock)
    listed = join("omap-snapshots", [])
    if header.snapshot_tree_oid:
        listed = read_nodes(TreeSource(store, "omap-snapshots", header.snapshot_tree_oid, xid))[0]
    return Volume(store, number, superblock, paddr, xid, header, view, listed, seal)


def program(entry: grammar.ApfsVolume.ModifiedBy) -> str:
    """Return a program's name from a volume's modification history."""
    return bytes(entry.id).split(b"\0", 1)[0].decode(errors="replace")


class Seal(Struct, frozen=True):
    """Integrity metadata of a sealed volume: the hash type and the expected hash of the root."""

    paddr: int
    hash_type: int
    root_hash: bytes
    is_broken: bool


def read_seal(
    store: Store,  # blocks to read from; the log records a broken seal, or why there is none to verify
    view: OmapView,
    superblock: ApfsVolume.ApfsSuperblock,
    of_state: str = "",
) -> Seal | None:
    """Read the integrity metadata of a volume's state; None if the state is not sealed, or they cannot be used.

    Each state is sealed independently: a system volume's snapshots are, while the live state need not be.
    """
    if not superblock.is_sealed:
        return None
    oid, blocks = superblock.integrity_meta_oid, store.blocks
    structure = f"integrity metadata of {of_state}" if of_state else "integrity metadata"
    if view.find_one(oid) is None:
        message = "the object map does not know the integrity metadata; nodes are not verified"
        store.log.at(structure).add("seal-broken", "warning", message)
        return None
    try:
        meta, paddr = read_virtual(blocks, grammar.ApfsSealed.IntegrityMeta, view, oid, structure)
    except FormatError as error:
        store.log.survive(error)
        return None
    try:
        size = hash_size(int(meta.hash_type))
    except ValueError:
        store.log.at(structure, paddr).add("structure-invalid", "error", "unknown type of hash")
        return None
    if meta.is_broken or meta.broken_xid:
        message = f"the seal was broken in transaction {meta.broken_xid}"
        store.log.at(structure, paddr).add("seal-broken", "warning", message)
    data = blocks.read_object(paddr)
    root_hash = data[meta.ofs_root_hash : meta.ofs_root_hash + size]
    return Seal(paddr, int(meta.hash_type), root_hash, bool(meta.is_broken or meta.broken_xid))


def fs_source(
    store: Store,
    volume: Volume,
    key: bytes | None,  # decrypts encrypted nodes; None if there are none
) -> TreeSource:
    """Describe the file-system tree of a volume's state."""
    seal, superblock = volume.seal, volume.superblock
    # Apple's reference calls the root tree virtual "typically": its type field decides how its nodes are identified.
    is_physical = superblock.root_tree_type & int(grammar.ApfsObject.ObjectFlag.physical)
    return TreeSource(
        store,
        "fs",
        superblock.root_tree_oid,
        volume.xid,
        view=None if is_physical else volume.view,
        key=key,
        hash_type=seal.hash_type if seal else 0,
        root_hash=seal.root_hash if seal else b"",
    )


def walk_fs_tree(
    volume: Volume,
    key: bytes | None,  # decrypts encrypted nodes; None if there are none
    pool: Pool | None = None,
    ahead: RecordsAhead | None = None,  # nodes of this state that were read ahead
) -> Reading[RecordTree]:
    """Read the file-system tree of a volume's state, with its records."""
    hashed = bool(volume.superblock.has_hashed_names)
    return walk_record_tree(fs_source(volume.store, volume, key), hashed_names=hashed, pool=pool, ahead=ahead)


def list_locked_nodes(state: Volume) -> NodeRows:
    """List the encrypted nodes of a state by identifier; only their addresses and sizes are known."""
    omap = state.omap
    row = state.view.row[omap.is_encrypted[state.view.row]]
    is_read = np.ones(len(row), np.bool_)
    for size in np.unique(omap.size_bytes[row]).tolist():
        same = omap.size_bytes[row] == size
        is_read[same] = state.store.blocks.readable(omap.paddr[row[same]], size)
    return mapped_nodes("fs", omap, row, np.where(is_read, LOCKED, UNREAD))


def walk_fext_tree(volume: Volume) -> Reading[RecordTree]:
    """Read the extents of a sealed volume's files; return an empty tree for any other volume."""
    superblock = volume.superblock
    is_physical = superblock.fext_tree_type & int(grammar.ApfsObject.ObjectFlag.physical)
    view = None if is_physical else volume.view
    return walk_record_tree(TreeSource(volume.store, "fext", superblock.fext_tree_oid, volume.xid, view=view))


def is_encrypted(volume: Volume) -> bool:
    """Return whether the nodes of the file-system tree are encrypted."""
    # Each mapping has its own encryption flag: while a volume is being encrypted, some objects are and some are not.
    row = volume.view.find_one(volume.superblock.root_tree_oid)
    return row is not None and bool(volume.view.omap.is_encrypted[row])


def key_of(
    container: Container,
    volume: Volume,  # the volume; if it is not encrypted, the result is None
    password: str | None,
) -> bytes | None:
    """Find the key of an encrypted volume; without one the volume stays locked, and a finding gives the reason."""
    if not is_encrypted(volume):
        return None
    code, uuid = "volume-locked", bytes(volume.superblock.vol_uuid)
    if password is not None and container.superblock.is_crypto_sw:
        try:
            key = unlock(container, uuid, password)
            if key is not None:
                return key
        except FormatError as error:
            volume.log.survive(error)
        message = "wrong password: it opens none of the volume's keys"
    elif container.superblock.is_crypto_sw:
        message = "the volume is encrypted; a password or recovery key unlocks it"
    else:
        code = "volume-hardware-locked"
        message = (
            "the volume's keys are bound to the hardware that made them, so that no password unlocks an image: unlock "
            "it on the Mac it belongs to, and copy or clone it there to a disk of software encryption or none"
        )
    volume.log.at(f"volume {volume.name}", volume.paddr).add(code, "warning", message)
    return None


KINDS: Final = grammar.ApfsObject.ObjectType
OWNER: Final = "encryption rolling"


def read_rolling(container: Container, volume: Volume) -> tuple[list[Region], list[NodeRows], Details]:
    """Read the state of an encryption in progress: its regions and trees, and facts for a report."""
    regions, trees, details = list[Region](), list[NodeRows](), Details()
    if not volume.superblock.er_state_oid:
        return regions, trees, details
    objects = Objects(container, volume.view, volume.log)
    try:
        state = _read_state(objects, volume.superblock.er_state_oid)
    except FormatError as error:
        volume.log.survive(error)
        return regions, trees, details
    regions += objects.regions("er-state", OWNER, volume.superblock.er_state_oid)
    details["encryption under way"] = ", ".join(_flags(state.flags))
    details["encryption progress"] = f"{state.progress:,} of {state.num_blocks_to_encrypt:,} blocks"
    if state.blockmap_oid:
        _read_bitmap(objects, volume, state.blockmap_oid, regions, trees)
    # The second version of the state introduced the list.
    if isinstance(state, grammar.ApfsEncryption.ErState) and state.recovery_list_oid:
        kind = grammar.ApfsEncryption.ErRecoveryBlock, KINDS.er_recovery_block, "recovery block"
        for oid, found in objects.follow(*kind, state.recovery_list_oid, lambda block: int(block.next_oid)):
            regions += objects.regions("er-recovery-block", OWNER, oid) if found else []
    return regions, trees, details


def _read_state(objects: Objects, oid: int) -> State:
    """Parse the encryption state according to its version."""
    types, name = grammar.ApfsEncryption, "encryption rolling state"
    head, paddr = objects.read(types.ErStateHead, KINDS.er_state, name, oid)
    # The reference numbers one version (ER_VERSION, p. 171), but has two structures, one of which is called the first.
    version = types.ErVersion
    by_version: dict[int, type[State]] = {int(version.first): types.ErStateV1, int(version.second): types.ErState}
    cls = by_version.get(int(head.version))
    if cls is None:
        where = objects.container.blocks.at(paddr) + ER_STATE_HEAD.version.offset
        raise FormatError("of an unknown version", structure=name, image_offset=where, found=str(head.version))
    return objects.read(cls, KINDS.er_state, name, oid)[0]


def _flags(value: int) -> list[str]:
    flags = grammar.ApfsEncryption.ErFlag
    return [flag.name.replace("_", " ") for flag in flags if value & flag] or ["state unknown"]


def _read_bitmap(objects: Objects, volume: Volume, oid: int, regions: list[Region], trees: list[NodeRows]) -> None:
    """Read the header of the bitmap of handled blocks and its tree, and locate its blocks."""
    found = objects.try_read(grammar.ApfsEncryption.Gbitmap, KINDS.gbitmap, "bitmap of encrypted blocks", oid)
    if found is None:
        return
    head = found[0]
    regions += objects.regions("gbitmap", OWNER, oid)
    if head.tree_oid:
        view = volume.view if volume.view.find_one(head.tree_oid) is not None else None
        nodes, leaves = read_nodes(TreeSource(volume.store, "gbitmap", head.tree_oid, volume.xid, view=view))
        trees.append(nodes)
        for batch in leaves:
            regions += _bitmap_blocks(objects_of(objects.container), batch)


def _bitmap_blocks(objects: Objects, batch: ReadNodes) -> list[Region]:
    """Locate the bitmap blocks that a batch of leaves names."""
    slots, regions = batch.slots, list[Region]()
    kind = grammar.ApfsEncryption.GbitmapBlock, KINDS.gbitmap_block, "bitmap block"
    rows = np.flatnonzero(slots.val_len == GBITMAP_VAL.width)
    found = decode_column(GBITMAP_VAL, batch.buffer, slots.val_start[rows], GBITMAP_VAL.paddr)
    by_row = dict(zip(rows.tolist(), found.tolist(), strict=True))
    for row in range(len(slots)):
        oid = by_row.get(row, 0)
        try:
            objects.read(*kind, oid)
        except FormatError:
            log = batch.at(int(slots.node[row]), int(slots.key_start[row]))
            log.add("record-invalid", "info", "record of a kind that is not documented")
            continue
        regions += objects.regions("gbitmap-block", OWNER, oid)
    return regions
