meta:
  id: hfs_wrapper
  title: HFS volumes, classic or extended, and the classic wrapper around an HFS+ volume
  xref:
    justsolve: HFS
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  The first words of a volume header, which distinguish HFS, HFS+ and HFSX, and the master directory block of classic
  HFS as far as it is needed to find an HFS+ volume embedded in it. Until Mac OS X 10.4 such wrappers let older systems
  show a volume with a note for the user on where the files are.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#HFSWrapper TN1150, HFS Wrapper'
types:
  volume_signature:
    -orig-id: HFSPlusVolumeHeader
    -webide-representation: '{signature} version {version}'
    doc: Start of the volume header or master directory block, 1024 bytes into the volume and before its end.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
    seq:
      - id: signature
        -orig-id: signature
        type: u2
        enum: signature
        valid:
          in-enum: true
      - id: version
        -orig-id: version
        type: u2
        doc: 4 for HFS+, 5 for HFSX; part of a date in classic HFS.
  volume_start:
    -orig-id: HFSPlusVolumeHeader
    doc: Start of a volume, up to the first words of its header; the copy is at the same distance from the end.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
    seq:
      - id: boot_blocks
        size: 1024
      - id: header
        type: volume_signature
  extent_descriptor:
    -orig-id: HFSExtentDescriptor
    -webide-representation: '{num_blocks} from block {start_block}'
    doc: A run of allocation blocks of classic HFS.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/Files/Files-102.html Inside Macintosh: Files, Data Organization on Volumes'
    seq:
      - id: start_block
        -orig-id: startBlock
        type: u2
      - id: num_blocks
        -orig-id: blockCount
        type: u2
  master_directory_block:
    -orig-id: HFSMasterDirectoryBlock
    -webide-representation: 'HFS, {num_allocation_blocks} blocks of {len_allocation_block}, embedded {embedded_signature}'
    doc: Volume header of classic HFS, 1024 bytes into the volume, up to the extent of an embedded volume.
    doc-ref: 'https://developer.apple.com/library/archive/documentation/mac/Files/Files-102.html Inside Macintosh: Files, Master Directory Blocks'
    seq:
      - id: signature
        -orig-id: drSigWord
        contents: BD
      - id: create_date
        -orig-id: drCrDate
        type: u4
        doc: Seconds since 1904, local time.
      - id: modify_date
        -orig-id: drLsMod
        type: u4
      - id: attributes
        -orig-id: drAtrb
        type: u2
      - id: num_root_files
        -orig-id: drNmFls
        type: u2
      - id: bitmap_sector
        -orig-id: drVBMSt
        type: u2
        doc: First 512-byte sector of the volume bitmap.
      - id: allocation_search_block
        -orig-id: drAllocPtr
        type: u2
      - id: num_allocation_blocks
        -orig-id: drNmAlBlks
        type: u2
      - id: len_allocation_block
        -orig-id: drAlBlkSiz
        type: u4
        doc: Bytes, a multiple of 512.
      - id: len_clump
        -orig-id: drClpSiz
        type: u4
      - id: first_allocation_sector
        -orig-id: drAlBlSt
        type: u2
        doc: 512-byte sector of allocation block 0, from the start of the volume.
      - id: next_catalog_id
        -orig-id: drNxtCNID
        type: u4
      - id: num_free_blocks
        -orig-id: drFreeBks
        type: u2
      - id: len_volume_name
        -orig-id: drVN
        type: u1
      - id: volume_name
        -orig-id: drVN
        size: 27
        doc: Mac OS Roman, len_volume_name bytes of it.
      - id: backup_date
        -orig-id: drVolBkUp
        type: u4
      - id: backup_sequence_number
        -orig-id: drVSeqNum
        type: u2
      - id: write_count
        -orig-id: drWrCnt
        type: u4
      - id: len_extents_clump
        -orig-id: drXTClpSiz
        type: u4
      - id: len_catalog_clump
        -orig-id: drCTClpSiz
        type: u4
      - id: num_root_folders
        -orig-id: drNmRtDirs
        type: u2
      - id: num_files
        -orig-id: drFilCnt
        type: u4
      - id: num_folders
        -orig-id: drDirCnt
        type: u4
      - id: finder_info
        -orig-id: drFndrInfo
        size: 32
      - id: embedded_signature
        -orig-id: drEmbedSigWord
        type: u2
        enum: signature
        doc: hfs_plus where a volume is embedded; the size of a cache otherwise, long unused.
      - id: embedded_extent
        -orig-id: drEmbedExtent
        type: extent_descriptor
    instances:
      ofs_embedded_volume:
        value: first_allocation_sector * 512 + embedded_extent.start_block * len_allocation_block
        doc: Bytes from the start of the wrapper to the embedded volume.
      len_embedded_volume:
        value: embedded_extent.num_blocks * len_allocation_block
enums:
  signature:
    0x4244:
      id: hfs
      -orig-id: kHFSSigWord
    0x482b:
      id: hfs_plus
      -orig-id: kHFSPlusSigWord
    0x4858:
      id: hfsx
      -orig-id: kHFSXSigWord
