meta:
  id: apfs_block
  title: 'Apple File System, one block by the type that its header says'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_btree
    - apfs_container
    - apfs_encryption
    - apfs_directory
    - apfs_extents
    - apfs_inode
    - apfs_record
    - apfs_snapshot
    - apfs_xattr
    - apfs_fusion
    - apfs_object
    - apfs_reaper
    - apfs_sealed
    - apfs_spaceman
    - apfs_volume
  endian: le
doc: |
  An entry point for the Web IDE: open a block that was cut out of a container, or come here from apfs_image. Nodes are
  shown with their records; what has no header, such as bitmaps and the contents of files, is shown as bytes.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Objects, p. 10'
-webide-representation: '{header}'
seq:
  - id: body
    size-eos: true
    type:
      switch-on: header.type
      cases:
        'apfs_object::object_type::nx_superblock': apfs_container::nx_superblock
        'apfs_object::object_type::btree': node
        'apfs_object::object_type::btree_node': node
        'apfs_object::object_type::spaceman': apfs_spaceman::spaceman_phys
        'apfs_object::object_type::spaceman_cab': apfs_spaceman::cib_addr_block
        'apfs_object::object_type::spaceman_cib': apfs_spaceman::chunk_info_block
        'apfs_object::object_type::omap': apfs_container::omap_phys
        'apfs_object::object_type::checkpoint_map': apfs_container::checkpoint_map
        'apfs_object::object_type::fs': apfs_volume::apfs_superblock
        'apfs_object::object_type::nx_reaper': apfs_reaper::reaper_phys
        'apfs_object::object_type::nx_reap_list': apfs_reaper::reap_list_phys
        'apfs_object::object_type::efi_jumpstart': apfs_container::efi_jumpstart
        'apfs_object::object_type::nx_fusion_wbc': apfs_fusion::fusion_wbc
        'apfs_object::object_type::nx_fusion_wbc_list': apfs_fusion::fusion_wbc_list_head
        'apfs_object::object_type::er_state': apfs_encryption::er_state_head
        'apfs_object::object_type::gbitmap': apfs_encryption::gbitmap
        'apfs_object::object_type::integrity_meta': apfs_sealed::integrity_meta
instances:
  header:
    pos: 0
    type: apfs_object::obj_phys
    doc: What the block says that it is.
types:
  node:
    -orig-id: btree_node_phys_t
    doc: |
      A node with its records. Keys count from the end of the table of contents upwards, values from the end of the
      node downwards; in a root, from the tree information there.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, btree_node_phys_t, p. 123'
    seq:
      - id: head
        type: apfs_btree::btree_node
      - id: unused
        size: head.table_space.ofs_data
        doc: The table follows the head at once in all nodes that were seen.
      - id: entries
        type: entry(ofs_keys, ofs_values, head.is_fixed, head.is_leaf, len_keys, len_values, head.hdr.subtype)
        repeat: expr
        repeat-expr: head.num_keys
    instances:
      ofs_keys:
        value: head._sizeof + head.table_space.ofs_data + head.table_space.len_data
        doc: 'Where keys are counted from, in bytes from the start of the node.'
      ofs_values:
        value: '_io.size - (head.is_root ? sizeof<apfs_btree::btree_info> : 0)'
        doc: 'Where values are counted from, in bytes from the start of the node.'
      info:
        pos: _io.size - sizeof<apfs_btree::btree_info>
        type: apfs_btree::btree_info
        if: head.is_root
        doc: The tree's information.
      len_keys:
        value: 'head.is_root ? info.fixed.len_key : 16'
        doc: 'Of keys of one size; roots name it, other nodes are taken to be of an object map.'
      len_values:
        value: 'head.is_leaf ? (head.is_root ? info.fixed.len_val : 16) : 8'
        doc: Likewise of values; children take eight bytes.
  entry:
    -orig-id: kvloc_t or kvoff_t
    doc: Where one record lies, and the record.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), B-Trees, kvloc_t, p. 128'
    -webide-representation: '{key}'
    params:
      - id: ofs_keys
        type: u4
      - id: ofs_values
        type: u4
      - id: is_fixed
        type: bool
      - id: is_leaf
        type: bool
      - id: len_keys
        type: u4
      - id: len_values
        type: u4
      - id: subtype
        type: u4
    seq:
      - id: fixed
        type: apfs_btree::kvoff
        if: is_fixed
      - id: varying
        type: apfs_btree::kvloc
        if: not is_fixed
    instances:
      ofs_key:
        value: 'ofs_keys + (is_fixed ? fixed.ofs_key : varying.key.ofs_data)'
      len_key:
        value: 'is_fixed ? len_keys : varying.key.len_data'
      ofs_val:
        value: 'is_fixed ? fixed.ofs_val : varying.val.ofs_data'
      len_val:
        value: 'is_fixed ? len_values : varying.val.len_data'
      is_ghost:
        value: 'ofs_val == apfs_btree::location::invalid.to_i'
        doc: A key without a value.
      key:
        pos: ofs_key
        size: len_key
        type:
          switch-on: subtype
          cases:
            'apfs_object::object_type::omap.to_i': apfs_container::omap_key
            'apfs_object::object_type::omap_snapshot.to_i': apfs_container::omap_snapshot_key
            'apfs_object::object_type::spaceman_free_queue.to_i': apfs_spaceman::free_queue_key
            'apfs_object::object_type::fstree.to_i': apfs_record::j_key
            'apfs_object::object_type::blockreftree.to_i': apfs_record::j_key
            'apfs_object::object_type::snapmetatree.to_i': apfs_record::j_key
            'apfs_object::object_type::fext_tree.to_i': apfs_extents::fext_key
      value:
        pos: ofs_values - ofs_val
        size: len_val
        type:
          switch-on: subtype
          cases:
            'apfs_object::object_type::omap.to_i': apfs_container::omap_val
            'apfs_object::object_type::omap_snapshot.to_i': apfs_container::omap_snapshot
            'apfs_object::object_type::fstree.to_i': fs_value(key.as<apfs_record::j_key>.record_type)
            'apfs_object::object_type::blockreftree.to_i': apfs_extents::phys_ext_val
            'apfs_object::object_type::snapmetatree.to_i': fs_value(key.as<apfs_record::j_key>.record_type)
            'apfs_object::object_type::fext_tree.to_i': apfs_extents::fext_val
        if: is_leaf and not is_ghost
      child:
        pos: ofs_values - ofs_val
        type: apfs_btree::child_val
        if: not is_leaf and not is_ghost
  fs_value:
    -orig-id: j_inode_val_t and others
    doc: Value of a file-system record, by the type in its key.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, p. 71'
    params:
      - id: record_type
        type: u1
        enum: apfs_record::record_type
    seq:
      - id: value
        size-eos: true
        type:
          switch-on: record_type
          cases:
            'apfs_record::record_type::inode': apfs_inode::inode_val
            'apfs_record::record_type::dir_rec': apfs_directory::drec_val
            'apfs_record::record_type::xattr': apfs_xattr::xattr_val
            'apfs_record::record_type::file_extent': apfs_extents::file_extent_val
            'apfs_record::record_type::dstream_id': apfs_extents::dstream_id_val
            'apfs_record::record_type::sibling_link': apfs_directory::sibling_val
            'apfs_record::record_type::sibling_map': apfs_directory::sibling_map_val
            'apfs_record::record_type::crypto_state': apfs_extents::crypto_val
            'apfs_record::record_type::dir_stats': apfs_directory::dir_stats_val
            'apfs_record::record_type::snap_metadata': apfs_snapshot::snap_metadata_val
            'apfs_record::record_type::snap_name': apfs_snapshot::snap_name_val
            'apfs_record::record_type::file_info': apfs_extents::file_info_val
