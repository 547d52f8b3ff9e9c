meta:
  id: expert_witness
  title: Expert Witness disk image (E01)
  file-extension:
    - e01
    - s01
  xref:
    justsolve: Expert_Witness_Format
  tags:
    - archive
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  A disk in chunks, compressed one by one, in one or several files. Each file is a chain of sections: `volume` gives the
  sizes, `sectors` holds chunks, and `table` says where in the file they begin. Checksums are Adler-32.
doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format'
types:
  segment_header:
    doc: The first bytes of each file.
    doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format, File header'
    seq:
      - id: magic
        contents: [0x45, 0x56, 0x46, 0x09, 0x0d, 0x0a, 0xff, 0x00]
      - id: fields_start
        type: u1
      - id: segment_number
        type: u2
        doc: From 1.
      - id: fields_end
        type: u2
  section:
    doc: Begins a section; what it holds follows.
    doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format, Section descriptor'
    seq:
      - id: kind
        size: 16
        doc: A name in letters, filled with zeros.
      - id: ofs_next
        type: u8
        doc: Where the next section begins in the file, in bytes; that of the last one is its own place.
      - id: len_section
        type: u8
        doc: In bytes, with this header; 0 of the last section of a file in some.
      - id: padding
        size: 40
      - id: checksum
        type: u4
        doc: Checksum of the 72 bytes before it.
  volume_section:
    doc: Sizes of the disk, in a section `volume` or `disk`.
    doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format, Volume section'
    seq:
      - id: media_type
        type: u1
      - id: unknown
        size: 3
      - id: num_chunks
        type: u4
      - id: num_chunk_sectors
        type: u4
        doc: Sectors of a chunk.
      - id: len_sector
        type: u4
        doc: In bytes.
      - id: num_sectors
        type: u8
        doc: Sectors of the disk. A small section, as SMART writes it, has only four bytes of this field.
    instances:
      num_sectors_short:
        value: num_sectors & 0xffffffff
  table_section:
    doc: Begins the table of the chunks in the section before; entries follow, then their checksum.
    doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format, Table section'
    seq:
      - id: num_entries
        type: u4
      - id: padding
        size: 4
      - id: ofs_base
        type: u8
        doc: Added to the places of the entries; 0 in old files.
      - id: padding2
        size: 4
      - id: checksum
        type: u4
        doc: Checksum of the 20 bytes before it.
  chunk_entry:
    doc: Where a chunk begins.
    doc-ref: 'https://github.com/libyal/libewf/blob/main/documentation/Expert%20Witness%20Compression%20Format%20(EWF).asciidoc Expert Witness Compression Format, Table entries'
    seq:
      - id: place
        type: u4
        doc: In bytes from the base, with a bit for compression; after the first place of 2 GiB, all bits are the place.
    instances:
      ofs_chunk:
        value: place & 0x7fffffff
      is_compressed:
        value: place & 0x80000000
        doc: Not 0 if it is a stream of zlib; otherwise the chunk is followed by its checksum.
