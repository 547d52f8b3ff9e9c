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
  key that stands in the header of the physical volume itself: it hides nothing, and their names need no password.
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
        doc: The letters LVFw in a block that was wiped.
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
      - id: logical_address
        type: u8
      - id: block_number
        type: u8
        doc: From the start of the metadata.
      - id: owner
        type: u8
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
enums:
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
      doc: Seen on encrypted volumes only.
