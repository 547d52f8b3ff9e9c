meta:
  id: apfs_sealed
  title: 'Apple File System, sealed volumes'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
  endian: le
doc: 'Integrity metadata of sealed volumes, whose trees are verified from the root''s hash downwards.'
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, p. 150'
types:
  integrity_meta:
    -orig-id: integrity_meta_phys_t
    doc: Seal of a volume.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Sealed Volumes, integrity_meta_phys_t, p. 150'
    -webide-representation: 'hash type {hash_type}'
    seq:
      - id: hdr
        -orig-id: im_o
        type: apfs_object::obj_phys
      - id: version
        -orig-id: im_version
        type: u4
        enum: integrity_version
      - id: flags
        -orig-id: im_flags
        type: u4
      - id: hash_type
        -orig-id: im_hash_type
        type: u4
        enum: hash_type
      - id: ofs_root_hash
        -orig-id: im_root_hash_offset
        type: u4
        doc: 'Place of the hash of the root node, in bytes from the start of this object.'
      - id: broken_xid
        -orig-id: im_broken_xid
        type: u8
        doc: 'Transaction that broke the seal, or zero.'
      - id: reserved
        -orig-id: im_reserved
        type: u8
        repeat: expr
        repeat-expr: 9
        doc: Version 2 and later.
    instances:
      is_broken:
        -orig-id: APFS_SEAL_BROKEN
        value: '(flags & 1) != 0'
enums:
  integrity_version:
    0:
      id: invalid
      -orig-id: INTEGRITY_META_VERSION_INVALID
    1:
      id: first
      -orig-id: INTEGRITY_META_VERSION_1
    2:
      id: second
      -orig-id: INTEGRITY_META_VERSION_2
  hash_type:
    0:
      id: invalid
      -orig-id: APFS_HASH_INVALID
    1:
      id: sha256
      -orig-id: APFS_HASH_SHA256
    2:
      id: sha512_256
      -orig-id: APFS_HASH_SHA512_256
    3:
      id: sha384
      -orig-id: APFS_HASH_SHA384
    4:
      id: sha512
      -orig-id: APFS_HASH_SHA512
