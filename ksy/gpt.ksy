meta:
  id: gpt
  title: GUID Partition Table
  xref:
    forensicswiki: GPT
    justsolve: GUID_Partition_Table
    wikidata: Q603889
  tags:
    - filesystem
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
  bit-endian: le
doc: |
  Partition table of UEFI and of Intel and Apple silicon Macs. The header is in LBA 1 and, as a backup, in the
  last sector of the disk; the array of entries follows the one and precedes the other. All LBAs count sectors of the
  device (512 or 4096 bytes), which nothing in the table names.
doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html UEFI 2.10, GUID Partition Table (GPT) Disk Layout'
types:
  header:
    -orig-id: EFI_PARTITION_TABLE_HEADER
    -webide-representation: 'GPT header at LBA {my_lba}, {num_entries} entries from LBA {entries_lba}'
    doc: Header of the table, primary or backup; the two differ in my_lba, alternate_lba, entries_lba and checksum.
    doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html#gpt-header UEFI 2.10, GPT Header'
    seq:
      - id: signature
        -orig-id: Signature
        contents: EFI PART
      - id: revision
        -orig-id: Revision
        type: u4
        doc: 0x00010000 for version 1.0.
      - id: len_header
        -orig-id: HeaderSize
        type: u4
        valid:
          min: 92
          max: 4096
        doc: Bytes of the header that header_crc32 covers.
      - id: header_crc32
        -orig-id: HeaderCRC32
        type: u4
        doc: CRC-32 of the header with this field taken as 0.
      - id: reserved
        -orig-id: Reserved
        type: u4
      - id: my_lba
        -orig-id: MyLBA
        type: u8
        doc: The sector of this header.
      - id: alternate_lba
        -orig-id: AlternateLBA
        type: u8
        doc: The sector of the other header.
      - id: first_usable_lba
        -orig-id: FirstUsableLBA
        type: u8
      - id: last_usable_lba
        -orig-id: LastUsableLBA
        type: u8
        doc: Inclusive.
      - id: disk_guid
        -orig-id: DiskGUID
        size: 16
      - id: entries_lba
        -orig-id: PartitionEntryLBA
        type: u8
        doc: First sector of the array of entries that belongs to this header.
      - id: num_entries
        -orig-id: NumberOfPartitionEntries
        type: u4
      - id: len_entry
        -orig-id: SizeOfPartitionEntry
        type: u4
        valid:
          min: 128
          max: 65536
        doc: 128 times a power of two; larger entries carry unused bytes after the name.
      - id: entries_crc32
        -orig-id: PartitionEntryArrayCRC32
        type: u4
        doc: CRC-32 of num_entries times len_entry bytes.
  partition_entry:
    -orig-id: EFI_PARTITION_ENTRY
    -webide-representation: 'LBA {starting_lba} to {ending_lba}'
    doc: One partition; unused where the type is all zeros.
    doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html#gpt-partition-entry-array UEFI 2.10, GPT Partition Entry Array'
    seq:
      - id: type_guid
        -orig-id: PartitionTypeGUID
        size: 16
        doc: The first three fields are little-endian, as in every GUID of UEFI.
      - id: unique_guid
        -orig-id: UniquePartitionGUID
        size: 16
      - id: starting_lba
        -orig-id: StartingLBA
        type: u8
      - id: ending_lba
        -orig-id: EndingLBA
        type: u8
        doc: Inclusive.
      - id: attributes
        -orig-id: Attributes
        type: u8
      - id: partition_name
        -orig-id: PartitionName
        size: 72
        doc: UTF-16LE, ended by a null where it is shorter.
