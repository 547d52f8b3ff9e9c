meta:
  id: udif
  title: Apple disk image (UDIF, .dmg)
  file-extension: dmg
  xref:
    justsolve: Apple_Disk_Image
    pronom: fmt/1071
    wikidata: Q1228757
  tags:
    - archive
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  A disk in pieces, each stored as it is, compressed, or left out. The trailer at the end of the file names a property
  list, whose `blkx` entries are block maps. Apple has not published the format.
doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, Universal Disk Image Format'
types:
  trailer:
    -orig-id: UDIFResourceFile
    doc: The last 512 bytes of the file.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, UDIF resource file'
    -webide-representation: '{num_sectors} sectors'
    seq:
      - id: signature
        -orig-id: udifSignature
        contents: koly
      - id: version
        -orig-id: udifVersion
        type: u4
        doc: '4 in all files seen.'
      - id: len_header
        -orig-id: udifHeaderSize
        type: u4
        doc: Size of this trailer in bytes, 512.
      - id: flags
        -orig-id: udifFlags
        type: u4
      - id: ofs_running_data_fork
        -orig-id: udifRunningDataForkOffset
        type: u8
        doc: Where this segment starts in the data of all segments, in bytes.
      - id: ofs_data_fork
        -orig-id: udifDataForkOffset
        type: u8
        doc: Where the pieces start in this file, in bytes; offsets in block maps count from here.
      - id: len_data_fork
        -orig-id: udifDataForkLength
        type: u8
        doc: In bytes.
      - id: ofs_resource_fork
        -orig-id: udifRsrcForkOffset
        type: u8
        doc: Place of a resource fork with the block maps, in old images without a property list; in bytes.
      - id: len_resource_fork
        -orig-id: udifRsrcForkLength
        type: u8
        doc: In bytes, 0 where there is none.
      - id: segment_number
        -orig-id: udifSegmentNumber
        type: u4
        doc: From 1; 0 or 1 in an image of one file.
      - id: num_segments
        -orig-id: udifSegmentCount
        type: u4
      - id: segment_id
        -orig-id: udifSegmentID
        size: 16
      - id: data_checksum
        -orig-id: udifDataForkChecksum
        type: checksum
      - id: ofs_plist
        -orig-id: udifXMLOffset
        type: u8
        doc: Where the property list starts, in bytes.
      - id: len_plist
        -orig-id: udifXMLLength
        type: u8
        doc: In bytes, 0 where there is none.
      - id: reserved
        size: 120
      - id: master_checksum
        -orig-id: udifMasterChecksum
        type: checksum
      - id: image_variant
        -orig-id: udifImageVariant
        type: u4
        doc: '1 a device, 2 a partition.'
      - id: num_sectors
        -orig-id: udifSectorCount
        type: u8
        valid:
          max: 0x3fffffffffffff
        doc: Size of the disk in sectors of 512 bytes.
      - id: reserved_end
        size: 12
    instances:
      len_disk:
        value: num_sectors * 512
        doc: Size of the disk.
  checksum:
    -orig-id: UDIFChecksum
    doc: Kind, length in bits and value; the value fills 128 bytes.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, UDIF checksum'
    seq:
      - id: kind
        type: u4
        doc: '0 none, 2 CRC-32.'
      - id: num_bits
        type: u4
      - id: value
        size: 128
  resource_header:
    -orig-id: resource header
    doc: Start of a resource fork, which has the block maps in images without a property list.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: ofs_data
        type: u4
        doc: In bytes from the start of the fork.
      - id: ofs_map
        type: u4
        doc: In bytes from the start of the fork.
      - id: len_data
        type: u4
      - id: len_map
        type: u4
  resource_map:
    -orig-id: resource map
    doc: Which resources there are.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: reserved
        size: 24
      - id: ofs_types
        type: u2
        doc: Place of the list of types (resource_type_list), in bytes from the start of the map.
      - id: ofs_names
        type: u2
  resource_type_list:
    -orig-id: resource type list
    doc: How many types there are; their items follow.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: last_type
        type: u2
        doc: How many there are, less one; 65,535 where there are none.
  resource_type:
    -orig-id: item of the resource type list
    doc: Resources of one type.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: kind
        size: 4
      - id: last_resource
        type: u2
        doc: How many there are, less one.
      - id: ofs_references
        type: u2
        doc: In bytes from the start of the list of types.
  resource_reference:
    -orig-id: item of the reference list
    doc: Place of a resource.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: resource_id
        type: s2
      - id: ofs_name
        type: u2
      - id: place
        type: u4
      - id: reserved
        size: 4
    instances:
      ofs_resource:
        value: place & 0xffffff
        doc: Place of its data (resource_data), in bytes from the start of the data.
  resource_data:
    -orig-id: resource data
    doc: Length of a resource, whose bytes follow.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/pdf/MoreMacintoshToolbox.pdf Inside Macintosh: More Macintosh Toolbox, Resource Manager, Resource file format'
    seq:
      - id: len_resource
        type: u4
  block_map:
    -orig-id: BLKXTable
    doc: Header of one `blkx` entry, which covers one partition or one stretch between partitions.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, block table'
    -webide-representation: 'from sector {start_sector}, {num_entries} pieces'
    seq:
      - id: signature
        -orig-id: mish
        contents: mish
      - id: version
        type: u4
      - id: start_sector
        -orig-id: SectorNumber
        type: u8
        doc: First sector of the disk that the entry covers.
      - id: num_sectors
        -orig-id: SectorCount
        type: u8
      - id: ofs_data
        -orig-id: DataOffset
        type: u8
        doc: Added to the offsets of the pieces; 0 in all files seen.
      - id: num_buffers
        -orig-id: BuffersNeeded
        type: u4
        doc: Sectors that a reader should have room for.
      - id: num_descriptors
        -orig-id: BlockDescriptors
        type: u4
      - id: reserved
        size: 24
      - id: checksum
        type: checksum
      - id: num_entries
        -orig-id: NumberOfBlockChunks
        type: u4
  piece:
    -orig-id: BLKXChunkEntry
    doc: One stretch of sectors; these follow the header of the block map.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, block table entry'
    -webide-representation: '{storage} sector {start_sector}, {num_sectors}'
    seq:
      - id: storage
        -orig-id: EntryType
        type: u4
        enum: storage
      - id: comment
        -orig-id: Comment
        type: u4
      - id: start_sector
        -orig-id: SectorNumber
        type: u8
        doc: Counts from the first sector of the block map.
      - id: num_sectors
        -orig-id: SectorCount
        type: u8
      - id: ofs_stored
        -orig-id: CompressedOffset
        type: u8
        doc: From the start of the data fork, in bytes.
      - id: len_stored
        -orig-id: CompressedLength
        type: u8
        doc: In bytes.
enums:
  storage:
    0x00000000:
      id: zeros
      doc: Zeros.
    0x00000001:
      id: plain
      doc: Stored as it is.
    0x00000002:
      id: ignored
      doc: Not in use when the image was made; reads as zeros.
    0x7ffffffe:
      id: comment
      doc: No sectors.
    0x80000004:
      id: adc
      doc: Apple Data Compression.
    0x80000005:
      id: zlib
    0x80000006:
      id: bzip2
    0x80000007:
      id: lzfse
    0x80000008:
      id: lzma
      doc: In an xz stream.
    0xffffffff:
      id: terminator
      doc: Last entry.
