"""How each type of file-system record is built, and what of it the tables keep.

Apple File System Reference, File-System Objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.ondisk import records

if TYPE_CHECKING:
    from layoutscope.recordtypes import RecordColumn, RecordType


class RecordShape(NamedTuple):
    """How a record of one type is built: types of key and value, the fields that give the length of what follows."""

    key_type: RecordType
    val_type: RecordType
    fields: tuple[RecordColumn, ...]
    key_fields: tuple[RecordColumn, ...] = ()
    key_tail: RecordColumn | None = None
    val_tail: RecordColumn | None = None
    has_xfields: bool = False


SHAPES: Final[dict[str, RecordShape]] = {
    "snap_metadata": RecordShape(
        records.J_KEY,
        records.SNAP_METADATA_VAL,
        (
            records.SNAP_METADATA_VAL.fixed.extentref_tree_oid,
            records.SNAP_METADATA_VAL.fixed.sblock_oid,
            records.SNAP_METADATA_VAL.fixed.create_time,
            records.SNAP_METADATA_VAL.fixed.inum,
            records.SNAP_METADATA_VAL.fixed.flags,
        ),
        val_tail=records.SNAP_METADATA_VAL.fixed.len_name,
    ),
    "extent": RecordShape(
        records.J_KEY,
        records.PHYS_EXT_VAL,
        (
            records.PHYS_EXT_VAL.num_blocks,
            records.PHYS_EXT_VAL.kind,
            records.PHYS_EXT_VAL.owning_obj_id,
            records.PHYS_EXT_VAL.has_owner,
            records.PHYS_EXT_VAL.refcnt,
        ),
    ),
    "inode": RecordShape(
        records.J_KEY,
        records.INODE_VAL_FIXED,
        (
            records.INODE_VAL_FIXED.parent_id,
            records.INODE_VAL_FIXED.private_id,
            records.INODE_VAL_FIXED.create_time,
            records.INODE_VAL_FIXED.mod_time,
            records.INODE_VAL_FIXED.num_children_or_links,
            records.INODE_VAL_FIXED.format,
            records.INODE_VAL_FIXED.len_uncompressed,
            records.INODE_VAL_FIXED.has_uncompressed_size,
            records.INODE_VAL_FIXED.is_compressed,
            records.INODE_VAL_FIXED.is_dataless,
        ),
        has_xfields=True,
    ),
    "xattr": RecordShape(
        records.XATTR_KEY,
        records.XATTR_VAL,
        (records.XATTR_VAL.fixed.is_stream, records.XATTR_VAL.fixed.is_embedded, records.XATTR_VAL.fixed.len_xdata),
        key_tail=records.XATTR_KEY.len_name,
        val_tail=records.XATTR_VAL.fixed.len_xdata,
    ),
    "sibling_link": RecordShape(
        records.SIBLING_KEY,
        records.SIBLING_VAL,
        (records.SIBLING_VAL.fixed.parent_id,),
        (records.SIBLING_KEY.sibling_id,),
        val_tail=records.SIBLING_VAL.fixed.len_name,
    ),
    "dstream_id": RecordShape(records.J_KEY, records.DSTREAM_ID_VAL, (records.DSTREAM_ID_VAL.refcnt,)),
    "crypto_state": RecordShape(
        records.J_KEY,
        records.CRYPTO_VAL,
        (records.CRYPTO_VAL.fixed.persistent_class,),
        val_tail=records.CRYPTO_VAL.fixed.len_key,
    ),
    "file_extent": RecordShape(
        records.FILE_EXTENT_KEY,
        records.FILE_EXTENT_VAL,
        (records.FILE_EXTENT_VAL.len_extent, records.FILE_EXTENT_VAL.paddr),
        (records.FILE_EXTENT_KEY.logical_addr,),
    ),
    "dir_rec": RecordShape(
        records.DREC_KEY,
        records.DREC_VAL_FIXED,
        (records.DREC_VAL_FIXED.file_id, records.DREC_VAL_FIXED.entry_type),
        key_tail=records.DREC_KEY.len_name,
        has_xfields=True,
    ),
    "dir_stats": RecordShape(records.J_KEY, records.DIR_STATS_VAL, (records.DIR_STATS_VAL.num_children,)),
    "snap_name": RecordShape(
        records.SNAP_NAME_KEY,
        records.SNAP_NAME_VAL,
        (records.SNAP_NAME_VAL.snap_xid,),
        key_tail=records.SNAP_NAME_KEY.len_name,
    ),
    "sibling_map": RecordShape(records.J_KEY, records.SIBLING_MAP_VAL, (records.SIBLING_MAP_VAL.file_id,)),
    "file_info": RecordShape(
        records.FILE_INFO_KEY,
        records.FILE_INFO_VAL,
        (records.FILE_INFO_VAL.fixed.num_hashed_blocks,),
        (records.FILE_INFO_KEY.lba,),
        val_tail=records.FILE_INFO_VAL.fixed.len_hash,
    ),
}
"""By the name of the grammar's ``record_type``."""

# Volumes that fold case or normalize names put a hash between the parent and the name; the others sort by bare names.
HASHED_DREC: Final = SHAPES["dir_rec"]._replace(
    key_type=records.DREC_HASHED_KEY,
    key_fields=(records.DREC_HASHED_KEY.name_hash,),
    key_tail=records.DREC_HASHED_KEY.len_name,
)
