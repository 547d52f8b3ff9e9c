meta:
  id: hfsplus_attributes
  title: Records of the HFS+ attributes file
  xref:
    justsolve: HFS+
    pronom: fmt/1742
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - hfsplus_volume
  endian: be
doc: |
  Extended attributes of files and folders, sorted by file, name and first allocation block. A small attribute is in its
  record; a large one has a fork of its own, whose extents beyond the eighth follow in records of their own.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
types:
  attribute_key:
    -orig-id: HFSPlusAttrKey
    doc: |
      Key of a leaf or index record. TN1150 leaves the key open; the layout is that of the
      system's header files (hfs_format.h).
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
    -webide-representation: 'file {file_id:dec}, block {start_block:dec}'
    seq:
      - id: len_key
        -orig-id: keyLength
        type: u2
        doc: Bytes of the key, without this field; 12 and twice the name's length.
      - id: pad
        -orig-id: pad
        type: u2
      - id: file_id
        -orig-id: fileID
        type: u4
        doc: Catalog node ID of the file or folder that has the attribute.
      - id: start_block
        -orig-id: startBlock
        type: u4
        doc: First allocation block of the attribute's fork in an extents record; else 0.
      - id: num_name_units
        -orig-id: attrNameLen
        type: u2
        doc: Length of the name in 16-bit units, up to 127.
      - id: name
        -orig-id: attrName
        size: num_name_units * 2
        doc: UTF-16, big-endian.
  attribute_record_type:
    doc: What every leaf record's data starts with.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
    seq:
      - id: record_type
        -orig-id: recordType
        type: u4
        enum: record_type
  attribute_inline_data:
    -orig-id: HFSPlusAttrData
    doc: An attribute whose value is in the record. From hfs_format.h; TN1150 reserves it.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
    seq:
      - id: record_type
        -orig-id: recordType
        type: u4
        enum: record_type
      - id: reserved
        -orig-id: reserved
        type: u4
        repeat: expr
        repeat-expr: 2
      - id: len_attribute
        -orig-id: attrSize
        type: u4
        doc: Bytes of the value.
      - id: attribute_data
        -orig-id: attrData
        size: len_attribute
  attribute_fork_data:
    -orig-id: HFSPlusAttrForkData
    doc: An attribute that has a fork of its own; 88 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File, Fork Data Attributes'
    seq:
      - id: record_type
        -orig-id: recordType
        type: u4
        enum: record_type
      - id: reserved
        -orig-id: reserved
        type: u4
      - id: the_fork
        -orig-id: theFork
        type: hfsplus_volume::fork_data
  attribute_extents:
    -orig-id: HFSPlusAttrExtents
    doc: Further extents of an attribute's fork; 72 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File, Extension Attributes'
    seq:
      - id: record_type
        -orig-id: recordType
        type: u4
        enum: record_type
      - id: reserved
        -orig-id: reserved
        type: u4
      - id: extents
        -orig-id: extents
        type: hfsplus_volume::extent_descriptor
        repeat: expr
        repeat-expr: 8
  attribute_data:
    -orig-id: HFSPlusAttrRecord
    doc: The data of a leaf record, by its type.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
    seq:
      - id: body
        -orig-id: HFSPlusAttrRecord
        type:
          switch-on: record_type
          cases:
            'record_type::inline_data': attribute_inline_data
            'record_type::fork_data': attribute_fork_data
            'record_type::extents': attribute_extents
    instances:
      record_type:
        -orig-id: recordType
        pos: 0
        type: u4
        enum: record_type
  attribute_leaf_record:
    doc: A whole record of a leaf.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#AttributesFile TN1150, Attributes File'
    seq:
      - id: key
        -orig-id: HFSPlusAttrKey
        type: attribute_key
      - id: data
        -orig-id: HFSPlusAttrRecord
        size-eos: true
        type: attribute_data
  attribute_index_record:
    doc: A whole record of an index node.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Index Nodes'
    seq:
      - id: key
        -orig-id: HFSPlusAttrKey
        type: attribute_key
      - id: child_node
        type: u4
  decmpfs_header:
    meta:
      endian: le
    -orig-id: decmpfs_disk_header
    doc: |
      The beginning of the attribute "com.apple.decmpfs" of a compressed file; 16 bytes, little-endian. The file's
      own data fork is empty; the compressed bytes follow here or are in the resource fork.
    doc-ref: 'https://github.com/apple-oss-distributions/xnu/blob/main/bsd/sys/decmpfs.h XNU, decmpfs.h'
    -webide-representation: '{compression_type}, {len_uncompressed:dec} bytes'
    seq:
      - id: compression_magic
        -orig-id: compression_magic
        type: u4
        enum: decmpfs_magic
        doc: '"fpmc" as bytes.'
      - id: compression_type
        -orig-id: compression_type
        type: u4
        enum: compression_type
      - id: len_uncompressed
        -orig-id: uncompressed_size
        type: u8
        doc: Bytes of the file as a reader sees it.
enums:
  record_type:
    0x10:
      id: inline_data
      -orig-id: kHFSPlusAttrInlineData
    0x20:
      id: fork_data
      -orig-id: kHFSPlusAttrForkData
    0x30:
      id: extents
      -orig-id: kHFSPlusAttrExtents
  decmpfs_magic:
    0x636d7066:
      id: cmpf
      -orig-id: DECMPFS_MAGIC
  compression_type:
    1:
      id: uncompressed_attribute
      -orig-id: CMP_Type1
    3:
      id: zlib_attribute
      doc: Not documented by Apple; observed, as the following ones.
    4:
      id: zlib_resource
    5:
      id: sparse
    7:
      id: lzvn_attribute
    8:
      id: lzvn_resource
    9:
      id: plain_attribute
    10:
      id: plain_resource
    11:
      id: lzfse_attribute
    12:
      id: lzfse_resource
    13:
      id: lzbitmap_attribute
    14:
      id: lzbitmap_resource
