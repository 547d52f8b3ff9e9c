meta:
  id: sparse_disks
  title: What disk images of other makers store
  file-extension:
    - vmdk
    - vhdx
    - qcow2
    - vhd
    - sparseimage
    - hdd
    - vdi
  tags:
    - archive
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  Just enough of each container to locate the stored parts of its disk.
doc-ref: 'https://github.com/libyal/libqcow/blob/main/documentation/QEMU%20Copy-On-Write%20file%20format.asciidoc QEMU Copy-On-Write file format'
types:
  qcow_header:
    -orig-id: QCowHeader
    doc: The first bytes of a qcow2 file, as far as both of its versions have them.
    doc-ref: 'https://www.qemu.org/docs/master/interop/qcow2.html QEMU documentation, The qcow2 format, Header'
    seq:
      - id: magic
        contents: [0x51, 0x46, 0x49, 0xfb]
      - id: version
        type: u4
        doc: 2 or 3; the first version has another header.
      - id: ofs_backing_file_name
        -orig-id: backing_file_offset
        type: u8
      - id: len_backing_file_name
        -orig-id: backing_file_size
        type: u4
      - id: cluster_bits
        type: u4
        doc: A cluster is so many powers of two of bytes; 9 to 21.
      - id: len_disk
        -orig-id: size
        type: u8
        doc: Size of the disk in bytes.
      - id: crypt_method
        type: u4
      - id: num_tables
        -orig-id: l1_size
        type: u4
        doc: Entries of the first table.
      - id: ofs_tables
        -orig-id: l1_table_offset
        type: u8
        doc: Place of the first table in the file, in bytes.
      - id: ofs_reference_counts
        -orig-id: refcount_table_offset
        type: u8
      - id: num_reference_count_clusters
        -orig-id: refcount_table_clusters
        type: u4
      - id: num_snapshots
        -orig-id: nb_snapshots
        type: u4
      - id: ofs_snapshots
        -orig-id: snapshots_offset
        type: u8
      - id: incompatible_features
        type: u8
        doc: |
          Since the third version: 1 dirty, 2 corrupt, 4 data in another file, 8 another way of compression, 16 longer
          references. The header of the second version ends before it.
    instances:
      unknown_features:
        value: incompatible_features & 0xfffffffffffffffc
        doc: All but dirty and corrupt, which do not affect the places of clusters.
  qcow_reference:
    doc: An entry of the first table, which names a second one, or of a second one, which names a cluster.
    doc-ref: 'https://www.qemu.org/docs/master/interop/qcow2.html QEMU documentation, The qcow2 format, Cluster mapping'
    seq:
      - id: entry
        type: u8
    instances:
      ofs_target:
        value: entry & 0xfffffffffffe00
        doc: Its place in the file, in bytes; 0 means that nothing is stored.
      is_compressed:
        value: entry & 0x4000000000000000
      unmarked:
        value: entry & 0x3fffffffffffffff
        doc: |
          All but the highest two bits. For a compressed cluster, a place in bytes of 70 less cluster_bits bits, and
          above that the number of further sectors of 512 bytes. For others, the place and reserved bits.
      reads_as_zeros:
        value: entry & 0x1
        doc: State of a cluster since the third version; stored data does not count.
  vhd_footer:
    -orig-id: Hard Disk Footer
    doc: The first 512 bytes of a dynamic disk, a copy of those after its end.
    doc-ref: 'https://github.com/libyal/libvhdi/blob/main/documentation/Virtual%20Hard%20Disk%20(VHD)%20image%20format.asciidoc Virtual Hard Disk (VHD) image format, File footer'
    seq:
      - id: magic
        -orig-id: Cookie
        contents: conectix
      - id: features
        -orig-id: Features
        type: u4
      - id: version
        -orig-id: File Format Version
        type: u4
      - id: ofs_next
        -orig-id: Data Offset
        type: u8
        doc: Place of the header of a dynamic disk in the file, in bytes.
      - id: creation
        size: 16
      - id: len_original
        -orig-id: Original Size
        type: u8
      - id: len_disk
        -orig-id: Current Size
        type: u8
        doc: Size of the disk in bytes.
      - id: geometry
        -orig-id: Disk Geometry
        type: u4
      - id: kind
        -orig-id: Disk Type
        type: u4
        enum: vhd_kind
  vhd_dynamic_header:
    -orig-id: Dynamic Disk Header
    doc: Place of the table of blocks, and size of a block.
    doc-ref: 'https://github.com/libyal/libvhdi/blob/main/documentation/Virtual%20Hard%20Disk%20(VHD)%20image%20format.asciidoc Virtual Hard Disk (VHD) image format, Dynamic disk header'
    seq:
      - id: magic
        -orig-id: Cookie
        contents: cxsparse
      - id: ofs_next
        -orig-id: Data Offset
        type: u8
      - id: ofs_table
        -orig-id: Table Offset
        type: u8
        doc: Place of the table in the file, in bytes.
      - id: version
        -orig-id: Header Version
        type: u4
      - id: num_blocks
        -orig-id: Max Table Entries
        type: u4
        doc: Entries of the table, one for each block of the disk.
      - id: len_block
        -orig-id: Block Size
        type: u4
        doc: Size of a block in bytes, its bitmap apart; 2 MiB in all files seen.
  vhd_reference:
    doc: An entry of the table of blocks.
    doc-ref: 'https://github.com/libyal/libvhdi/blob/main/documentation/Virtual%20Hard%20Disk%20(VHD)%20image%20format.asciidoc Virtual Hard Disk (VHD) image format, Block allocation table'
    seq:
      - id: sector
        type: u4
        doc: Sector of the file where the block begins; all bits set means that it is not stored.
  vhdx_regions:
    -orig-id: VHDX_REGION_TABLE_HEADER
    doc: What begins a table of regions, at 192 KiB of the file and at 256 KiB once more; its entries follow.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.2.3.1 Region Table Header'
    seq:
      - id: magic
        -orig-id: Signature
        contents: regi
      - id: checksum
        -orig-id: Checksum
        type: u4le
      - id: num_entries
        -orig-id: EntryCount
        type: u4le
      - id: reserved
        -orig-id: Reserved
        type: u4le
  vhdx_region:
    -orig-id: VHDX_REGION_TABLE_ENTRY
    doc: One region of the file.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.2.3.2 Region Table Entry'
    seq:
      - id: guid
        -orig-id: Guid
        size: 16
        doc: Type of the region, its first three parts with their lowest byte first.
      - id: ofs_region
        -orig-id: FileOffset
        type: u8le
        doc: Its place in the file, in bytes.
      - id: len_region
        -orig-id: Length
        type: u4le
      - id: required
        -orig-id: Required
        type: u4le
  vhdx_metadata:
    -orig-id: VHDX_METADATA_TABLE_HEADER
    doc: What begins the region of metadata; entries follow.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.6.1.1 Metadata Table Header'
    seq:
      - id: magic
        -orig-id: Signature
        contents: metadata
      - id: reserved
        -orig-id: Reserved
        type: u2le
      - id: num_entries
        -orig-id: EntryCount
        type: u2le
      - id: reserved2
        -orig-id: Reserved2
        size: 20
  vhdx_metadata_entry:
    -orig-id: VHDX_METADATA_TABLE_ENTRY
    doc: Where a fact of the disk stands.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.6.1.2 Metadata Table Entry'
    seq:
      - id: guid
        -orig-id: ItemId
        size: 16
        doc: Type of the item.
      - id: ofs_item
        -orig-id: Offset
        type: u4le
        doc: From the start of the region, in bytes.
      - id: len_item
        -orig-id: Length
        type: u4le
      - id: flags
        type: u4le
      - id: reserved
        -orig-id: Reserved2
        type: u4le
  vhdx_file_parameters:
    -orig-id: VHDX_FILE_PARAMETERS
    doc: How large a block is.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.6.2.1 File Parameters'
    seq:
      - id: len_block
        -orig-id: BlockSize
        type: u4le
        doc: In bytes; 1 to 256 MiB.
      - id: flags
        type: u4le
    instances:
      has_parent:
        value: flags & 0x2
        doc: Whether the file holds the differences to another one alone.
  vhdx_disk_size:
    -orig-id: VHDX_VIRTUAL_DISK_SIZE
    doc: How large the disk is.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.6.2.2 Virtual Disk Size'
    seq:
      - id: len_disk
        -orig-id: VirtualDiskSize
        type: u8le
        doc: In bytes.
  vhdx_sector_size:
    -orig-id: VHDX_VIRTUAL_DISK_LOGICAL_SECTOR_SIZE
    doc: How large a sector of the disk is.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.6.2.4 Logical Sector Size'
    seq:
      - id: len_sector
        -orig-id: LogicalSectorSize
        type: u4le
        doc: In bytes; 512 or 4,096.
  vhdx_reference:
    -orig-id: VHDX_BAT_ENTRY
    doc: An entry of the table of blocks. An entry for a bitmap follows those of 2^23 sectors.
    doc-ref: 'https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-vhdx/ [MS-VHDX], 2.5.1 BAT Entry'
    seq:
      - id: entry
        type: u8le
    instances:
      state:
        -orig-id: State
        value: entry & 0x7
        enum: vhdx_state
      ofs_block:
        -orig-id: FileOffsetMB
        value: entry & 0xfffffffffff00000
        doc: Place of the block in the file, in bytes.
  vmdk_header:
    -orig-id: SparseExtentHeader
    doc: The first bytes of an extent that stores grains as they are needed.
    doc-ref: 'https://github.com/libyal/libvmdk/blob/main/documentation/VMWare%20Virtual%20Disk%20Format%20(VMDK).asciidoc VMware Virtual Disk Format (VMDK), VMDK sparse extent data file'
    seq:
      - id: magic
        -orig-id: magicNumber
        contents: KDMV
      - id: version
        type: u4le
      - id: flags
        type: u4le
      - id: num_sectors
        -orig-id: capacity
        type: u8le
        doc: Size of the extent in sectors of 512 bytes.
      - id: num_grain_sectors
        -orig-id: grainSize
        type: u8le
        doc: Size of a grain in sectors; 128 in all files seen.
      - id: descriptor_sector
        -orig-id: descriptorOffset
        type: u8le
      - id: num_descriptor_sectors
        -orig-id: descriptorSize
        type: u8le
      - id: num_references
        -orig-id: numGTEsPerGT
        type: u4le
        doc: Entries of a table of grains; 512 in all files seen.
      - id: second_directory_sector
        -orig-id: rgdOffset
        type: u8le
      - id: directory_sector
        -orig-id: gdOffset
        type: u8le
        doc: Sector of the directory in the file; all bits set if a copy of this header at the end gives it.
    instances:
      has_copy_of_tables:
        value: flags & 2
        doc: Whether the directory and the tables are stored twice.
      is_compressed:
        value: flags & 0x10000
        doc: Whether grains are compressed, each after a head of its own.
  vmdk_reference:
    doc: An entry of the directory, which names a table, or of a table, which names a grain.
    doc-ref: 'https://github.com/libyal/libvmdk/blob/main/documentation/VMWare%20Virtual%20Disk%20Format%20(VMDK).asciidoc VMware Virtual Disk Format (VMDK), Grain directory'
    seq:
      - id: sector
        type: u4le
        doc: Sector of the file; 0 means that nothing is stored, 1 that the grain is all zeros.
  vmdk_grain:
    -orig-id: GrainMarker
    doc: What stands before the data of a compressed grain.
    doc-ref: 'https://github.com/libyal/libvmdk/blob/main/documentation/VMWare%20Virtual%20Disk%20Format%20(VMDK).asciidoc VMware Virtual Disk Format (VMDK), Compressed grain data'
    seq:
      - id: sector
        -orig-id: lba
        type: u8le
        doc: Sector of the disk.
      - id: len_data
        -orig-id: size
        type: u4le
        doc: Bytes of the stream of zlib that follows.
  sparse_image_header:
    doc: |
      The first bytes of an Apple sparse image. Numbers of bands follow to the end of the first 4,096 bytes, then the
      bands that they name, in the same order.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, Sparse disk image format'
    seq:
      - id: magic
        contents: sprs
      - id: version
        type: u4
        doc: 3 in all files seen.
      - id: num_band_sectors
        type: u4
        doc: Size of a band in sectors of 512 bytes.
      - id: flags
        type: u4
        doc: Not documented.
      - id: num_sectors
        type: u4
        doc: Size of the disk in sectors.
      - id: ofs_next_index
        type: u8
        doc: Where the next table of bands begins in the file, in bytes; 0 if this one is the only one. Not documented.
      - id: num_sectors_long
        type: u8
        doc: Size of the disk in sectors once more, for disks of 2 TiB and more; 0 in older images. Not documented.
      - id: unknown
        size: 28
  sparse_image_index:
    doc: |
      Begins a further table of bands, of 4,096 bytes as the first one, whose bands follow it. Not documented; described
      by the readers of apfs-fuse and mac_apt.
    doc-ref: 'https://github.com/ydkhatri/mac_apt/blob/master/plugins/helpers/disk_report.py mac_apt, sparse images'
    seq:
      - id: magic
        contents: sprs
      - id: number
        type: u4
        doc: Number of the table, from 1.
      - id: flags
        type: u4
      - id: ofs_next_index
        type: u8
        doc: Where the next table begins, in bytes; 0 if this is the last one.
      - id: unknown
        size: 36
  sparse_image_band:
    doc: The band of the disk at this place of the file.
    doc-ref: 'https://github.com/libyal/libmodi/blob/main/documentation/Mac%20OS%20disk%20image%20types.asciidoc Mac OS disk image types, Sparse disk image format'
    seq:
      - id: number
        type: u4
        doc: Counted from 1; 0 if there is none.
  parallels_header:
    doc: The first bytes of a Parallels disk; the table of blocks follows.
    doc-ref: 'https://www.qemu.org/docs/master/interop/parallels.html QEMU documentation, Parallels Expandable Image File Format'
    seq:
      - id: variant
        -orig-id: magic
        size: 16
        doc: '"WithoutFreeSpace", or "WithouFreSpacExt" where the entries of the table count blocks.'
      - id: version
        type: u4le
        valid: 2
      - id: num_heads
        -orig-id: heads
        type: u4le
      - id: num_cylinders
        -orig-id: cylinders
        type: u4le
      - id: num_block_sectors
        -orig-id: tracks
        type: u4le
        doc: Size of a block in sectors of 512 bytes.
      - id: num_entries
        -orig-id: nb_bat_entries
        type: u4le
      - id: num_sectors
        -orig-id: nb_sectors
        type: u8le
        doc: Size of the disk in sectors; the lower half counts where entries count sectors.
      - id: in_use
        type: u4le
        enum: parallels_state
      - id: data_sector
        -orig-id: data_off
        type: u4le
        doc: Where blocks begin in the file, in sectors; 0 means right after the table.
      - id: flags
        type: u4le
      - id: extension_sector
        -orig-id: ext_off
        type: u8le
    instances:
      num_sectors_short:
        value: num_sectors & 0xffffffff
  parallels_entry:
    doc: An entry of the table of blocks.
    doc-ref: 'https://www.qemu.org/docs/master/interop/parallels.html QEMU documentation, Parallels Expandable Image File Format, BAT'
    seq:
      - id: place
        type: u4le
        doc: Where the block is in the file, in sectors or in blocks; 0 where it is not stored.
  vdi_header:
    -orig-id: VDIHEADER1PLUS
    doc: The first bytes of a VirtualBox disk, in the second version of its header.
    doc-ref: 'https://forums.virtualbox.org/viewtopic.php?t=8046 All about VDIs, VDI file structure'
    seq:
      - id: text
        -orig-id: szFileInfo
        size: 64
      - id: magic
        -orig-id: u32Signature
        contents: [0x7f, 0x10, 0xda, 0xbe]
      - id: version
        -orig-id: u32Version
        type: u4le
        doc: The upper half is 1.
      - id: len_header
        -orig-id: cbHeader
        type: u4le
      - id: kind
        -orig-id: u32Type
        type: u4le
        enum: vdi_kind
      - id: flags
        -orig-id: fFlags
        type: u4le
      - id: comment
        -orig-id: szComment
        size: 256
      - id: ofs_table
        -orig-id: offBlocks
        type: u4le
        doc: Where the table of blocks is, in bytes.
      - id: ofs_data
        -orig-id: offData
        type: u4le
        doc: Where the first block is, in bytes.
      - id: geometry
        -orig-id: LegacyGeometry
        size: 16
      - id: unused
        -orig-id: u32Dummy
        type: u4le
      - id: len_disk
        -orig-id: cbDisk
        type: u8le
        doc: Size of the disk in bytes.
      - id: len_block
        -orig-id: cbBlock
        type: u4le
        doc: In bytes, 1 MiB in most files.
      - id: len_block_extra
        -orig-id: cbBlockExtra
        type: u4le
        doc: Bytes before each block that are not of the disk.
      - id: num_blocks
        -orig-id: cBlocks
        type: u4le
  vdi_entry:
    doc: An entry of the table of blocks.
    doc-ref: 'https://forums.virtualbox.org/viewtopic.php?t=8046 All about VDIs, VDI file structure'
    seq:
      - id: block
        type: u4le
        doc: Which block of the file holds it; the two highest numbers mean that none does.
enums:
  vhd_kind:
    2: fixed
    3: dynamic
    4: differencing
  vhdx_state:
    0:
      id: absent
      -orig-id: PAYLOAD_BLOCK_NOT_PRESENT
    1:
      id: undefined
      -orig-id: PAYLOAD_BLOCK_UNDEFINED
    2:
      id: zero
      -orig-id: PAYLOAD_BLOCK_ZERO
    3:
      id: unmapped
      -orig-id: PAYLOAD_BLOCK_UNMAPPED
    6:
      id: present
      -orig-id: PAYLOAD_BLOCK_FULLY_PRESENT
    7:
      id: partial
      -orig-id: PAYLOAD_BLOCK_PARTIALLY_PRESENT
  parallels_state:
    0x312e3276:
      id: closed
    0x746f6e59:
      id: in_use
      doc: A program writes to the disk, or ended without closing it.
  vdi_kind:
    1:
      id: dynamic
    2:
      id: fixed
    3:
      id: undo
    4:
      id: differences
