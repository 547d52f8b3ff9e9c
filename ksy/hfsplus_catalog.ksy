meta:
  id: hfsplus_catalog
  title: Records of the HFS+ catalog file
  xref:
    justsolve: HFS+
    pronom: fmt/1742
  tags:
    - filesystem
    - macos
  license: CC0-1.0
  ks-version: '0.11'
  imports:
    - hfsplus_volume
  endian: be
doc: |
  Files and folders, sorted by the ID of the parent folder and then by name, and thread records, which lead
  from a catalog node ID to parent and name (their key is that ID with an empty name). Names are
  UTF-16, big-endian, fully decomposed; they may hold any character, NUL included.
doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File'
types:
  catalog_key:
    -orig-id: HFSPlusCatalogKey
    doc: Key of a leaf or index record; 8 bytes and the name.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File Key'
    -webide-representation: 'parent {parent_id:dec}, name of {num_name_units:dec}'
    seq:
      - id: len_key
        -orig-id: keyLength
        type: u2
        doc: Bytes of the key, without this field; 6 and twice the name's length.
      - id: parent_id
        -orig-id: parentID
        type: u4
        doc: ID of the parent folder; in a thread record, the ID of the file or folder itself.
      - id: num_name_units
        -orig-id: nodeName.length
        type: u2
        doc: Length of the name in 16-bit units, 0 to 255.
      - id: name
        -orig-id: nodeName.unicode
        size: num_name_units * 2
        doc: UTF-16, big-endian.
  catalog_record_type:
    doc: What every leaf record's data starts with.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File Data'
    seq:
      - id: record_type
        -orig-id: recordType
        type: s2
        enum: record_type
  catalog_folder:
    -orig-id: HFSPlusCatalogFolder
    doc: A folder; 88 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog Folder Records'
    -webide-representation: 'folder {folder_id:dec}, {valence:dec} items'
    seq:
      - id: record_type
        -orig-id: recordType
        type: s2
        enum: record_type
      - id: flags
        -orig-id: flags
        type: u2
        doc: Bits; see the instances of catalog_file, which name them all.
      - id: valence
        -orig-id: valence
        type: u4
        doc: Number of files and folders directly in this folder.
      - id: folder_id
        -orig-id: folderID
        type: u4
        doc: Catalog node ID.
      - id: create_date
        -orig-id: createDate
        type: u4
        doc: Seconds since 1904-01-01 UTC, as the following ones; since 1970 if has_expanded_times.
      - id: content_mod_date
        -orig-id: contentModDate
        type: u4
      - id: attribute_mod_date
        -orig-id: attributeModDate
        type: u4
      - id: access_date
        -orig-id: accessDate
        type: u4
      - id: backup_date
        -orig-id: backupDate
        type: u4
      - id: permissions
        -orig-id: permissions
        type: bsd_info
      - id: user_info
        -orig-id: userInfo
        type: folder_info
      - id: finder_info
        -orig-id: finderInfo
        type: extended_folder_info
      - id: text_encoding
        -orig-id: textEncoding
        type: u4
      - id: num_folders
        -orig-id: folderCount
        type: u4
        doc: Number of folders directly in this folder, if has_folder_count; else reserved.
    instances:
      has_attributes:
        -orig-id: kHFSHasAttributesMask
        value: '(flags & catalog_flag::attributes.to_i) != 0'
      has_security:
        -orig-id: kHFSHasSecurityMask
        value: '(flags & catalog_flag::security.to_i) != 0'
      has_folder_count:
        -orig-id: kHFSHasFolderCountMask
        value: '(flags & catalog_flag::folder_count.to_i) != 0'
      has_link_chain:
        -orig-id: kHFSHasLinkChainMask
        value: '(flags & catalog_flag::link_chain.to_i) != 0'
      has_expanded_times:
        -orig-id: kHFSCatExpandedTimesMask
        value: '(flags & catalog_flag::expanded_times.to_i) != 0'
        doc: Dates count seconds since 1970-01-01 UTC, so that they reach beyond 2040.
  catalog_file:
    -orig-id: HFSPlusCatalogFile
    doc: A file, a symbolic link, a device, or a hard link; 248 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File Records'
    -webide-representation: 'file {file_id:dec}, {data_fork}'
    seq:
      - id: record_type
        -orig-id: recordType
        type: s2
        enum: record_type
      - id: flags
        -orig-id: flags
        type: u2
        doc: Bits; see the instances.
      - id: reserved1
        -orig-id: reserved1
        type: u4
        doc: In members of a chain of hard links (newer systems), the ID of the first link.
      - id: file_id
        -orig-id: fileID
        type: u4
        doc: Catalog node ID.
      - id: create_date
        -orig-id: createDate
        type: u4
        doc: Seconds since 1904-01-01 UTC, as the following ones; since 1970 if has_expanded_times.
      - id: content_mod_date
        -orig-id: contentModDate
        type: u4
      - id: attribute_mod_date
        -orig-id: attributeModDate
        type: u4
      - id: access_date
        -orig-id: accessDate
        type: u4
      - id: backup_date
        -orig-id: backupDate
        type: u4
      - id: permissions
        -orig-id: permissions
        type: bsd_info
      - id: user_info
        -orig-id: userInfo
        type: file_info
      - id: finder_info
        -orig-id: finderInfo
        type: extended_file_info
      - id: text_encoding
        -orig-id: textEncoding
        type: u4
      - id: reserved2
        -orig-id: reserved2
        type: u4
      - id: data_fork
        -orig-id: dataFork
        type: hfsplus_volume::fork_data
      - id: resource_fork
        -orig-id: resourceFork
        type: hfsplus_volume::fork_data
    instances:
      is_locked:
        -orig-id: kHFSFileLockedMask
        value: '(flags & catalog_flag::locked.to_i) != 0'
      has_thread:
        -orig-id: kHFSThreadExistsMask
        value: '(flags & catalog_flag::thread.to_i) != 0'
      has_attributes:
        -orig-id: kHFSHasAttributesMask
        value: '(flags & catalog_flag::attributes.to_i) != 0'
        doc: The attributes file holds records of it. Not in TN1150; from hfs_format.h, as the following ones.
      has_security:
        -orig-id: kHFSHasSecurityMask
        value: '(flags & catalog_flag::security.to_i) != 0'
        doc: It has an access-control list (an attribute).
      has_folder_count:
        -orig-id: kHFSHasFolderCountMask
        value: '(flags & catalog_flag::folder_count.to_i) != 0'
      has_link_chain:
        -orig-id: kHFSHasLinkChainMask
        value: '(flags & catalog_flag::link_chain.to_i) != 0'
        doc: It belongs to a chain of hard links.
      has_expanded_times:
        -orig-id: kHFSCatExpandedTimesMask
        value: '(flags & catalog_flag::expanded_times.to_i) != 0'
        doc: Dates count seconds since 1970-01-01 UTC, so that they reach beyond 2040.
      has_child_link:
        -orig-id: kHFSHasChildLinkMask
        value: '(flags & catalog_flag::child_link.to_i) != 0'
        doc: It holds a hard link of a directory.
      has_date_added:
        -orig-id: kHFSHasDateAddedMask
        value: '(flags & catalog_flag::date_added.to_i) != 0'
  catalog_thread:
    -orig-id: HFSPlusCatalogThread
    doc: Parent and name of a catalog node ID; 10 bytes and the name.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog Thread Records'
    -webide-representation: 'in {parent_id:dec}'
    seq:
      - id: record_type
        -orig-id: recordType
        type: s2
        enum: record_type
      - id: reserved
        -orig-id: reserved
        type: s2
      - id: parent_id
        -orig-id: parentID
        type: u4
      - id: num_name_units
        -orig-id: nodeName.length
        type: u2
      - id: name
        -orig-id: nodeName.unicode
        size: num_name_units * 2
  catalog_data:
    doc: The data of a leaf record, by its type.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File Data'
    seq:
      - id: body
        type:
          switch-on: record_type
          cases:
            'record_type::folder': catalog_folder
            'record_type::file': catalog_file
            'record_type::folder_thread': catalog_thread
            'record_type::file_thread': catalog_thread
    instances:
      record_type:
        -orig-id: recordType
        pos: 0
        type: s2
        enum: record_type
  catalog_leaf_record:
    doc: A whole record of a leaf.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, Catalog File'
    seq:
      - id: key
        -orig-id: HFSPlusCatalogKey
        type: catalog_key
      - id: data
        size-eos: true
        type: catalog_data
  catalog_index_record:
    doc: A whole record of an index node.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#BTrees TN1150, B-Trees, Index Nodes'
    seq:
      - id: key
        -orig-id: HFSPlusCatalogKey
        type: catalog_key
      - id: child_node
        type: u4
  bsd_info:
    -orig-id: HFSPlusBSDInfo
    doc: Owner and mode; 16 bytes. All zero in records written by Mac OS before X.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#CatalogFile TN1150, HFS Plus Permissions'
    seq:
      - id: owner_id
        -orig-id: ownerID
        type: u4
      - id: group_id
        -orig-id: groupID
        type: u4
      - id: admin_flags
        -orig-id: adminFlags
        type: u1
        doc: BSD flags that only the super-user may set.
      - id: owner_flags
        -orig-id: ownerFlags
        type: u1
        doc: BSD flags that the owner may set, such as UF_COMPRESSED.
      - id: file_mode
        -orig-id: fileMode
        type: u2
        doc: Type and permission bits; 0 if not in use.
      - id: special
        -orig-id: special
        type: u4
        doc: |
          A hard link's reference to its indirect node (iNodeNum), an indirect node's number of links
          (linkCount), or the device of a device file (rawDevice).
    instances:
      file_type:
        -orig-id: S_IFMT
        value: file_mode & 0xf000
        enum: mode_type
        doc: Type of the file, see enum mode_type.
      is_compressed:
        -orig-id: UF_COMPRESSED
        value: '(owner_flags & owner_flag::compressed.to_i) != 0'
        doc: The attribute com.apple.decmpfs holds the file's data or says where they are.
  point:
    -orig-id: Point
    doc: A place on the screen.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: v
        -orig-id: v
        type: s2
      - id: h
        -orig-id: h
        type: s2
  rect:
    -orig-id: Rect
    doc: A rectangle on the screen.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: top
        -orig-id: top
        type: s2
      - id: left
        -orig-id: left
        type: s2
      - id: bottom
        -orig-id: bottom
        type: s2
      - id: right
        -orig-id: right
        type: s2
  file_info:
    -orig-id: FileInfo
    doc: Type and creator of a file; 16 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: file_type
        -orig-id: fileType
        type: u4
        enum: finder_type
        doc: Four characters.
      - id: file_creator
        -orig-id: fileCreator
        type: u4
        enum: finder_creator
        doc: Four characters.
      - id: finder_flags
        -orig-id: finderFlags
        type: u2
      - id: location
        -orig-id: location
        type: point
      - id: reserved_field
        -orig-id: reservedField
        type: u2
    instances:
      is_alias:
        -orig-id: kIsAlias
        value: '(finder_flags & finder_flag::is_alias.to_i) != 0'
  folder_info:
    -orig-id: FolderInfo
    doc: Window of a folder; 16 bytes.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: window_bounds
        -orig-id: windowBounds
        type: rect
      - id: finder_flags
        -orig-id: finderFlags
        type: u2
      - id: location
        -orig-id: location
        type: point
      - id: reserved_field
        -orig-id: reservedField
        type: u2
    instances:
      is_alias:
        -orig-id: kIsAlias
        value: '(finder_flags & finder_flag::is_alias.to_i) != 0'
  extended_file_info:
    -orig-id: ExtendedFileInfo
    doc: |
      16 bytes. TN1150 has reserved1[4], extendedFinderFlags, reserved2 and putAwayFolderID; newer systems use
      the reserved fields (hfs_format.h, FndrExtendedFileInfo), whose names are given here.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: document_id
        -orig-id: document_id
        type: u4
      - id: date_added
        -orig-id: date_added
        type: u4
        doc: Seconds since 1970-01-01 UTC, if has_date_added.
      - id: extended_flags
        -orig-id: extendedFinderFlags
        type: u2
      - id: reserved2
        -orig-id: reserved2
        type: s2
      - id: write_gen_counter
        -orig-id: write_gen_counter
        type: u4
        doc: putAwayFolderID in TN1150.
  extended_folder_info:
    -orig-id: ExtendedFolderInfo
    doc: |
      16 bytes. TN1150 has scrollPosition, reserved1, extendedFinderFlags, reserved2 and putAwayFolderID; newer
      systems use them otherwise (hfs_format.h, FndrExtendedDirInfo), whose names are given here.
    doc-ref: 'https://developer.apple.com/library/archive/technotes/tn/tn1150.html#FinderInfo TN1150, Finder Info'
    seq:
      - id: document_id
        -orig-id: document_id
        type: u4
      - id: date_added
        -orig-id: date_added
        type: u4
        doc: Seconds since 1970-01-01 UTC, if has_date_added.
      - id: extended_flags
        -orig-id: extendedFinderFlags
        type: u2
      - id: reserved3
        -orig-id: reserved3
        type: u2
      - id: write_gen_counter
        -orig-id: write_gen_counter
        type: u4
        doc: putAwayFolderID in TN1150.
enums:
  record_type:
    1:
      id: folder
      -orig-id: kHFSPlusFolderRecord
    2:
      id: file
      -orig-id: kHFSPlusFileRecord
    3:
      id: folder_thread
      -orig-id: kHFSPlusFolderThreadRecord
    4:
      id: file_thread
      -orig-id: kHFSPlusFileThreadRecord
  finder_type:
    0x686c6e6b:
      id: hard_link
      -orig-id: kHardLinkFileType
      doc: '"hlnk".'
    0x66647270:
      id: directory_alias
      -orig-id: kContainerFolderAliasType
      doc: '"fdrp", a hard link of a directory.'
    0x736c6e6b:
      id: symbolic_link
      -orig-id: kSymLinkFileType
      doc: '"slnk".'
  finder_creator:
    0x6866732b:
      id: hfs_plus
      -orig-id: kHFSPlusCreator
      doc: '"hfs+", of hard links.'
    0x4d414353:
      id: macs
      -orig-id: kAliasCreator
      doc: '"MACS", of aliases.'
    0x72686170:
      id: rhap
      -orig-id: kSymLinkCreator
      doc: '"rhap", of symbolic links.'
  finder_flag:
    0x1:
      id: is_on_desk
      -orig-id: kIsOnDesk
    0xe:
      id: color
      -orig-id: kColor
    0x40:
      id: is_shared
      -orig-id: kIsShared
    0x80:
      id: has_no_inits
      -orig-id: kHasNoINITs
    0x100:
      id: has_been_inited
      -orig-id: kHasBeenInited
    0x400:
      id: has_custom_icon
      -orig-id: kHasCustomIcon
    0x800:
      id: is_stationery
      -orig-id: kIsStationery
    0x1000:
      id: name_locked
      -orig-id: kNameLocked
    0x2000:
      id: has_bundle
      -orig-id: kHasBundle
    0x4000:
      id: is_invisible
      -orig-id: kIsInvisible
    0x8000:
      id: is_alias
      -orig-id: kIsAlias
  mode_type:
    0x1000:
      id: fifo
      -orig-id: S_IFIFO
    0x2000:
      id: character_device
      -orig-id: S_IFCHR
    0x4000:
      id: directory
      -orig-id: S_IFDIR
    0x6000:
      id: block_device
      -orig-id: S_IFBLK
    0x8000:
      id: regular
      -orig-id: S_IFREG
    0xa000:
      id: symbolic_link
      -orig-id: S_IFLNK
    0xc000:
      id: socket
      -orig-id: S_IFSOCK
    0xe000:
      id: whiteout
      -orig-id: S_IFWHT
  catalog_flag:
    0x1:
      id: locked
      -orig-id: kHFSFileLockedMask
    0x2:
      id: thread
      -orig-id: kHFSThreadExistsMask
    0x4:
      id: attributes
      -orig-id: kHFSHasAttributesMask
    0x8:
      id: security
      -orig-id: kHFSHasSecurityMask
    0x10:
      id: folder_count
      -orig-id: kHFSHasFolderCountMask
    0x20:
      id: link_chain
      -orig-id: kHFSHasLinkChainMask
    0x40:
      id: child_link
      -orig-id: kHFSHasChildLinkMask
    0x80:
      id: date_added
      -orig-id: kHFSHasDateAddedMask
    0x1000:
      id: expanded_times
      -orig-id: kHFSCatExpandedTimesMask
  mode_bit:
    0x200:
      id: sticky
      -orig-id: S_ISVTX
  owner_flag:
    0x02:
      id: immutable
      -orig-id: UF_IMMUTABLE
    0x20:
      id: compressed
      -orig-id: UF_COMPRESSED
