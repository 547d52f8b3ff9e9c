meta:
  id: apfs_image
  title: 'Apple File System, an image of a container'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_block
    - apfs_container
  endian: le
doc: |
  An entry point for the Web IDE: an image that starts with block 0 of a container. It shows the superblock of block 0,
  the ring of checkpoints, and every block by its address. Block 0 may be older than the newest checkpoint, whose
  superblock is the one with the highest transaction in the ring.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Container, p. 26'
seq:
  - id: superblock
    type: apfs_container::nx_superblock
    doc: The copy in block 0.
instances:
  checkpoint_descriptors:
    pos: superblock.xp_desc_base * superblock.len_block
    size: superblock.len_block
    type: apfs_block
    repeat: expr
    repeat-expr: superblock.num_desc_blocks
    if: superblock.desc_is_tree == 0
    doc: 'The ring: checkpoint maps and superblocks.'
  checkpoint_data:
    pos: superblock.xp_data_base * superblock.len_block
    size: superblock.len_block
    type: apfs_block
    repeat: expr
    repeat-expr: superblock.num_data_blocks
    if: superblock.data_is_tree == 0
    doc: Ephemeral objects, as checkpoints wrote them.
  object_map:
    pos: superblock.omap_oid * superblock.len_block
    size: superblock.len_block
    type: apfs_block
    doc: The container's object map, which leads to the superblocks of volumes.
  blocks:
    pos: 0
    size: superblock.len_block
    type: apfs_block
    repeat: expr
    repeat-expr: _io.size / superblock.len_block
    doc: 'Every block, by its address; large images take long.'
