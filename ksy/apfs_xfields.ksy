meta:
  id: apfs_xfields
  title: 'Apple File System, extended fields'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  What follows the fixed part of inodes and directory records: a collection of optional fields, such as the name and
  the size of the data stream.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, p. 108'
types:
  xf_blob_head:
    -orig-id: xf_blob_t
    doc: Head of a collection of extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t, p. 108'
    seq:
      - id: num_exts
        -orig-id: xf_num_exts
        type: u2
      - id: used_data
        -orig-id: xf_used_data
        type: u2
        doc: 'Bytes of field data, each field rounded up to eight.'
  x_field:
    -orig-id: x_field_t
    doc: 'One extended field''s description.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, x_field_t, p. 109'
    -webide-representation: 'type {type}, {len_data} bytes'
    seq:
      - id: type
        -orig-id: x_type
        type: u1
      - id: flags
        -orig-id: x_flags
        type: u1
      - id: len_data
        -orig-id: x_size
        type: u2
        doc: Without the padding.
    instances:
      is_data_dependent:
        -orig-id: XF_DATA_DEPENDENT
        value: '(flags & field_flag::data_dependent.to_i) != 0'
        doc: To be changed with the file's data.
      len_padded:
        value: '(len_data + 7) & 0xfff8'
        doc: Bytes that it takes among the data.
  xf_blob:
    -orig-id: xf_blob_t
    doc: Extended fields of an inode or a directory record.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t, p. 108'
    -webide-representation: '{head.num_exts} fields'
    seq:
      - id: head
        -orig-id: xf_blob_t
        type: xf_blob_head
      - id: fields
        -orig-id: x_field_t
        type: x_field
        repeat: expr
        repeat-expr: head.num_exts
        doc: 'Descriptions, in the order of the data.'
      - id: data
        -orig-id: xf_data
        type: 'x_field_data(fields[_index].len_data)'
        repeat: expr
        repeat-expr: head.num_exts
        doc: Data of each field.
  x_field_data:
    -orig-id: uint8_t
    doc: 'Data of one extended field; the last one''s padding may be cut off.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t, p. 108'
    params:
      - id: len_data
        type: u2
        doc: Bytes without the padding.
    seq:
      - id: data
        -orig-id: xf_data
        size: len_data
      - id: padding
        -orig-id: xf_data
        size: '((len_data + 7) & 0xfff8) - len_data < _io.size - _io.pos ? ((len_data + 7) & 0xfff8) - len_data : _io.size - _io.pos'
        doc: Fills up to a multiple of eight bytes.
  sparse_bytes:
    -orig-id: uint64_t
    doc: Bytes of a data stream that are in holes.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, INO_EXT_TYPE_SPARSE_BYTES, p. 108'
    seq:
      - id: num_bytes
        -orig-id: sparse_bytes
        type: u8
  sibling_id:
    -orig-id: uint64_t
    doc: Hard link that a directory record stands for.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, DREC_EXT_TYPE_SIBLING_ID, p. 108'
    seq:
      - id: sibling_id
        -orig-id: sibling_id
        type: u8
enums:
  inode_field:
    1:
      id: snap_xid
      -orig-id: INO_EXT_TYPE_SNAP_XID
    2:
      id: delta_tree_oid
      -orig-id: INO_EXT_TYPE_DELTA_TREE_OID
    3:
      id: document_id
      -orig-id: INO_EXT_TYPE_DOCUMENT_ID
    4:
      id: entry_name
      -orig-id: INO_EXT_TYPE_NAME
    5:
      id: prev_fsize
      -orig-id: INO_EXT_TYPE_PREV_FSIZE
    6:
      id: reserved_6
      -orig-id: INO_EXT_TYPE_RESERVED_6
    7:
      id: finder_info
      -orig-id: INO_EXT_TYPE_FINDER_INFO
    8:
      id: dstream
      -orig-id: INO_EXT_TYPE_DSTREAM
    9:
      id: reserved_9
      -orig-id: INO_EXT_TYPE_RESERVED_9
    10:
      id: dir_stats_key
      -orig-id: INO_EXT_TYPE_DIR_STATS_KEY
    11:
      id: fs_uuid
      -orig-id: INO_EXT_TYPE_FS_UUID
    12:
      id: reserved_12
      -orig-id: INO_EXT_TYPE_RESERVED_12
    13:
      id: sparse_bytes
      -orig-id: INO_EXT_TYPE_SPARSE_BYTES
    14:
      id: rdev
      -orig-id: INO_EXT_TYPE_RDEV
    15:
      id: purgeable_flags
      -orig-id: INO_EXT_TYPE_PURGEABLE_FLAGS
    16:
      id: orig_sync_root_id
      -orig-id: INO_EXT_TYPE_ORIG_SYNC_ROOT_ID
  drec_field:
    1:
      id: sibling_id
      -orig-id: DREC_EXT_TYPE_SIBLING_ID
  field_flag:
    1:
      id: data_dependent
      -orig-id: XF_DATA_DEPENDENT
    2:
      id: do_not_copy
      -orig-id: XF_DO_NOT_COPY
    4:
      id: reserved_4
      -orig-id: XF_RESERVED_4
    8:
      id: children_inherit
      -orig-id: XF_CHILDREN_INHERIT
    0x10:
      id: user_field
      -orig-id: XF_USER_FIELD
    0x20:
      id: system_field
      -orig-id: XF_SYSTEM_FIELD
    0x40:
      id: reserved_40
      -orig-id: XF_RESERVED_40
    0x80:
      id: reserved_80
      -orig-id: XF_RESERVED_80
