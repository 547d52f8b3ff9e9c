meta:
  id: apfs_snapshot
  title: 'Apple File System, snapshots'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
    - apfs_record
  endian: le
doc: |
  Records of the snapshot-metadata tree: each snapshot by its transaction and by its name.

  A value whose end varies begins with a type of its own, named ..._fixed, as apfs_record explains.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, p. 117'
types:
  snap_metadata_val_fixed:
    -orig-id: j_snap_metadata_val_t
    doc: 'Snapshot without its name; the key''s object is its transaction.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_metadata_val_t, p. 117'
    -webide-representation: 'superblock at {sblock_oid}'
    seq:
      - id: extentref_tree_oid
        -orig-id: extentref_tree_oid
        type: u8
        doc: Physical; extents that left the live tree with this snapshot.
      - id: sblock_oid
        -orig-id: sblock_oid
        type: u8
        doc: Physical; copy of the volume superblock.
      - id: create_time
        -orig-id: create_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: change_time
        -orig-id: change_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: inum
        -orig-id: inum
        type: u8
      - id: extentref_tree_type
        -orig-id: extentref_tree_type
        type: u4
      - id: flags
        -orig-id: flags
        type: u4
      - id: len_name
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
    instances:
      is_pending_dataless:
        -orig-id: SNAP_META_PENDING_DATALESS
        value: '(flags & snap_meta_flag::pending_dataless.to_i) != 0'
  snap_metadata_val:
    -orig-id: j_snap_metadata_val_t
    doc: Snapshot.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_metadata_val_t, p. 117'
    -webide-representation: '{name}'
    seq:
      - id: fixed
        -orig-id: j_snap_metadata_val_t
        type: snap_metadata_val_fixed
      - id: name
        -orig-id: name
        size: fixed.len_name
        doc: UTF-8.
  snap_name_key:
    -orig-id: j_snap_name_key_t
    doc: 'Name of a snapshot, as a key.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_name_key_t, p. 119'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
      - id: len_name
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
      - id: name
        -orig-id: name
        size: len_name
        doc: UTF-8.
  snap_name_val:
    -orig-id: j_snap_name_val_t
    doc: Transaction of the snapshot of that name.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_name_val_t, p. 119'
    -webide-representation: 'xid {snap_xid}'
    seq:
      - id: snap_xid
        -orig-id: snap_xid
        type: u8
  snap_meta_ext_obj:
    -orig-id: snap_meta_ext_obj_phys_t
    doc: The object with further facts about a snapshot.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, snap_meta_ext_obj_phys_t, p. 120'
    seq:
      - id: hdr
        -orig-id: smeop_o
        type: apfs_object::obj_phys
      - id: ext
        -orig-id: smeop_sme
        type: snap_meta_ext
  snap_meta_ext:
    -orig-id: snap_meta_ext_t
    doc: Further facts about a snapshot.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, snap_meta_ext_t, p. 120'
    seq:
      - id: version
        -orig-id: sme_version
        type: u4
      - id: flags
        -orig-id: sme_flags
        type: u4
      - id: snap_xid
        -orig-id: sme_snap_xid
        type: u8
      - id: uuid
        -orig-id: sme_uuid
        size: 16
      - id: token
        -orig-id: sme_token
        type: u8
enums:
  snap_meta_flag:
    1:
      id: pending_dataless
      -orig-id: SNAP_META_PENDING_DATALESS
    2:
      id: merge_in_progress
      -orig-id: SNAP_META_MERGE_IN_PROGRESS
