meta:
  id: file_wrappers
  title: What files of a Mac are wrapped into on other systems
  file-extension:
    - bin
    - img
    - as
  tags:
    - archive
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  Just enough of each to find the data of the file within, where a disk image may be.
doc-ref: 'https://www.rfc-editor.org/rfc/rfc1740 RFC 1740, MIME Encapsulation of Macintosh Files'
types:
  mac_binary:
    doc: The header of MacBinary, of 128 bytes. The data of the file follow, filled to multiples of 128 bytes.
    doc-ref: 'https://github.com/mietek/theunarchiver/wiki/MacBinarySpecs MacBinary II and III'
    seq:
      - id: old_version
        type: u1
        valid: 0
      - id: len_name
        type: u1
        valid:
          min: 1
          max: 63
      - id: name
        size: 63
      - id: file_type
        size: 4
      - id: creator
        size: 4
      - id: finder_flags
        type: u1
      - id: zero
        type: u1
        valid: 0
      - id: placement
        size: 6
      - id: is_protected
        type: u1
      - id: zero2
        type: u1
        valid: 0
      - id: len_data
        type: u4
        doc: Length of the data fork, in bytes.
      - id: len_resources
        type: u4
        doc: Length of the resource fork, in bytes.
      - id: create_date
        type: u4
      - id: modify_date
        type: u4
      - id: more
        size: 25
      - id: checksum
        type: u2
        doc: CRC-16 with the polynomial 0x1021 of the 124 bytes before it; absent in the first version.
      - id: end
        size: 2
  apple_single:
    doc: The header of AppleSingle; descriptions of its entries follow.
    doc-ref: 'https://www.rfc-editor.org/rfc/rfc1740 RFC 1740, Appendix A, The AppleSingle/AppleDouble format'
    seq:
      - id: magic
        contents: [0x00, 0x05, 0x16, 0x00]
      - id: version
        type: u4
      - id: filler
        size: 16
      - id: num_entries
        type: u2
  apple_single_entry:
    doc: Where a part of the file is.
    doc-ref: 'https://www.rfc-editor.org/rfc/rfc1740 RFC 1740, Appendix A, The AppleSingle/AppleDouble format'
    seq:
      - id: kind
        -orig-id: Entry ID
        type: u4
        enum: entry_kind
      - id: ofs_part
        -orig-id: Offset
        type: u4
      - id: len_part
        -orig-id: Length
        type: u4
  disk_copy:
    doc: The header of an image by Disk Copy 4.2; the disk follows.
    doc-ref: 'https://wiki.68kmla.org/DiskCopy_4.2_format_specification DiskCopy 4.2 format specification'
    seq:
      - id: len_name
        type: u1
        valid:
          min: 1
          max: 63
      - id: name
        size: 63
      - id: len_data
        type: u4
        doc: Length of the disk, in bytes.
      - id: len_tags
        type: u4
        doc: Length of the tags of its sectors, in bytes.
      - id: data_checksum
        type: u4
      - id: tag_checksum
        type: u4
      - id: encoding
        type: u1
      - id: format
        type: u1
      - id: magic
        contents: [0x01, 0x00]
  compact_disc_sector:
    doc: The first bytes of a sector of a CD as it is on the disc, of 2,352 bytes.
    doc-ref: 'https://www.ecma-international.org/publications-and-standards/standards/ecma-130/ ECMA-130, Sector structure'
    seq:
      - id: magic
        contents: [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]
      - id: address
        size: 3
      - id: mode
        type: u1
        doc: 1, or 2 with the further header.
      - id: file_number
        type: u1
      - id: channel
        type: u1
      - id: submode
        type: u1
      - id: coding
        type: u1
    instances:
      is_second_form:
        value: submode & 0x20
        doc: Not 0 in a sector of mode 2 that has 2,324 bytes of data and no correction.
enums:
  entry_kind:
    1:
      id: data_fork
    2:
      id: resource_fork
