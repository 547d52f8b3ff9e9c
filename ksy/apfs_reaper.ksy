meta:
  id: apfs_reaper
  title: 'Apple File System, reaper'
  tags:
    - filesystem
    - ios
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - apfs_object
    - apfs_container
  endian: le
doc: The reaper frees large objects over several transactions.
doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, p. 164'
types:
  reaper_head:
    -orig-id: nx_reaper_phys_t
    doc: Reaper without its state buffer.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, nx_reaper_phys_t, p. 164'
    -webide-representation: 'lists {head_oid} to {tail_oid}'
    seq:
      - id: hdr
        -orig-id: nr_o
        type: apfs_object::obj_phys
      - id: next_reap_id
        -orig-id: nr_next_reap_id
        type: u8
      - id: completed_id
        -orig-id: nr_completed_id
        type: u8
      - id: head_oid
        -orig-id: nr_head
        type: u8
        doc: Ephemeral; first list.
      - id: tail_oid
        -orig-id: nr_tail
        type: u8
        doc: Ephemeral; last list.
      - id: flags
        -orig-id: nr_flags
        type: u4
      - id: rlcount
        -orig-id: nr_rlcount
        type: u4
        doc: Number of lists.
      - id: type
        -orig-id: nr_type
        type: u4
      - id: len_object
        -orig-id: nr_size
        type: u4
      - id: fs_oid
        -orig-id: nr_fs_oid
        type: u8
      - id: oid
        -orig-id: nr_oid
        type: u8
      - id: xid
        -orig-id: nr_xid
        type: u8
      - id: nrle_flags
        -orig-id: nr_nrle_flags
        type: u4
      - id: len_state_buffer
        -orig-id: nr_state_buffer_size
        type: u4
        doc: In bytes.
    instances:
      object_type:
        -orig-id: OBJECT_TYPE_MASK
        value: 'type & apfs_object::object_mask::type.to_i'
      is_continued:
        -orig-id: NR_CONTINUE
        value: '(flags & reaper_flag::continue_reaping.to_i) != 0'
      is_cleanup:
        -orig-id: NRLE_CLEANUP
        value: '(nrle_flags & reap_entry_flag::cleanup.to_i) != 0'
  reaper_phys:
    -orig-id: nx_reaper_phys_t
    doc: Reaper.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, nx_reaper_phys_t, p. 164'
    -webide-representation: 'lists {head.head_oid} to {head.tail_oid}'
    seq:
      - id: head
        -orig-id: nx_reaper_phys_t
        type: reaper_head
      - id: state_buffer
        -orig-id: nr_state_buffer
        size: head.len_state_buffer
  reap_list_head:
    -orig-id: nx_reap_list_phys_t
    doc: Reap list without its entries.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, nx_reap_list_phys_t, p. 164'
    -webide-representation: '{num_entries} entries'
    seq:
      - id: hdr
        -orig-id: nrl_o
        type: apfs_object::obj_phys
      - id: next_oid
        -orig-id: nrl_next
        type: u8
        doc: Ephemeral; the next list, or zero.
      - id: flags
        -orig-id: nrl_flags
        type: u4
      - id: max_entries
        -orig-id: nrl_max
        type: u4
      - id: num_entries
        -orig-id: nrl_count
        type: u4
      - id: first
        -orig-id: nrl_first
        type: u4
        enum: slot
        doc: Slot of the first entry; all ones if there is none.
      - id: last
        -orig-id: nrl_last
        type: u4
        enum: slot
      - id: free
        -orig-id: nrl_free
        type: u4
        enum: slot
  reap_list_phys:
    -orig-id: nx_reap_list_phys_t
    doc: Reap list.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, nx_reap_list_phys_t, p. 164'
    -webide-representation: '{head.num_entries} entries'
    seq:
      - id: head
        -orig-id: nx_reap_list_phys_t
        type: reap_list_head
      - id: entries
        -orig-id: nrl_entries
        type: reap_list_entry
        repeat: expr
        repeat-expr: head.max_entries
        doc: All slots; the used ones are linked.
  reap_list_entry:
    -orig-id: nx_reap_list_entry_t
    doc: Object to be freed.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, nx_reap_list_entry_t, p. 164'
    -webide-representation: 'oid {oid}'
    seq:
      - id: next
        -orig-id: nrle_next
        type: u4
        enum: slot
        doc: Slot of the next entry; all ones after the last one.
      - id: flags
        -orig-id: nrle_flags
        type: u4
      - id: type
        -orig-id: nrle_type
        type: u4
      - id: len_object
        -orig-id: nrle_size
        type: u4
      - id: fs_oid
        -orig-id: nrle_fs_oid
        type: u8
      - id: oid
        -orig-id: nrle_oid
        type: u8
      - id: xid
        -orig-id: nrle_xid
        type: u8
    instances:
      is_valid:
        -orig-id: NRLE_VALID
        value: '(flags & reap_entry_flag::valid.to_i) != 0'
      object_type:
        -orig-id: OBJECT_TYPE_MASK
        value: 'type & apfs_object::object_mask::type.to_i'
  omap_reap_state:
    -orig-id: omap_reap_state_t
    doc: How far the reaping of an object map has come.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, omap_reap_state_t, p. 166'
    seq:
      - id: phase
        -orig-id: omr_phase
        type: u4
        enum: omap_reap_phase
      - id: pad
        type: u4
        doc: 'Not in the reference: what a compiler leaves before a field of 64 bits, as the structure is not packed.'
      - id: key
        -orig-id: omr_ok
        type: apfs_container::omap_key
  omap_cleanup_state:
    -orig-id: omap_cleanup_state_t
    doc: How far the removal of a snapshot from an object map has come.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, omap_cleanup_state_t, p. 166'
    seq:
      - id: cleaning
        -orig-id: omc_cleaning
        type: u4
      - id: omsflags
        -orig-id: omc_omsflags
        type: u4
      - id: sxid_prev
        -orig-id: omc_sxidprev
        type: u8
      - id: sxid_start
        -orig-id: omc_sxidstart
        type: u8
      - id: sxid_end
        -orig-id: omc_sxidend
        type: u8
      - id: sxid_next
        -orig-id: omc_sxidnext
        type: u8
      - id: curkey
        -orig-id: omc_curkey
        type: apfs_container::omap_key
  apfs_reap_state:
    -orig-id: apfs_reap_state_t
    doc: How far the reaping of a volume has come.
    doc-ref: 'https://developer.apple.com/support/downloads/Apple-File-System-Reference.pdf Apple File System Reference (2020-06-22), Reaper, apfs_reap_state_t, p. 167'
    seq:
      - id: last_pbn
        -orig-id: last_pbn
        type: u8
      - id: cur_snap_xid
        -orig-id: cur_snap_xid
        type: u8
      - id: phase
        -orig-id: phase
        type: u4
        enum: reap_phase
enums:
  omap_reap_phase:
    1:
      id: map_tree
      -orig-id: OMAP_REAP_PHASE_MAP_TREE
    2:
      id: snapshot_tree
      -orig-id: OMAP_REAP_PHASE_SNAPSHOT_TREE
  reaper_flag:
    1:
      id: bhm
      -orig-id: NR_BHM_FLAG
      doc: Reserved; always set.
    2:
      id: continue_reaping
      -orig-id: NR_CONTINUE
      doc: The current object is being reaped.
  reap_phase:
    0:
      id: start
      -orig-id: APFS_REAP_PHASE_START
    1:
      id: snapshots
      -orig-id: APFS_REAP_PHASE_SNAPSHOTS
    2:
      id: active_fs
      -orig-id: APFS_REAP_PHASE_ACTIVE_FS
    3:
      id: destroy_omap
      -orig-id: APFS_REAP_PHASE_DESTROY_OMAP
    4:
      id: done
      -orig-id: APFS_REAP_PHASE_DONE
  slot:
    0xffffffff:
      id: none
      -orig-id: NRL_INDEX_INVALID
      doc: No entry.
  reap_entry_flag:
    1:
      id: valid
      -orig-id: NRLE_VALID
    2:
      id: reap_id_record
      -orig-id: NRLE_REAP_ID_RECORD
    4:
      id: call
      -orig-id: NRLE_CALL
    8:
      id: completion
      -orig-id: NRLE_COMPLETION
    0x10:
      id: cleanup
      -orig-id: NRLE_CLEANUP
