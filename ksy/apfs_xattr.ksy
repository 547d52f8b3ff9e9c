meta:
  id: apfs_xattr
  title: 'Apple File System, extended attributes'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_extents
    - apfs_record
  endian: le
doc: |
  Attributes by name, whose data is embedded in the record or is in a data stream.

  A value whose end varies begins with a type of its own, named ..._fixed, as apfs_record explains.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, p. 71'
types:
  xattr_key:
    -orig-id: j_xattr_key_t
    doc: 'Extended attribute''s key.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_key_t, p. 82'
    -webide-representation: '{name}'
    seq:
      - id: hdr
        -orig-id: hdr
        type: apfs_record::j_key
      - id: len_name
        -orig-id: name_len
        type: u2
        doc: With the zero byte at its end.
      - id: name
        -orig-id: name
        size: len_name
        doc: UTF-8.
  xattr_val_fixed:
    -orig-id: j_xattr_val_t
    doc: Extended attribute without its data.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_val_t, p. 82'
    seq:
      - id: flags
        -orig-id: flags
        type: u2
      - id: len_xdata
        -orig-id: xdata_len
        type: u2
    instances:
      is_stream:
        -orig-id: XATTR_DATA_STREAM
        value: '(flags & xattr_flag::data_stream.to_i) != 0'
      is_embedded:
        -orig-id: XATTR_DATA_EMBEDDED
        value: '(flags & xattr_flag::data_embedded.to_i) != 0'
  xattr_val:
    -orig-id: j_xattr_val_t
    doc: 'Extended attribute, embedded or with a data stream of its own.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), File-System Objects, j_xattr_val_t, p. 82'
    -webide-representation: '{fixed.len_xdata} bytes'
    seq:
      - id: fixed
        -orig-id: j_xattr_val_t
        type: xattr_val_fixed
      - id: xdata
        -orig-id: xdata
        size: fixed.len_xdata
  xattr_dstream:
    -orig-id: j_xattr_dstream_t
    doc: Data of an extended attribute that has a stream.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Data Streams, j_xattr_dstream_t, p. 106'
    -webide-representation: 'stream {xattr_obj_id}'
    seq:
      - id: xattr_obj_id
        -orig-id: xattr_obj_id
        type: u8
        doc: Identifier of the data stream.
      - id: dstream
        -orig-id: dstream
        type: apfs_extents::dstream
enums:
  xattr_flag:
    1:
      id: data_stream
      -orig-id: XATTR_DATA_STREAM
    2:
      id: data_embedded
      -orig-id: XATTR_DATA_EMBEDDED
    4:
      id: file_system_owned
      -orig-id: XATTR_FILE_SYSTEM_OWNED
    8:
      id: reserved_8
      -orig-id: XATTR_RESERVED_8
