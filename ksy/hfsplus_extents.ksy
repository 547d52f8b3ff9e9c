meta:
  id: hfsplus_extents
  title: Records of the HFS+ extents-overflow file
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
  Extents beyond the eighth of a fork, sorted by file, fork and first allocation block in the fork.
  The bad block file (CNID 5) has all its extents here.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ExtentsOverflowFile TN1150, Extents Overflow File'
types:
  extent_key:
    -orig-id: HFSPlusExtentKey
    doc: Key of a leaf or index record; 12 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ExtentsOverflowFile TN1150, Extents Overflow File Key'
    -webide-representation: 'file {file_id:dec} fork {fork_type} block {start_block:dec}'
    seq:
      - id: len_key
        -orig-id: keyLength
        type: u2
        doc: 10.
      - id: fork_type
        -orig-id: forkType
        type: u1
        enum: fork_type
      - id: pad
        -orig-id: pad
        type: u1
      - id: file_id
        -orig-id: fileID
        type: u4
        doc: Catalog node ID of the file.
      - id: start_block
        -orig-id: startBlock
        type: u4
        doc: Place in the fork of the record's first extent, in allocation blocks.
  extent_leaf_record:
    doc: A whole record of a leaf; 76 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ExtentsOverflowFile TN1150, Extents Overflow File Data'
    seq:
      - id: key
        -orig-id: HFSPlusExtentKey
        type: extent_key
      - id: data
        -orig-id: HFSPlusExtentRecord
        type: hfsplus_volume::extent_record
  extent_index_record:
    doc: A whole record of an index node; 16 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Index Nodes'
    seq:
      - id: key
        -orig-id: HFSPlusExtentKey
        type: extent_key
      - id: child_node
        type: u4
enums:
  fork_type:
    0:
      id: data
    0xff:
      id: resource
