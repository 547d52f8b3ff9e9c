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
  The file starts with a header, of a sparse bundle the file "token"; before Mac OS X 10.5 it ended with a trailer. Not
  documented by Apple.
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
  key_list:
    doc: The number of keys, after the header; their places follow.
    doc-ref: 'https://github.com/nlitsme/encrypteddmg README, structure of the header'
    seq:
      - id: num_keys
        type: u4
        doc: Each of them opens the image.
  key_place:
    doc: Where a key is in the file.
    doc-ref: 'https://github.com/nlitsme/encrypteddmg README, structure of the header'
    seq:
      - id: kind
        type: u4
        enum: key_kind
      - id: ofs_key
        type: u8
        doc: In bytes from the start of the file.
      - id: len_key
        type: u8
        doc: In bytes.
  password_key:
    -orig-id: cencrypted_v2_pwheader
    doc: A key that a password opens; what is wrapped follows.
    doc-ref: 'https://github.com/openwall/john/blob/bleeding-jumbo/src/dmg2john.c dmg2john, cencrypted_v2_pwheader'
    seq:
      - id: kdf_algorithm
        -orig-id: kdf_algorithm
        type: u4
        doc: 103 for PBKDF2 with HMAC-SHA-1.
      - id: kdf_prng_algorithm
        -orig-id: kdf_prng_algorithm
        type: u4
      - id: num_rounds
        -orig-id: kdf_iteration_count
        type: u4
      - id: len_salt
        -orig-id: kdf_salt_len
        type: u4
      - id: salt
        -orig-id: kdf_salt
        size: 32
      - id: len_wrap_iv
        -orig-id: blob_enc_iv_size
        type: u4
      - id: wrap_iv
        -orig-id: blob_enc_iv
        size: 32
      - id: wrap_key_bits
        -orig-id: blob_enc_key_bits
        type: u4
        doc: 192, for 3DES.
      - id: wrap_algorithm
        -orig-id: blob_enc_algorithm
        type: u4
        doc: 17 for 3DES.
      - id: wrap_padding
        -orig-id: blob_enc_padding
        type: u4
      - id: wrap_mode
        -orig-id: blob_enc_mode
        type: u4
      - id: len_wrapped
        -orig-id: encrypted_keyblob_size
        type: u4
  former_trailer:
    -orig-id: DmgCryptHeaderV1
    doc: |
      Version 1, until Mac OS X 10.4: the last 1,276 bytes of the file, which begins with the image. A password opens
      each of the keys, which are wrapped twice.
    doc-ref: 'https://github.com/sgan81/apfs-fuse/blob/master/ApfsLib/DeviceDMG.cpp apfs-fuse, DmgCryptHeaderV1'
    seq:
      - id: uuid
        -orig-id: uuid
        size: 16
      - id: len_block
        -orig-id: block_size
        type: u4
        doc: Bytes that are encrypted together.
      - id: unknown
        size: 20
      - id: kdf_algorithm
        -orig-id: kdf_algorithm
        type: u4
        doc: 103 for PBKDF2 with HMAC-SHA-1.
      - id: kdf_prng_algorithm
        -orig-id: kdf_prng_algorithm
        type: u4
      - id: num_rounds
        -orig-id: kdf_iteration_count
        type: u4
      - id: len_salt
        -orig-id: kdf_salt_len
        type: u4
      - id: salt
        -orig-id: kdf_salt
        size: 32
      - id: unknown_salt
        size: 16
      - id: wrap_iv
        -orig-id: unwrap_iv
        size: 32
        doc: Not used; the vectors of the wrapping are fixed.
      - id: len_wrapped_key
        -orig-id: wrapped_aes_key_len
        type: u4
      - id: wrapped_key
        -orig-id: wrapped_aes_key
        size: 256
        doc: The key of AES.
      - id: unknown_key
        size: 40
      - id: len_wrapped_hmac_key
        -orig-id: wrapped_hmac_sha1_key_len
        type: u4
      - id: wrapped_hmac_key
        -orig-id: wrapped_hmac_sha1_key
        size: 256
        doc: The key of HMAC-SHA-1.
      - id: unknown_hmac_key
        size: 40
      - id: len_wrapped_integrity_key
        -orig-id: wrapped_integrity_key_len
        type: u4
      - id: wrapped_integrity_key
        -orig-id: wrapped_integrity_key
        size: 256
      - id: len_unknown_key
        type: u4
      - id: wrapped_unknown_key
        size: 256
      - id: len_data
        -orig-id: decrypted_data_length
        type: u8
        doc: Size of the image within.
      - id: unknown_end
        size: 4
      - id: signature
        -orig-id: signature
        contents: cdsaencr
enums:
  key_kind:
    1:
      id: password
    2:
      id: certificate
    3:
      id: key_bag
