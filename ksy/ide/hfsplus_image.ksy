meta:
  id: hfsplus_image
  title: 'HFS+ and HFSX, an image of a volume'
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - hfsplus_attributes
    - hfsplus_btree
    - hfsplus_catalog
    - hfsplus_extents
    - hfsplus_volume
  endian: be
doc: |
  An entry point for the Web IDE: both volume headers and the nodes of the B-trees as far as the first extent of their
  files reaches. A node is shown with its records.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
seq:
  - id: start
    type: hfsplus_volume::volume_start
instances:
  header:
    value: start.volume_header
  end:
    pos: _io.size - 1024
    type: hfsplus_volume::volume_end
    doc: The alternate header and the reserved sector behind it.
  catalog_file:
    pos: header.catalog_file.extents[0].start_block * header.len_block
    size: header.catalog_file.extents[0].num_blocks * header.len_block
    type: tree(tree_kind::catalog)
    if: header.catalog_file.extents[0].num_blocks != 0
  extents_file:
    pos: header.extents_file.extents[0].start_block * header.len_block
    size: header.extents_file.extents[0].num_blocks * header.len_block
    type: tree(tree_kind::extents)
    if: header.extents_file.extents[0].num_blocks != 0
  attributes_file:
    pos: header.attributes_file.extents[0].start_block * header.len_block
    size: header.attributes_file.extents[0].num_blocks * header.len_block
    type: tree(tree_kind::attributes)
    if: header.attributes_file.extents[0].num_blocks != 0
types:
  tree:
    doc: A B-tree's file.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees'
    params:
      - id: kind
        type: u1
        enum: tree_kind
    instances:
      header_node:
        pos: 0
        type: hfsplus_btree::header_node
      nodes:
        pos: 0
        size: header_node.header.len_node
        type: node(kind)
        repeat: expr
        repeat-expr: _io.size / header_node.header.len_node
        doc: 'All nodes, the header node first.'
  node:
    -orig-id: BTNodeDescriptor
    doc: A node with its records.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Node Structure'
    -webide-representation: '{descriptor}'
    params:
      - id: tree_kind
        type: u1
        enum: tree_kind
    seq:
      - id: descriptor
        type: hfsplus_btree::node_descriptor
    instances:
      is_keyed:
        value: 'descriptor.kind == hfsplus_btree::node_kind::leaf or descriptor.kind == hfsplus_btree::node_kind::index'
      offsets:
        pos: _io.size - 2 * (descriptor.num_records + 1)
        type: hfsplus_btree::record_offset
        repeat: expr
        repeat-expr: descriptor.num_records + 1
        doc: 'Where the free space starts, then the records, the last one first.'
      records:
        pos: 0
        type: record(offsets[descriptor.num_records - _index].ofs_record, offsets[descriptor.num_records - _index - 1].ofs_record, tree_kind, descriptor.kind == hfsplus_btree::node_kind::leaf)
        repeat: expr
        repeat-expr: descriptor.num_records
        if: is_keyed
  record:
    doc: A key and what follows it.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#KeyedRecords TN1150, B-Trees, Keyed Records'
    params:
      - id: ofs_record
        type: u2
      - id: ofs_end
        type: u2
      - id: tree_kind
        type: u1
        enum: tree_kind
      - id: is_leaf
        type: bool
    instances:
      key_header:
        pos: ofs_record
        type: hfsplus_btree::key_header
      key:
        pos: ofs_record
        size: 2 + key_header.len_key
        type:
          switch-on: tree_kind
          cases:
            'tree_kind::catalog': hfsplus_catalog::catalog_key
            'tree_kind::extents': hfsplus_extents::extent_key
            'tree_kind::attributes': hfsplus_attributes::attribute_key
      data:
        pos: ofs_record + 2 + key_header.len_key
        size: ofs_end - ofs_record - 2 - key_header.len_key
        type:
          switch-on: tree_kind
          cases:
            'tree_kind::catalog': hfsplus_catalog::catalog_data
            'tree_kind::extents': hfsplus_volume::extent_record
            'tree_kind::attributes': hfsplus_attributes::attribute_data
        if: is_leaf
      child:
        pos: ofs_record + 2 + key_header.len_key
        type: hfsplus_btree::pointer_record
        if: not is_leaf
enums:
  tree_kind:
    0:
      id: catalog
    1:
      id: extents
    2:
      id: attributes
