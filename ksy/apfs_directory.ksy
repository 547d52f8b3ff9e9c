meta:
  id: apfs_directory
  title: 'Apple File System, directory records and hard links'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_record
    - apfs_xfields
  endian: le
doc: |
  Names: records that lead from a directory and a name to an inode, those that list the names of an inode with several
  (siblings), and the totals of directories that keep them.

  A value whose end varies begins with a type of its own, named ..._fixed, as apfs_record explains.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, p. 71'
types:
  drec_key:
    -orig-id: j_drec_key_t
    doc: 'Directory record''s key on volumes that compare names byte by byte.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_key_t, p. 78'
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
  drec_hashed_key:
    -orig-id: j_drec_hashed_key_t
    doc: 'Directory record''s key on volumes that ignore case or normalization.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_hashed_key_t, p. 78'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
      - id: len_name_and_hash
        -orig-id: name_len_and_hash
        type: u4
      - id: name
        -orig-id: name
        size: 'len_name_and_hash & 0x3ff'
        doc: 'UTF-8, ends with a zero byte.'
    instances:
      len_name:
        -orig-id: J_DREC_LEN_MASK
        value: 'len_name_and_hash & 0x3ff'
        doc: With the zero byte at its end.
      name_hash:
        -orig-id: J_DREC_HASH_SHIFT
        value: 'len_name_and_hash >> 10'
        doc: 'CRC-32C of the normalized name, 22 bits of it.'
  drec_val_fixed:
    -orig-id: j_drec_val_t
    doc: Directory record without its extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_val_t, p. 79'
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
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_drec_val_t, p. 79'
    -webide-representation: 'file {fixed.file_id}'
    seq:
      - id: fixed
        -orig-id: j_drec_val_t
        type: drec_val_fixed
      - id: xfields
        -orig-id: xfields
        type: apfs_xfields::xf_blob
        if: not _io.eof
        doc: Absent where the value ends here.
  dir_stats_val:
    -orig-id: j_dir_stats_val_t
    doc: Totals of a directory that keeps them.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_dir_stats_val_t, p. 81'
    -webide-representation: '{num_children} children'
    seq:
      - id: num_children
        -orig-id: num_children
        type: u8
      - id: len_total
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
  sibling_key:
    -orig-id: j_sibling_key_t
    doc: 'Hard link''s key; its object is the inode.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_key_t, p. 115'
    -webide-representation: 'link {sibling_id}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
      - id: sibling_id
        -orig-id: sibling_id
        type: u8
  sibling_val_fixed:
    -orig-id: j_sibling_val_t
    doc: Hard link without its name.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_val_t, p. 115'
    seq:
      - id: parent_id
        -orig-id: parent_id
        type: u8
      - id: len_name
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
  sibling_val:
    -orig-id: j_sibling_val_t
    doc: Hard link.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_val_t, p. 115'
    -webide-representation: '{name} in {fixed.parent_id}'
    seq:
      - id: fixed
        -orig-id: j_sibling_val_t
        type: sibling_val_fixed
      - id: name
        -orig-id: name
        size: fixed.len_name
        doc: UTF-8.
  sibling_map_val:
    -orig-id: j_sibling_map_val_t
    doc: 'Inode of a hard link; the key''s object is the link.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Siblings, j_sibling_map_val_t, p. 116'
    -webide-representation: 'file {file_id}'
    seq:
      - id: file_id
        -orig-id: file_id
        type: u8
enums:
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
