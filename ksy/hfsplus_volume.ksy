meta:
  id: hfsplus_volume
  title: HFS+ and HFSX volume header, fork data and extents
  xref:
    justsolve: HFS+
    pronom: fmt/1742
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  The structures that stand at fixed places of an HFS+ or HFSX volume: the boot
  blocks and the volume header at its beginning, the alternate volume header and
  the reserved sector at its end, and what they are made of.

  The volume header names the five special files (allocation, extents overflow,
  catalog, attributes, startup), each with its first eight extents. Everything
  is big-endian. Dates are seconds since 1904-01-01 00:00:00 UTC, but the creation
  date of the volume is in local time.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
types:
  volume_start:
    doc: The first 1536 bytes of a volume. The volume header starts at byte 1024 whatever the sector size is.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
    seq:
      - id: boot_blocks
        size: 1024
        doc: Reserved for use by the boot loader (two classic boot blocks of 512 bytes); may hold code, or nothing.
      - id: volume_header
        -orig-id: HFSPlusVolumeHeader
        type: volume_header
  volume_end:
    doc: The last 1024 bytes of a volume.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
    seq:
      - id: alternate_volume_header
        -orig-id: HFSPlusVolumeHeader
        type: volume_header
        doc: |
          A copy of the volume header for repair tools. It is updated only when the
          length or the place of a special file changes, so that counts and dates may differ.
      - id: reserved
        size: 512
        doc: Reserved for Apple's use during manufacture.
  volume_header:
    -orig-id: HFSPlusVolumeHeader
    doc: What is needed to mount the volume. 512 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#VolumeHeader TN1150, Volume Header'
    -webide-representation: '{signature} version {version:dec}, {num_blocks:dec} blocks of {len_block:dec}'
    seq:
      - id: signature
        -orig-id: signature
        type: u2
        enum: signature
        valid:
          in-enum: true
        doc: '"H+" for HFS+, "HX" for HFSX.'
      - id: version
        -orig-id: version
        type: u2
        enum: version
        doc: 4 for HFS+, 5 for HFSX.
      - id: attributes
        -orig-id: attributes
        type: u4
        doc: Bits of the volume; see the instances. Other bits are reserved.
      - id: last_mounted_version
        -orig-id: lastMountedVersion
        type: u4
        doc: Four characters that name the implementation that last mounted the volume for writing, such as "10.0", "HFSJ" or "fsck".
      - id: journal_info_block
        -orig-id: journalInfoBlock
        type: u4
        doc: Allocation block of the journal info block; of no meaning if the volume is not journaled.
      - id: create_date
        -orig-id: createDate
        type: u4
        doc: Seconds since 1904-01-01 in local time; serves as an identifier of the volume.
      - id: modify_date
        -orig-id: modifyDate
        type: u4
        doc: Seconds since 1904-01-01 UTC.
      - id: backup_date
        -orig-id: backupDate
        type: u4
        doc: Seconds since 1904-01-01 UTC; 0 if never.
      - id: checked_date
        -orig-id: checkedDate
        type: u4
        doc: Seconds since 1904-01-01 UTC; 0 if never.
      - id: num_files
        -orig-id: fileCount
        type: u4
        doc: Files on the volume, without the special files.
      - id: num_folders
        -orig-id: folderCount
        type: u4
        doc: Folders on the volume, without the root folder.
      - id: len_block
        -orig-id: blockSize
        type: u4
        doc: Allocation block size in bytes; a power of two of at least 512.
      - id: num_blocks
        -orig-id: totalBlocks
        type: u4
        doc: Allocation blocks on the volume; a last partial one does not count.
      - id: num_free_blocks
        -orig-id: freeBlocks
        type: u4
      - id: next_allocation
        -orig-id: nextAllocation
        type: u4
        doc: Where the next search for free space starts; a hint.
      - id: len_rsrc_clump
        -orig-id: rsrcClumpSize
        type: u4
        doc: Default clump size of resource forks, in bytes; a hint.
      - id: len_data_clump
        -orig-id: dataClumpSize
        type: u4
        doc: Default clump size of data forks, in bytes; a hint.
      - id: next_catalog_id
        -orig-id: nextCatalogID
        type: u4
        doc: Next unused catalog node ID.
      - id: write_count
        -orig-id: writeCount
        type: u4
        doc: Grows with every mount and at times in between; shows whether a volume was changed.
      - id: encodings_bitmap
        -orig-id: encodingsBitmap
        type: u8
        doc: Text encodings used in the names, one bit each.
      - id: finder_info
        -orig-id: finderInfo
        type: u4
        repeat: expr
        repeat-expr: 8
        doc: |
          Words for the Finder and the boot loader: 0 blessed system folder, 1 folder of the start-up
          application, 2 first folder to open, 3 system folder of Mac OS 8 or 9, 5 blessed folder of
          Mac OS X, 6 and 7 the unique identifier of the volume.
      - id: allocation_file
        -orig-id: allocationFile
        type: fork_data
      - id: extents_file
        -orig-id: extentsFile
        type: fork_data
        doc: The extents-overflow file. It has no overflow extents itself.
      - id: catalog_file
        -orig-id: catalogFile
        type: fork_data
      - id: attributes_file
        -orig-id: attributesFile
        type: fork_data
        doc: Empty where no attribute was ever written.
      - id: startup_file
        -orig-id: startupFile
        type: fork_data
        doc: For systems without knowledge of HFS+; mostly empty.
    instances:
      is_hardware_locked:
        -orig-id: kHFSVolumeHardwareLockBit
        value: '(attributes & volume_attribute::hardware_locked.to_i) != 0'
      is_unmounted:
        -orig-id: kHFSVolumeUnmountedBit
        value: '(attributes & volume_attribute::unmounted.to_i) != 0'
        doc: The volume was unmounted cleanly.
      has_spared_blocks:
        -orig-id: kHFSVolumeSparedBlocksBit
        value: '(attributes & volume_attribute::spared_blocks.to_i) != 0'
        doc: Extents of the bad block file (CNID 5) are in the extents-overflow file.
      is_no_cache_required:
        -orig-id: kHFSVolumeNoCacheRequiredBit
        value: '(attributes & volume_attribute::no_cache_required.to_i) != 0'
      is_boot_inconsistent:
        -orig-id: kHFSBootVolumeInconsistentBit
        value: '(attributes & volume_attribute::boot_inconsistent.to_i) != 0'
        doc: Set while mounted for writing by some implementations; the volume needs a check.
      is_cnid_reused:
        -orig-id: kHFSCatalogNodeIDsReusedBit
        value: '(attributes & volume_attribute::cnid_reused.to_i) != 0'
        doc: Catalog node IDs wrapped around and are used again.
      is_journaled:
        -orig-id: kHFSVolumeJournaledBit
        value: '(attributes & volume_attribute::journaled.to_i) != 0'
      is_software_locked:
        -orig-id: kHFSVolumeSoftwareLockBit
        value: '(attributes & volume_attribute::software_locked.to_i) != 0'
      has_expanded_times:
        -orig-id: kHFSExpandedTimesMask
        value: '(attributes & volume_attribute::expanded_times.to_i) != 0'
        doc: |
          The dates of the header count seconds since 1970-01-01, all but create_date; records say so for themselves. Not
          in TN1150; from the system's header files.
      is_content_protected:
        -orig-id: kHFSContentProtectionBit
        value: '(attributes & volume_attribute::content_protected.to_i) != 0'
        doc: Not in TN1150; from the system's header files.
      is_unused_node_fix:
        -orig-id: kHFSUnusedNodeFixBit
        value: '(attributes & volume_attribute::unused_node_fix.to_i) != 0'
        doc: Unused nodes of the catalog file are zeroed. Not in TN1150; from the system's header files.
  fork_data:
    -orig-id: HFSPlusForkData
    doc: Size and place of a fork; 80 bytes. Extents beyond the eighth are in the extents-overflow file.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ForkDataStructure TN1150, Fork Data Structure'
    -webide-representation: '{len_logical:dec} bytes in {num_blocks:dec} blocks'
    seq:
      - id: len_logical
        -orig-id: logicalSize
        type: u8
        doc: Bytes of valid data.
      - id: len_clump
        -orig-id: clumpSize
        type: u4
        doc: In bytes for special files. In catalog records, blocks read of a hot file; else 0.
      - id: num_blocks
        -orig-id: totalBlocks
        type: u4
        doc: Allocation blocks of all extents, overflow extents included.
      - id: extents
        -orig-id: extents
        type: extent_descriptor
        repeat: expr
        repeat-expr: 8
        doc: The first extents, in the order of the fork. Unused ones are zero and at the end.
  extent_record:
    -orig-id: HFSPlusExtentRecord
    doc: Eight extents, as stored in an extents-overflow record; 64 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ExtentsOverflowFile TN1150, Extents Overflow File'
    seq:
      - id: extents
        -orig-id: HFSPlusExtentRecord
        type: extent_descriptor
        repeat: expr
        repeat-expr: 8
  extent_descriptor:
    -orig-id: HFSPlusExtentDescriptor
    doc: A run of allocation blocks; 8 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#ForkDataStructure TN1150, Fork Data Structure'
    -webide-representation: '{start_block:dec} + {num_blocks:dec}'
    seq:
      - id: start_block
        -orig-id: startBlock
        type: u4
        doc: First allocation block, counted from the start of the volume.
      - id: num_blocks
        -orig-id: blockCount
        type: u4
        doc: Length in allocation blocks; 0 marks an unused descriptor.
enums:
  signature:
    0x482b:
      id: hfsplus
      -orig-id: kHFSPlusSigWord
    0x4858:
      id: hfsx
      -orig-id: kHFSXSigWord
  version:
    4:
      id: hfsplus
      -orig-id: kHFSPlusVersion
    5:
      id: hfsx
      -orig-id: kHFSXVersion
  block_size_limit:
    512:
      id: minimum
      doc: TN1150, Volume Header, blockSize.
    65536:
      id: maximum
      doc: Not a limit of the format; the largest that is known to be written.
  cnid:
    1:
      id: root_parent
      -orig-id: kHFSRootParentID
    2:
      id: root_folder
      -orig-id: kHFSRootFolderID
    3:
      id: extents_file
      -orig-id: kHFSExtentsFileID
    4:
      id: catalog_file
      -orig-id: kHFSCatalogFileID
    5:
      id: bad_block_file
      -orig-id: kHFSBadBlockFileID
    6:
      id: allocation_file
      -orig-id: kHFSAllocationFileID
    7:
      id: startup_file
      -orig-id: kHFSStartupFileID
    8:
      id: attributes_file
      -orig-id: kHFSAttributesFileID
    14:
      id: repair_catalog_file
      -orig-id: kHFSRepairCatalogFileID
    15:
      id: bogus_extent_file
      -orig-id: kHFSBogusExtentFileID
    16:
      id: first_user
      -orig-id: kHFSFirstUserCatalogNodeID
  volume_attribute:
    0x80:
      id: hardware_locked
      -orig-id: kHFSVolumeHardwareLockBit
    0x100:
      id: unmounted
      -orig-id: kHFSVolumeUnmountedBit
    0x200:
      id: spared_blocks
      -orig-id: kHFSVolumeSparedBlocksBit
    0x400:
      id: no_cache_required
      -orig-id: kHFSVolumeNoCacheRequiredBit
    0x800:
      id: boot_inconsistent
      -orig-id: kHFSBootVolumeInconsistentBit
    0x1000:
      id: cnid_reused
      -orig-id: kHFSCatalogNodeIDsReusedBit
    0x2000:
      id: journaled
      -orig-id: kHFSVolumeJournaledBit
    0x8000:
      id: software_locked
      -orig-id: kHFSVolumeSoftwareLockBit
    0x20000000:
      id: expanded_times
      -orig-id: kHFSExpandedTimesMask
    0x40000000:
      id: content_protected
      -orig-id: kHFSContentProtectionBit
    0x80000000:
      id: unused_node_fix
      -orig-id: kHFSUnusedNodeFixBit
