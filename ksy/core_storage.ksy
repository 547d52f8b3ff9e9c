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
  Under FileVault 2 and Fusion drives. Not documented by Apple. What describes the logical volumes is encrypted with a
  key that stands in the header of the physical volume itself: it hides nothing, and names, sizes and places of the
  logical volumes need no password. Under FileVault 2 the blocks of a logical volume are encrypted with a key of its
  own, which keys made of passwords wrap: in the metadata (logical_volume_family), or, of a volume that a Mac starts
  from, in the file EncryptedRoot.plist.wipekey on the partition Recovery HD.
doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE)'
types:
  physical_volume_header:
    doc: First 512 bytes of a physical volume; a copy stands in its last 512 bytes.
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
        doc: Of the encrypted metadata, not of the logical volumes.
      - id: key
        size: 16
        doc: First key of the encrypted metadata; the second one is the physical volume's UUID.
      - id: reserved5
        size: 112
      - id: physical_volume_id
        size: 16
        doc: As the bytes of a UUID stand in its text.
      - id: logical_volume_group_id
        size: 16
        doc: As the bytes of a UUID stand in its text.
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
        doc: What other blocks name this one by; a younger transaction writes it anew elsewhere.
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
        doc: Of all the copy, this block included.
      - id: reserved1
        size: 152
      - id: ofs_descriptor
        type: u4
        doc: Of the volume groups descriptor, in bytes from the start of this copy.
      - id: ofs_property_list
        type: u4
        doc: Of the XML that names the group, in bytes from the start of this copy.
      - id: len_property_list
        type: u4
      - id: reserved2
        size: 6
      - id: physical_volume_number
        type: u2
        doc: Of the physical volume in its group; 0 is the first one.
  volume_groups_descriptor:
    doc: Where the encrypted metadata lie; both copies are as long.
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
      go on in blocks of type 0x24. Wiped where the keys lie in a file on Recovery HD.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0019'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: reserved
        size: 32
      - id: next_object_id
        type: u8
        doc: Of the block of type 0x24 that goes on with the text; 0 where none does.
      - id: len_stored
        type: u4
        doc: Of the text as it is stored, in all blocks, in bytes.
      - id: len_text
        type: u4
        doc: Of the text, in bytes; another number than the one before where it is compressed.
      - id: ofs_text
        type: u4
        doc: In bytes from the start of the block.
      - id: len_piece
        type: u4
        doc: Of what this block holds of it, in bytes.
  logical_volume:
    doc: Block of type 0x1a, a logical volume; name, size and family stand in XML.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x001a'
    seq:
      - id: head
        -orig-id: mh
        type: metadata_block_head
      - id: family_object_id
        type: u8
        doc: Of the logical_volume_family.
      - id: extents_object_id
        type: u8
        doc: Of the block of type 0x305.
      - id: reserved
        size: 32
      - id: base_object_id
        type: u8
        doc: Of the block of type 0x505; 0 where there is none.
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
        doc: Of the next such block; 0 in the last one.
      - id: len_piece
        type: u4
        doc: Of what this block holds of the text, in bytes.
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
    doc: Entry of a block of type 0x305, where a stretch of a logical volume lies.
    doc-ref: 'https://github.com/libyal/libfvde/blob/main/documentation/FileVault%20Drive%20Encryption%20(FVDE).asciidoc FileVault Drive Encryption (FVDE), Metadata block data type 0x0305'
    seq:
      - id: reserved1
        size: 8
      - id: logical_block
        type: u8
        doc: Of the logical volume.
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
        doc: Of PBKDF2. The description has it four bytes later; all samples, its own among them, have it here.
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
      doc: In place of the one after, where a logical volume lies in many pieces. What it holds is not known.
    0x305:
      id: logical_extents
      doc: Where a logical volume lies.
    0x505:
      id: base_extents
      doc: From where its blocks count.
