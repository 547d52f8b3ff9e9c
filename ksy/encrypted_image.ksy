meta:
  id: encrypted_image
  title: Encrypted disk images of Mac OS X, as FileVault 1 makes of homes
  file-extension: dmg
  tags:
    - archive
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  endian: be
doc: |
  The file starts with this header; that of a sparse bundle stands in the file "token". Not documented by Apple.
doc-ref: 'https://github.com/openwall/john/blob/bleeding-jumbo/src/dmg2john.c dmg2john, cencrypted_v2_header'
types:
  header:
    -orig-id: cencrypted_v2_header
    doc: Version 2, since Mac OS X 10.5.
    doc-ref: 'https://github.com/openwall/john/blob/bleeding-jumbo/src/dmg2john.c dmg2john, cencrypted_v2_header'
    seq:
      - id: signature
        -orig-id: sig
        contents: encrcdsa
      - id: version
        -orig-id: version
        type: u4
      - id: len_iv
        -orig-id: enc_iv_size
        type: u4
      - id: encryption_mode
        -orig-id: encMode
        type: u4
      - id: encryption_algorithm
        -orig-id: encAlg
        type: u4
      - id: key_bits
        -orig-id: keyBits
        type: u4
        doc: 128 or 256, for AES.
      - id: prng_algorithm
        -orig-id: prngalg
        type: u4
      - id: len_prng_key
        -orig-id: prngkeysize
        type: u4
      - id: uuid
        -orig-id: uuid
        size: 16
      - id: len_block
        -orig-id: blocksize
        type: u4
        doc: Bytes that are encrypted together.
      - id: len_data
        -orig-id: datasize
        type: u8
        doc: Size of the image within.
      - id: ofs_data
        -orig-id: dataoffset
        type: u8
        doc: In bytes from the start of the file.
