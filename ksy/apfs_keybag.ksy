meta:
  id: apfs_keybag
  title: 'Apple File System, key bags'
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
  Key bags of a container and its volumes, after decryption, and the wrapped keys in them. The DER
  records of wrapped keys are not in Apple's reference; observed in volumes of macOS 10.13 to 26.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, p. 135'
types:
  keybag:
    -orig-id: media_keybag_t
    doc: Key bag.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, media_keybag_t, p. 147'
    -webide-representation: '{locker.num_keys} keys'
    seq:
      - id: hdr
        -orig-id: mk_obj
        type: apfs_object::obj_phys
      - id: locker
        -orig-id: mk_locker
        type: locker_head
  locker_head:
    -orig-id: kb_locker_t
    doc: Key bag without its entries.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, kb_locker_t, p. 144'
    seq:
      - id: version
        -orig-id: kl_version
        type: u2
      - id: num_keys
        -orig-id: kl_nkeys
        type: u2
      - id: num_bytes
        -orig-id: kl_nbytes
        type: u4
        doc: Size of the entries and this head.
      - id: padding
        -orig-id: padding
        size: 8
  entry_head:
    -orig-id: keybag_entry_t
    doc: Entry without its data; the next one starts at a multiple of 16 bytes.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, keybag_entry_t, p. 146'
    -webide-representation: 'tag {tag}, {len_key} bytes'
    seq:
      - id: uuid
        -orig-id: ke_uuid
        size: 16
        doc: Volume or user.
      - id: tag
        -orig-id: ke_tag
        type: u2
        enum: keybag_tag
      - id: len_key
        -orig-id: ke_keylen
        type: u2
        doc: In bytes.
      - id: padding
        -orig-id: padding
        size: 4
  entry:
    -orig-id: keybag_entry_t
    doc: Entry.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, keybag_entry_t, p. 146'
    -webide-representation: 'tag {head.tag}'
    seq:
      - id: head
        -orig-id: keybag_entry_t
        type: entry_head
      - id: keydata
        -orig-id: ke_keydata
        size: head.len_key
  der_value:
    doc: 'Value in DER, as key records use them; lengths of up to 65535 bytes.'
    doc-ref: 'ITU-T X.690, sections 8.1.2 to 8.1.5'
    -webide-representation: 'tag {tag}, {len_body} bytes'
    seq:
      - id: tag
        type: u1
        enum: key_field
        doc: Identifier octet.
      - id: len1
        type: u1
        valid:
          expr: '_ < 0x80 or _ == 0x81 or _ == 0x82'
        doc: 'Below 128 the length itself, otherwise how many octets of length follow.'
      - id: len2
        type: u1
        if: len1 == 0x81
      - id: len3
        type: u2be
        if: len1 == 0x82
      - id: body
        size: len_body
    instances:
      len_body:
        value: 'len1 < 0x80 ? len1 : (len1 == 0x81 ? len2 : len3)'
        doc: In bytes.
  wrapped_key_flags:
    doc: Kind of a wrapped key. Not documented by Apple; observed.
    doc-ref: 'https://github.com/libyal/libfsapfs/blob/main/documentation/Apple%20File%20System%20(APFS).asciidoc Apple File System format, key encryption key'
    -webide-representation: '{flags}'
    seq:
      - id: flags
        type: u4
      - id: unknown
        type: u4
    instances:
      is_aes128:
        value: '(flags & 2) != 0'
        doc: 'The key is 16 bytes long, as in keys that CoreStorage made.'
  prange_val:
    -orig-id: prange_t
    doc: 'Place of a volume''s key bag; data of the entry of unlock records.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, Accessing Encrypted Objects, p. 136'
    seq:
      - id: range
        -orig-id: prange_t
        type: apfs_object::prange
enums:
  keybag_tag:
    0:
      id: unknown
      -orig-id: KB_TAG_UNKNOWN
    1:
      id: reserved_1
      -orig-id: KB_TAG_RESERVED_1
    2:
      id: volume_key
      -orig-id: KB_TAG_VOLUME_KEY
    3:
      id: volume_unlock_records
      -orig-id: KB_TAG_VOLUME_UNLOCK_RECORDS
    4:
      id: volume_passphrase_hint
      -orig-id: KB_TAG_VOLUME_PASSPHRASE_HINT
    5:
      id: wrapping_m_key
      -orig-id: KB_TAG_WRAPPING_M_KEY
    6:
      id: volume_m_key
      -orig-id: KB_TAG_VOLUME_M_KEY
    0xf8:
      id: reserved_f8
      -orig-id: KB_TAG_RESERVED_F8
  key_field:
    0x30:
      id: sequence
      -orig-id: SEQUENCE
    0x80:
      id: version
      doc: Version of the record.
    0x81:
      id: hmac_or_uuid
      doc: 'HMAC outside, UUID inside.'
    0x82:
      id: salt_or_flags
      doc: 'Salt of the HMAC outside, flags inside.'
    0x83:
      id: wrapped_key
      doc: Wrapped key.
    0xa3:
      id: key_record
      doc: 'Constructed, the inner record.'
    0x84:
      id: iterations
      doc: Input of PBKDF2.
    0x85:
      id: salt
      doc: Input of PBKDF2.
  key_secret:
    0x011620171505:
      id: hmac_prefix
      doc: >-
        As six bytes, highest first; hashed before the salt, it gives the key of the outer HMAC.
        Not documented by Apple; observed.
