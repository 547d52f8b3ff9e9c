meta:
  id: apfs_encryption
  title: 'Apple File System, encryption rolling'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
  endian: le
doc: 'State of an encryption, decryption or change of keys that is under way on a mounted volume.'
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, p. 169'
types:
  er_state_head:
    -orig-id: er_state_phys_header_t
    doc: Beginning that all versions share.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, er_state_phys_header_t, p. 169'
    -webide-representation: 'version {version}'
    seq:
      - id: hdr
        -orig-id: ersb_o
        type: apfs_object::obj_phys
      - id: magic
        -orig-id: ersb_magic
        type: u4
        valid: 0x464c4142
        doc: 'The letters BALF, as they are in memory.'
      - id: version
        -orig-id: ersb_version
        type: u4
        enum: er_version
  er_state:
    -orig-id: er_state_phys_t
    doc: 'State of encryption rolling, version 2.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, er_state_phys_t, p. 169'
    -webide-representation: '{progress} of {num_blocks_to_encrypt}'
    seq:
      - id: head
        -orig-id: ersb_header
        type: er_state_head
      - id: flags
        -orig-id: ersb_flags
        type: u8
      - id: snap_xid
        -orig-id: ersb_snap_xid
        type: u8
      - id: current_fext_obj_id
        -orig-id: ersb_current_fext_obj_id
        type: u8
      - id: file_position
        -orig-id: ersb_file_offset
        type: u8
        doc: In bytes.
      - id: progress
        -orig-id: ersb_progress
        type: u8
      - id: num_blocks_to_encrypt
        -orig-id: ersb_total_blk_to_encrypt
        type: u8
      - id: blockmap_oid
        -orig-id: ersb_blockmap_oid
        type: u8
      - id: tidemark_obj_id
        -orig-id: ersb_tidemark_obj_id
        type: u8
      - id: num_recovery_extents
        -orig-id: ersb_recovery_extents_count
        type: u8
      - id: recovery_list_oid
        -orig-id: ersb_recovery_list_oid
        type: u8
      - id: recovery_length
        -orig-id: ersb_recovery_length
        type: u8
    instances:
      is_encrypting:
        -orig-id: ERSB_FLAG_ENCRYPTING
        value: '(flags & er_flag::encrypting.to_i) != 0'
      checksum_block:
        -orig-id: ERSB_FLAG_CM_BLOCK_SIZE_MASK
        value: '(flags & 0xf00) >> 8'
        enum: er_checksum_block
        doc: Size of the blocks that are summed up, in the steps of the enum.
      phase:
        -orig-id: ERSB_FLAG_ER_PHASE_MASK
        value: '(flags & 0x3000) >> 12'
        enum: er_phase
        doc: What is being rolled.
  er_state_v1:
    -orig-id: er_state_phys_v1_t
    doc: 'State of encryption rolling, version 1, without its checksums.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, er_state_phys_v1_t, p. 169'
    -webide-representation: '{progress} of {num_blocks_to_encrypt}'
    seq:
      - id: head
        -orig-id: ersb_header
        type: er_state_head
      - id: flags
        -orig-id: ersb_flags
        type: u8
      - id: snap_xid
        -orig-id: ersb_snap_xid
        type: u8
      - id: current_fext_obj_id
        -orig-id: ersb_current_fext_obj_id
        type: u8
      - id: file_position
        -orig-id: ersb_file_offset
        type: u8
        doc: In bytes.
      - id: fext_paddr
        -orig-id: ersb_fext_pbn
        type: u8
      - id: paddr
        -orig-id: ersb_paddr
        type: u8
      - id: progress
        -orig-id: ersb_progress
        type: u8
      - id: num_blocks_to_encrypt
        -orig-id: ersb_total_blk_to_encrypt
        type: u8
      - id: blockmap_oid
        -orig-id: ersb_blockmap_oid
        type: u8
      - id: num_checksums
        -orig-id: ersb_checksum_count
        type: u4
      - id: reserved
        -orig-id: ersb_reserved
        type: u4
      - id: fext_cid
        -orig-id: ersb_fext_cid
        type: u8
  er_recovery_block:
    -orig-id: er_recovery_block_phys_t
    doc: 'Block of the recovery list, without its data.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, er_recovery_block_phys_t, p. 170'
    seq:
      - id: hdr
        -orig-id: erb_o
        type: apfs_object::obj_phys
      - id: ofs_data
        -orig-id: erb_offset
        type: u8
      - id: next_oid
        -orig-id: erb_next_oid
        type: u8
  gbitmap:
    -orig-id: gbitmap_phys_t
    doc: Bitmap of blocks that were handled.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, gbitmap_phys_t, p. 170'
    -webide-representation: '{num_bits} bits'
    seq:
      - id: hdr
        -orig-id: bm_o
        type: apfs_object::obj_phys
      - id: tree_oid
        -orig-id: bm_tree_oid
        type: u8
      - id: num_bits
        -orig-id: bm_bit_count
        type: u8
      - id: flags
        -orig-id: bm_flags
        type: u8
  gbitmap_block:
    -orig-id: gbitmap_block_phys_t
    doc: 'Block of such a bitmap, without its bits.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, gbitmap_block_phys_t, p. 170'
    seq:
      - id: hdr
        -orig-id: bmb_o
        type: apfs_object::obj_phys
  gbitmap_key:
    -orig-id: uint64_t
    doc: 'Key of the tree of such a bitmap. Not documented; taken for a number of 64 bits, as in trees of its size.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, gbitmap_phys_t, p. 170'
    seq:
      - id: index
        -orig-id: key
        type: u8
  gbitmap_val:
    -orig-id: uint64_t
    doc: 'Value of the tree of such a bitmap. Not documented; taken for the block with the bits.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption Rolling, gbitmap_phys_t, p. 170'
    seq:
      - id: paddr
        -orig-id: val
        type: u8
enums:
  er_version:
    1:
      id: first
      -orig-id: ER_VERSION
      doc: |
        The reference has this number alone, and an older structure er_state_phys_v1_t besides er_state_phys_t. By its
        name the older one is taken for that of version 1, so that the other one is version 2; not seen on a volume.
    2:
      id: second
  er_flag:
    1:
      id: encrypting
      -orig-id: ERSB_FLAG_ENCRYPTING
    2:
      id: decrypting
      -orig-id: ERSB_FLAG_DECRYPTING
    4:
      id: keyrolling
      -orig-id: ERSB_FLAG_KEYROLLING
    8:
      id: paused
      -orig-id: ERSB_FLAG_PAUSED
    0x10:
      id: failed
      -orig-id: ERSB_FLAG_FAILED
    0x20:
      id: cid_is_tweak
      -orig-id: ERSB_FLAG_CID_IS_TWEAK
    0x40:
      id: free_1
      -orig-id: ERSB_FLAG_FREE_1
    0x80:
      id: free_2
      -orig-id: ERSB_FLAG_FREE_2
    0x4000:
      id: from_onekey
      -orig-id: ERSB_FLAG_FROM_ONEKEY
  er_phase:
    1:
      id: omap_roll
      -orig-id: ER_PHASE_OMAP_ROLL
    2:
      id: data_roll
      -orig-id: ER_PHASE_DATA_ROLL
    3:
      id: snap_roll
      -orig-id: ER_PHASE_SNAP_ROLL
  er_checksum_block:
    0:
      id: size_512
      -orig-id: ER_512B_BLOCKSIZE
    1:
      id: size_2048
      -orig-id: ER_2KiB_BLOCKSIZE
    2:
      id: size_4096
      -orig-id: ER_4KiB_BLOCKSIZE
    3:
      id: size_8192
      -orig-id: ER_8KiB_BLOCKSIZE
    4:
      id: size_16384
      -orig-id: ER_16KiB_BLOCKSIZE
    5:
      id: size_32768
      -orig-id: ER_32KiB_BLOCKSIZE
    6:
      id: size_65536
      -orig-id: ER_64KiB_BLOCKSIZE
