meta:
  id: lzfse
  title: Blocks of an LZFSE stream
  tags:
    - compression
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: le
doc: |
  What leads the blocks of a stream of Apple's LZFSE, as far as it gives the length and the kind of a block. The
  compressed data themselves are left to a decoder.
doc-ref: 'https://github.com/lzfse/lzfse/blob/master/src/lzfse_internal.h LZFSE internal structures'
seq:
  - id: head
    type: block_head
types:
  block_head:
    doc: What blocks of every kind but the plain one begin with; of a plain one, the data begin at the last field.
    doc-ref: 'https://github.com/lzfse/lzfse/blob/master/src/lzfse_internal.h lzvn_compressed_block_header'
    -webide-representation: '{kind} of {len_raw:dec} bytes'
    seq:
      - id: kind
        -orig-id: magic
        type: u4
        enum: block_kind
      - id: len_raw
        -orig-id: n_raw_bytes
        type: u4
        doc: Bytes when decompressed.
      - id: len_payload
        -orig-id: n_payload_bytes
        type: u4
        doc: Bytes after the header, of LZVN and of the plain header of LZFSE.
  packed_head:
    doc: The header of a block of LZFSE in its packed form.
    doc-ref: 'https://github.com/lzfse/lzfse/blob/master/src/lzfse_internal.h lzfse_compressed_block_header_v2'
    seq:
      - id: kind
        -orig-id: magic
        type: u4
        enum: block_kind
      - id: len_raw
        -orig-id: n_raw_bytes
        type: u4
        doc: Bytes when decompressed.
      - id: literals
        -orig-id: packed_fields[0]
        type: u8
        doc: Number of literals in bits 0 to 19, bytes of their payload in bits 20 to 39, matches from bit 40.
      - id: matches
        -orig-id: packed_fields[1]
        type: u8
        doc: States of the decoder in bits 0 to 39, bytes of the payload of lengths and distances in bits 40 to 59.
      - id: own
        -orig-id: packed_fields[2]
        type: u8
        doc: Bytes of the header in bits 0 to 31, followed by further states.
enums:
  block_kind:
    0x2d787662:
      id: plain
      doc: bvx-, data as they are.
    0x6e787662:
      id: lzvn
      doc: bvxn.
    0x31787662:
      id: lzfse_plain
      doc: bvx1, whose header is 772 bytes long.
    0x32787662:
      id: lzfse_packed
      doc: bvx2.
    0x24787662:
      id: terminator
      doc: bvx$, the end.
