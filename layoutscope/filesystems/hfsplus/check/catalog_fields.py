"""Rules of single fields of files and folders, as data: modes, flags, dates of links, the Finder's words for them.

TN1150, "Catalog File" and "Hard Links"; for links of folders, which came later, hfs_format.h. Free are all dates but
those of hard links, owners and groups outside of chains, and most of what the Finder keeps: nothing on the volume tells
what they must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.check.links import home_of, links_by_kind
from layoutscope.filesystems.hfsplus.check.volume_fields import ENCODINGS
from layoutscope.filesystems.hfsplus.records.links import ROOT_FOLDER, bear_a_links_type
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.arrays.columns import Columns, Mask
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.findings import Level

FLAG = grammar.HfsplusCatalog.CatalogFlag
OWNER = grammar.HfsplusCatalog.OwnerFlag
FINDER = grammar.HfsplusCatalog.FinderFlag
MODE_BIT = grammar.HfsplusCatalog.ModeBit
_MODE = grammar.HfsplusCatalog.ModeType
_TYPE_BITS: Final = 0xF000
_DEVICES: Final = (int(_MODE.character_device), int(_MODE.block_device))
_OF_FILES: Final = tuple(int(kind) for kind in _MODE if kind not in (_MODE.directory, _MODE.whiteout))


@frozen
class CatalogFacts:
    """What rules ask of the catalog."""

    catalog: CatalogRecords  # its records
    is_hfsx: bool  # whether the volume is HFSX, whose folders count their subfolders
    # home_of_files, home_of_folders: CNIDs of the private folders; -1 where there is none
    home_of_files: int
    home_of_folders: int
    # of_files, of_folders: which files call themselves links of files, and of folders, whatever their dates
    of_files: Mask
    of_folders: Mask
    are_dated: Mask  # which of them have a date by which drivers know links
    ancestors: Mask  # folders that links of folders lie in, at whatever depth, without the root and the private folder

    @property
    def files(self) -> Columns:
        """Fields of files."""
        return self.catalog.files

    @property
    def folders(self) -> Columns:
        """Fields of folders."""
        return self.catalog.folders

    def may_have_links(self) -> Mask:
        """Say which files bear the type of links, or lie in a private folder.

        A link of another date is a plain file to a driver, and its number was not made by one: fsck_hfs looks at the
        type.
        """
        parents = self.catalog.parent_id[self.files["row"]]
        found: Mask = self.of_files | self.of_folders | np.isin(parents, [self.home_of_files, self.home_of_folders])
        return found

    def is_folder_inode(self) -> Mask:
        """Say which folders are inodes of links."""
        found: Mask = (self.catalog.parent_id[self.folders["row"]] == self.home_of_folders) & (self.home_of_folders > 0)
        return found

    def is_link_home(self) -> Mask:
        """Say which folder is the private one for folders with links."""
        found: Mask = self.folders["folder_id"] == max(self.home_of_folders, 0)
        return found


@frozen
class RecordRule:
    """A rule about one field of files or folders."""

    records: Literal["files", "folders"]  # of which
    field: str  # the field, by its path in the record
    is_broken: Callable[[CatalogFacts], Mask]  # says of each record whether it breaks the rule
    # message, expected: what is wrong then, and what the field must be
    message: str
    expected: str
    # code, level: of the finding
    code: str
    source: str  # who says so
    level: Level = "error"


def _file_mode(facts: CatalogFacts) -> Mask:
    mode = facts.files["permissions.file_mode"]
    # Zero says that nothing of this is in use (TN1150, HFSPlusBSDInfo).
    broken: Mask = (mode != 0) & ~np.isin(mode & _TYPE_BITS, _OF_FILES)
    return broken


def _folder_mode(facts: CatalogFacts) -> Mask:
    mode = facts.folders["permissions.file_mode"]
    broken: Mask = (mode != 0) & (mode & _TYPE_BITS != int(_MODE.directory))
    return broken


def _plain_links(facts: CatalogFacts) -> Mask:
    files = facts.files
    # The field is the number of a device, of an inode, or a count of links, as the record's kind has it.
    is_device = np.isin(files["permissions.file_type"], _DEVICES)
    broken: Mask = (files["permissions.special"] > 1) & ~is_device & ~facts.may_have_links()
    return broken


def _lacks(columns: Columns, field: str, bit: int) -> Mask:
    broken: Mask = columns[field] & bit == 0
    return broken


RULES: Final[tuple[RecordRule, ...]] = (
    RecordRule(
        "files",
        "permissions.file_mode",
        _file_mode,
        "a file's mode is not that of a file",
        "the type of a file, or 0",
        "permissions-invalid",
        "TN1150, HFSPlusBSDInfo; fsck_hfs: E_InvalidPermissions",
    ),
    RecordRule(
        "folders",
        "permissions.file_mode",
        _folder_mode,
        "a folder's mode is not that of a folder",
        "the type of a folder, or 0",
        "permissions-invalid",
        "TN1150, HFSPlusBSDInfo; fsck_hfs: E_InvalidPermissions",
    ),
    # Folders always have a thread, so that the flag of files that have one means nothing for them.
    RecordRule(
        "folders",
        "flags",
        lambda facts: facts.folders["flags"] & (int(FLAG.locked) | int(FLAG.thread)) != 0,
        "a folder has flags of files",
        "neither locked nor with a thread",
        "flags-invalid",
        "TN1150, Catalog Folder Records; fsck_hfs: E_CatalogFlagsNotZero",
    ),
    RecordRule(
        "folders",
        "flags",
        lambda facts: _lacks(facts.folders, "flags", int(FLAG.folder_count)) & facts.is_hfsx,
        "a folder of an HFSX volume does not say that it counts its subfolders",
        f"bit {int(FLAG.folder_count):#x}",
        "flags-invalid",
        "hfs_format.h; fsck_hfs: E_HsFldCount",
    ),
    RecordRule(
        "files",
        "flags",
        lambda facts: facts.files["has_link_chain"] & ~facts.may_have_links(),
        "a file that is no hard link is in a chain of links",
        f"no bit {int(FLAG.link_chain):#x}",
        "flags-invalid",
        "hfs_format.h; fsck_hfs: E_LinkChainNonLink",
    ),
    RecordRule(
        "folders",
        "flags",
        lambda facts: facts.is_folder_inode() & ~facts.folders["has_link_chain"],
        "the inode of a folder is in no chain of links",
        f"bit {int(FLAG.link_chain):#x}",
        "flags-invalid",
        "hfs_format.h; fsck_hfs: E_DirInodeBadFlags",
    ),
    RecordRule(
        "folders",
        "flags",
        lambda facts: facts.ancestors & _lacks(facts.folders, "flags", int(FLAG.child_link)),
        "a folder with a link of a folder in it does not say so",
        f"bit {int(FLAG.child_link):#x}",
        "flags-invalid",
        "hfs_format.h; fsck_hfs: E_DirLinkAncestorFlags",
    ),
    RecordRule(
        "folders",
        "user_info.finder_flags",
        lambda facts: (
            (facts.folders["folder_id"] == ROOT_FOLDER)
            & (facts.folders["user_info.finder_flags"] & int(FINDER.name_locked) != 0)
        ),
        "the name of the root folder, which is the volume's, is locked",
        f"no bit {int(FINDER.name_locked):#x}",
        "flags-invalid",
        "fsck_hfs: E_LockedDirName",
    ),
    RecordRule(
        "files",
        "permissions.special",
        _plain_links,
        "a file with one name counts several links",
        "at most 1",
        "link-count-differs",
        "fsck_hfs: E_FileLinkCountError",
    ),
    RecordRule(
        "files",
        "data_fork.num_blocks",
        lambda facts: (
            # A file of the type with another date is a plain one to drivers, whatever fsck_hfs calls it.
            ((facts.of_files & facts.are_dated) | facts.of_folders)
            & (facts.catalog.parent_id[facts.files["row"]] != facts.home_of_files)
            & (facts.files["data_fork.num_blocks"] != 0)
        ),
        "a hard link has data of its own",
        "0",
        "link-invalid",
        "TN1150, Hard Links; fsck_hfs: E_LinkHasData",
    ),
    RecordRule(
        "files",
        "create_date",
        lambda facts: facts.of_files & ~facts.are_dated & (facts.home_of_files > 0),
        "a file of a hard link's type has another date than links, so that drivers take it for a plain file",
        "the date of the private folder or of the root folder",
        "link-invalid",
        "TN1150, Hard Links; fsck_hfs: E_BadHardLinkDate",
        "warning",
    ),
    RecordRule(
        "files",
        "permissions.owner_flags",
        lambda facts: facts.of_folders & _lacks(facts.files, "permissions.owner_flags", int(OWNER.immutable)),
        "a link of a folder may be changed",
        f"bit {int(OWNER.immutable):#x}",
        "link-invalid",
        "fsck_hfs: E_DirHardLinkOwnerFlags",
    ),
    RecordRule(
        "files",
        "user_info.finder_flags",
        lambda facts: facts.of_folders & ~facts.files["user_info.is_alias"],
        "a link of a folder is no alias to the Finder",
        f"bit {int(FINDER.is_alias):#x}",
        "link-invalid",
        "fsck_hfs: E_DirHardLinkFinderInfo",
    ),
    RecordRule(
        "folders",
        "permissions.owner_flags",
        lambda facts: facts.is_link_home() & _lacks(facts.folders, "permissions.owner_flags", int(OWNER.immutable)),
        "the private folder for folders with links may be changed",
        f"bit {int(OWNER.immutable):#x}",
        "permissions-invalid",
        "fsck_hfs: E_BadPermPrivDir",
    ),
    RecordRule(
        "folders",
        "permissions.file_mode",
        lambda facts: facts.is_link_home() & _lacks(facts.folders, "permissions.file_mode", int(MODE_BIT.sticky)),
        "anybody may take folders out of the private folder for folders with links",
        f"bit {int(MODE_BIT.sticky):#x}",
        "permissions-invalid",
        "fsck_hfs: E_BadPermPrivDir",
    ),
    *(
        RecordRule(
            records,
            "text_encoding",
            lambda facts, records=records: (
                ~np.isin(  # type: ignore[misc]
                    facts.files["text_encoding"] if records == "files" else facts.folders["text_encoding"],
                    np.array(sorted(ENCODINGS), np.uint32),
                )
            ),
            "a name is in no encoding that there is",
            "the number of a text encoding of the Mac",
            "encodings-differ",
            "TN1150, Text Encodings; fsck_hfs: ValidMacEncoding",
        )
        for records in ("files", "folders")
    ),
)
"""Every rule about a single field of files and folders."""


def check_catalog_fields(subject: Subject) -> None:
    """Hold the fields of files and folders against their rules."""
    catalog = subject.catalog
    if catalog is None:
        return
    facts = _facts(catalog, is_hfsx=subject.volume.is_hfsx)
    for rule in RULES:
        columns = facts.files if rule.records == "files" else facts.folders
        for place in subject.cases(rule.code, np.flatnonzero(rule.is_broken(facts)), f"catalog {rule.records}"):
            value = columns.get(rule.field)
            catalog.field(int(columns["row"][place]), rule.field).add(
                rule.code,
                rule.level,
                rule.message,
                expected=rule.expected,
                found="" if value is None else int(value[place]),
            )


def _facts(catalog: CatalogRecords, *, is_hfsx: bool) -> CatalogFacts:
    files = catalog.files
    of_files, of_folders = bear_a_links_type(
        files["user_info.file_type"], files["user_info.file_creator"], files["has_link_chain"]
    )
    known_files, known_folders = links_by_kind(catalog)
    home = home_of(catalog, DIRECTORY_LINKS_DIRECTORY)
    return CatalogFacts(
        catalog,
        is_hfsx,
        home_of(catalog, FILE_LINKS_DIRECTORY),
        home,
        of_files,
        of_folders,
        known_files | known_folders,
        _ancestors(catalog, catalog.parent_id[files["row"][known_folders]].tolist(), home),
    )


def _ancestors(catalog: CatalogRecords, parents: list[int], home: int) -> Mask:
    """Walk up from the parents of links of folders."""
    ids = catalog.folders["folder_id"]
    found = np.zeros(len(ids), np.bool_)
    if not parents:
        return found
    place = {cnid: row for row, cnid in enumerate(ids.tolist())}
    above = catalog.parent_id[catalog.folders["row"]]
    for parent in parents:
        at = place.get(parent) if parent not in (ROOT_FOLDER, home) else None
        while at is not None and not found[at]:
            found[at] = True
            up = int(above[at])
            at = place.get(up) if up not in (ROOT_FOLDER, home) else None
    return found
