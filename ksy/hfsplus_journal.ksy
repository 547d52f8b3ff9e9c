meta:
  id: hfsplus_journal
  title: The HFS+ journal
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
  The journal info block says where the journal is; it is big-endian like all of HFS+. The journal itself is in
  the byte order of the machine that wrote it: hence each of its types stands here twice, and the magic
  number shows which one applies. Its buffer is circular: it starts after the header and wraps at the end.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#Journal TN1150, Journal'
types:
  journal_info_block:
    -orig-id: JournalInfoBlock
    doc: Where the journal is. It is in an allocation block of its own.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#JournalInfoBlock TN1150, Journal Info Block'
    seq:
      - id: flags
        -orig-id: flags
        type: u4
        doc: Bits; see the instances.
      - id: device_signature
        -orig-id: device_signature
        type: u4
        repeat: expr
        repeat-expr: 8
        doc: Identifies the device of a journal that is not on this volume.
      - id: ofs_journal
        -orig-id: offset
        type: u8
        doc: Start of the journal header, in bytes from the start of the device.
      - id: len_journal
        -orig-id: size
        type: u8
        doc: Bytes of the journal, header and buffer.
      - id: external_journal_uuid
        -orig-id: ext_jnl_uuid
        size: 37
        doc: UUID of the journal's partition as text. Reserved in TN1150; from hfs_format.h.
      - id: machine_serial_number
        -orig-id: machine_serial_num
        size: 48
        doc: Serial number of the machine that used an external journal. Reserved in TN1150; from hfs_format.h.
      - id: reserved
        -orig-id: reserved
        size: 43
    instances:
      is_in_file_system:
        -orig-id: kJIJournalInFSMask
        value: '(flags & journal_info_flag::in_file_system.to_i) != 0'
      is_on_other_device:
        -orig-id: kJIJournalOnOtherDeviceMask
        value: '(flags & journal_info_flag::on_other_device.to_i) != 0'
      needs_initialisation:
        -orig-id: kJIJournalNeedInitMask
        value: '(flags & journal_info_flag::initialisation.to_i) != 0'
        doc: There is no valid header yet; the journal is empty.
  journal_header_be: &journal_header
    meta:
      endian: be
    -orig-id: journal_header
    doc: First sector of the journal. The checksum covers its first 44 bytes, with the checksum itself taken as zero.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#JournalHeader TN1150, Journal Header'
    seq:
      - id: magic
        -orig-id: magic
        type: u4
        enum: journal_magic
        valid:
          in-enum: true
      - id: endian
        -orig-id: endian
        type: u4
        enum: journal_endian
        valid:
          in-enum: true
      - id: ofs_start
        -orig-id: start
        type: u8
        doc: First byte of the oldest transaction, from the start of the journal header.
      - id: ofs_end
        -orig-id: end
        type: u8
        doc: Byte after the newest transaction, from the start of the journal header; equal to ofs_start if there is none.
      - id: len_journal
        -orig-id: size
        type: u8
        doc: Bytes of header and buffer.
      - id: len_block_list
        -orig-id: blhdr_size
        type: u4
        doc: Bytes of a block list header with its array.
      - id: checksum
        -orig-id: checksum
        type: u4
      - id: len_header
        -orig-id: jhdr_size
        type: u4
        doc: Bytes of this header; the size of a sector, and the unit of block numbers.
      - id: sequence_num
        -orig-id: sequence_num
        type: u4
        doc: Number of the newest transaction. Not in TN1150 and not under the checksum; from XNU, vfs_journal.h.
  journal_header_le:
    <<: *journal_header
    meta:
      endian: le
  journal_header_checked:
    -orig-id: JOURNAL_HEADER_CKSUM_SIZE
    doc: The part of a journal header that its checksum covers.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#JournalHeader TN1150, Journal Header'
    seq:
      - id: before_checksum
        size: 36
      - id: checksum
        -orig-id: checksum
        size: 4
      - id: after_checksum
        size: 4
  block_list_header_be: &block_list_header
    meta:
      endian: be
    -orig-id: block_list_header
    doc: |
      Begins a part of a transaction; an array of block_info follows, the first of which stands for no block,
      and after len_block_list bytes the contents of the blocks. The checksum covers this header and the first
      block_info, with the checksum itself taken as zero.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BlockListHeader TN1150, Block List Header'
    seq:
      - id: max_blocks
        -orig-id: max_blocks
        type: u2
        doc: Room in the array.
      - id: num_blocks
        -orig-id: num_blocks
        type: u2
        doc: Entries of the array in use, the first one included.
      - id: len_used
        -orig-id: bytes_used
        type: u4
        doc: Bytes of this list in the journal, with header and blocks.
      - id: checksum
        -orig-id: checksum
        type: u4
      - id: flags
        -orig-id: pad
        type: u4
        doc: Padding in TN1150; flags in XNU, vfs_journal.h.
    instances:
      has_block_checksums:
        -orig-id: BLHDR_CHECK_CHECKSUMS
        value: '(flags & block_list_flag::block_checksums.to_i) != 0'
      is_first_header:
        -orig-id: BLHDR_FIRST_HEADER
        value: '(flags & block_list_flag::first_header.to_i) != 0'
  block_list_header_le:
    <<: *block_list_header
    meta:
      endian: le
  block_list_checked:
    -orig-id: BLHDR_CHECKSUM_SIZE
    doc: The part of a block list header that its checksum covers.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BlockListHeader TN1150, Block List Header'
    seq:
      - id: before_checksum
        size: 8
      - id: checksum
        -orig-id: checksum
        size: 4
      - id: after_checksum
        size: 20
  block_info_be: &block_info
    meta:
      endian: be
    -orig-id: block_info
    doc: One block of a transaction; 16 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BlockListHeader TN1150, Block Info'
    seq:
      - id: bnum
        -orig-id: bnum
        type: s8
        doc: Where the block belongs, in units of len_header from the start of the volume; -1 if it was released again and is not to be written.
      - id: bsize
        -orig-id: bsize
        type: u4
        doc: Bytes of the block.
      - id: cksum
        -orig-id: next
        type: u4
        doc: |
          "next" in TN1150: of use in the first entry only, not zero if the transaction goes on in another list. In XNU the
          checksum of the block, and in the first entry the number of the transaction.
    instances:
      is_killed:
        value: bnum < 0
  block_info_le:
    <<: *block_info
    meta:
      endian: le
enums:
  journal_magic:
    0x4a4e4c78:
      id: jnlx
      -orig-id: JOURNAL_HEADER_MAGIC
  journal_endian:
    0x12345678:
      id: endian
      -orig-id: ENDIAN_MAGIC
  journal_info_flag:
    0x1:
      id: in_file_system
      -orig-id: kJIJournalInFSMask
    0x2:
      id: on_other_device
      -orig-id: kJIJournalOnOtherDeviceMask
    0x4:
      id: initialisation
      -orig-id: kJIJournalNeedInitMask
  block_list_flag:
    0x1:
      id: block_checksums
      -orig-id: BLHDR_CHECK_CHECKSUMS
    0x2:
      id: first_header
      -orig-id: BLHDR_FIRST_HEADER
