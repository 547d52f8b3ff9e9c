meta:
  id: gpt_disk
  title: 'GUID Partition Table, a disk with sectors of 512 bytes'
  tags:
    - filesystem
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - gpt
    - mbr
  endian: le
doc: |
  An entry point for the Web IDE: the protective master boot record, both headers, and the entries that each names.
doc-ref: 'https://uefi.org/specs/UEFI/2.10/05_GUID_Partition_Table_Format.html UEFI 2.10, GUID Partition Table (GPT) Disk Layout'
seq:
  - id: protective_mbr
    type: mbr::boot_record
  - id: primary
    size: len_sector
    type: gpt::header
instances:
  len_sector:
    value: 512
    doc: In bytes; 4096 on some disks.
  entries:
    pos: primary.entries_lba * len_sector
    size: primary.len_entry
    type: gpt::partition_entry
    repeat: expr
    repeat-expr: primary.num_entries
  backup:
    pos: _io.size - len_sector
    size: len_sector
    type: gpt::header
  backup_entries:
    pos: backup.entries_lba * len_sector
    size: backup.len_entry
    type: gpt::partition_entry
    repeat: expr
    repeat-expr: backup.num_entries
