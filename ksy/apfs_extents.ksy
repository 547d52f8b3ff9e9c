meta:
  id: apfs_extents
  title: 'Apple File System, data streams and their extents'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_record
  endian: le
doc: |
  Where the bytes of files are stored: sizes of data streams, their extents by stream and, in the extent-reference tree,
  by block, the state of their encryption, and hashes of their data.

  A value whose end varies begins with a type of its own, named ..._fixed, as apfs_record explains.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, p. 102'
types:
  dstream:
    -orig-id: j_dstream_t
    doc: Size of a data stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_dstream_t, p. 106'
    -webide-representation: '{len_stream} bytes'
    seq:
      - id: len_stream
        -orig-id: size
        type: u8
      - id: len_alloced
        -orig-id: alloced_size
        type: u8
        doc: 'In bytes, holes included.'
      - id: default_crypto_id
        -orig-id: default_crypto_id
        type: u8
      - id: num_bytes_written
        -orig-id: total_bytes_written
        type: u8
      - id: num_bytes_read
        -orig-id: total_bytes_read
        type: u8
  dstream_id_val:
    -orig-id: j_dstream_id_val_t
    doc: Use of a data stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_dstream_id_val_t, p. 105'
    -webide-representation: '{refcnt} uses'
    seq:
      - id: refcnt
        -orig-id: refcnt
        type: u4
  file_extent_key:
    -orig-id: j_file_extent_key_t
    doc: 'Extent''s key; its object is the data stream.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_file_extent_key_t, p. 103'
    -webide-representation: 'at {logical_addr}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
      - id: logical_addr
        -orig-id: logical_addr
        type: u8
        doc: In bytes from the start of the stream.
  file_extent_val:
    -orig-id: j_file_extent_val_t
    doc: Place of a part of a data stream; block zero is a hole.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_file_extent_val_t, p. 104'
    -webide-representation: '{len_extent} bytes at block {paddr}'
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
      len_extent:
        -orig-id: J_FILE_EXTENT_LEN_MASK
        value: 'len_and_flags & record_mask::extent_length.to_i'
      flags:
        -orig-id: J_FILE_EXTENT_FLAG_SHIFT
        value: 'len_and_flags >> 56'
      is_tweak:
        -orig-id: FEXT_CRYPTO_ID_IS_TWEAK
        value: '(flags & file_extent_flag::crypto_id_is_tweak.to_i) != 0'
        doc: crypto_id is the tweak of the encryption, not a key's number.
  fext_key:
    -orig-id: fext_tree_key_t
    doc: 'Extent''s key in the fext tree of a sealed volume.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, fext_tree_key_t, p. 154'
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
    doc: Place of a part of a data stream of a sealed volume.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, fext_tree_val_t, p. 155'
    -webide-representation: '{len_extent} bytes at block {paddr}'
    seq:
      - id: len_and_flags
        -orig-id: len_and_flags
        type: u8
      - id: paddr
        -orig-id: phys_block_num
        type: u8
    instances:
      len_extent:
        -orig-id: J_FILE_EXTENT_LEN_MASK
        value: 'len_and_flags & record_mask::extent_length.to_i'
      flags:
        -orig-id: J_FILE_EXTENT_FLAG_SHIFT
        value: 'len_and_flags >> 56'
  phys_ext_val:
    -orig-id: j_phys_ext_val_t
    doc: 'Reference to an extent of data; its key''s object is the first block.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_phys_ext_val_t, p. 102'
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
  crypto_val_fixed:
    -orig-id: j_crypto_val_t
    doc: Encryption state without its key.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, j_crypto_val_t, p. 137'
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
      - id: len_key
        -orig-id: key_len
        type: u2
        doc: In bytes.
  crypto_val:
    -orig-id: j_crypto_val_t
    doc: Encryption state of files.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, wrapped_crypto_state_t, p. 138'
    -webide-representation: 'class {fixed.persistent_class}'
    seq:
      - id: fixed
        -orig-id: state
        type: crypto_val_fixed
      - id: persistent_key
        -orig-id: persistent_key
        size: fixed.len_key
        doc: Wrapped.
  file_info_key:
    -orig-id: j_file_info_key_t
    doc: 'Key of a hash of a file''s data.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_info_key_t, p. 155'
    -webide-representation: '{info_and_lba}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
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
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_data_hash_val_t, p. 157'
    seq:
      - id: num_hashed_blocks
        -orig-id: hashed_len
        type: u2
        doc: In blocks.
      - id: len_hash
        -orig-id: hash_size
        type: u1
        doc: In bytes.
  file_info_val:
    -orig-id: j_file_info_val_t
    doc: Hash of a part of a file.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, j_file_data_hash_val_t, p. 157'
    -webide-representation: '{fixed.num_hashed_blocks} blocks'
    seq:
      - id: fixed
        -orig-id: j_file_data_hash_val_t
        type: file_info_val_fixed
      - id: hash
        -orig-id: hash
        size: fixed.len_hash
enums:
  file_extent_flag:
    1:
      id: crypto_id_is_tweak
      -orig-id: FEXT_CRYPTO_ID_IS_TWEAK
  record_mask:
    0x00ffffffffffffff:
      id: extent_length
      -orig-id: J_FILE_EXTENT_LEN_MASK
      doc: Lower part of the field that holds length and flags.
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
  file_info_type:
    1:
      id: data_hash
      -orig-id: APFS_FILE_INFO_DATA_HASH
