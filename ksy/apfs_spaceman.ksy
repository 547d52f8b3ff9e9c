meta:
  id: apfs_spaceman
  title: 'Apple File System, space manager'
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
  The space manager, which keeps the bitmaps of free blocks, its internal pool, and the queues of blocks
  that become free when older transactions are given up.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, p. 159'
types:
  spaceman_phys:
    -orig-id: spaceman_phys_t
    doc: Space manager without the address arrays that follow it.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_phys_t, p. 161'
    -webide-representation: '{devices[0].num_free_blocks} blocks free'
    seq:
      - id: hdr
        -orig-id: sm_o
        type: apfs_object::obj_phys
      - id: len_block
        -orig-id: sm_block_size
        type: u4
        doc: In bytes.
      - id: num_blocks_per_chunk
        -orig-id: sm_blocks_per_chunk
        type: u4
        doc: Blocks that one bitmap block covers.
      - id: chunks_per_cib
        -orig-id: sm_chunks_per_cib
        type: u4
      - id: cibs_per_cab
        -orig-id: sm_cibs_per_cab
        type: u4
      - id: devices
        -orig-id: sm_dev
        type: spaceman_device
        repeat: expr
        repeat-expr: 2
        doc: Main device and second device of a Fusion drive.
      - id: flags
        -orig-id: sm_flags
        type: u4
      - id: ip_bm_tx_multiplier
        -orig-id: sm_ip_bm_tx_multiplier
        type: u4
      - id: num_ip_blocks
        -orig-id: sm_ip_block_count
        type: u8
        doc: Blocks of the internal pool.
      - id: num_ip_bm_used
        -orig-id: sm_ip_bm_size_in_blocks
        type: u4
        doc: 'Blocks of one version of the pool''s bitmap.'
      - id: num_ip_bm_blocks
        -orig-id: sm_ip_bm_block_count
        type: u4
        doc: 'Blocks of the ring that holds versions of the pool''s bitmap.'
      - id: ip_bm_base
        -orig-id: sm_ip_bm_base
        type: s8
        doc: First block of that ring.
      - id: ip_base
        -orig-id: sm_ip_base
        type: s8
        doc: First block of the internal pool.
      - id: num_fs_reserve_blocks
        -orig-id: sm_fs_reserve_block_count
        type: u8
      - id: num_fs_reserve_alloced
        -orig-id: sm_fs_reserve_alloc_count
        type: u8
      - id: free_queues
        -orig-id: sm_fq
        type: spaceman_free_queue
        repeat: expr
        repeat-expr: 3
        doc: 'For the internal pool, the main device and the second device.'
      - id: ip_bm_free_head
        -orig-id: sm_ip_bm_free_head
        type: u2
      - id: ip_bm_free_tail
        -orig-id: sm_ip_bm_free_tail
        type: u2
      - id: ofs_ip_bm_xid
        -orig-id: sm_ip_bm_xid_offset
        type: u4
        doc: >-
          Place of the transactions of the pool's bitmap blocks, in bytes from the start of
          the object.
      - id: ofs_ip_bitmap
        -orig-id: sm_ip_bitmap_offset
        type: u4
        doc: >-
          Place of the ring positions of the pool's current bitmap blocks, in bytes
          from the start of the object.
      - id: ofs_ip_bm_free_next
        -orig-id: sm_ip_bm_free_next_offset
        type: u4
        doc: 'Place of the list of free bitmap blocks, in bytes from the start of the object.'
      - id: version
        -orig-id: sm_version
        type: u4
      - id: len_struct
        -orig-id: sm_struct_size
        type: u4
      - id: datazone
        -orig-id: sm_datazone
        type: datazone
        if: is_versioned != 0
    instances:
      is_versioned:
        -orig-id: SM_FLAG_VERSIONED
        value: 'flags & 1'
  spaceman_device:
    -orig-id: spaceman_device_t
    doc: One device.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_device_t, p. 160'
    -webide-representation: '{num_blocks} blocks, {num_free_blocks} free'
    seq:
      - id: num_blocks
        -orig-id: sm_block_count
        type: u8
      - id: num_chunks
        -orig-id: sm_chunk_count
        type: u8
      - id: num_cibs
        -orig-id: sm_cib_count
        type: u4
      - id: num_cabs
        -orig-id: sm_cab_count
        type: u4
        doc: Zero if the addresses of the chunk-info blocks are in the space manager itself.
      - id: num_free_blocks
        -orig-id: sm_free_count
        type: u8
        doc: In blocks.
      - id: ofs_addresses
        -orig-id: sm_addr_offset
        type: u4
        doc: 'Place of the block addresses, in bytes from the start of the object.'
      - id: reserved
        -orig-id: sm_reserved
        type: u4
      - id: reserved2
        -orig-id: sm_reserved2
        type: u8
  spaceman_free_queue:
    -orig-id: spaceman_free_queue_t
    doc: Blocks freed by transactions that a checkpoint may still need.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_free_queue_t, p. 160'
    -webide-representation: '{num_blocks} blocks'
    seq:
      - id: num_blocks
        -orig-id: sfq_count
        type: u8
      - id: tree_oid
        -orig-id: sfq_tree_oid
        type: u8
        doc: Ephemeral.
      - id: oldest_xid
        -orig-id: sfq_oldest_xid
        type: u8
      - id: tree_node_limit
        -orig-id: sfq_tree_node_limit
        type: u2
      - id: pad16
        -orig-id: sfq_pad16
        type: u2
      - id: pad32
        -orig-id: sfq_pad32
        type: u4
      - id: reserved
        -orig-id: sfq_reserved
        type: u8
  zone_boundaries:
    -orig-id: spaceman_allocation_zone_boundaries_t
    doc: Blocks of an allocation zone.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_allocation_zone_boundaries_t, p. 161'
    -webide-representation: '{start_paddr} to {stop_paddr}'
    seq:
      - id: start_paddr
        -orig-id: saz_zone_start
        type: u8
      - id: stop_paddr
        -orig-id: saz_zone_end
        type: u8
        doc: Zero where the zone is not used.
  allocation_zone:
    -orig-id: spaceman_allocation_zone_info_phys_t
    doc: Part of the device from which one kind of allocation is served.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_allocation_zone_info_phys_t, p. 161'
    seq:
      - id: current
        -orig-id: saz_current_boundaries
        type: zone_boundaries
      - id: previous
        -orig-id: saz_previous_boundaries
        type: zone_boundaries
        repeat: expr
        repeat-expr: 7
        doc: Earlier places.
      - id: zone_id
        -orig-id: saz_zone_id
        type: u2
      - id: previous_boundary_index
        -orig-id: saz_previous_boundary_index
        type: u2
      - id: reserved
        -orig-id: saz_reserved
        type: u4
  datazone:
    -orig-id: spaceman_datazone_info_phys_t
    doc: 'Allocation zones of both devices; in versioned space managers, they follow the fixed part.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_datazone_info_phys_t, p. 161'
    seq:
      - id: zones
        -orig-id: sdz_allocation_zones
        type: allocation_zone
        repeat: expr
        repeat-expr: 16
        doc: 'Eight of the main device, then eight of the second.'
  block_address:
    -orig-id: paddr_t
    doc: Block address in an array of them.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), General-Purpose Types, paddr_t, p. 9'
    -webide-representation: '{paddr}'
    seq:
      - id: paddr
        -orig-id: paddr_t
        type: u8
  ring_index:
    -orig-id: uint16_t
    doc: 'Position in the ring of the internal pool''s bitmap blocks.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_phys_t, p. 161'
    -webide-representation: '{index}'
    seq:
      - id: index
        -orig-id: sm_ip_bitmap_offset
        type: u2
  xid_entry:
    -orig-id: xid_t
    doc: Transaction of a bitmap block of the internal pool.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_phys_t, p. 161'
    seq:
      - id: xid
        -orig-id: sm_ip_bm_xid_offset
        type: u8
  chunk_info:
    -orig-id: chunk_info_t
    doc: One chunk of blocks and its bitmap.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, chunk_info_t, p. 159'
    -webide-representation: '{num_free_blocks} of {num_blocks} free'
    seq:
      - id: xid
        -orig-id: ci_xid
        type: u8
      - id: paddr
        -orig-id: ci_addr
        type: u8
        doc: First block of the chunk.
      - id: num_blocks_and_flags
        -orig-id: ci_block_count
        type: u4
      - id: num_free_and_flags
        -orig-id: ci_free_count
        type: u4
      - id: bitmap_paddr
        -orig-id: ci_bitmap_addr
        type: u8
        doc: Zero where all blocks are free.
    instances:
      num_blocks:
        -orig-id: CI_COUNT_MASK
        value: 'num_blocks_and_flags & chunk_mask::count.to_i'
      num_free_blocks:
        -orig-id: CI_COUNT_MASK
        value: 'num_free_and_flags & chunk_mask::count.to_i'
  cib_head:
    -orig-id: chunk_info_block_t
    doc: Chunk-info block without its entries.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, chunk_info_block, p. 159'
    seq:
      - id: hdr
        -orig-id: cib_o
        type: apfs_object::obj_phys
      - id: index
        -orig-id: cib_index
        type: u4
      - id: num_chunks
        -orig-id: cib_chunk_info_count
        type: u4
  chunk_info_block:
    -orig-id: chunk_info_block_t
    doc: Descriptions of consecutive chunks.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, chunk_info_block, p. 159'
    -webide-representation: 'block {head.index}'
    seq:
      - id: head
        -orig-id: chunk_info_block_t
        type: cib_head
      - id: chunks
        -orig-id: cib_chunk_info
        type: chunk_info
        repeat: expr
        repeat-expr: head.num_chunks
        doc: Used entries.
  cab_head:
    -orig-id: cib_addr_block_t
    doc: Chunk-info address block without its entries.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, cib_addr_block, p. 159'
    seq:
      - id: hdr
        -orig-id: cab_o
        type: apfs_object::obj_phys
      - id: index
        -orig-id: cab_index
        type: u4
      - id: num_cibs
        -orig-id: cab_cib_count
        type: u4
  cib_addr_block:
    -orig-id: cib_addr_block_t
    doc: Addresses of chunk-info blocks.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, cib_addr_block, p. 159'
    -webide-representation: 'block {head.index}'
    seq:
      - id: head
        -orig-id: cib_addr_block_t
        type: cab_head
      - id: cibs
        -orig-id: cab_cib_addr
        type: block_address
        repeat: expr
        repeat-expr: head.num_cibs
        doc: Used entries.
  free_queue_key:
    -orig-id: spaceman_free_queue_key_t
    doc: Blocks freed by one transaction.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_free_queue_key_t, p. 160'
    -webide-representation: 'xid {xid} from {paddr}'
    seq:
      - id: xid
        -orig-id: sfqk_xid
        type: u8
      - id: paddr
        -orig-id: sfqk_paddr
        type: u8
  free_queue_val:
    -orig-id: spaceman_free_queue_val_t
    doc: 'How many blocks; where there is no value, one.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Space Manager, spaceman_free_queue_val_t, p. 159'
    -webide-representation: '{num_blocks} blocks'
    seq:
      - id: num_blocks
        -orig-id: sfq_val
        type: u8
enums:
  free_queue:
    0:
      id: internal_pool
      -orig-id: SFQ_IP
    1:
      id: main
      -orig-id: SFQ_MAIN
    2:
      id: tier2
      -orig-id: SFQ_TIER2
  chunk_mask:
    0x000fffff:
      id: count
      -orig-id: CI_COUNT_MASK
