meta:
  id: asif
  title: Apple Sparse Image Format (ASIF)
  file-extension: asif
  tags:
    - archive
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  A disk in chunks; only chunks that were written to are stored. In use since macOS 26. The header names two
  directories; the one with the higher sequence number counts. A directory lists the chunks that hold tables, a table is
  a row of groups, and a group is a row of references to data chunks, followed by one reference to a bitmap. The bitmap
  marks the sectors of the group that were written. Apple has not published the format; version 1 is described.
doc-ref: 'https://github.com/huven/asif-format ASIF binary specification'
types:
  header:
    doc: The first bytes of the file.
    doc-ref: 'https://github.com/huven/asif-format#header ASIF binary specification, Header'
    -webide-representation: '{num_sectors} sectors in chunks of {len_chunk} bytes'
    seq:
      - id: signature
        contents: shdw
      - id: version
        type: u4
        doc: '1 in all files seen.'
      - id: len_header
        type: u4
        doc: Size of this header in bytes; 512 in all files seen.
      - id: flags
        type: u4
        doc: Not documented.
      - id: ofs_first_directory
        type: u8
        doc: Where one directory starts in the file, in bytes.
      - id: ofs_second_directory
        type: u8
        doc: Where the other directory starts in the file, in bytes.
      - id: uuid
        size: 16
      - id: num_sectors
        type: u8
        doc: Size of the disk in sectors.
      - id: max_sectors
        type: u8
        doc: Size in sectors that the disk can grow to; it sets the number of entries of a directory.
      - id: len_chunk
        type: u4
        doc: Size of a chunk in bytes, a multiple of the size of a sector; 1 MiB in all files seen.
      - id: len_sector
        -orig-id: block size
        type: u2
        doc: Size of a sector in bytes, a multiple of 512.
      - id: num_segments
        -orig-id: total_segments_t
        type: u2
        doc: Apple's parser rejects what is not 0.
      - id: metadata_chunk
        type: u8
        doc: |
          The chunk of the disk that holds the metadata, after the last sector; found through the tables, as all
          chunks of the disk are. 0 if there are none.
  sequence:
    doc: The start of a directory; one chunk number for each table follows, 0 where a table is absent.
    doc-ref: 'https://github.com/huven/asif-format#directory ASIF binary specification, Directory'
    seq:
      - id: number
        type: u8
        doc: The directory with the higher number counts, so that a change is made by one write.
  directory_entry:
    doc: Names the chunk of the file that holds a table.
    doc-ref: 'https://github.com/huven/asif-format#directory ASIF binary specification, Directory'
    seq:
      - id: chunk
        type: u8
        doc: In chunks from the start of the file; 0 means that all that the table would cover reads as zeros.
  reference:
    doc: One entry of a table.
    doc-ref: 'https://github.com/huven/asif-format#chunk-group ASIF binary specification, Chunk Group'
    -webide-representation: '{status} chunk {chunk}'
    seq:
      - id: entry
        type: u8
        doc: State in the two highest bits, seven reserved bits, then the number of a chunk.
    instances:
      status:
        value: entry >> 62
        enum: status
        doc: Says nothing of a bitmap, whose reference has been seen with clear bits.
      chunk:
        value: entry & 0x7fffffffffffff
        doc: In chunks from the start of the file.
  metadata_header:
    doc: The first bytes of the chunk of metadata; a property list follows.
    doc-ref: 'https://github.com/huven/asif-format#metadata-header ASIF binary specification, Metadata header'
    seq:
      - id: signature
        contents: meta
      - id: version
        type: u4
      - id: len_header
        type: u4
        doc: Size of this header in bytes, 512 in all files seen; the property list follows it.
      - id: len_plist
        type: u8
        doc: Not aligned to eight bytes. The notes call it an offset; dissect.hypervisor takes it for a length.
enums:
  status:
    0:
      id: absent
      doc: Never written; the number of its chunk is 0, and it reads as zeros.
    1:
      id: whole
      doc: All of its sectors were written.
    2:
      id: unmapped
      doc: Given back; the number of its chunk is 0, and it reads as zeros.
    3:
      id: partial
      doc: The bitmap says which of its sectors were written.
