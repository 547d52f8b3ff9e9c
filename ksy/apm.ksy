meta:
  id: apm
  title: Apple Partition Map
  xref:
    forensicswiki: APM
    justsolve: Apple_Partition_Map
    wikidata: Q375944
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  Partition map of 68k and PowerPC Macs, of hybrid CDs and of older disk images. Block 0 holds the driver descriptor
  map; the partition map starts in block 1, one block an entry, and describes itself as its first partition. On CDs a
  block may be 2048 bytes.
doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/Devices/Devices-126.html Inside Macintosh: Devices, SCSI Manager, The Structure of Block Devices'
types:
  driver_descriptor_map:
    -orig-id: Block0
    -webide-representation: 'driver descriptor map, {num_blocks} blocks of {len_block}'
    doc: First block of the device.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/Devices/Devices-126.html Inside Macintosh: Devices, SCSI Manager, Driver Descriptor Record'
    seq:
      - id: signature
        -orig-id: sbSig
        contents: ER
      - id: len_block
        -orig-id: sbBlkSize
        type: u2
        doc: Bytes of a block, 512 or 2048.
      - id: num_blocks
        -orig-id: sbBlkCount
        type: u4
      - id: device_type
        -orig-id: sbDevType
        type: u2
      - id: device_id
        -orig-id: sbDevId
        type: u2
      - id: driver_data
        -orig-id: sbData
        type: u4
      - id: num_drivers
        -orig-id: sbDrvrCount
        type: u2
  partition_entry:
    -orig-id: Partition
    -webide-representation: '{partition_type} {partition_name} at block {start_block}'
    doc: One entry of the partition map, at the start of its block.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/Devices/Devices-126.html Inside Macintosh: Devices, SCSI Manager, Partition Map Entry Record'
    seq:
      - id: signature
        -orig-id: pmSig
        contents: PM
      - id: reserved
        -orig-id: pmSigPad
        type: u2
      - id: num_map_entries
        -orig-id: pmMapBlkCnt
        type: u4
        doc: Entries of the whole map; the same in each of them.
      - id: start_block
        -orig-id: pmPyPartStart
        type: u4
      - id: num_blocks
        -orig-id: pmPartBlkCnt
        type: u4
      - id: partition_name
        -orig-id: pmPartName
        size: 32
        doc: ASCII, ended by a null where it is shorter.
      - id: partition_type
        -orig-id: pmParType
        size: 32
        doc: ASCII, such as Apple_HFS, ended by a null where it is shorter.
      - id: data_start_block
        -orig-id: pmLgDataStart
        type: u4
        doc: Where the file system starts in the partition; 0 on everything seen.
      - id: num_data_blocks
        -orig-id: pmDataCnt
        type: u4
      - id: status
        -orig-id: pmPartStatus
        type: u4
