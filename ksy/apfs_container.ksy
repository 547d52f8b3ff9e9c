meta:
  id: apfs_container
  title: 'Apple File System, container'
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
  Structures of a container - superblock, checkpoints, object maps, the evict mapping and the boot
  record.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, p. 26'
types:
  nx_superblock:
    -orig-id: nx_superblock_t
    doc: >-
      Container superblock. Block 0 holds a copy; the newest valid one is in the checkpoint descriptor area.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, nx_superblock_t, p. 27'
    -webide-representation: 'xid {hdr.xid}, {num_blocks} blocks of {len_block}'
    seq:
      - id: hdr
        -orig-id: nx_o
        type: apfs_object::obj_phys
      - id: magic
        -orig-id: nx_magic
        type: u4
        enum: container_magic
        valid: container_magic::nx_superblock
        doc: The letters NXSB.
      - id: len_block
        -orig-id: nx_block_size
        type: u4
        valid:
          min: 4096
          max: 65536
        doc: 'In bytes, a power of two.'
      - id: num_blocks
        -orig-id: nx_block_count
        type: u8
        doc: Blocks on the main device; on Fusion drives the second device follows in its own address range.
      - id: features
        -orig-id: nx_features
        type: u8
      - id: readonly_compatible_features
        -orig-id: nx_readonly_compatible_features
        type: u8
      - id: incompatible_features
        -orig-id: nx_incompatible_features
        type: u8
      - id: uuid
        -orig-id: nx_uuid
        size: 16
      - id: next_oid
        -orig-id: nx_next_oid
        type: u8
        doc: Next identifier for a virtual or ephemeral object.
      - id: next_xid
        -orig-id: nx_next_xid
        type: u8
      - id: xp_desc_blocks
        -orig-id: nx_xp_desc_blocks
        type: u4
        doc: Length of the checkpoint descriptor area; the top bit says that it is not contiguous.
      - id: xp_data_blocks
        -orig-id: nx_xp_data_blocks
        type: u4
        doc: Length of the checkpoint data area; the top bit says that it is not contiguous.
      - id: xp_desc_base
        -orig-id: nx_xp_desc_base
        type: s8
        doc: 'First block of the descriptor area, or of the physical tree that maps it.'
      - id: xp_data_base
        -orig-id: nx_xp_data_base
        type: s8
        doc: 'First block of the data area, or of the physical tree that maps it.'
      - id: xp_desc_next
        -orig-id: nx_xp_desc_next
        type: u4
      - id: xp_data_next
        -orig-id: nx_xp_data_next
        type: u4
      - id: xp_desc_index
        -orig-id: nx_xp_desc_index
        type: u4
        doc: First block of this checkpoint within the descriptor ring.
      - id: num_desc_used
        -orig-id: nx_xp_desc_len
        type: u4
        doc: 'Blocks of this checkpoint in the descriptor ring, the superblock included.'
      - id: xp_data_index
        -orig-id: nx_xp_data_index
        type: u4
      - id: num_data_used
        -orig-id: nx_xp_data_len
        type: u4
      - id: spaceman_oid
        -orig-id: nx_spaceman_oid
        type: u8
        doc: Ephemeral.
      - id: omap_oid
        -orig-id: nx_omap_oid
        type: u8
        doc: 'Physical; the container''s object map.'
      - id: reaper_oid
        -orig-id: nx_reaper_oid
        type: u8
        doc: Ephemeral.
      - id: test_type
        -orig-id: nx_test_type
        type: u4
      - id: max_file_systems
        -orig-id: nx_max_file_systems
        type: u4
        valid:
          min: 0
          max: 100
        doc: Number of slots in use at most.
      - id: fs_oid
        -orig-id: nx_fs_oid
        type: u8
        repeat: expr
        repeat-expr: 100
        doc: Virtual; zero where a slot is empty.
      - id: counters
        -orig-id: nx_counters
        type: u8
        repeat: expr
        repeat-expr: 32
        doc: Checksums verified and failed.
      - id: blocked_out
        -orig-id: nx_blocked_out_prange
        type: apfs_object::prange
        doc: 'Blocks beyond which nothing is allocated, while a container shrinks.'
      - id: evict_mapping_tree_oid
        -orig-id: nx_evict_mapping_tree_oid
        type: u8
        doc: Physical.
      - id: flags
        -orig-id: nx_flags
        type: u8
      - id: efi_jumpstart
        -orig-id: nx_efi_jumpstart
        type: s8
        doc: 'Block of the boot record, or zero.'
      - id: fusion_uuid
        -orig-id: nx_fusion_uuid
        size: 16
        doc: >-
          The same on both devices of a set but for the lowest bit of the last byte; see is_fusion_main.
      - id: keylocker
        -orig-id: nx_keylocker
        type: apfs_object::prange
        doc: Container key bag.
      - id: ephemeral_info
        -orig-id: nx_ephemeral_info
        type: u8
        repeat: expr
        repeat-expr: 4
        doc: Minimum size of the checkpoint data area and its version.
      - id: test_oid
        -orig-id: nx_test_oid
        type: u8
      - id: fusion_mt_oid
        -orig-id: nx_fusion_mt_oid
        type: u8
        doc: Physical; the Fusion middle tree.
      - id: fusion_wbc_oid
        -orig-id: nx_fusion_wbc_oid
        type: u8
        doc: Ephemeral; state of the Fusion write-back cache.
      - id: fusion_wbc
        -orig-id: nx_fusion_wbc
        type: apfs_object::prange
        doc: Blocks of the write-back cache on the main device.
      - id: newest_mounted_version
        -orig-id: nx_newest_mounted_version
        type: u8
      - id: mkb_locker
        -orig-id: nx_mkb_locker
        type: apfs_object::prange
        doc: Wrapped media key.
    instances:
      num_desc_blocks:
        value: 'xp_desc_blocks & 0x7fffffff'
      desc_is_tree:
        value: 'xp_desc_blocks >> 31'
      num_data_blocks:
        value: 'xp_data_blocks & 0x7fffffff'
      data_is_tree:
        value: 'xp_data_blocks >> 31'
      is_fusion:
        -orig-id: NX_INCOMPAT_FUSION
        value: '(incompatible_features & container_incompatible_feature::fusion.to_i) != 0'
      is_version1:
        -orig-id: NX_INCOMPAT_VERSION1
        value: '(incompatible_features & container_incompatible_feature::version1.to_i) != 0'
      is_fusion_main:
        value: '(fusion_uuid[15] & 1) == 0'
        doc: |
          Whether this is the main device of a Fusion set: the lowest bit of the identifier's last byte is clear there
          and set on the second device. The reference says "the highest bit", and the other way round; apfsck and disks
          agree on this.
      is_crypto_sw:
        -orig-id: NX_CRYPTO_SW
        value: '(flags & container_flag::crypto_sw.to_i) != 0'
      supports_defrag:
        -orig-id: NX_FEATURE_DEFRAG
        value: '(features & container_feature::defrag.to_i) != 0'
  checkpoint_map_head:
    -orig-id: checkpoint_map_phys_t
    doc: Checkpoint map without its mappings.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, checkpoint_map_phys_t, p. 41'
    seq:
      - id: hdr
        -orig-id: cpm_o
        type: apfs_object::obj_phys
      - id: flags
        -orig-id: cpm_flags
        type: u4
      - id: num_mappings
        -orig-id: cpm_count
        type: u4
    instances:
      is_last:
        -orig-id: CHECKPOINT_MAP_LAST
        value: 'flags & 1'
  checkpoint_map:
    -orig-id: checkpoint_map_phys_t
    doc: Where the ephemeral objects of a checkpoint are stored. Several maps form one checkpoint; the last says so.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, checkpoint_map_phys_t, p. 41'
    seq:
      - id: head
        -orig-id: cpm_o
        type: checkpoint_map_head
      - id: mappings
        -orig-id: cpm_map
        type: checkpoint_mapping
        repeat: expr
        repeat-expr: head.num_mappings
        doc: Used entries.
  checkpoint_mapping:
    -orig-id: checkpoint_mapping_t
    doc: One ephemeral object in the checkpoint data area.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, checkpoint_mapping_t, p. 40'
    -webide-representation: 'oid {oid} at {paddr}'
    seq:
      - id: type_and_flags
        -orig-id: cpm_type
        type: u4
      - id: subtype
        -orig-id: cpm_subtype
        type: u4
      - id: len_object
        -orig-id: cpm_size
        type: u4
        doc: Size of the object, one or more blocks.
      - id: pad
        -orig-id: cpm_pad
        type: u4
      - id: fs_oid
        -orig-id: cpm_fs_oid
        type: u8
        doc: 'Volume that it belongs to, or zero.'
      - id: oid
        -orig-id: cpm_oid
        type: u8
      - id: paddr
        -orig-id: cpm_paddr
        type: u8
    instances:
      type:
        -orig-id: OBJECT_TYPE_MASK
        value: 'type_and_flags & apfs_object::object_mask::type.to_i'
  evict_mapping_key:
    -orig-id: paddr_t
    doc: Block that is to be moved while a container shrinks.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, evict_mapping_val_t, p. 42'
    seq:
      - id: paddr
        -orig-id: paddr
        type: u8
  evict_mapping_val:
    -orig-id: evict_mapping_val_t
    doc: Where a run of blocks goes while a container shrinks.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, evict_mapping_val_t, p. 42'
    -webide-representation: '{num_blocks} blocks to {dst_paddr}'
    seq:
      - id: dst_paddr
        -orig-id: dst_paddr
        type: s8
      - id: num_blocks
        -orig-id: len
        type: u8
  omap_phys:
    -orig-id: omap_phys_t
    doc: Object map of a container or volume.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Object Maps, omap_phys_t, p. 44'
    -webide-representation: 'tree {tree_oid}'
    seq:
      - id: hdr
        -orig-id: om_o
        type: apfs_object::obj_phys
      - id: flags
        -orig-id: om_flags
        type: u4
      - id: num_snapshots
        -orig-id: om_snap_count
        type: u4
      - id: tree_type
        -orig-id: om_tree_type
        type: u4
      - id: snapshot_tree_type
        -orig-id: om_snapshot_tree_type
        type: u4
      - id: tree_oid
        -orig-id: om_tree_oid
        type: u8
        doc: Root of the tree of mappings; a block address when its type says physical.
      - id: snapshot_tree_oid
        -orig-id: om_snapshot_tree_oid
        type: u8
        doc: 'Root of the tree of snapshots, or zero.'
      - id: most_recent_snap
        -orig-id: om_most_recent_snap
        type: u8
      - id: pending_revert_min
        -orig-id: om_pending_revert_min
        type: u8
      - id: pending_revert_max
        -orig-id: om_pending_revert_max
        type: u8
    instances:
      is_encrypting:
        -orig-id: OMAP_ENCRYPTING
        value: '(flags & omap_flag::encrypting.to_i) != 0'
      is_decrypting:
        -orig-id: OMAP_DECRYPTING
        value: '(flags & omap_flag::decrypting.to_i) != 0'
      is_keyrolling:
        -orig-id: OMAP_KEYROLLING
        value: '(flags & omap_flag::keyrolling.to_i) != 0'
  omap_key:
    -orig-id: omap_key_t
    doc: Virtual object and the transaction from which a mapping holds.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Object Maps, omap_key_t, p. 46'
    -webide-representation: 'oid {oid} xid {xid}'
    seq:
      - id: oid
        -orig-id: ok_oid
        type: u8
      - id: xid
        -orig-id: ok_xid
        type: u8
  omap_val:
    -orig-id: omap_val_t
    doc: Where a version of a virtual object is stored.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Object Maps, omap_val_t, p. 46'
    -webide-representation: 'at {paddr}'
    seq:
      - id: flags
        -orig-id: ov_flags
        type: u4
      - id: len_object
        -orig-id: ov_size
        type: u4
        doc: A multiple of the block size.
      - id: paddr
        -orig-id: ov_paddr
        type: u8
    instances:
      is_deleted:
        -orig-id: OMAP_VAL_DELETED
        value: '(flags & omap_val_flag::deleted.to_i) != 0'
      is_saved:
        -orig-id: OMAP_VAL_SAVED
        value: '(flags & omap_val_flag::saved.to_i) != 0'
      is_encrypted:
        -orig-id: OMAP_VAL_ENCRYPTED
        value: '(flags & omap_val_flag::encrypted.to_i) != 0'
      is_noheader:
        -orig-id: OMAP_VAL_NOHEADER
        value: '(flags & omap_val_flag::noheader.to_i) != 0'
      crypto_generation:
        -orig-id: OMAP_VAL_CRYPTO_GENERATION
        value: '(flags & omap_val_flag::crypto_generation.to_i) != 0'
  omap_snapshot_key:
    -orig-id: xid_t
    doc: 'Transaction of a snapshot, key of an object map''s snapshot tree.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Object Maps, omap_snapshot_t, p. 47'
    seq:
      - id: xid
        -orig-id: xid
        type: u8
  omap_snapshot:
    -orig-id: omap_snapshot_t
    doc: Snapshot as the object map knows it.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Object Maps, omap_snapshot_t, p. 47'
    -webide-representation: 'flags {flags}'
    seq:
      - id: flags
        -orig-id: oms_flags
        type: u4
      - id: pad
        -orig-id: oms_pad
        type: u4
      - id: oid
        -orig-id: oms_oid
        type: u8
    instances:
      is_deleted:
        -orig-id: OMAP_SNAPSHOT_DELETED
        value: '(flags & 1) != 0'
      is_reverted:
        -orig-id: OMAP_SNAPSHOT_REVERTED
        value: '(flags & 2) != 0'
  efi_jumpstart:
    -orig-id: nx_efi_jumpstart_t
    doc: Where firmware finds the driver that boots from this container.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), EFI Jumpstart, nx_efi_jumpstart_t, p. 24'
    -webide-representation: '{len_efi_file} bytes in {num_extents} extents'
    seq:
      - id: hdr
        -orig-id: nej_o
        type: apfs_object::obj_phys
      - id: magic
        -orig-id: nej_magic
        type: u4
        valid: 0x5244534a
        doc: The letters JSDR.
      - id: version
        -orig-id: nej_version
        type: u4
      - id: len_efi_file
        -orig-id: nej_efi_file_len
        type: u4
        doc: In bytes.
      - id: num_extents
        -orig-id: nej_num_extents
        type: u4
      - id: reserved
        -orig-id: nej_reserved
        type: u8
        repeat: expr
        repeat-expr: 16
      - id: extents
        -orig-id: nej_rec_extents
        type: apfs_object::prange
        repeat: expr
        repeat-expr: num_extents
enums:
  container_magic:
    0x4253584e:
      id: nx_superblock
      -orig-id: NX_MAGIC
  container_feature:
    1:
      id: defrag
      -orig-id: NX_FEATURE_DEFRAG
    2:
      id: lcfd
      -orig-id: NX_FEATURE_LCFD
      doc: Low-capacity Fusion.
  container_incompatible_feature:
    1:
      id: version1
      -orig-id: NX_INCOMPAT_VERSION1
    2:
      id: version2
      -orig-id: NX_INCOMPAT_VERSION2
    0x100:
      id: fusion
      -orig-id: NX_INCOMPAT_FUSION
  container_flag:
    1:
      id: reserved_1
      -orig-id: NX_RESERVED_1
    2:
      id: reserved_2
      -orig-id: NX_RESERVED_2
    4:
      id: crypto_sw
      -orig-id: NX_CRYPTO_SW
      doc: Software cryptography.
  omap_flag:
    1:
      id: manually_managed
      -orig-id: OMAP_MANUALLY_MANAGED
    2:
      id: encrypting
      -orig-id: OMAP_ENCRYPTING
    4:
      id: decrypting
      -orig-id: OMAP_DECRYPTING
    8:
      id: keyrolling
      -orig-id: OMAP_KEYROLLING
    0x10:
      id: crypto_generation
      -orig-id: OMAP_CRYPTO_GENERATION
  omap_val_flag:
    1:
      id: deleted
      -orig-id: OMAP_VAL_DELETED
    2:
      id: saved
      -orig-id: OMAP_VAL_SAVED
    4:
      id: encrypted
      -orig-id: OMAP_VAL_ENCRYPTED
    8:
      id: noheader
      -orig-id: OMAP_VAL_NOHEADER
    0x10:
      id: crypto_generation
      -orig-id: OMAP_VAL_CRYPTO_GENERATION
