meta:
  id: mbr
  title: Master Boot Record
  xref:
    forensicswiki: master_boot_record
    justsolve: Master_Boot_Record
    wikidata: Q624752
  tags:
    - filesystem
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  Partition table of the PC, in sector 0. Extended partitions hold a chain of further records of the same form, whose
  first entry is the logical partition and whose second leads to the next link. Cylinder, head and sector addresses are
  ignored by everybody today.
doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html#legacy-master-boot-record-mbr UEFI 2.10, Legacy Master Boot Record'
types:
  boot_record:
    -orig-id: MASTER_BOOT_RECORD
    -webide-representation: 'MBR {disk_signature:hex}'
    doc: Master or extended boot record.
    doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html#legacy-master-boot-record-mbr UEFI 2.10, Legacy Master Boot Record'
    seq:
      - id: boot_code
        -orig-id: BootCode
        size: 440
      - id: disk_signature
        -orig-id: UniqueMBRDiskSignature
        type: u4
      - id: reserved
        -orig-id: Unknown
        type: u2
      - id: partitions
        -orig-id: PartitionRecord
        type: partition_record
        repeat: expr
        repeat-expr: 4
      - id: signature
        -orig-id: Signature
        contents: [0x55, 0xaa]
  partition_record:
    -orig-id: MBR_PARTITION_RECORD
    -webide-representation: '{partition_type} at LBA {starting_lba}, {num_sectors} sectors'
    doc: One of the four slots; unused where the type is 0.
    doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html#legacy-master-boot-record-mbr UEFI 2.10, Legacy MBR Partition Record'
    seq:
      - id: boot_indicator
        -orig-id: BootIndicator
        type: u1
        enum: boot_indicator
        doc: 0x80 for the active partition, otherwise 0; anything else means that this is not a partition table.
      - id: starting_chs
        -orig-id: StartingCHS
        size: 3
      - id: partition_type
        -orig-id: OSType
        type: u1
        enum: partition_type
      - id: ending_chs
        -orig-id: EndingCHS
        size: 3
      - id: starting_lba
        -orig-id: StartingLBA
        type: u4
        doc: |
          In sectors of the device: from the start of the disk in the master record; from this record for a logical
          partition; from the start of the extended partition for the next link of the chain.
      - id: num_sectors
        -orig-id: SizeInLBA
        type: u4
enums:
  partition_type:
    0x00:
      id: empty
      -orig-id: 'unused'
    0x01:
      id: fat12
      -orig-id: 'FAT12'
    0x04:
      id: fat16_small
      -orig-id: 'FAT16 below 32 MB'
    0x05:
      id: extended
      -orig-id: 'Extended'
    0x06:
      id: fat16
      -orig-id: 'FAT16'
    0x07:
      id: ntfs_or_exfat
      -orig-id: 'NTFS or exFAT'
    0x0b:
      id: fat32
      -orig-id: 'FAT32'
    0x0c:
      id: fat32_lba
      -orig-id: 'FAT32 with LBA'
    0x0e:
      id: fat16_lba
      -orig-id: 'FAT16 with LBA'
    0x0f:
      id: extended_lba
      -orig-id: 'Extended with LBA'
    0x82:
      id: linux_swap
      -orig-id: 'Linux swap'
    0x83:
      id: linux
      -orig-id: 'Linux'
    0x85:
      id: extended_linux
      -orig-id: 'Linux extended'
    0x8e:
      id: linux_lvm
      -orig-id: 'Linux LVM'
    0xa8:
      id: apple_ufs
      -orig-id: 'Apple UFS'
    0xab:
      id: apple_boot
      -orig-id: 'Apple Boot'
    0xac:
      id: apple_raid
      -orig-id: 'Apple RAID'
    0xaf:
      id: apple_hfs
      -orig-id: 'Apple HFS'
    0xee:
      id: gpt_protective
      -orig-id: 'GPT protective'
    0xef:
      id: efi_system
      -orig-id: 'EFI system'
  boot_indicator:
    0x00:
      id: inactive
      -orig-id: 'inactive'
    0x80:
      id: active
      -orig-id: 'active'
