meta:
  id: core_storage
  title: CoreStorage, Apple's volume manager of 10.7 to 10.12
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  Under FileVault 2 and Fusion drives. Not documented by Apple. The description of the logical volumes is encrypted with
  a key in the header of the physical volume itself. So it hides nothing, and names, sizes and places of the logical
  volumes need no password. Under FileVault 2 the blocks of a logical volume are encrypted with a key of its own, which
  keys made of passwords wrap: in the metadata (logical_volume_family), or, of a volume that a Mac starts from, in the
  file EncryptedRoot.plist.wipekey on the partition Recovery HD.
doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE)'
types:
  physical_volume_header:
    doc: First 512 bytes of a physical volume; a copy is in its last 512 bytes.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Volume header'
    seq:
      - id: checksum
        type: u4
        doc: CRC-32C of bytes 8 to 511.
      - id: checksum_seed
        type: u4
      - id: version
        type: u2
        valid: 1
      - id: block_type
        type: u2
        valid: 0x10
      - id: serial_number
        type: u4
      - id: reserved1
        size: 32
      - id: len_sector
        type: u4
      - id: reserved2
        size: 12
      - id: len_physical_volume
        type: u8
      - id: reserved3
        size: 16
      - id: signature
        contents: CS
      - id: checksum_algorithm
        type: u4
        doc: 1 is CRC-32C.
      - id: num_metadata_blocks
        type: u2
      - id: len_block
        type: u4
        doc: In bytes.
      - id: len_metadata
        type: u4
        doc: Size of each copy of the disk label.
      - id: metadata_block
        type: u8
        repeat: expr
        repeat-expr: 4
        doc: Blocks at which the copies of the disk label start.
      - id: reserved4
        size: 32
      - id: len_key
        type: u4
        doc: 16.
      - id: encryption_method
        type: u4
        enum: encryption_method
        doc: Encryption of the metadata, not of the logical volumes.
      - id: key
        size: 16
        doc: First key of the encrypted metadata; the second one is the physical volume's UUID.
      - id: reserved5
        size: 112
      - id: physical_volume_id
        size: 16
        doc: In the order of the text form of a UUID.
      - id: logical_volume_group_id
        size: 16
        doc: In the order of the text form of a UUID.
  metadata_block_head:
    -orig-id: mh
    doc: Start of every block of metadata, in plain and in encrypted ones.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block header'
    seq:
      - id: checksum
        type: u4
        doc: CRC-32C of what follows the seed; see enum checksum_mark.
      - id: checksum_seed
        type: u4
      - id: version
        type: u2
        doc: 1.
      - id: block_type
        type: u2
        enum: block_type
        doc: See enum block_type.
      - id: serial_number
        type: u4
      - id: transaction_id
        -orig-id: mh_txg_id
        type: u8
      - id: object_id
        type: u8
        doc: Number by which other blocks refer to this one; a later transaction rewrites the block elsewhere.
      - id: block_number
        type: u8
        doc: From the start of the metadata.
      - id: owner_id
        type: u8
        doc: Most often the object identifier once more.
      - id: len_block
        type: u4
        doc: In bytes; 8192.
      - id: flags
        type: u4
      - id: reserved
        size: 8
  disk_label:
    -orig-id: dl
    doc: First block of each copy of the plain metadata, of block type 0x11.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0011'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: len_label
        type: u4
        doc: Length of the whole copy, this block included.
      - id: reserved1
        size: 152
      - id: ofs_descriptor
        type: u4
        doc: Place of the volume groups descriptor, in bytes from the start of this copy.
      - id: ofs_property_list
        type: u4
        doc: Place of the XML that names the group, in bytes from the start of this copy.
      - id: len_property_list
        type: u4
      - id: reserved2
        size: 6
      - id: physical_volume_number
        type: u2
        doc: Number of the physical volume in its group; 0 is the first one.
  volume_groups_descriptor:
    doc: Place of the encrypted metadata; both copies have the same length.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Volume groups descriptor'
    seq:
      - id: reserved1
        size: 8
      - id: num_blocks
        type: u8
      - id: reserved2
        size: 8
      - id: num_copies
        type: u8
        doc: 2.
      - id: primary
        type: u8
        doc: The upper 16 bits number the physical volume.
      - id: secondary
        type: u8
        doc: The upper 16 bits number the physical volume.
    instances:
      primary_block:
        value: primary & 0xffff_ffff_ffff
      secondary_block:
        value: secondary & 0xffff_ffff_ffff
  logical_volume_family:
    doc: |
      Block of type 0x19: how the logical volumes of a family are encrypted, in XML, which may be compressed (zlib) and
      go on in blocks of type 0x24. Wiped if the keys are in a file on Recovery HD.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0019'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: reserved
        size: 32
      - id: next_object_id
        type: u8
        doc: Number of the block of type 0x24 that continues the text; 0 if there is none.
      - id: len_stored
        type: u4
        doc: Length of the text as stored, in all blocks, in bytes.
      - id: len_text
        type: u4
        doc: Length of the text, in bytes; differs from len_stored if the text is compressed.
      - id: ofs_text
        type: u4
        doc: In bytes from the start of the block.
      - id: len_piece
        type: u4
        doc: Length of the part in this block, in bytes.
  logical_volume:
    doc: Block of type 0x1a, a logical volume; name, size and family are in XML.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x001a'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: family_object_id
        type: u8
        doc: Number of the logical_volume_family.
      - id: extents_object_id
        type: u8
        doc: Number of the block of type 0x305.
      - id: reserved
        size: 32
      - id: base_object_id
        type: u8
        doc: Number of the block of type 0x505; 0 if there is none.
      - id: len_stored
        type: u4
      - id: len_text
        type: u4
      - id: ofs_text
        type: u4
        doc: In bytes from the start of the block.
      - id: len_piece
        type: u4
        doc: In bytes.
  continuation:
    doc: Block of type 0x24, which goes on with a text that is longer than a block.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0024'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: next_object_id
        type: u8
        doc: Number of the next such block; 0 in the last one.
      - id: len_piece
        type: u4
        doc: Length of the part of the text in this block, in bytes.
      - id: reserved
        size: 4
  extents_head:
    doc: Start of blocks of type 0x305 and 0x505; the entries follow at once.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0305'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: num_entries
        type: u4
      - id: reserved
        size: 4
  logical_extent:
    doc: Entry of a block of type 0x305, place of a stretch of a logical volume.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0305'
    seq:
      - id: reserved1
        size: 8
      - id: logical_block
        type: u8
        doc: Block of the logical volume.
      - id: num_blocks
        type: u4
      - id: flags
        type: u4
        doc: Not documented; 0 and 0x400000 were seen.
      - id: reserved2
        size: 8
      - id: place
        type: u8
        doc: The upper 16 bits number the physical volume.
    instances:
      physical_block:
        value: place & 0xffff_ffff_ffff
        doc: From the base extent of the logical volume where it has one, otherwise from the start of the physical volume.
      physical_volume_number:
        value: place >> 48
  base_extent:
    doc: Entry of a block of type 0x505, from where the blocks of a logical volume count. Seen on system volumes only.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0505'
    seq:
      - id: num_blocks
        type: u8
      - id: place
        type: u8
        doc: The upper 16 bits number the physical volume.
    instances:
      physical_block:
        value: place & 0xffff_ffff_ffff
        doc: From the start of the physical volume.
      physical_volume_number:
        value: place >> 48
  passphrase_wrapped_key:
    -orig-id: PassphraseWrappedKEKStruct
    doc: |
      In the XML text, in base64: a key that a password wraps. PBKDF2 with HMAC-SHA-256 makes 16 bytes of the password,
      which unwrap it (RFC 3394).
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), PassphraseWrappedKEKStruct'
    seq:
      - id: salt_type
        type: u4
        valid: 3
      - id: len_salt
        type: u4
        valid: 16
      - id: salt
        size: 16
      - id: key_type
        type: u4
        valid: 16
      - id: len_key
        type: u4
        valid: 24
      - id: key
        size: 24
        doc: Wrapped.
      - id: reserved1
        size: 112
      - id: num_rounds
        type: u4
        doc: Rounds of PBKDF2. The description has it four bytes later; all samples, its own among them, have it here.
  wrapped_volume_key:
    -orig-id: KEKWrappedVolumeKeyStruct
    doc: |
      In the XML text, in base64: the key of the logical volumes of a family, wrapped by a key that a password wraps. It
      is the first key of AES-XTS; the first 16 bytes of the SHA-256 of it and the family's UUID are the second one. A
      sector of 512 bytes of the logical volume is a unit; they are numbered from 0.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Key encrypted key wrapped volume key'
    seq:
      - id: key_type
        type: u4
        valid: 2
      - id: len_key
        type: u4
        valid: 24
      - id: key
        size: 24
        doc: Wrapped.
enums:
  checksum_mark:
    0x7746564c:
      id: wiped
      doc: The letters LVFw, in place of the checksum of a block that was wiped.
  encryption_method:
    2:
      id: aes_xts
      doc: AES-XTS with keys of 128 bits, each 8192 bytes a unit that is numbered from 0.
  block_type:
    0x11:
      id: disk_label
    0x19:
      id: logical_volume_family
      doc: Holds an XML text with the way in which the logical volume is encrypted; on system volumes it is wiped.
    0x1a:
      id: logical_volume
      doc: Holds an XML text with name and size of a logical volume.
    0x24:
      id: continuation
      doc: Goes on with a text that is longer than a block.
    0x205:
      id: encrypted_extents
      doc: Seen on encrypted volumes, and on one that was not.
    0x304:
      id: logical_extents_index
      doc: Replaces the next kind of block if a logical volume is in many pieces. What it holds is not known.
    0x305:
      id: logical_extents
      doc: Place of a logical volume.
    0x505:
      id: base_extents
      doc: From where its blocks count.
