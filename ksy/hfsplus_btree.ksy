meta:
  id: hfsplus_btree
  title: Nodes of HFS+ B-trees
  xref:
    justsolve: HFS+
    pronom: fmt/1742
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  What all HFS+ B-trees (catalog, extents overflow, attributes, hot files) share: the
  node descriptor, the table of record offsets at a node's end, and the records of the
  header node. A node's number times the node size is its place in the tree's file.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees'
types:
  node_descriptor:
    -orig-id: BTNodeDescriptor
    doc: The first 14 bytes of every node.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Node Descriptor'
    -webide-representation: '{kind} height {height:dec}, {num_records:dec} records, next {f_link:dec}'
    seq:
      - id: f_link
        -orig-id: fLink
        type: u4
        doc: Number of the next node of the same level, or of the next map node; 0 if this is the last.
      - id: b_link
        -orig-id: bLink
        type: u4
        doc: Number of the previous node; 0 if this is the first.
      - id: kind
        -orig-id: kind
        type: s1
        enum: node_kind
      - id: height
        -orig-id: height
        type: u1
        doc: 1 at the leaves, growing towards the root; 0 for header and map nodes.
      - id: num_records
        -orig-id: numRecords
        type: u2
        doc: Records in this node.
      - id: reserved
        -orig-id: reserved
        type: u2
        doc: Zero.
  record_offset:
    doc: |
      One entry of the table at a node's end. The last two bytes of the node hold the offset of record 0,
      the two before them that of record 1, and so on; after the last record comes the offset of the free space.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Node Structure'
    seq:
      - id: ofs_record
        type: u2
        doc: Bytes from the start of the node.
  key_header:
    doc: What every key starts with, in trees with big keys (all HFS+ trees have them).
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#KeyedRecords TN1150, B-Trees, Keyed Records'
    seq:
      - id: len_key
        -orig-id: keyLength
        type: u2
        doc: Bytes of the key, without this field.
  pointer_record:
    doc: What follows the key in an index node.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Index Nodes'
    seq:
      - id: child_node
        type: u4
        doc: Number of the child, whose first key is this record's key.
  header_record:
    -orig-id: BTHeaderRec
    doc: Record 0 of the header node (node 0); 106 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Header Record'
    -webide-representation: 'root {root_node:dec}, depth {tree_depth:dec}, {leaf_records:dec} leaf records'
    seq:
      - id: tree_depth
        -orig-id: treeDepth
        type: u2
        doc: Height of the root; 0 for an empty tree.
      - id: root_node
        -orig-id: rootNode
        type: u4
        doc: Number of the root; 0 for an empty tree.
      - id: leaf_records
        -orig-id: leafRecords
        type: u4
        doc: Records in all leaves.
      - id: first_leaf_node
        -orig-id: firstLeafNode
        type: u4
      - id: last_leaf_node
        -orig-id: lastLeafNode
        type: u4
      - id: len_node
        -orig-id: nodeSize
        type: u2
        doc: Bytes of a node; a power of two from 512 to 32768.
      - id: len_key_max
        -orig-id: maxKeyLength
        type: u2
        doc: Longest key in this tree, without the length field; 516 catalog, 10 extents overflow, 266 attributes.
      - id: num_nodes
        -orig-id: totalNodes
        type: u4
        doc: Nodes in the file, used and free.
      - id: num_free_nodes
        -orig-id: freeNodes
        type: u4
      - id: reserved1
        -orig-id: reserved1
        type: u2
      - id: len_clump
        -orig-id: clumpSize
        type: u4
        doc: Ignored; the clump size of the volume header counts.
      - id: btree_type
        -orig-id: btreeType
        type: u1
        enum: btree_type
      - id: key_compare_type
        -orig-id: keyCompareType
        type: u1
        enum: key_compare_type
        doc: Used only in the catalog of HFSX volumes; reserved elsewhere (often 0xCF in HFS+ catalogs).
      - id: attributes
        -orig-id: attributes
        type: u4
        doc: Bits of the tree; see the instances.
      - id: reserved3
        -orig-id: reserved3
        type: u4
        repeat: expr
        repeat-expr: 16
    instances:
      is_bad_close:
        -orig-id: kBTBadCloseMask
        value: '(attributes & btree_attribute::bad_close.to_i) != 0'
        doc: The tree was not closed properly. Reserved in HFS+.
      has_big_keys:
        -orig-id: kBTBigKeysMask
        value: '(attributes & btree_attribute::big_keys.to_i) != 0'
        doc: Key lengths take two bytes; set in all HFS+ trees.
      has_variable_index_keys:
        -orig-id: kBTVariableIndexKeysMask
        value: '(attributes & btree_attribute::variable_index_keys.to_i) != 0'
        doc: Keys of index nodes take their own length, else len_key_max. Set in catalog and attributes trees.
  header_node:
    doc: The header node (node 0) up to its map record, which fills the rest but for the four record offsets.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Header Nodes'
    seq:
      - id: descriptor
        -orig-id: BTNodeDescriptor
        type: node_descriptor
      - id: header
        -orig-id: BTHeaderRec
        type: header_record
      - id: user_data
        size: 128
        doc: Record 1. Reserved, but for the hot-file B-tree.
  map_record:
    doc: |
      Record 2 of the header node or record 0 of a map node: a bitmap of used nodes, the most significant bit of
      the first byte first. Map nodes follow the header node through f_link.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Map Record'
    seq:
      - id: bitmap
        size-eos: true
enums:
  node_kind:
    -1:
      id: leaf
      -orig-id: kBTLeafNode
    0:
      id: index
      -orig-id: kBTIndexNode
    1:
      id: header
      -orig-id: kBTHeaderNode
    2:
      id: map
      -orig-id: kBTMapNode
  btree_type:
    0:
      id: hfs
      -orig-id: kHFSBTreeType
      doc: Control file.
    128:
      id: user
      -orig-id: kUserBTreeType
      doc: The hot-file B-tree.
    255:
      id: reserved
      -orig-id: kReservedBTreeType
  key_compare_type:
    0xcf:
      id: case_folding
      -orig-id: kHFSCaseFolding
      doc: Names compare without regard to case and ignorable characters.
    0xbc:
      id: binary
      -orig-id: kHFSBinaryCompare
      doc: Names compare as arrays of 16-bit numbers.
  key_length_limit:
    10:
      id: extents_overflow
      -orig-id: kHFSPlusExtentKeyMaximumLength
      doc: All keys of the extents-overflow file; the field of the length itself does not count.
    266:
      id: attributes
      -orig-id: kHFSPlusAttrKeyMaximumLength
      doc: A name of 127 units.
    516:
      id: catalog
      -orig-id: kHFSPlusCatalogKeyMaximumLength
      doc: A name of 255 units.
  node_size_limit:
    512:
      id: minimum
      doc: TN1150, B-Trees.
    32768:
      id: maximum
      doc: TN1150, B-Trees.
  btree_attribute:
    0x1:
      id: bad_close
      -orig-id: kBTBadCloseMask
    0x2:
      id: big_keys
      -orig-id: kBTBigKeysMask
    0x4:
      id: variable_index_keys
      -orig-id: kBTVariableIndexKeysMask
