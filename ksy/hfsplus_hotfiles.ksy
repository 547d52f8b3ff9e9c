meta:
  id: hfsplus_hotfiles
  title: The HFS+ hot-file B-tree
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
  The file ".hotfiles.btree" in the root folder: which files are read often for their size and therefore
  were moved to the metadata zone. Keys sort by temperature; a thread record for each file leads to its temperature.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#HotFile TN1150, Hot Files'
types:
  hot_files_info:
    -orig-id: HotFilesInfo
    doc: The user data record of the header node.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#HotFile TN1150, Hot File B-Tree User Data Record'
    seq:
      - id: magic
        -orig-id: magic
        type: u4
        enum: hot_files_magic
        doc: 0xFF28FF26, see enum hot_files_magic.
      - id: version
        -orig-id: version
        type: u4
        doc: 1.
      - id: duration
        -orig-id: duration
        type: u4
        doc: Length of the recording period in seconds.
      - id: timebase
        -orig-id: timebase
        type: u4
        doc: Beginning of the recording period; seconds since 1970-01-01 UTC.
      - id: timeleft
        -orig-id: timeleft
        type: u4
        doc: Seconds left of the recording period.
      - id: threshold
        -orig-id: threshold
        type: u4
        doc: Lowest temperature of a file that is moved.
      - id: maxfileblks
        -orig-id: maxfileblks
        type: u4
        doc: Largest file that is moved, in allocation blocks.
      - id: maxfilecnt
        -orig-id: maxfilecnt
        type: u4
        doc: Most files in this tree.
      - id: tag
        -orig-id: tag
        size: 32
        doc: Text that names the tree.
  hot_file_key:
    -orig-id: HotFileKey
    doc: Key of a leaf or index record; 12 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#HotFile TN1150, Hot File B-Tree Key'
    -webide-representation: 'file {file_id:dec}, temperature {temperature:dec}'
    seq:
      - id: len_key
        -orig-id: keyLength
        type: u2
        doc: 10.
      - id: fork_type
        -orig-id: forkType
        type: u1
        doc: 0 for the data fork.
      - id: pad
        -orig-id: pad
        type: u1
      - id: temperature
        -orig-id: temperature
        type: u4
        doc: Bytes read in the recording period divided by the file's size; 0xFFFFFFFF in a thread record.
      - id: file_id
        -orig-id: fileID
        type: u4
        doc: Catalog node ID.
    instances:
      is_thread:
        -orig-id: HFC_LOOKUPTAG
        value: temperature == 0xffffffff
  hot_file_leaf_record:
    doc: A whole record of a leaf; 16 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#HotFile TN1150, Hot File B-Tree'
    seq:
      - id: key
        -orig-id: HotFileKey
        type: hot_file_key
      - id: data
        type: u4
        doc: In a thread record the file's temperature; else the first characters of its name, for debugging.
enums:
  hot_files_magic:
    0xff28ff26:
      id: hot_files
      -orig-id: HFC_MAGIC
