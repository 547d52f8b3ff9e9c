"""Rules of single fields of files and folders, as data: modes, flags, dates of links, the Finder's words for them.

TN1150, "Catalog File" and "Hard Links"; for links of folders, which came later, hfs_format.h. Free are all dates but
those of hard links, owners and groups outside of chains, and most of what the Finder keeps: nothing on the volume tells
what they must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.attributes import COMPRESSION_ATTRIBUTE, DECMPFS, INLINE
from layoutscope.filesystems.hfsplus.catalog import KEY, ROOT_FOLDER, THREAD, bear_a_links_type, unix_seconds
from layoutscope.filesystems.hfsplus.check.subject import CATALOG_TYPES
from layoutscope.filesystems.hfsplus.check.volume_fields import ENCODINGS
from layoutscope.filesystems.hfsplus.contents import count_entries_by_parent, find_without_thread
from layoutscope.filesystems.hfsplus.tree import is_whole
from layoutscope.structs import grammar
from layoutscope.structs.arrays import find, take_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.check.subject import AttributeRecords, CatalogRecords, HotFileRecords, Subject
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.arrays import I64, Columns, Mask


CODE: Final = "link-chain-broken"
FORWARD, BACKWARD = "permissions.group_id", "permissions.owner_id"
"""Fields of a link's record that name the next link and the one before it."""


def links_by_kind(catalog: CatalogRecords) -> tuple[Mask, Mask]:
    """Say which files are hard links, of files and of folders."""
    files = catalog.files
    typed = bear_a_links_type(files["user_info.file_type"], files["user_info.file_creator"], files["has_link_chain"])
    is_dated = _is_dated(catalog)
    return typed[0] & is_dated, typed[1] & is_dated


def _is_dated(catalog: CatalogRecords) -> Mask:
    """Say which files were created, by their dates, together with the root folder or the private one of files."""
    created, folders = (
        unix_seconds(columns["create_date"], columns["has_expanded_times"])
        for columns in (catalog.files, catalog.folders)
    )
    homes = np.isin(catalog.folders["folder_id"], [ROOT_FOLDER, home_of(catalog, FILE_LINKS_DIRECTORY)])
    found: Mask = np.isin(created, folders[homes])
    return found


class Family(Struct, frozen=True):
    """Links of one kind and the inodes that they lead to."""

    noun: str  # `file` or `folder`
    links: I64  # places of the links among the files
    target: I64  # place of each link's inode among the inodes; -1 where it has none
    # inode_rows, inode_ids: catalog records of the inodes, and their CNIDs
    inode_rows: I64
    inode_ids: I64
    declared: I64  # links that each inode counts


def families(catalog: CatalogRecords) -> tuple[Family, Family]:
    """Group the links of files, and those of folders, with what they lead to."""
    return (
        _family(catalog, "file", FILE_LINKS_DIRECTORY, "iNode"),
        _family(catalog, "folder", DIRECTORY_LINKS_DIRECTORY, "dir_"),
    )


def _family(catalog: CatalogRecords, noun: str, directory: str, prefix: str) -> Family:
    is_of_files = noun == "file"
    is_link = links_by_kind(catalog)[not is_of_files]
    holders = catalog.files if is_of_files else catalog.folders
    home = home_of(catalog, directory)
    # The number of an inode stands in its name. It need not be its CNID (TN1150, "Hard Links").
    inside = np.flatnonzero(catalog.parent_id[holders["row"]] == home)
    numbers = np.array([_number(catalog.name(int(row)), prefix) for row in holders["row"][inside]], np.int64)
    inside, numbers = inside[numbers >= 0], numbers[numbers >= 0]
    links = np.flatnonzero(is_link)
    target = find(numbers, catalog.files["permissions.special"][links].astype(np.int64))
    declared = holders["permissions.special"][inside].astype(np.int64)
    ids = holders["file_id" if is_of_files else "folder_id"][inside].astype(np.int64)
    return Family(noun, links, target, holders["row"][inside], ids, declared)


def home_of(catalog: CatalogRecords, directory: str) -> int:
    """CNID of a private directory, -1 where there is none."""
    rows = catalog.folders["row"]
    for place in np.flatnonzero((catalog.parent_id[rows] == ROOT_FOLDER) & (catalog.count[rows] == len(directory))):
        if catalog.name(int(rows[place])) == directory:
            return int(catalog.folders["folder_id"][place])
    return -1


def _number(name: str, prefix: str) -> int:
    digits = name.removeprefix(prefix)
    return int(digits) if digits != name and digits.isascii() and digits.isdecimal() and len(digits) <= 10 else -1


def check_link_targets(subject: Subject) -> None:
    """Every link leads to an inode."""
    catalog = subject.catalog
    for family in families(catalog) if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        lost = family.links[family.target < 0]
        for place in subject.cases("hard-link-broken", lost, f"{family.noun} links"):
            catalog.field(int(catalog.files["row"][place]), "permissions.special").add(
                "hard-link-broken",
                "error",
                f"a link leads to no {family.noun} inode",
                found=int(catalog.files["permissions.special"][place]),
                expected="the number of an inode",
            )


def check_link_counts(subject: Subject) -> None:
    """Inodes count the links that lead to them."""
    catalog = subject.catalog
    for family in families(catalog) if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        counted = np.bincount(family.target[family.target >= 0], minlength=len(family.declared))
        for place in subject.cases("link-count-differs", np.flatnonzero(counted != family.declared), "inodes"):
            catalog.field(int(family.inode_rows[place]), "permissions.special").add(
                "link-count-differs",
                "error",
                f"a {family.noun} inode counts other links than lead to it",
                expected=int(counted[place]),
                found=int(family.declared[place]),
            )


class _Chains(Struct, frozen=True):
    """Links that are members of a chain; arrays of one length."""

    catalog: CatalogRecords  # the files
    links: I64  # their places among the files
    # ids, target: their CNIDs, and the places of their inodes
    ids: I64
    target: I64
    own: dict[str, I64]  # what they name, by field
    place: dict[str, I64]  # where among them that is: a link of the same inode; else -1


def _chains(catalog: CatalogRecords, family: Family) -> _Chains:
    files = catalog.files
    # Without the flag, which came with 10.5, owner and group are what they are in any file.
    chosen = (family.target >= 0) & files["has_link_chain"][family.links]
    links, target = family.links[chosen], family.target[chosen]
    ids = files["file_id"][links].astype(np.int64)
    own = {name: files[name][links].astype(np.int64) for name in (FORWARD, BACKWARD)}
    place = {}
    for name, values in own.items():
        found = find(ids, values)
        place[name] = np.where((found >= 0) & (np.append(target, -2)[found] == target), found, -1)
    return _Chains(catalog, links, ids, target, own, place)


def check_link_chains(subject: Subject) -> None:
    """Neighbours in a chain are links of one inode and name each other."""
    catalog = subject.catalog
    for family in families(catalog) if catalog is not None else ():
        assert catalog is not None  # noqa: S101  (for the type checker)
        chains = _chains(catalog, family)
        for field in (FORWARD, BACKWARD):
            lost = (chains.own[field] != 0) & (chains.place[field] < 0)
            message = "a link's neighbour in the chain is no link of the same inode"
            _report(subject, chains, field, np.flatnonzero(lost), message)
            wrong = np.setdiff1d(_one_sided(chains, field), np.flatnonzero(lost))
            message = "a link's neighbours in the chain do not name it as theirs"
            _report(subject, chains, field, wrong, message)


def _one_sided(chains: _Chains, field: str) -> I64:
    """Links to blame for neighbours that disagree, by this field.

    Where one names the other but is not named by it, the field is wrong whose other end agrees with a third link.
    """
    blamed = []
    for name, back in ((FORWARD, BACKWARD), (BACKWARD, FORWARD)):
        start = np.flatnonzero(chains.place[name] >= 0)
        end = chains.place[name][start]
        named = chains.place[back][end]
        disagrees = named != start
        has_third = (named >= 0) & (np.append(chains.place[name], -2)[named] == end)
        blamed.append(start[disagrees & has_third] if name == field else end[disagrees & ~has_third])
    return np.unique(np.concatenate(blamed))


def _report(subject: Subject, chains: _Chains, field: str, rows: I64, message: str) -> None:
    for row in subject.cases(CODE, rows, "links"):
        chains.catalog.field(int(chains.catalog.files["row"][chains.links[row]]), field).add(
            CODE, "error", message, expected="a link of the same inode", found=int(chains.own[field][row])
        )


def check_first_links(subject: Subject) -> None:
    """Each chained inode names one of its links as the first, and only that one has none before it."""
    catalog = subject.catalog
    if catalog is None:
        return
    for family in families(catalog):
        chains = _chains(catalog, family)
        first = _first_of_files(catalog, family) if family.noun == "file" else _first_of_folders(subject, family)
        at = find(chains.ids, first)
        mine = (at >= 0) & (np.append(chains.target, -2)[at] == np.arange(len(first)))
        _check_missing(subject, catalog, family, chains, first)
        second = mine & (np.append(chains.place[BACKWARD], -1)[at] >= 0)
        message = "the first link of an inode is none of its links"
        _check_wrong(subject, family, first, np.flatnonzero((first >= 0) & ~mine), message)
        message = "the first link of an inode has one before it"
        _check_wrong(subject, family, first, np.flatnonzero(second), message)
        named = np.append(np.where(mine & ~second, first, -1), -1)[chains.target]
        is_head = (chains.own[BACKWARD] == 0) & ~np.isin(np.arange(len(chains.ids)), chains.place[FORWARD])
        wrong = np.flatnonzero(is_head & (named >= 0) & (chains.ids != named))
        _report(subject, chains, BACKWARD, wrong, "no link leads to this one, which is not the first")


def _first_of_files(catalog: CatalogRecords, family: Family) -> I64:
    """First link that each inode names; -1 where it names none, as before 10.5."""
    files, place = catalog.files, find(catalog.files["row"], family.inode_rows)
    # The field means this only where the flag is set (hfs_format.h).
    first = files["reserved1"][place].astype(np.int64)
    return np.where(files["has_link_chain"][place] & (first != 0), first, -1)


def _first_of_folders(subject: Subject, family: Family) -> I64:
    """First link that each inode's attribute names; 0 where that is no number, -1 where there is none."""
    attributes = subject.attributes
    if attributes is None:
        return np.full(len(family.inode_ids), -1, np.int64)
    rows = np.flatnonzero(attributes.first_link >= 0)
    place = find(attributes.file_id[rows], family.inode_ids)
    return np.where(place >= 0, np.append(attributes.first_link[rows], -1)[place], -1)


def _check_missing(subject: Subject, catalog: CatalogRecords, family: Family, chains: _Chains, first: I64) -> None:
    """Inodes in a chain name its first link: of folders in an attribute, where there are attributes at all."""
    if family.noun == "folder" and subject.attributes is None:
        return
    field = "reserved1" if family.noun == "file" else "folder_id"
    linked = np.isin(np.arange(len(first)), chains.target)
    for row in subject.cases(CODE, np.flatnonzero(linked & (first < 0)), "inodes"):
        message = f"the inode of a {family.noun} does not say which its first link is"
        catalog.field(int(family.inode_rows[row]), field).add(CODE, "error", message)


def _check_wrong(subject: Subject, family: Family, first: I64, rows: I64, message: str) -> None:
    for row in subject.cases(CODE, rows, "inodes"):
        _first_link(subject, family, row).add(
            CODE, "error", message, expected="the head of the chain of its links", found=int(first[row])
        )


def _first_link(subject: Subject, family: Family, row: int) -> FindingLog:
    """Bind the log to where an inode names its first link: a field of a file's record, or a folder's attribute."""
    catalog, attributes = subject.catalog, subject.attributes
    assert catalog is not None  # noqa: S101  (for the type checker)
    if family.noun == "file":
        return catalog.field(int(family.inode_rows[row]), "reserved1")
    assert attributes is not None  # noqa: S101  (for the type checker)
    holders = (attributes.file_id == family.inode_ids[row]) & (attributes.first_link >= 0)
    return attributes.located.at(int(attributes.data[np.flatnonzero(holders)[0]]) + INLINE.width)


FLAG = grammar.HfsplusCatalog.CatalogFlag
OWNER = grammar.HfsplusCatalog.OwnerFlag
FINDER = grammar.HfsplusCatalog.FinderFlag
MODE_BIT = grammar.HfsplusCatalog.ModeBit
_MODE = grammar.HfsplusCatalog.ModeType
_TYPE_BITS: Final = 0xF000
_DEVICES: Final = (int(_MODE.character_device), int(_MODE.block_device))
_OF_FILES: Final = tuple(int(kind) for kind in _MODE if kind not in (_MODE.directory, _MODE.whiteout))


class CatalogFacts(Struct, frozen=True):
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


class RecordRule(Struct, frozen=True):
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


CNID = grammar.HfsplusVolume.Cnid


def check_record_types(subject: Subject) -> None:
    """Catalog and attribute records are of types that exist, and as long as these."""
    catalog, attributes, overflow = subject.catalog, subject.attributes, subject.overflow
    if catalog is not None:
        for row in subject.cases("records-invalid", np.flatnonzero(catalog.kind == 0), "catalog records"):
            at = int(catalog.located.rows["data"][row])
            catalog.located.at(at).add("records-invalid", "error", "a record is of no known type, or shorter than it")
        for row in subject.cases("records-invalid", np.flatnonzero(catalog.excess), "catalog records"):
            at = int(catalog.located.rows["data"][row])
            catalog.located.at(at).add("records-invalid", "error", "a record is longer than its type")
        rows, _, _ = catalog.entries()
        # A thread's key has an empty name (TN1150, "Catalog File Key"), and no other.
        for row in subject.cases("records-invalid", rows[catalog.count[rows] == 0], "catalog records"):
            at = int(catalog.located.rows["key"][row]) + KEY.num_name_units.offset
            catalog.located.at(at).add("records-invalid", "error", "a file or folder has a name without letters")
    if attributes is not None:
        for row in subject.cases("records-invalid", np.flatnonzero(attributes.kind == 0), "attribute records"):
            message = "a record is of no known type, or shorter than it"
            attributes.located.at(int(attributes.data[row])).add("records-invalid", "error", message)
    if overflow is not None:
        leaf = np.flatnonzero(overflow.located.rows["level"] == 0)
        for row in subject.cases("records-invalid", leaf[~overflow.is_whole], "extents-overflow records"):
            at = int(overflow.located.rows["key"][row])
            overflow.located.at(at).add("records-invalid", "error", "a record is shorter than eight extents")


def _id_field(is_folder: bool) -> str:
    return "folder_id" if is_folder else "file_id"


def check_ids(subject: Subject) -> None:
    """CNIDs of files and folders are not reserved, and no two are the same."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, ids, is_folder = catalog.entries()
    is_root = is_folder & (ids == CNID.root_folder)
    # Below 16 there are only the root folder and special files, which stand in no catalog.
    reserved = np.flatnonzero((ids < CNID.first_user) & ~is_root)
    for place in subject.cases("cnid-reserved", reserved, "catalog records"):
        catalog.field(int(rows[place]), _id_field(bool(is_folder[place]))).add(
            "cnid-reserved",
            "error",
            "a file or folder has a reserved CNID",
            expected=f"at least {int(CNID.first_user)}",
            found=int(ids[place]),
        )
    order = np.argsort(ids, kind="stable")
    same = np.zeros(len(ids), np.bool_)
    same[order[1:]] |= ids[order[1:]] == ids[order[:-1]]
    same[order[:-1]] |= ids[order[1:]] == ids[order[:-1]]
    for place in subject.cases("cnid-duplicate", np.flatnonzero(same), "catalog records"):
        catalog.field(int(rows[place]), _id_field(bool(is_folder[place]))).add(
            "cnid-duplicate",
            "error",
            "two files or folders have the same CNID",
            found=int(ids[place]),
            expected="a CNID of its own",
        )


def check_parents(subject: Subject) -> None:
    """Every file and folder lies in a folder that exists."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, ids, is_folder = catalog.entries()
    parent = catalog.parent_id[rows]
    lost = np.flatnonzero((find(ids[is_folder], parent) < 0) & (parent != CNID.root_parent))
    for place in subject.cases("parent-missing", lost, "catalog records"):
        row = int(rows[place])
        at = int(catalog.located.rows["key"][row]) + KEY.parent_id.offset
        catalog.located.at(at).add(
            "parent-missing", "error", f"the folder of CNID {ids[place]} does not exist", found=int(parent[place])
        )


def check_threads(subject: Subject) -> None:
    """Folders have threads, and files that say so; each thread knows type, parent and name of its own."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, _, is_folder = catalog.entries()
    threads = catalog.threads
    owner = catalog.parent_id[threads["row"]]
    _check_missing_threads(subject, catalog, owner)
    # Where two entries share a CNID, the thread is that of the one in the folder that it names.
    place = _matching_entry(catalog, owner)
    for row in subject.cases("thread-orphaned", np.flatnonzero(place < 0), "catalog threads"):
        at = int(catalog.located.rows["key"][threads["row"][row]]) + KEY.parent_id.offset
        message = "a thread belongs to no file or folder"
        catalog.located.at(at).add("thread-orphaned", "error", message, found=int(owner[row]))
    known = np.flatnonzero(place >= 0)
    _compare_threads(subject, catalog, known, rows[place[known]], is_folder[place[known]])


def _matching_entry(catalog: CatalogRecords, owner: I64) -> I64:
    """Place of each thread's entry among the entries, -1 where there is none."""
    rows, ids, _ = catalog.entries()
    place = find(ids, owner)
    if not len(ids):
        return place
    parent = catalog.threads["parent_id"].astype(np.int64)
    several = np.flatnonzero((place >= 0) & (catalog.parent_id[rows[np.maximum(place, 0)]] != parent))
    for row in several.tolist()[:1000]:
        same = np.flatnonzero((ids == owner[row]) & (catalog.parent_id[rows] == parent[row]))
        if len(same):
            place[row] = same[0]
    return place


def _check_missing_threads(subject: Subject, catalog: CatalogRecords, owner: I64) -> None:
    rows, ids, is_folder = catalog.entries()
    # HFS kept threads of files only where somebody had asked for one. HFS+ demands one of each file, and the flag that
    # says so (TN1150, "Catalog File"); what is missing here is one that the flag promises.
    claims = is_folder.copy()
    claims[~is_folder] = catalog.files["has_thread"]
    for lost in subject.cases(
        "thread-differs", np.flatnonzero(find_without_thread(ids, claims, owner)), "catalog records"
    ):
        catalog.field(int(rows[lost]), _id_field(bool(is_folder[lost]))).add(
            "thread-differs",
            "error",
            "a file or folder has no thread",
            found=int(ids[lost]),
            expected="the CNID of a thread",
        )


def _compare_threads(subject: Subject, catalog: CatalogRecords, known: I64, entry: I64, is_folder: Mask) -> None:
    """Compare threads with the entries of their CNIDs."""
    threads = catalog.threads
    row = threads["row"][known]
    kind = catalog.kind[row]
    expected = np.where(is_folder, int(CATALOG_TYPES.folder_thread), int(CATALOG_TYPES.file_thread))
    for case in subject.cases("thread-differs", np.flatnonzero(kind != expected), "catalog threads"):
        catalog.field(int(row[case]), "record_type").add(
            "thread-differs",
            "error",
            "a thread has the type of another kind",
            expected=int(expected[case]),
            found=int(kind[case]),
        )
    parent, real = threads["parent_id"][known].astype(np.int64), catalog.parent_id[entry]
    for case in subject.cases("thread-differs", np.flatnonzero(parent != real), "catalog threads"):
        catalog.field(int(row[case]), "parent_id").add(
            "thread-differs",
            "error",
            "a thread names another folder",
            expected=int(real[case]),
            found=int(parent[case]),
        )
    for case in subject.cases("thread-differs", _other_names(catalog, known, entry), "catalog threads"):
        at = int(catalog.located.rows["data"][row[case]]) + THREAD.width
        if threads["num_name_units"][known[case]] != catalog.count[entry[case]]:
            at += THREAD.num_name_units.offset - THREAD.width
        catalog.located.at(at).add("thread-differs", "error", "a thread has another name")


def _other_names(catalog: CatalogRecords, known: I64, entry: I64) -> I64:
    """Places of threads whose name is not that of the entry."""
    lengths, wanted = catalog.threads["num_name_units"][known], catalog.count[entry]
    # Letter by letter, though keys compare without case: whoever comes by CNID gets the name of the thread.
    same = np.flatnonzero(lengths == wanted)
    own = take_ranges(catalog.thread_units, catalog.thread_start[known[same]], lengths[same])
    real = take_ranges(catalog.units, catalog.start[entry[same]], wanted[same])
    differs = lengths != wanted
    differs[same[np.searchsorted(np.cumsum(lengths[same]), np.flatnonzero(own != real), side="right")]] = True
    return np.flatnonzero(differs)


def check_valence(subject: Subject) -> None:
    """Folders count their entries."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, _, _ = catalog.entries()
    # Hidden ones count like all others: the journal's files and the private directories in the root folder.
    counted = count_entries_by_parent(catalog.parent_id[rows], catalog.folders["folder_id"].astype(np.int64))
    declared = catalog.folders["valence"].astype(np.int64)
    for place in subject.cases("valence-differs", np.flatnonzero(counted != declared), "catalog folders"):
        catalog.field(int(catalog.folders["row"][place]), "valence").add(
            "valence-differs",
            "error",
            "a folder counts other entries than it has",
            expected=int(counted[place]),
            found=int(declared[place]),
        )


def check_subfolders(subject: Subject) -> None:
    """Folders of HFSX volumes that say so count their subfolders, links to folders among them."""
    catalog = subject.catalog
    if catalog is None:
        return
    links = catalog.files["row"][links_by_kind(catalog)[1]]
    inside = catalog.parent_id[np.concatenate([catalog.folders["row"], links])]
    counted = count_entries_by_parent(inside, catalog.folders["folder_id"].astype(np.int64))
    declared = catalog.folders["num_folders"].astype(np.int64)
    wrong = np.flatnonzero(catalog.folders["has_folder_count"] & (counted != declared))
    for place in subject.cases("folder-count-differs", wrong, "catalog folders"):
        catalog.field(int(catalog.folders["row"][place]), "num_folders").add(
            "folder-count-differs",
            "error",
            "a folder counts other subfolders than it has",
            expected=int(counted[place]),
            found=int(declared[place]),
        )


def check_hot_files(subject: Subject) -> None:
    """Records and threads belong together one by one, with one temperature, and their files exist."""
    hot = subject.hot_files
    if hot is None:
        return
    _check_pairs(subject, hot)
    _check_twice(subject, hot)
    if subject.catalog is not None:
        ids = subject.catalog.files["file_id"].astype(np.int64)
        lost = np.flatnonzero(find(ids, hot.files["key.file_id"]) < 0)
        for row in subject.cases("hot-file-differs", lost, "hot files"):
            message, found = "a hot file does not exist", int(hot.files["key.file_id"][row])
            hot.field(int(hot.files["at"][row]), "key.file_id").add(
                "hot-file-differs", "warning", message, expected="the CNID of a file", found=found
            )


def _check_pairs(subject: Subject, hot: HotFileRecords) -> None:
    """Compare both kinds of records, file by file."""
    files, threads = hot.files, hot.threads
    thread, file = find(threads["fork"], files["fork"]), find(files["fork"], threads["fork"])
    for row in subject.cases("hot-file-differs", np.flatnonzero(thread < 0), "hot files"):
        number = int(files["key.file_id"][row])
        hot.field(int(files["at"][row]), "key.file_id").add(
            "hot-file-differs", "warning", "a hot file has no thread record", found=number
        )
    for row in subject.cases("hot-file-differs", np.flatnonzero(file < 0), "hot files"):
        message, number = "a thread record leads to no hot file", int(threads["key.file_id"][row])
        hot.field(int(threads["at"][row]), "key.file_id").add("hot-file-differs", "warning", message, found=number)
    known = np.flatnonzero(file >= 0)
    expected = files["key.temperature"][file[known]]
    for case in subject.cases("hot-file-differs", np.flatnonzero(threads["data"][known] != expected), "hot files"):
        hot.field(int(threads["at"][known[case]]), "data").add(
            "hot-file-differs",
            "warning",
            "a thread record has another temperature than the file",
            expected=int(expected[case]),
            found=int(threads["data"][known[case]]),
        )


def _check_twice(subject: Subject, hot: HotFileRecords) -> None:
    """No file has two temperatures."""
    order = np.argsort(hot.files["fork"], kind="stable")
    again = order[1:][np.diff(hot.files["fork"][order]) == 0]
    for row in subject.cases("hot-file-differs", again, "hot files"):
        number = int(hot.files["key.file_id"][row])
        hot.field(int(hot.files["at"][row]), "key.file_id").add(
            "hot-file-differs", "warning", "a hot file has a second temperature", found=number
        )


_KIND: Final = grammar.HfsplusAttributes.CompressionType
_MAGIC: Final = int(grammar.HfsplusAttributes.DecmpfsMagic.cmpf)
_FLAG: Final = int(grammar.HfsplusCatalog.OwnerFlag.compressed)
IN_RESOURCE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_resource"))
IN_ATTRIBUTE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_attribute"))
KINDS: Final = tuple(int(kind) for kind in _KIND)


class _Headers(Struct, frozen=True):
    """Headers of compressed files, and the files that they belong to."""

    attributes: AttributeRecords
    catalog: CatalogRecords
    rows: I64  # rows of the attributes
    file: I64  # rows of the files

    def of_header(self, name: str) -> NDArray[Any]:
        return self.attributes.decmpfs[name][self.rows]

    def of_file(self, name: str) -> NDArray[Any]:
        return self.catalog.files[name][self.file]

    @property
    def value(self) -> I64:
        """Bytes behind the header in the attribute."""
        return self.attributes.size[self.rows] - DECMPFS.width


def check_compressed_files(subject: Subject) -> None:
    """Files that are compressed have a header, which is whole, of a known kind, and has its bytes where it says."""
    catalog, attributes = subject.catalog, subject.attributes
    if catalog is None:
        return
    is_compressed = (catalog.files["permissions.owner_flags"] & _FLAG) != 0
    claims = np.flatnonzero(is_compressed)
    _check_data_forks(subject, catalog, claims)
    if attributes is None or not is_whole(attributes.located.tree):
        return
    ids = catalog.files["file_id"].astype(np.int64)
    has_header = attributes.decmpfs["compression_type"] >= 0
    rows = np.flatnonzero(has_header)
    lost = claims[find(attributes.file_id[rows], ids[claims]) < 0]
    for row in subject.cases("compression-differs", lost, "catalog files"):
        catalog.field(int(catalog.files["row"][row]), "permissions.owner_flags").add(
            "compression-differs",
            "warning",
            f"file {ids[row]} is compressed, but has no {COMPRESSION_ATTRIBUTE}",
            expected="an attribute with a header",
        )
    place = find(ids, attributes.file_id[rows])
    # Without the flag the attribute is one like others, and the file is read as it lies.
    known = (place >= 0) & is_compressed[np.maximum(place, 0)] if len(ids) else np.zeros(len(rows), np.bool_)
    _check_headers(subject, _Headers(attributes, catalog, rows[known], place[known]))


def _check_data_forks(subject: Subject, catalog: CatalogRecords, claims: I64) -> None:
    wrong = claims[catalog.files["data_fork.len_logical"][claims] != 0]
    for row in subject.cases("compression-differs", wrong, "catalog files"):
        catalog.field(int(catalog.files["row"][row]), "data_fork.len_logical").add(
            "compression-differs",
            "warning",
            f"file {catalog.files['file_id'][row]} is compressed, but has a data fork",
            expected=0,
            found=int(catalog.files["data_fork.len_logical"][row]),
        )


def _check_headers(subject: Subject, headers: _Headers) -> None:
    kind, length = headers.of_header("compression_type"), headers.of_header("len_uncompressed")
    is_used = length > 0
    resource = headers.of_file("resource_fork.len_logical")
    sides: tuple[tuple[str, Mask, str, object], ...] = (
        (
            "compression_magic",
            headers.of_header("compression_magic") != _MAGIC,
            "the header does not begin as one",
            _MAGIC,
        ),
        ("compression_type", ~np.isin(kind, KINDS), "the file is compressed in no known way", f"1 to {max(KINDS)}"),
        (
            "compression_type",
            is_used & np.isin(kind, IN_RESOURCE) & (resource == 0),
            "the bytes should lie in the resource fork, which is empty",
            "a resource fork",
        ),
        (
            "compression_type",
            is_used & np.isin(kind, IN_ATTRIBUTE) & (headers.value <= 0),
            "the bytes should lie behind the header, where nothing is",
            "bytes behind the header",
        ),
        (
            "len_uncompressed",
            (kind == int(_KIND.uncompressed_attribute)) & (headers.value != length),
            "bytes that are not compressed are as long as they become",
            "the bytes behind the header",
        ),
    )
    for field, wrong, message, expected in sides:
        found = headers.of_header(field)
        for case in subject.cases("compression-differs", np.flatnonzero(wrong), "attributes"):
            at = int(headers.attributes.data[headers.rows[case]]) + INLINE.width + DECMPFS.offset_of(field)
            path = headers.attributes.located.path(int(headers.rows[case]), f"attribute_data.{field}")
            headers.attributes.located.at(at).within(path).add(
                "compression-differs", "warning", message, expected=expected, found=int(found[case])
            )
