meta:
  id: apfs_inode
  title: 'Apple File System, inodes'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_xfields
  endian: le
doc: |
  Values of the records that describe a file, a directory or anything else that a directory record can name: modes,
  times, owners, flags. The key's object is the number of the inode.

  A value whose end varies begins with a type of its own, named ..._fixed, as apfs_record explains.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, p. 71'
types:
  inode_val_fixed:
    -orig-id: j_inode_val_t
    doc: Inode without its extended fields.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_inode_val_t, p. 73'
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
      - id: len_uncompressed
        -orig-id: uncompressed_size
        type: u8
        doc: In bytes; valid where the internal flags say so.
    instances:
      format:
        -orig-id: S_IFMT
        value: 'mode & 0xf000'
        enum: mode_format
      protection_class:
        -orig-id: CP_EFFECTIVE_CLASSMASK
        value: 'default_protection_class & 0x1f'
        enum: protection_class
        doc: Without the bits above, which are reserved.
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
      is_dataless:
        -orig-id: SF_DATALESS
        value: '(bsd_flags & bsd_flag::dataless.to_i) != 0'
        doc: Its contents are with a file provider, such as iCloud; its size is kept, and nothing is allocated.
  inode_val:
    -orig-id: j_inode_val_t
    doc: Inode.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_inode_val_t, p. 73'
    -webide-representation: 'mode {fixed.mode}'
    seq:
      - id: fixed
        -orig-id: j_inode_val_t
        type: inode_val_fixed
      - id: xfields
        -orig-id: xfields
        type: apfs_xfields::xf_blob
        if: not _io.eof
        doc: Absent where the value ends here.
enums:
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
  bsd_flag:
    0x20:
      id: compressed
      -orig-id: UF_COMPRESSED
    0x40000000:
      id: dataless
      -orig-id: SF_DATALESS
      doc: Not in Apple's reference; from sys/stat.h.
  protection_class:
    0:
      id: dir_none
      -orig-id: PROTECTION_CLASS_DIR_NONE
    1:
      id: class_a
      -orig-id: PROTECTION_CLASS_A
    2:
      id: class_b
      -orig-id: PROTECTION_CLASS_B
    3:
      id: class_c
      -orig-id: PROTECTION_CLASS_C
    4:
      id: class_d
      -orig-id: PROTECTION_CLASS_D
    6:
      id: class_f
      -orig-id: PROTECTION_CLASS_F
    14:
      id: class_m
      -orig-id: PROTECTION_CLASS_M
