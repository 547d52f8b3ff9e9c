meta:
  id: apfs_volume
  title: 'Apple File System, volume'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
  endian: le
doc: 'Superblock of a volume, with its features, roles and history.'
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Volumes, p. 51'
types:
  apfs_superblock:
    -orig-id: apfs_superblock_t
    doc: Superblock of a volume.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Volumes, apfs_superblock_t, p. 51'
    -webide-representation: 'volume {fs_index}, xid {hdr.xid}'
    seq:
      - id: hdr
        -orig-id: apfs_o
        type: apfs_object::obj_phys
      - id: magic
        -orig-id: apfs_magic
        type: u4
        valid: 0x42535041
        doc: The letters APSB.
      - id: fs_index
        -orig-id: apfs_fs_index
        type: u4
        doc: 'Slot in the container''s array of volumes.'
      - id: features
        -orig-id: apfs_features
        type: u8
      - id: readonly_compatible_features
        -orig-id: apfs_readonly_compatible_features
        type: u8
      - id: incompatible_features
        -orig-id: apfs_incompatible_features
        type: u8
      - id: unmount_time
        -orig-id: apfs_unmount_time
        type: u8
        doc: Nanoseconds since 1970.
      - id: num_reserve_blocks
        -orig-id: apfs_fs_reserve_block_count
        type: u8
      - id: num_quota_blocks
        -orig-id: apfs_fs_quota_block_count
        type: u8
      - id: num_alloced_blocks
        -orig-id: apfs_fs_alloc_count
        type: u8
        doc: Blocks allocated to this volume now.
      - id: meta_crypto
        -orig-id: apfs_meta_crypto
        type: wrapped_meta_crypto_state
      - id: root_tree_type
        -orig-id: apfs_root_tree_type
        type: u4
      - id: extentref_tree_type
        -orig-id: apfs_extentref_tree_type
        type: u4
      - id: snap_meta_tree_type
        -orig-id: apfs_snap_meta_tree_type
        type: u4
      - id: omap_oid
        -orig-id: apfs_omap_oid
        type: u8
        doc: Physical.
      - id: root_tree_oid
        -orig-id: apfs_root_tree_oid
        type: u8
        doc: Virtual; the file-system tree.
      - id: extentref_tree_oid
        -orig-id: apfs_extentref_tree_oid
        type: u8
        doc: Physical.
      - id: snap_meta_tree_oid
        -orig-id: apfs_snap_meta_tree_oid
        type: u8
        doc: Physical.
      - id: revert_to_xid
        -orig-id: apfs_revert_to_xid
        type: u8
      - id: revert_to_sblock_oid
        -orig-id: apfs_revert_to_sblock_oid
        type: u8
        doc: Physical.
      - id: next_obj_id
        -orig-id: apfs_next_obj_id
        type: u8
        doc: Next file-system object identifier.
      - id: num_files
        -orig-id: apfs_num_files
        type: u8
      - id: num_directories
        -orig-id: apfs_num_directories
        type: u8
        doc: Without the root directory and the private one.
      - id: num_symlinks
        -orig-id: apfs_num_symlinks
        type: u8
      - id: num_other_fsobjects
        -orig-id: apfs_num_other_fsobjects
        type: u8
      - id: num_snapshots
        -orig-id: apfs_num_snapshots
        type: u8
      - id: num_blocks_ever_alloced
        -orig-id: apfs_total_blocks_alloced
        type: u8
        doc: Ever.
      - id: num_blocks_ever_freed
        -orig-id: apfs_total_blocks_freed
        type: u8
        doc: Ever.
      - id: vol_uuid
        -orig-id: apfs_vol_uuid
        size: 16
      - id: last_mod_time
        -orig-id: apfs_last_mod_time
        type: u8
        doc: Nanoseconds since 1970.
      - id: fs_flags
        -orig-id: apfs_fs_flags
        type: u8
      - id: formatted_by
        -orig-id: apfs_formatted_by
        type: modified_by
      - id: modified_by
        -orig-id: apfs_modified_by
        type: modified_by
        repeat: expr
        repeat-expr: 8
        doc: Newest first.
      - id: volname
        -orig-id: apfs_volname
        size: 256
        doc: 'UTF-8, ends with a zero byte.'
      - id: next_doc_id
        -orig-id: apfs_next_doc_id
        type: u4
      - id: role
        -orig-id: apfs_role
        type: u2
        enum: volume_role
      - id: reserved
        -orig-id: reserved
        type: u2
      - id: root_to_xid
        -orig-id: apfs_root_to_xid
        type: u8
        doc: 'Snapshot that is mounted in place of the live state, or zero.'
      - id: er_state_oid
        -orig-id: apfs_er_state_oid
        type: u8
        doc: 'Virtual; state of an encryption under way, or zero.'
      - id: cloneinfo_id_epoch
        -orig-id: apfs_cloneinfo_id_epoch
        type: u8
      - id: cloneinfo_xid
        -orig-id: apfs_cloneinfo_xid
        type: u8
      - id: snap_meta_ext_oid
        -orig-id: apfs_snap_meta_ext_oid
        type: u8
        doc: Virtual.
      - id: volume_group_id
        -orig-id: apfs_volume_group_id
        size: 16
        doc: The same for the System and Data volumes of one macOS.
      - id: integrity_meta_oid
        -orig-id: apfs_integrity_meta_oid
        type: u8
        doc: Virtual; sealed volumes.
      - id: fext_tree_oid
        -orig-id: apfs_fext_tree_oid
        type: u8
        doc: Virtual; file extents of sealed volumes.
      - id: fext_tree_type
        -orig-id: apfs_fext_tree_type
        type: u4
      - id: reserved_type
        -orig-id: reserved_type
        type: u4
      - id: reserved_oid
        -orig-id: reserved_oid
        type: u8
    instances:
      is_case_insensitive:
        -orig-id: APFS_INCOMPAT_CASE_INSENSITIVE
        value: '(incompatible_features & volume_incompatible_feature::case_insensitive.to_i) != 0'
      is_enc_rolled:
        -orig-id: APFS_INCOMPAT_ENC_ROLLED
        value: '(incompatible_features & volume_incompatible_feature::enc_rolled.to_i) != 0'
      is_normalization_insensitive:
        -orig-id: APFS_INCOMPAT_NORMALIZATION_INSENSITIVE
        value: '(incompatible_features & volume_incompatible_feature::normalization_insensitive.to_i) != 0'
      has_hashed_names:
        value: 'is_case_insensitive or is_normalization_insensitive'
        doc: Directory keys carry a hash of the name where either insensitivity is set.
      is_sealed:
        -orig-id: APFS_INCOMPAT_SEALED_VOLUME
        value: '(incompatible_features & volume_incompatible_feature::sealed_volume.to_i) != 0'
      is_unencrypted:
        -orig-id: APFS_FS_UNENCRYPTED
        value: '(fs_flags & volume_flag::unencrypted.to_i) != 0'
      is_onekey:
        -orig-id: APFS_FS_ONEKEY
        value: '(fs_flags & volume_flag::onekey.to_i) != 0'
      supports_defrag:
        -orig-id: APFS_FEATURE_DEFRAG
        value: '(features & volume_feature::defrag.to_i) != 0'
  wrapped_meta_crypto_state:
    -orig-id: wrapped_meta_crypto_state_t
    doc: 'How the volume''s key for its metadata is wrapped.'
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Encryption, wrapped_meta_crypto_state_t, p. 140'
    -webide-representation: 'class {persistent_class}'
    seq:
      - id: major_version
        -orig-id: major_version
        type: u2
      - id: minor_version
        -orig-id: minor_version
        type: u2
      - id: cpflags
        -orig-id: cpflags
        type: u4
      - id: persistent_class
        -orig-id: persistent_class
        type: u4
      - id: key_os_version
        -orig-id: key_os_version
        type: u4
      - id: key_revision
        -orig-id: key_revision
        type: u2
      - id: unused
        -orig-id: unused
        type: u2
  modified_by:
    -orig-id: apfs_modified_by_t
    doc: Program that formatted or changed the volume.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Volumes, apfs_modified_by_t, p. 60'
    -webide-representation: 'xid {last_xid}'
    seq:
      - id: id
        -orig-id: id
        size: 32
        doc: 'UTF-8, name and version.'
      - id: timestamp
        -orig-id: timestamp
        type: u8
        doc: Nanoseconds since 1970.
      - id: last_xid
        -orig-id: last_xid
        type: u8
enums:
  volume_feature:
    1:
      id: defrag_prerelease
      -orig-id: APFS_FEATURE_DEFRAG_PRERELEASE
    2:
      id: hardlink_map_records
      -orig-id: APFS_FEATURE_HARDLINK_MAP_RECORDS
    4:
      id: defrag
      -orig-id: APFS_FEATURE_DEFRAG
    8:
      id: strictatime
      -orig-id: APFS_FEATURE_STRICTATIME
    0x10:
      id: volgrp_system_ino_space
      -orig-id: APFS_FEATURE_VOLGRP_SYSTEM_INO_SPACE
  volume_incompatible_feature:
    1:
      id: case_insensitive
      -orig-id: APFS_INCOMPAT_CASE_INSENSITIVE
    2:
      id: dataless_snaps
      -orig-id: APFS_INCOMPAT_DATALESS_SNAPS
    4:
      id: enc_rolled
      -orig-id: APFS_INCOMPAT_ENC_ROLLED
    8:
      id: normalization_insensitive
      -orig-id: APFS_INCOMPAT_NORMALIZATION_INSENSITIVE
    0x10:
      id: incomplete_restore
      -orig-id: APFS_INCOMPAT_INCOMPLETE_RESTORE
    0x20:
      id: sealed_volume
      -orig-id: APFS_INCOMPAT_SEALED_VOLUME
    0x40:
      id: reserved_40
      -orig-id: APFS_INCOMPAT_RESERVED_40
  volume_flag:
    1:
      id: unencrypted
      -orig-id: APFS_FS_UNENCRYPTED
    2:
      id: reserved_2
      -orig-id: APFS_FS_RESERVED_2
    4:
      id: reserved_4
      -orig-id: APFS_FS_RESERVED_4
    8:
      id: onekey
      -orig-id: APFS_FS_ONEKEY
      doc: 'One key, of the volume, for all files.'
    0x10:
      id: spilledover
      -orig-id: APFS_FS_SPILLEDOVER
    0x20:
      id: run_spillover_cleaner
      -orig-id: APFS_FS_RUN_SPILLOVER_CLEANER
    0x40:
      id: always_check_extentref
      -orig-id: APFS_FS_ALWAYS_CHECK_EXTENTREF
    0x80:
      id: reserved_80
      -orig-id: APFS_FS_RESERVED_80
    0x100:
      id: reserved_100
      -orig-id: APFS_FS_RESERVED_100
  volume_role:
    0:
      id: none
      -orig-id: APFS_VOL_ROLE_NONE
    1:
      id: system
      -orig-id: APFS_VOL_ROLE_SYSTEM
    2:
      id: user
      -orig-id: APFS_VOL_ROLE_USER
    4:
      id: recovery
      -orig-id: APFS_VOL_ROLE_RECOVERY
    8:
      id: vm
      -orig-id: APFS_VOL_ROLE_VM
    0x10:
      id: preboot
      -orig-id: APFS_VOL_ROLE_PREBOOT
    0x20:
      id: installer
      -orig-id: APFS_VOL_ROLE_INSTALLER
    0x40:
      id: data
      -orig-id: APFS_VOL_ROLE_DATA
    0x80:
      id: baseband
      -orig-id: APFS_VOL_ROLE_BASEBAND
    0xc0:
      id: update
      -orig-id: APFS_VOL_ROLE_UPDATE
    0x100:
      id: xart
      -orig-id: APFS_VOL_ROLE_XART
    0x140:
      id: hardware
      -orig-id: APFS_VOL_ROLE_HARDWARE
    0x180:
      id: backup
      -orig-id: APFS_VOL_ROLE_BACKUP
    0x1c0:
      id: reserved_7
      -orig-id: APFS_VOL_ROLE_RESERVED_7
    0x200:
      id: reserved_8
      -orig-id: APFS_VOL_ROLE_RESERVED_8
    0x240:
      id: enterprise
      -orig-id: APFS_VOL_ROLE_ENTERPRISE
    0x280:
      id: reserved_10
      -orig-id: APFS_VOL_ROLE_RESERVED_10
    0x2c0:
      id: prelogin
      -orig-id: APFS_VOL_ROLE_PRELOGIN
