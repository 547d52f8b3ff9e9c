meta:
  id: apfs_object
  title: 'Apple File System, objects'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: 'Header that begins most APFS blocks, the object types, and the flags that say how an object is stored.'
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Objects, p. 10'
types:
  obj_phys:
    -orig-id: obj_phys_t
    doc: 'Header of an object. Objects stored without one (OBJ_NOHEADER, sealed volumes) hold zeros here.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Objects, obj_phys_t, p. 10'
    -webide-representation: 'oid {oid} xid {xid} type {type_and_flags}'
    seq:
      - id: cksum
        -orig-id: o_cksum
        type: u8
        doc: Fletcher-64 of the object without these eight bytes.
      - id: oid
        -orig-id: o_oid
        type: u8
        doc: 'Identifier; of a physical object, the block address where it is stored.'
      - id: xid
        -orig-id: o_xid
        type: u8
        doc: Transaction in which this version was written.
      - id: type_and_flags
        -orig-id: o_type
        type: u4
        doc: 'Low half the type, high half the storage flags.'
      - id: subtype
        -orig-id: o_subtype
        type: u4
        doc: 'What a tree, or a node of one, holds; an object type.'
    instances:
      type:
        -orig-id: OBJECT_TYPE_MASK
        value: 'type_and_flags & object_mask::type.to_i'
        enum: object_type
        doc: Type without the flags; key bags (letters in all 32 bits) are the exception.
      storage:
        -orig-id: OBJ_STORAGETYPE_MASK
        value: 'type_and_flags & object_mask::storage.to_i'
        enum: storage
        doc: 'Virtual (0), ephemeral or physical.'
      is_physical:
        -orig-id: OBJ_PHYSICAL
        value: 'storage == storage::physical'
      is_ephemeral:
        -orig-id: OBJ_EPHEMERAL
        value: 'storage == storage::ephemeral'
      is_virtual:
        -orig-id: OBJ_VIRTUAL
        value: 'storage == storage::virtual'
      is_noheader:
        -orig-id: OBJ_NOHEADER
        value: '(type_and_flags & object_flag::noheader.to_i) != 0'
      is_encrypted:
        -orig-id: OBJ_ENCRYPTED
        value: '(type_and_flags & object_flag::encrypted.to_i) != 0'
  prange:
    -orig-id: prange_t
    doc: Run of consecutive blocks.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), General-Purpose Types, prange_t, p. 9'
    -webide-representation: '{start_paddr}+{num_blocks}'
    seq:
      - id: start_paddr
        -orig-id: pr_start_paddr
        type: s8
        doc: First block.
      - id: num_blocks
        -orig-id: pr_block_count
        type: u8
        doc: Length in blocks.
enums:
  object_type:
    0:
      id: invalid
      -orig-id: OBJECT_TYPE_INVALID
    0x1:
      id: nx_superblock
      -orig-id: OBJECT_TYPE_NX_SUPERBLOCK
    0x2:
      id: btree
      -orig-id: OBJECT_TYPE_BTREE
      doc: Root node of a tree.
    0x3:
      id: btree_node
      -orig-id: OBJECT_TYPE_BTREE_NODE
      doc: Any other node of a tree.
    0x5:
      id: spaceman
      -orig-id: OBJECT_TYPE_SPACEMAN
    0x6:
      id: spaceman_cab
      -orig-id: OBJECT_TYPE_SPACEMAN_CAB
    0x7:
      id: spaceman_cib
      -orig-id: OBJECT_TYPE_SPACEMAN_CIB
    0x8:
      id: spaceman_bitmap
      -orig-id: OBJECT_TYPE_SPACEMAN_BITMAP
    0x9:
      id: spaceman_free_queue
      -orig-id: OBJECT_TYPE_SPACEMAN_FREE_QUEUE
    0xa:
      id: extent_list_tree
      -orig-id: OBJECT_TYPE_EXTENT_LIST_TREE
    0xb:
      id: omap
      -orig-id: OBJECT_TYPE_OMAP
    0xc:
      id: checkpoint_map
      -orig-id: OBJECT_TYPE_CHECKPOINT_MAP
    0xd:
      id: fs
      -orig-id: OBJECT_TYPE_FS
    0xe:
      id: fstree
      -orig-id: OBJECT_TYPE_FSTREE
    0xf:
      id: blockreftree
      -orig-id: OBJECT_TYPE_BLOCKREFTREE
    0x10:
      id: snapmetatree
      -orig-id: OBJECT_TYPE_SNAPMETATREE
    0x11:
      id: nx_reaper
      -orig-id: OBJECT_TYPE_NX_REAPER
    0x12:
      id: nx_reap_list
      -orig-id: OBJECT_TYPE_NX_REAP_LIST
    0x13:
      id: omap_snapshot
      -orig-id: OBJECT_TYPE_OMAP_SNAPSHOT
    0x14:
      id: efi_jumpstart
      -orig-id: OBJECT_TYPE_EFI_JUMPSTART
    0x15:
      id: fusion_middle_tree
      -orig-id: OBJECT_TYPE_FUSION_MIDDLE_TREE
    0x16:
      id: nx_fusion_wbc
      -orig-id: OBJECT_TYPE_NX_FUSION_WBC
    0x17:
      id: nx_fusion_wbc_list
      -orig-id: OBJECT_TYPE_NX_FUSION_WBC_LIST
    0x18:
      id: er_state
      -orig-id: OBJECT_TYPE_ER_STATE
    0x19:
      id: gbitmap
      -orig-id: OBJECT_TYPE_GBITMAP
    0x1a:
      id: gbitmap_tree
      -orig-id: OBJECT_TYPE_GBITMAP_TREE
    0x1b:
      id: gbitmap_block
      -orig-id: OBJECT_TYPE_GBITMAP_BLOCK
    0x1c:
      id: er_recovery_block
      -orig-id: OBJECT_TYPE_ER_RECOVERY_BLOCK
    0x1d:
      id: snap_meta_ext
      -orig-id: OBJECT_TYPE_SNAP_META_EXT
    0x1e:
      id: integrity_meta
      -orig-id: OBJECT_TYPE_INTEGRITY_META
    0x1f:
      id: fext_tree
      -orig-id: OBJECT_TYPE_FEXT_TREE
    0x20:
      id: reserved_20
      -orig-id: OBJECT_TYPE_RESERVED_20
    0xff:
      id: test
      -orig-id: OBJECT_TYPE_TEST
    0x6b657973:
      id: container_keybag
      -orig-id: OBJECT_TYPE_CONTAINER_KEYBAG
      doc: The letters keys.
    0x6d6b6579:
      id: media_keybag
      -orig-id: OBJECT_TYPE_MEDIA_KEYBAG
      doc: The letters mkey.
    0x72656373:
      id: volume_keybag
      -orig-id: OBJECT_TYPE_VOLUME_KEYBAG
      doc: The letters recs.
  storage:
    0:
      id: virtual
      -orig-id: OBJ_VIRTUAL
      doc: Found through an object map.
    0x40000000:
      id: physical
      -orig-id: OBJ_PHYSICAL
      doc: The identifier is the block address.
    0x80000000:
      id: ephemeral
      -orig-id: OBJ_EPHEMERAL
      doc: 'In memory while mounted, in the checkpoint data area at rest; found through the checkpoint maps.'
  object_flag:
    0x08000000:
      id: nonpersistent
      -orig-id: OBJ_NONPERSISTENT
    0x10000000:
      id: encrypted
      -orig-id: OBJ_ENCRYPTED
    0x20000000:
      id: noheader
      -orig-id: OBJ_NOHEADER
    0x40000000:
      id: physical
      -orig-id: OBJ_PHYSICAL
    0x80000000:
      id: ephemeral
      -orig-id: OBJ_EPHEMERAL
  object_mask:
    0xffff:
      id: type
      -orig-id: OBJECT_TYPE_MASK
    0xc0000000:
      id: storage
      -orig-id: OBJ_STORAGETYPE_MASK
