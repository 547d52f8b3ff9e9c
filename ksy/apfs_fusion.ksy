meta:
  id: apfs_fusion
  title: 'Apple File System, Fusion drives'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
  endian: le
doc: >-
  A container on a solid-state and a hard disk. Addresses of the second device are marked by one bit;
  the middle tree and the write-back cache say which of its blocks are held on the first.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, p. 172'
types:
  fusion_wbc:
    -orig-id: fusion_wbc_phys_t
    doc: State of the write-back cache.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, fusion_wbc_phys_t, p. 172'
    -webide-representation: 'lists {list_head_oid} to {list_tail_oid}'
    seq:
      - id: hdr
        -orig-id: fwp_objHdr
        type: apfs_object::obj_phys
      - id: version
        -orig-id: fwp_version
        type: u8
      - id: list_head_oid
        -orig-id: fwp_listHeadOid
        type: u8
      - id: list_tail_oid
        -orig-id: fwp_listTailOid
        type: u8
      - id: stable_head_position
        -orig-id: fwp_stableHeadOffset
        type: u8
      - id: stable_tail_position
        -orig-id: fwp_stableTailOffset
        type: u8
      - id: num_list_blocks
        -orig-id: fwp_listBlocksCount
        type: u4
      - id: reserved
        -orig-id: fwp_reserved
        type: u4
      - id: used_by_rc
        -orig-id: fwp_usedByRC
        type: u8
      - id: rc_stash
        -orig-id: fwp_rcStash
        type: apfs_object::prange
  fusion_wbc_list_head:
    -orig-id: fusion_wbc_list_phys_t
    doc: List of the write-back cache without its entries.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, fusion_wbc_list_phys_t, p. 172'
    seq:
      - id: hdr
        -orig-id: fwlp_objHdr
        type: apfs_object::obj_phys
      - id: version
        -orig-id: fwlp_version
        type: u8
      - id: tail_position
        -orig-id: fwlp_tailOffset
        type: u8
      - id: index_begin
        -orig-id: fwlp_indexBegin
        type: u4
      - id: index_end
        -orig-id: fwlp_indexEnd
        type: u4
      - id: index_max
        -orig-id: fwlp_indexMax
        type: u4
      - id: reserved
        -orig-id: fwlp_reserved
        type: u4
  fusion_wbc_list_entry:
    -orig-id: fusion_wbc_list_entry_t
    doc: Run of blocks in the write-back cache.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, fusion_wbc_list_entry_t, p. 172'
    -webide-representation: '{num_blocks} blocks for {target_paddr}'
    seq:
      - id: wbc_paddr
        -orig-id: fwle_wbcLba
        type: s8
      - id: target_paddr
        -orig-id: fwle_targetLba
        type: s8
      - id: num_blocks
        -orig-id: fwle_length
        type: u8
  fusion_mt_key:
    -orig-id: fusion_mt_key_t
    doc: Address of a cached run on the second device.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, fusion_mt_key_t, p. 173'
    -webide-representation: '{paddr}'
    seq:
      - id: paddr
        -orig-id: fusion_mt_key_t
        type: s8
  fusion_mt_val:
    -orig-id: fusion_mt_val_t
    doc: Where that run is cached on the first device.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, fusion_mt_val_t, p. 173'
    -webide-representation: '{num_blocks} blocks at {paddr}'
    seq:
      - id: paddr
        -orig-id: fmv_lba
        type: s8
      - id: num_blocks
        -orig-id: fmv_length
        type: u4
      - id: flags
        -orig-id: fmv_flags
        type: u4
    instances:
      is_dirty:
        -orig-id: FUSION_MT_DIRTY
        value: '(flags & 1) != 0'
      is_tenant:
        -orig-id: FUSION_MT_TENANT
        value: '(flags & 2) != 0'
  fusion_address:
    -orig-id: paddr_t
    doc: 'Address as used in extents of a Fusion container, for blocks of 4096 bytes.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Fusion, Fusion tier 2 address marker, p. 172'
    -webide-representation: '{raw}'
    seq:
      - id: raw
        -orig-id: paddr_t
        type: u8
enums:
  tier2_marker:
    0x4000000000000000:
      id: device_byte_address
      -orig-id: FUSION_TIER2_DEVICE_BYTE_ADDR
      doc: Set in byte addresses of the second device.
