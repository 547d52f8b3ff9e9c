meta:
  id: apfs_record
  title: 'Apple File System, records of the file-system trees'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  What the keys of the file-system tree, the extent-reference tree and the snapshot-metadata tree begin with. The
  records are described by what they are about: apfs_inode, apfs_directory, apfs_xattr, apfs_extents, apfs_snapshot;
  apfs_xfields describes what follows the fixed part of inodes and directory records.

  Values whose end varies (inode_val, drec_val, xattr_val, sibling_val, snap_metadata_val, ...) begin with a type of
  their own, named ..._fixed: Apple's structure without what follows it. It has the same size in every record, so that
  millions of them can be read by the places of their fields alone; the whole value holds it as its field `fixed`.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, p. 71'
types:
  j_key:
    -orig-id: j_key_t
    doc: Beginning of each key of these trees.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_key_t, p. 72'
    -webide-representation: 'object {obj_id} type {record_type}'
    seq:
      - id: obj_id_and_type
        -orig-id: obj_id_and_type
        type: u8
    instances:
      obj_id:
        -orig-id: OBJ_ID_MASK
        value: 'obj_id_and_type & 0x0fffffffffffffff'
        doc: 'Inode number, data-stream identifier, block address or transaction, by the type.'
      record_type:
        -orig-id: OBJ_TYPE_SHIFT
        value: 'obj_id_and_type >> 60'
        enum: record_type
      is_system:
        -orig-id: SYSTEM_OBJ_ID_MARK
        value: '(obj_id_and_type & 0x0fffffff00000000) == 0x0fffffff00000000'
        doc: Object of the system volume in a volume group.
enums:
  record_type:
    0:
      id: any
      -orig-id: APFS_TYPE_ANY
    1:
      id: snap_metadata
      -orig-id: APFS_TYPE_SNAP_METADATA
    2:
      id: extent
      -orig-id: APFS_TYPE_EXTENT
    3:
      id: inode
      -orig-id: APFS_TYPE_INODE
    4:
      id: xattr
      -orig-id: APFS_TYPE_XATTR
    5:
      id: sibling_link
      -orig-id: APFS_TYPE_SIBLING_LINK
    6:
      id: dstream_id
      -orig-id: APFS_TYPE_DSTREAM_ID
    7:
      id: crypto_state
      -orig-id: APFS_TYPE_CRYPTO_STATE
    8:
      id: file_extent
      -orig-id: APFS_TYPE_FILE_EXTENT
    9:
      id: dir_rec
      -orig-id: APFS_TYPE_DIR_REC
    10:
      id: dir_stats
      -orig-id: APFS_TYPE_DIR_STATS
    11:
      id: snap_name
      -orig-id: APFS_TYPE_SNAP_NAME
    12:
      id: sibling_map
      -orig-id: APFS_TYPE_SIBLING_MAP
    13:
      id: file_info
      -orig-id: APFS_TYPE_FILE_INFO
    15:
      id: invalid
      -orig-id: APFS_TYPE_INVALID
