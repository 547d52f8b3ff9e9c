meta:
  id: apfs_btree
  title: 'Apple File System, B-trees'
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
  Nodes of APFS B-trees. A table of contents follows the head; keys grow upwards from its end, values
  downwards from the end of the node or, in a root, from the tree information there.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, p. 122'
types:
  btree_node:
    -orig-id: btree_node_phys_t
    doc: Head of a node.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btree_node_phys_t, p. 123'
    -webide-representation: 'level {level}, {num_keys} keys'
    seq:
      - id: hdr
        -orig-id: btn_o
        type: apfs_object::obj_phys
      - id: flags
        -orig-id: btn_flags
        type: u2
      - id: level
        -orig-id: btn_level
        type: u2
        doc: Zero at the leaf.
      - id: num_keys
        -orig-id: btn_nkeys
        type: u4
      - id: table_space
        -orig-id: btn_table_space
        type: nloc
        doc: 'Table of contents, counted from the end of this head.'
      - id: free_space
        -orig-id: btn_free_space
        type: nloc
        doc: 'Gap between keys and values, counted from the end of the table of contents.'
      - id: key_free_list
        -orig-id: btn_key_free_list
        type: nloc
      - id: val_free_list
        -orig-id: btn_val_free_list
        type: nloc
    instances:
      is_root:
        -orig-id: BTNODE_ROOT
        value: '(flags & btree_node_flag::root.to_i) != 0'
      is_leaf:
        -orig-id: BTNODE_LEAF
        value: '(flags & btree_node_flag::leaf.to_i) != 0'
      is_fixed:
        -orig-id: BTNODE_FIXED_KV_SIZE
        value: '(flags & btree_node_flag::fixed_kv_size.to_i) != 0'
      is_hashed:
        -orig-id: BTNODE_HASHED
        value: '(flags & btree_node_flag::hashed.to_i) != 0'
      is_noheader:
        -orig-id: BTNODE_NOHEADER
        value: '(flags & btree_node_flag::noheader.to_i) != 0'
  nloc:
    -orig-id: nloc_t
    doc: Piece of a node.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, nloc_t, p. 128'
    -webide-representation: '{ofs_data}+{len_data}'
    seq:
      - id: ofs_data
        -orig-id: 'off'
        type: u2
        doc: In bytes; what it is counted from depends on the use. 0xffff means none.
      - id: len_data
        -orig-id: len
        type: u2
        doc: In bytes.
    instances:
      is_nowhere:
        value: 'ofs_data == location::invalid.to_i'
        doc: There is no such key, value or free space.
  kvloc:
    -orig-id: kvloc_t
    doc: Entry of a table of contents whose keys and values vary in size.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, kvloc_t, p. 128'
    seq:
      - id: key
        -orig-id: k
        type: nloc
        doc: 'Counted from the end of the table of contents, upwards.'
      - id: val
        -orig-id: v
        type: nloc
        doc: 'Counted from the end of the value area, downwards; 0xffff for a ghost, which has no value.'
  kvoff:
    -orig-id: kvoff_t
    doc: Entry of a table of contents whose keys and values have one size.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, kvoff_t, p. 129'
    seq:
      - id: ofs_key
        -orig-id: k
        type: u2
        doc: 'Counted from the end of the table of contents, upwards.'
      - id: ofs_val
        -orig-id: v
        type: u2
        doc: 'Counted from the end of the value area, downwards; 0xffff for a ghost.'
  btree_info:
    -orig-id: btree_info_t
    doc: Last bytes of a root node.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btree_info_t, p. 126'
    -webide-representation: '{num_keys} keys in {num_nodes} nodes'
    seq:
      - id: fixed
        -orig-id: bt_fixed
        type: btree_info_fixed
      - id: longest_key
        -orig-id: bt_longest_key
        type: u4
        doc: In bytes.
      - id: longest_val
        -orig-id: bt_longest_val
        type: u4
        doc: In bytes.
      - id: num_keys
        -orig-id: bt_key_count
        type: u8
      - id: num_nodes
        -orig-id: bt_node_count
        type: u8
  btree_info_fixed:
    -orig-id: btree_info_fixed_t
    doc: What does not change while a tree lives.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btree_info_fixed_t, p. 125'
    seq:
      - id: flags
        -orig-id: bt_flags
        type: u4
      - id: len_node
        -orig-id: bt_node_size
        type: u4
        doc: In bytes.
      - id: len_key
        -orig-id: bt_key_size
        type: u4
        doc: In bytes; zero where keys vary.
      - id: len_val
        -orig-id: bt_val_size
        type: u4
        doc: In bytes; zero where values vary.
    instances:
      allows_ghosts:
        -orig-id: BTREE_ALLOW_GHOSTS
        value: '(flags & btree_flag::allow_ghosts.to_i) != 0'
      is_ephemeral:
        -orig-id: BTREE_EPHEMERAL
        value: '(flags & btree_flag::ephemeral.to_i) != 0'
      is_physical:
        -orig-id: BTREE_PHYSICAL
        value: '(flags & btree_flag::physical.to_i) != 0'
      is_hashed:
        -orig-id: BTREE_HASHED
        value: '(flags & btree_flag::hashed.to_i) != 0'
      is_noheader:
        -orig-id: BTREE_NOHEADER
        value: '(flags & btree_flag::noheader.to_i) != 0'
  child_val:
    -orig-id: oid_t
    doc: Value in a node above the leaves.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btree_node_phys_t, p. 123'
    -webide-representation: 'child {oid}'
    seq:
      - id: oid
        -orig-id: oid
        type: u8
        doc: Child node; a block address in physical trees.
  hashed_child_val:
    -orig-id: btn_index_node_val_t
    doc: >-
      Value in a node above the leaves of a hashed tree; the child is counted from the root's
      identifier.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btn_index_node_val_t, p. 127'
    -webide-representation: 'child {oid}'
    seq:
      - id: oid
        -orig-id: binv_child_oid
        type: u8
      - id: hash
        -orig-id: binv_child_hash
        size-eos: true
        doc: 'Hash of the whole child node, as long as the volume''s hash type says.'
enums:
  btree_node_flag:
    1:
      id: root
      -orig-id: BTNODE_ROOT
    2:
      id: leaf
      -orig-id: BTNODE_LEAF
    4:
      id: fixed_kv_size
      -orig-id: BTNODE_FIXED_KV_SIZE
    8:
      id: hashed
      -orig-id: BTNODE_HASHED
    0x10:
      id: noheader
      -orig-id: BTNODE_NOHEADER
    0x8000:
      id: check_koff_inval
      -orig-id: BTNODE_CHECK_KOFF_INVAL
  btree_flag:
    1:
      id: uint64_keys
      -orig-id: BTREE_UINT64_KEYS
    2:
      id: sequential_insert
      -orig-id: BTREE_SEQUENTIAL_INSERT
    4:
      id: allow_ghosts
      -orig-id: BTREE_ALLOW_GHOSTS
    8:
      id: ephemeral
      -orig-id: BTREE_EPHEMERAL
    0x10:
      id: physical
      -orig-id: BTREE_PHYSICAL
    0x20:
      id: nonpersistent
      -orig-id: BTREE_NONPERSISTENT
    0x40:
      id: kv_nonaligned
      -orig-id: BTREE_KV_NONALIGNED
    0x80:
      id: hashed
      -orig-id: BTREE_HASHED
    0x100:
      id: noheader
      -orig-id: BTREE_NOHEADER
  location:
    0xffff:
      id: invalid
      -orig-id: BTOFF_INVALID
      doc: 'No key, no value, or the end of a free list.'
