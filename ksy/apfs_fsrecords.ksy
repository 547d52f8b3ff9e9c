meta:
  id: apfs_fsrecords
  title: 'Apple File System, file-system records'
  tags:
    - filesystem
    - macos
    - ios
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  Keys and values of the file-system tree, the extent-reference tree and the snapshot-metadata tree.

  Values whose end varies (inode_val, drec_val, xattr_val, sibling_val, snap_metadata_val, ...) begin with a type of
  their own, named ..._fixed: Apple's structure without what follows it. It has the same size in every record, so that
  millions of them can be read by the places of their fields alone; the whole value holds it as its field `fixed`.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects'
types:
  j_key:
    -orig-id: j_key_t
    doc: Beginning of each key of these trees.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_key_t'
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
  inode_val_fixed:
    -orig-id: j_inode_val_t
    doc: Inode without its extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_inode_val_t'
    -webide-representation: 'mode {mode}, parent {parent_id}'
    seq:
      - id: parent_id
        -orig-id: parent_id
        type: u8
        enum: inode_number
        doc: Directory of the first link.
      - id: private_id
        -orig-id: private_id
        type: u8
        doc: Identifier of the data stream.
      - id: create_time
        -orig-id: create_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: mod_time
        -orig-id: mod_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: change_time
        -orig-id: change_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: access_time
        -orig-id: access_time
        type: s8
        doc: Nanoseconds since 1970.
      - id: internal_flags
        -orig-id: internal_flags
        type: u8
      - id: num_children_or_links
        -orig-id: nchildren
        type: s4
        doc: 'Entries of a directory; nlink, number of links, of anything else.'
      - id: default_protection_class
        -orig-id: default_protection_class
        type: u4
      - id: write_generation_counter
        -orig-id: write_generation_counter
        type: u4
      - id: bsd_flags
        -orig-id: bsd_flags
        type: u4
      - id: owner
        -orig-id: owner
        type: u4
      - id: group
        -orig-id: group
        type: u4
      - id: mode
        -orig-id: mode
        type: u2
      - id: pad1
        -orig-id: pad1
        type: u2
      - id: uncompressed_size
        -orig-id: uncompressed_size
        type: u8
        doc: In bytes; valid where the internal flags say so.
    instances:
      format:
        -orig-id: S_IFMT
        value: 'mode & 0xf000'
        enum: mode_format
      was_cloned:
        -orig-id: INODE_WAS_CLONED
        value: '(internal_flags & inode_flag::was_cloned.to_i) != 0'
      is_sparse:
        -orig-id: INODE_IS_SPARSE
        value: '(internal_flags & inode_flag::is_sparse.to_i) != 0'
      has_rsrc_fork:
        -orig-id: INODE_HAS_RSRC_FORK
        value: '(internal_flags & inode_flag::has_rsrc_fork.to_i) != 0'
      has_uncompressed_size:
        -orig-id: INODE_HAS_UNCOMPRESSED_SIZE
        value: '(internal_flags & inode_flag::has_uncompressed_size.to_i) != 0'
      is_compressed:
        -orig-id: UF_COMPRESSED
        value: '(bsd_flags & bsd_flag::compressed.to_i) != 0'
  inode_val:
    -orig-id: j_inode_val_t
    doc: Inode.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_inode_val_t'
    -webide-representation: 'mode {fixed.mode}'
    seq:
      - id: fixed
        -orig-id: j_inode_val_t
        type: inode_val_fixed
      - id: xfields
        -orig-id: xfields
        type: xf_blob
        if: not _io.eof
        doc: Absent where the value ends here.
  xf_blob_head:
    -orig-id: xf_blob_t
    doc: Head of a collection of extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t'
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
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, x_field_t'
    -webide-representation: 'type {type}, {size_bytes} bytes'
    seq:
      - id: type
        -orig-id: x_type
        type: u1
      - id: flags
        -orig-id: x_flags
        type: u1
      - id: size_bytes
        -orig-id: x_size
        type: u2
        doc: Without the padding.
    instances:
      padded_size:
        value: '(size_bytes + 7) & 0xfff8'
        doc: Bytes that it takes among the data.
  xf_blob:
    -orig-id: xf_blob_t
    doc: Extended fields of an inode or a directory record.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t'
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
        type: 'x_field_data(fields[_index].size_bytes)'
        repeat: expr
        repeat-expr: head.num_exts
        doc: Data of each field.
  x_field_data:
    -orig-id: uint8_t
    doc: 'Data of one extended field; the last one''s padding may be cut off.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, xf_blob_t'
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
  dstream:
    -orig-id: j_dstream_t
    doc: Size of a data stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_dstream_t'
    -webide-representation: '{size_bytes} bytes'
    seq:
      - id: size_bytes
        -orig-id: size
        type: u8
      - id: alloced_size
        -orig-id: alloced_size
        type: u8
        doc: 'In bytes, holes included.'
      - id: default_crypto_id
        -orig-id: default_crypto_id
        type: u8
      - id: total_bytes_written
        -orig-id: total_bytes_written
        type: u8
      - id: total_bytes_read
        -orig-id: total_bytes_read
        type: u8
  sparse_bytes:
    -orig-id: uint64_t
    doc: Bytes of a data stream that lie in holes.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, INO_EXT_TYPE_SPARSE_BYTES'
    seq:
      - id: num_bytes
        -orig-id: sparse_bytes
        type: u8
  drec_key:
    -orig-id: j_drec_key_t
    doc: 'Directory record''s key on volumes that compare names byte by byte.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_key_t'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: name_len
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
      - id: name
        -orig-id: name
        size: name_len
        doc: UTF-8.
  drec_hashed_key:
    -orig-id: j_drec_hashed_key_t
    doc: 'Directory record''s key on volumes that ignore case or normalization.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_hashed_key_t'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: name_len_and_hash
        -orig-id: name_len_and_hash
        type: u4
      - id: name
        -orig-id: name
        size: 'name_len_and_hash & 0x3ff'
        doc: 'UTF-8, ends with a zero byte.'
    instances:
      name_len:
        -orig-id: J_DREC_LEN_MASK
        value: 'name_len_and_hash & 0x3ff'
        doc: With the zero byte at its end.
      name_hash:
        -orig-id: J_DREC_HASH_SHIFT
        value: 'name_len_and_hash >> 10'
        doc: 'CRC-32C of the normalized name, 22 bits of it.'
  drec_val_fixed:
    -orig-id: j_drec_val_t
    doc: Directory record without its extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_val_t'
    -webide-representation: 'file {file_id}'
    seq:
      - id: file_id
        -orig-id: file_id
        type: u8
      - id: date_added
        -orig-id: date_added
        type: s8
        doc: Nanoseconds since 1970.
      - id: flags
        -orig-id: flags
        type: u2
    instances:
      entry_type:
        -orig-id: DREC_TYPE_MASK
        value: 'flags & 0xf'
        enum: entry_type
  drec_val:
    -orig-id: j_drec_val_t
    doc: Directory record.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_val_t'
    -webide-representation: 'file {fixed.file_id}'
    seq:
      - id: fixed
        -orig-id: j_drec_val_t
        type: drec_val_fixed
      - id: xfields
        -orig-id: xfields
        type: xf_blob
        if: not _io.eof
        doc: Absent where the value ends here.
  sibling_id:
    -orig-id: uint64_t
    doc: Hard link that a directory record stands for.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Extended Fields, DREC_EXT_TYPE_SIBLING_ID'
    seq:
      - id: sibling_id
        -orig-id: sibling_id
        type: u8
  xattr_key:
    -orig-id: j_xattr_key_t
    doc: 'Extended attribute''s key.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_key_t'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: name_len
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
      - id: name
        -orig-id: name
        size: name_len
        doc: UTF-8.
  xattr_val_fixed:
    -orig-id: j_xattr_val_t
    doc: Extended attribute without its data.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_val_t'
    seq:
      - id: flags
        -orig-id: flags
        type: u2
      - id: xdata_len
        -orig-id: xdata_len
        type: u2
    instances:
      is_stream:
        -orig-id: XATTR_DATA_STREAM
        value: '(flags & xattr_flag::data_stream.to_i) != 0'
      is_embedded:
        -orig-id: XATTR_DATA_EMBEDDED
        value: '(flags & xattr_flag::data_embedded.to_i) != 0'
  xattr_val:
    -orig-id: j_xattr_val_t
    doc: 'Extended attribute, embedded or with a data stream of its own.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_val_t'
    -webide-representation: '{fixed.xdata_len} bytes'
    seq:
      - id: fixed
        -orig-id: j_xattr_val_t
        type: xattr_val_fixed
      - id: xdata
        -orig-id: xdata
        size: fixed.xdata_len
  xattr_dstream:
    -orig-id: j_xattr_dstream_t
    doc: Data of an extended attribute that has a stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_xattr_dstream_t'
    -webide-representation: 'stream {xattr_obj_id}'
    seq:
      - id: xattr_obj_id
        -orig-id: xattr_obj_id
        type: u8
        doc: Identifier of the data stream.
      - id: dstream
        -orig-id: dstream
        type: dstream
  dir_stats_val:
    -orig-id: j_dir_stats_val_t
    doc: Totals of a directory that keeps them.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_dir_stats_val_t'
    -webide-representation: '{num_children} children'
    seq:
      - id: num_children
        -orig-id: num_children
        type: u8
      - id: total_size
        -orig-id: total_size
        type: u8
        doc: In bytes.
      - id: chained_key
        -orig-id: chained_key
        type: u8
        doc: 'Parent directory''s object.'
      - id: gen_count
        -orig-id: gen_count
        type: u8
  phys_ext_val:
    -orig-id: j_phys_ext_val_t
    doc: 'Reference to an extent of data; its key''s object is the first block.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_phys_ext_val_t'
    -webide-representation: '{num_blocks} blocks of {owning_obj_id}'
    seq:
      - id: len_and_kind
        -orig-id: len_and_kind
        type: u8
      - id: owning_obj_id
        -orig-id: owning_obj_id
        type: u8
      - id: refcnt
        -orig-id: refcnt
        type: s4
    instances:
      num_blocks:
        -orig-id: PEXT_LEN_MASK
        value: 'len_and_kind & 0x0fffffffffffffff'
      kind:
        -orig-id: PEXT_KIND_SHIFT
        value: 'len_and_kind >> 60'
        enum: phys_ext_kind
      has_owner:
        -orig-id: 'OWNING_OBJ_ID_INVALID, OWNING_OBJ_ID_UNKNOWN'
        value: '(owning_obj_id >> 1) != 0x7fffffffffffffff'
        doc: The two highest numbers mean that no owner is named.
  file_extent_key:
    -orig-id: j_file_extent_key_t
    doc: 'Extent''s key; its object is the data stream.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_file_extent_key_t'
    -webide-representation: 'at {logical_addr}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: logical_addr
        -orig-id: logical_addr
        type: u8
        doc: In bytes from the start of the stream.
  file_extent_val:
    -orig-id: j_file_extent_val_t
    doc: Where a part of a data stream lies; block zero is a hole.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_file_extent_val_t'
    -webide-representation: '{length_bytes} bytes at block {paddr}'
    seq:
      - id: len_and_flags
        -orig-id: len_and_flags
        type: u8
      - id: paddr
        -orig-id: phys_block_num
        type: u8
      - id: crypto_id
        -orig-id: crypto_id
        type: u8
        doc: Encryption key or tweak.
    instances:
      length_bytes:
        -orig-id: J_FILE_EXTENT_LEN_MASK
        value: 'len_and_flags & record_mask::extent_length.to_i'
      flags:
        -orig-id: J_FILE_EXTENT_FLAG_SHIFT
        value: 'len_and_flags >> 56'
  fext_key:
    -orig-id: fext_tree_key_t
    doc: 'Extent''s key in the fext tree of a sealed volume.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, fext_tree_key_t'
    -webide-representation: 'stream {private_id} at {logical_addr}'
    seq:
      - id: private_id
        -orig-id: private_id
        type: u8
      - id: logical_addr
        -orig-id: logical_addr
        type: u8
        doc: In bytes from the start of the stream.
  fext_val:
    -orig-id: fext_tree_val_t
    doc: Where a part of a data stream of a sealed volume lies.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, fext_tree_val_t'
    -webide-representation: '{length_bytes} bytes at block {paddr}'
    seq:
      - id: len_and_flags
        -orig-id: len_and_flags
        type: u8
      - id: paddr
        -orig-id: phys_block_num
        type: u8
    instances:
      length_bytes:
        -orig-id: J_FILE_EXTENT_LEN_MASK
        value: 'len_and_flags & record_mask::extent_length.to_i'
      flags:
        -orig-id: J_FILE_EXTENT_FLAG_SHIFT
        value: 'len_and_flags >> 56'
  dstream_id_val:
    -orig-id: j_dstream_id_val_t
    doc: Use of a data stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_dstream_id_val_t'
    -webide-representation: '{refcnt} uses'
    seq:
      - id: refcnt
        -orig-id: refcnt
        type: u4
  crypto_val_fixed:
    -orig-id: j_crypto_val_t
    doc: Encryption state without its key.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, j_crypto_val_t'
    seq:
      - id: refcnt
        -orig-id: refcnt
        type: u4
      - id: major_version
        -orig-id: major_version
        type: u2
      - id: minor_version
        -orig-id: minor_version
        type: u2
      - id: cpflags
        -orig-id: cpflags
        type: u4
      - id: persistent_class
        -orig-id: persistent_class
        type: u4
      - id: key_os_version
        -orig-id: key_os_version
        type: u4
      - id: key_revision
        -orig-id: key_revision
        type: u2
      - id: key_len
        -orig-id: key_len
        type: u2
        doc: In bytes.
  crypto_val:
    -orig-id: j_crypto_val_t
    doc: Encryption state of files.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, wrapped_crypto_state_t'
    -webide-representation: 'class {fixed.persistent_class}'
    seq:
      - id: fixed
        -orig-id: state
        type: crypto_val_fixed
      - id: persistent_key
        -orig-id: persistent_key
        size: fixed.key_len
        doc: Wrapped.
  snap_metadata_val_fixed:
    -orig-id: j_snap_metadata_val_t
    doc: 'Snapshot without its name; the key''s object is its transaction.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_metadata_val_t'
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
      - id: name_len
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
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_metadata_val_t'
    -webide-representation: '{name}'
    seq:
      - id: fixed
        -orig-id: j_snap_metadata_val_t
        type: snap_metadata_val_fixed
      - id: name
        -orig-id: name
        size: fixed.name_len
        doc: UTF-8.
  snap_name_key:
    -orig-id: j_snap_name_key_t
    doc: 'Name of a snapshot, as a key.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_name_key_t'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: name_len
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
      - id: name
        -orig-id: name
        size: name_len
        doc: UTF-8.
  snap_name_val:
    -orig-id: j_snap_name_val_t
    doc: Transaction of the snapshot of that name.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, j_snap_name_val_t'
    -webide-representation: 'xid {snap_xid}'
    seq:
      - id: snap_xid
        -orig-id: snap_xid
        type: u8
  snap_meta_ext:
    -orig-id: snap_meta_ext_t
    doc: Further facts about a snapshot.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Snapshot Metadata, snap_meta_ext_t'
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
  sibling_key:
    -orig-id: j_sibling_key_t
    doc: 'Hard link''s key; its object is the inode.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_key_t'
    -webide-representation: 'link {sibling_id}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: sibling_id
        -orig-id: sibling_id
        type: u8
  sibling_val_fixed:
    -orig-id: j_sibling_val_t
    doc: Hard link without its name.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_val_t'
    seq:
      - id: parent_id
        -orig-id: parent_id
        type: u8
      - id: name_len
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
  sibling_val:
    -orig-id: j_sibling_val_t
    doc: Hard link.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_val_t'
    -webide-representation: '{name} in {fixed.parent_id}'
    seq:
      - id: fixed
        -orig-id: j_sibling_val_t
        type: sibling_val_fixed
      - id: name
        -orig-id: name
        size: fixed.name_len
        doc: UTF-8.
  sibling_map_val:
    -orig-id: j_sibling_map_val_t
    doc: 'Inode of a hard link; the key''s object is the link.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_map_val_t'
    -webide-representation: 'file {file_id}'
    seq:
      - id: file_id
        -orig-id: file_id
        type: u8
  file_info_key:
    -orig-id: j_file_info_key_t
    doc: 'Key of a hash of a file''s data.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_info_key_t'
    -webide-representation: '{info_and_lba}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: j_key
      - id: info_and_lba
        -orig-id: info_and_lba
        type: u8
    instances:
      lba:
        -orig-id: J_FILE_INFO_LBA_MASK
        value: 'info_and_lba & 0x00ffffffffffffff'
        doc: In bytes from the start of the file.
      info_type:
        -orig-id: J_FILE_INFO_TYPE_SHIFT
        value: 'info_and_lba >> 56'
        enum: file_info_type
  file_info_val_fixed:
    -orig-id: j_file_data_hash_val_t
    doc: 'Hash of a part of a file, without the hash.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_data_hash_val_t'
    seq:
      - id: hashed_len
        -orig-id: hashed_len
        type: u2
        doc: In blocks.
      - id: hash_size
        -orig-id: hash_size
        type: u1
        doc: In bytes.
  file_info_val:
    -orig-id: j_file_info_val_t
    doc: Hash of a part of a file.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_data_hash_val_t'
    -webide-representation: '{fixed.hashed_len} blocks'
    seq:
      - id: fixed
        -orig-id: j_file_data_hash_val_t
        type: file_info_val_fixed
      - id: hash
        -orig-id: hash
        size: fixed.hash_size
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
  phys_ext_kind:
    0:
      id: any
      -orig-id: APFS_KIND_ANY
    1:
      id: new
      -orig-id: APFS_KIND_NEW
    2:
      id: update
      -orig-id: APFS_KIND_UPDATE
    3:
      id: dead
      -orig-id: APFS_KIND_DEAD
    4:
      id: update_refcnt
      -orig-id: APFS_KIND_UPDATE_REFCNT
  entry_type:
    0:
      id: unknown
      -orig-id: DT_UNKNOWN
    1:
      id: fifo
      -orig-id: DT_FIFO
    2:
      id: char_device
      -orig-id: DT_CHR
    4:
      id: directory
      -orig-id: DT_DIR
    6:
      id: block_device
      -orig-id: DT_BLK
    8:
      id: file
      -orig-id: DT_REG
    10:
      id: symlink
      -orig-id: DT_LNK
    12:
      id: socket
      -orig-id: DT_SOCK
    14:
      id: whiteout
      -orig-id: DT_WHT
  inode_number:
    0:
      id: invalid
      -orig-id: INVALID_INO_NUM
    1:
      id: root_dir_parent
      -orig-id: ROOT_DIR_PARENT
    2:
      id: root_dir
      -orig-id: ROOT_DIR_INO_NUM
    3:
      id: private_dir
      -orig-id: PRIV_DIR_INO_NUM
    6:
      id: snap_dir
      -orig-id: SNAP_DIR_INO_NUM
    7:
      id: purgeable_dir
      -orig-id: PURGEABLE_DIR_INO_NUM
    16:
      id: min_user
      -orig-id: MIN_USER_INO_NUM
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
  inode_flag:
    0x1:
      id: is_apfs_private
      -orig-id: INODE_IS_APFS_PRIVATE
    0x2:
      id: maintain_dir_stats
      -orig-id: INODE_MAINTAIN_DIR_STATS
    0x4:
      id: dir_stats_origin
      -orig-id: INODE_DIR_STATS_ORIGIN
    0x8:
      id: prot_class_explicit
      -orig-id: INODE_PROT_CLASS_EXPLICIT
    0x10:
      id: was_cloned
      -orig-id: INODE_WAS_CLONED
    0x20:
      id: flag_unused
      -orig-id: INODE_FLAG_UNUSED
    0x40:
      id: has_security_ea
      -orig-id: INODE_HAS_SECURITY_EA
    0x80:
      id: being_truncated
      -orig-id: INODE_BEING_TRUNCATED
    0x100:
      id: has_finder_info
      -orig-id: INODE_HAS_FINDER_INFO
    0x200:
      id: is_sparse
      -orig-id: INODE_IS_SPARSE
    0x400:
      id: was_ever_cloned
      -orig-id: INODE_WAS_EVER_CLONED
    0x800:
      id: active_file_trimmed
      -orig-id: INODE_ACTIVE_FILE_TRIMMED
    0x1000:
      id: pinned_to_main
      -orig-id: INODE_PINNED_TO_MAIN
    0x2000:
      id: pinned_to_tier2
      -orig-id: INODE_PINNED_TO_TIER2
    0x4000:
      id: has_rsrc_fork
      -orig-id: INODE_HAS_RSRC_FORK
    0x8000:
      id: no_rsrc_fork
      -orig-id: INODE_NO_RSRC_FORK
    0x10000:
      id: allocation_spilledover
      -orig-id: INODE_ALLOCATION_SPILLEDOVER
    0x20000:
      id: fast_promote
      -orig-id: INODE_FAST_PROMOTE
    0x40000:
      id: has_uncompressed_size
      -orig-id: INODE_HAS_UNCOMPRESSED_SIZE
    0x80000:
      id: is_purgeable
      -orig-id: INODE_IS_PURGEABLE
    0x100000:
      id: wants_to_be_purgeable
      -orig-id: INODE_WANTS_TO_BE_PURGEABLE
    0x200000:
      id: is_sync_root
      -orig-id: INODE_IS_SYNC_ROOT
    0x400000:
      id: snapshot_cow_exemption
      -orig-id: INODE_SNAPSHOT_COW_EXEMPTION
  mode_format:
    0x1000:
      id: fifo
      -orig-id: S_IFIFO
    0x2000:
      id: char_device
      -orig-id: S_IFCHR
    0x4000:
      id: directory
      -orig-id: S_IFDIR
    0x6000:
      id: block_device
      -orig-id: S_IFBLK
    0x8000:
      id: file
      -orig-id: S_IFREG
    0xa000:
      id: symlink
      -orig-id: S_IFLNK
    0xc000:
      id: socket
      -orig-id: S_IFSOCK
    0xe000:
      id: whiteout
      -orig-id: S_IFWHT
  xattr_flag:
    1:
      id: data_stream
      -orig-id: XATTR_DATA_STREAM
    2:
      id: data_embedded
      -orig-id: XATTR_DATA_EMBEDDED
    4:
      id: file_system_owned
      -orig-id: XATTR_FILE_SYSTEM_OWNED
    8:
      id: reserved_8
      -orig-id: XATTR_RESERVED_8
  snap_meta_flag:
    1:
      id: pending_dataless
      -orig-id: SNAP_META_PENDING_DATALESS
    2:
      id: merge_in_progress
      -orig-id: SNAP_META_MERGE_IN_PROGRESS
  file_info_type:
    1:
      id: data_hash
      -orig-id: APFS_FILE_INFO_DATA_HASH
  bsd_flag:
    0x20:
      id: compressed
      -orig-id: UF_COMPRESSED
  record_mask:
    0x00ffffffffffffff:
      id: extent_length
      -orig-id: J_FILE_EXTENT_LEN_MASK
      doc: Lower part of the field that holds length and flags.
