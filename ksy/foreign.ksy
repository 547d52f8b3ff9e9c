meta:
  id: foreign
  title: What other file systems and volume managers start with
  tags:
    - filesystem
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  Just enough of each to name it: a partition that is not read should not be called unknown. Each type starts at the
  start of the partition, unless it says otherwise.
doc-ref: 'https://github.com/file/file/tree/master/magic/Magdir file(1), Magdir'
types:
  apfs_container:
    -orig-id: nx_superblock_t
    doc: |
      Start of block 0 of an APFS container, as far as needed to recognise one. The whole superblock is in
      apfs_container; this is what a partition is recognised by, so that damage further on hides no container.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf#page=27 Apple File System Reference (2020-06-22), Container, nx_superblock_t, p. 27'
    seq:
      - id: object_header
        -orig-id: nx_o
        size: 32
      - id: magic
        -orig-id: nx_magic
        contents: NXSB
      - id: len_block
        -orig-id: nx_block_size
        type: u4
      - id: num_blocks
        -orig-id: nx_block_count
        type: u8
  ext_superblock:
    -orig-id: ext4_super_block
    doc: ext2, ext3 and ext4.
    doc-ref: 'https://docs.kernel.org/filesystems/ext4/globals.html#super-block ext4 Data Structures and Algorithms, Super Block'
    seq:
      - id: counts
        size: 56
      - id: magic
        -orig-id: s_magic
        contents: [0x53, 0xef]
      - id: reserved
        size: 34
      - id: feature_compat
        -orig-id: s_feature_compat
        type: u4
      - id: feature_incompat
        -orig-id: s_feature_incompat
        type: u4
    instances:
      has_journal:
        value: feature_compat & 0x4
        doc: Not 0 in ext3 and ext4.
      has_extents:
        value: feature_incompat & 0x40
        doc: Not 0 in ext4.
  boot_sector:
    -orig-id: BIOS parameter block
    doc: FAT, exFAT, NTFS, ReFS and BitLocker, told apart by the name of the system that formatted the volume.
    doc-ref: 'https://learn.microsoft.com/en-us/windows/win32/fileio/exfat-specification exFAT file system specification, Main and Backup Boot Sector'
    seq:
      - id: jump_boot
        -orig-id: BS_jmpBoot
        size: 3
      - id: oem_name
        -orig-id: BS_OEMName
        size: 8
      - id: parameters
        size: 43
      - id: fat_type
        -orig-id: BS_FilSysType
        size: 8
        doc: FAT12, FAT16 or FAT, filled with spaces.
      - id: boot_code
        size: 20
      - id: fat32_type
        -orig-id: BS_FilSysType
        size: 8
        doc: FAT32, filled with spaces.
      - id: more_boot_code
        size: 420
      - id: signature
        contents: [0x55, 0xaa]
  xfs_superblock:
    -orig-id: xfs_dsb
    doc: Start of an XFS volume.
    doc-ref: 'https://git.kernel.org/pub/scm/fs/xfs/xfs-documentation.git XFS Algorithms and Data Structures, Superblocks'
    seq:
      - id: magic
        -orig-id: sb_magicnum
        contents: XFSB
  luks_header:
    -orig-id: luks_phdr
    doc: Start of an encrypted LUKS volume.
    doc-ref: 'https://gitlab.com/cryptsetup/LUKS2-docs LUKS2 On-Disk Format Specification, Binary Header'
    seq:
      - id: magic
        contents: [0x4c, 0x55, 0x4b, 0x53, 0xba, 0xbe]
  lvm_label:
    -orig-id: label_header
    doc: Linux volume manager.
    doc-ref: 'https://github.com/libyal/libvslvm/blob/main/documentation/Logical%20Volume%20Manager%20(LVM)%20format.asciidoc LVM format, Physical volume label'
    seq:
      - id: magic
        contents: LABELONE
  btrfs_superblock:
    -orig-id: btrfs_super_block
    doc: Superblock of btrfs.
    doc-ref: 'https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html btrfs documentation, On-disk Format, Superblock'
    seq:
      - id: header
        size: 64
      - id: magic
        contents: _BHRfS_M
  iso9660_descriptor:
    -orig-id: Volume Descriptor
    doc: First words of a volume descriptor.
    doc-ref: 'https://www.ecma-international.org/publications-and-standards/standards/ecma-119/ ECMA-119, Volume Descriptors'
    seq:
      - id: descriptor_type
        type: u1
      - id: standard_identifier
        contents: CD001
  squashfs_superblock:
    -orig-id: squashfs_super_block
    doc: Start of a squashfs volume.
    doc-ref: 'https://docs.kernel.org/filesystems/squashfs.html Squashfs 4.0 Filesystem'
    seq:
      - id: magic
        contents: hsqs
  raid_header:
    -orig-id: AppleRAIDHeaderV2
    doc: |
      A member of an AppleRAID set of Mac OS X 10.4 or later: at the start of the last whole 4,096 bytes of the
      partition, whose first block is the first one of the member. A property list follows.
    doc-ref: 'https://opensource.apple.com/source/AppleRAID/AppleRAID-4.0.6/AppleRAIDMember.h.auto.html AppleRAIDMember.h, AppleRAIDHeaderV2'
    seq:
      - id: signature
        -orig-id: raidSignature
        contents: "AppleRAIDHeader\0"
      - id: set_uuid
        -orig-id: raidUUID
        size: 64
        doc: A text.
      - id: member_uuid
        -orig-id: memberUUID
        size: 64
        doc: A text.
      - id: len_member
        -orig-id: size
        type: u8be
        doc: In bytes.
  former_raid_header:
    -orig-id: AppleRAIDHeaderV1
    doc: |
      A member of an AppleRAID set from before Mac OS X 10.4. The header is at the start of the partition; the data
      begin at byte 4,096.
    doc-ref: 'https://opensource.apple.com/source/AppleRAID/AppleRAID-4.0.6/AppleRAIDMember.cpp.auto.html AppleRAIDMember.cpp, AppleRAIDHeaderV1'
    seq:
      - id: signature
        -orig-id: raidSignature
        contents: "AppleRAIDHeader\0"
      - id: len_header
        -orig-id: raidHeaderSize
        type: u4be
        doc: 4,096 bytes.
      - id: version
        -orig-id: raidHeaderVersion
        type: u4be
        doc: '0x10000.'
      - id: sequence
        -orig-id: raidHeaderSequence
        type: u4be
        doc: 0 for a spare.
      - id: level
        -orig-id: raidLevel
        type: u4be
        enum: raid_level
      - id: set_uuid
        -orig-id: raidUUID
        size: 16
      - id: set_name
        -orig-id: raidSetName
        size: 32
        doc: Ends with a zero.
      - id: num_members
        -orig-id: raidMemberCount
        type: u4be
      - id: member_index
        -orig-id: raidMemberIndex
        type: u4be
        doc: From 0.
  ext_start:
    -orig-id: ext2 partition
    doc: Start of a partition with ext2, ext3 or ext4, up to its superblock.
    doc-ref: 'https://docs.kernel.org/filesystems/ext4/globals.html#super-block ext4 Data Structures and Algorithms, Super Block'
    seq:
      - id: reserved
        size: 1024
      - id: superblock
        type: ext_superblock
  lvm_start:
    -orig-id: LVM physical volume
    doc: Start of a physical volume of the Linux volume manager, up to its label.
    doc-ref: 'https://github.com/libyal/libvslvm/blob/main/documentation/Logical%20Volume%20Manager%20(LVM)%20format.asciidoc LVM format, Physical volume label'
    seq:
      - id: reserved
        size: 512
      - id: label
        type: lvm_label
  btrfs_start:
    -orig-id: btrfs device
    doc: Start of a btrfs device, up to its superblock.
    doc-ref: 'https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html btrfs documentation, On-disk Format, Superblock'
    seq:
      - id: reserved
        size: 65536
      - id: superblock
        type: btrfs_superblock
  iso9660_start:
    -orig-id: System Area
    doc: Start of an ISO 9660 image, up to its first volume descriptor.
    doc-ref: 'https://www.ecma-international.org/publications-and-standards/standards/ecma-119/ ECMA-119, Volume Descriptors'
    seq:
      - id: reserved
        size: 32768
      - id: descriptor
        type: iso9660_descriptor
enums:
  raid_level:
    0:
      id: stripe
    1:
      id: mirror
    0x100:
      id: concat
