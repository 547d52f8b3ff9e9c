"""Checks of catalog records: links, single fields, threads, counts, hot files, compressed files.

TN1150, "Catalog File" and "Hard Links"; for links of folders, which came later, hfs_format.h. Not checked are dates
except those of hard links, owners and groups outside chains, and most data of the Finder, because nothing on the volume
determines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.hfsplus.records import CATALOG_TYPES, HEADER_FIELDS
from layoutscope.checks.hfsplus.volume import CNID, ENCODINGS
from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.attributes import COMPRESSION_ATTRIBUTE, DECMPFS, INLINE
from layoutscope.filesystems.hfsplus.catalog import KEY, ROOT_FOLDER, THREAD, bear_a_links_type, unix_seconds
from layoutscope.filesystems.hfsplus.contents import count_entries_by_parent
from layoutscope.filesystems.hfsplus.tree import is_whole
from layoutscope.structs import grammar
from layoutscope.structs.arrays import find, starts_of, take_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.checks.hfsplus.records import CatalogRecords, Kind, Subject, TreeRecords
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.arrays import I64, Columns, Mask


CODE: Final = "link-chain-broken"
FORWARD, BACKWARD = "permissions.group_id", "permissions.owner_id"
"""Fields of a link's record that name the next link and the one before it."""

SPECIAL: Final = "permissions.special"
"""A union: the inode number of a link, the link count of an inode, or a device number (TN1150, HFSPlusBSDInfo)."""


def mark_links(catalog: CatalogRecords) -> tuple[Mask, Mask]:
    """Mark the files that are hard links of files, and those that are hard links of folders."""
    files = catalog.files
    typed = bear_a_links_type(files["user_info.file_type"], files["user_info.file_creator"], files["has_link_chain"])
    is_dated = _have_link_date(catalog)
    return typed[0] & is_dated, typed[1] & is_dated


def _have_link_date(catalog: CatalogRecords) -> Mask:
    """Mark the files with the creation date of the root folder or of the private folder for files."""
    created, folders = (
        unix_seconds(columns["create_date"], columns["has_expanded_times"])
        for columns in (catalog.files, catalog.folders)
    )
    homes = np.isin(catalog.folders["folder_id"], [ROOT_FOLDER, find_private_folder(catalog, FILE_LINKS_DIRECTORY)])
    is_dated: Mask = np.isin(created, folders[homes])
    return is_dated


class LinkGroup(Struct, frozen=True):
    """Links of one kind and their inodes."""

    noun: str  # `file` or `folder`
    links: I64  # positions of the links among the files
    target: I64  # position of the inode of each link among the inodes, -1 without one
    inode_rows: I64  # catalog records of the inodes
    inode_ids: I64  # CNIDs of the inodes
    declared: I64  # number of links that each inode counts

    def locate_inodes(self, catalog: CatalogRecords) -> Callable[[int, str], FindingLog]:
        """Bind the log to a field of an inode."""
        return lambda row, field: catalog.leaf_field(self.inode_rows[row], field)


def group_links(catalog: CatalogRecords) -> tuple[LinkGroup, LinkGroup]:
    """Group the links of files, and those of folders, with their inodes."""
    of_files, of_folders = mark_links(catalog)
    return (
        _group_links_of_kind(catalog, "file", of_files, FILE_LINKS_DIRECTORY, "iNode"),
        _group_links_of_kind(catalog, "folder", of_folders, DIRECTORY_LINKS_DIRECTORY, "dir_"),
    )


def _group_links_of_kind(catalog: CatalogRecords, noun: str, is_link: Mask, directory: str, prefix: str) -> LinkGroup:
    holders = catalog.files if noun == "file" else catalog.folders
    home = find_private_folder(catalog, directory)
    # The number of an inode is in its name. It need not be its CNID (TN1150, "Hard Links").
    inside = np.flatnonzero(catalog.parent_id[holders["row"]] == home)
    numbers = np.array([_parse_inode_number(catalog.key_name(row), prefix) for row in holders["row"][inside]], np.int64)
    inside, numbers = inside[numbers >= 0], numbers[numbers >= 0]
    links = np.flatnonzero(is_link)
    target = find(numbers, catalog.files["permissions.special"][links].astype(np.int64))
    declared = holders["permissions.special"][inside].astype(np.int64)
    ids = holders[f"{noun}_id"][inside].astype(np.int64)
    return LinkGroup(noun, links, target, holders["row"][inside], ids, declared)


def find_private_folder(catalog: CatalogRecords, directory: str) -> int:
    """Return the CNID of a private directory, -1 without one."""
    rows = catalog.folders["row"]
    is_candidate = (catalog.parent_id[rows] == ROOT_FOLDER) & (catalog.keys.count[rows] == len(directory))
    for place in np.flatnonzero(is_candidate):
        if catalog.key_name(rows[place]) == directory:
            return int(catalog.folders["folder_id"][place])
    return -1


def _parse_inode_number(name: str, prefix: str) -> int:
    digits = name.removeprefix(prefix)
    return int(digits) if digits != name and digits.isascii() and digits.isdecimal() and len(digits) <= 10 else -1


def check_link_targets(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that each link leads to an inode."""
    number = catalog.files[SPECIAL]
    for family in group_links(catalog):
        links = subject.table("hard-link-broken", f"{family.noun} links", catalog.locate_kind("files"))
        message, expected = f"a link leads to no {family.noun} inode", "the number of an inode"
        links.report(family.links[family.target < 0], message, SPECIAL, expected=expected, found=number)


def check_link_counts(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that inodes count the links to them."""
    for family in group_links(catalog):
        counted = np.bincount(family.target[family.target >= 0], minlength=len(family.declared))
        inodes = subject.table("link-count-differs", "inodes", family.locate_inodes(catalog))
        wrong, message = counted != family.declared, f"a {family.noun} inode counts other links than lead to it"
        inodes.report(wrong, message, SPECIAL, expected=counted, found=family.declared)


def _find_chains(catalog: CatalogRecords, family: LinkGroup) -> tuple[I64, I64, I64, dict[str, I64]]:
    """Find the links that are in a chain: their positions among the files, their CNIDs, their inodes, and neighbours.

    The neighbours are by field: the position of the named link of the same inode among the links, else -1.
    """
    files = catalog.files
    # Without the flag, which came with 10.5, the fields are the owner and group of an ordinary file.
    chosen = (family.target >= 0) & files["has_link_chain"][family.links]
    links, target = family.links[chosen], family.target[chosen]
    ids = files["file_id"][links].astype(np.int64)
    place = {}
    for name in (FORWARD, BACKWARD):
        neighbour = find(ids, files[name][links].astype(np.int64))
        place[name] = np.where((neighbour >= 0) & (np.append(target, -2)[neighbour] == target), neighbour, -1)
    return links, ids, target, place


def check_link_chains(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that neighbours in a chain are links of one inode and name each other."""
    for family in group_links(catalog):
        links, _, _, place = _find_chains(catalog, family)
        for field in (FORWARD, BACKWARD):
            lost = np.flatnonzero((catalog.files[field][links] != 0) & (place[field] < 0))
            message = "a link's neighbour in the chain is not a link of the same inode"
            _report_links(subject, catalog, field, links[lost], message)
            wrong = np.setdiff1d(_find_one_sided_links(place, field), lost)
            message = "a link's neighbours in the chain do not name it as theirs"
            _report_links(subject, catalog, field, links[wrong], message)


def _find_one_sided_links(place: dict[str, I64], field: str) -> I64:
    """Find the links to blame for neighbours that disagree in this field.

    If one link names another that does not name it, the wrong field is the one whose other end agrees with a third
    link.
    """
    blamed = []
    for name, back in ((FORWARD, BACKWARD), (BACKWARD, FORWARD)):
        start = np.flatnonzero(place[name] >= 0)
        end = place[name][start]
        named = place[back][end]
        disagrees = named != start
        has_third = (named >= 0) & (np.append(place[name], -2)[named] == end)
        blamed.append(start[disagrees & has_third] if name == field else end[disagrees & ~has_third])
    return np.unique(np.concatenate(blamed))


def _report_links(subject: Subject, catalog: CatalogRecords, field: str, links: I64, message: str) -> None:
    table = subject.table(CODE, "links", catalog.locate_kind("files"))
    table.report(links, message, field, expected="a link of the same inode", found=catalog.files[field])


def check_first_links(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that each inode with a chain names one of its links as the first, and only that one has no predecessor."""
    for family in group_links(catalog):
        links, ids, target, place = _find_chains(catalog, family)
        first = _read_first_links(subject, catalog, family)
        at = find(ids, first)
        mine = (at >= 0) & (np.append(target, -2)[at] == np.arange(len(first)))
        # Inodes of folders name their first link in an attribute, if that tree exists.
        if family.noun == "file" or subject.attributes is not None:
            lost = np.isin(np.arange(len(first)), target) & (first < 0)
            message = f"the inode of a {family.noun} does not say which its first link is"
            inodes = subject.table(CODE, "inodes", family.locate_inodes(catalog))
            inodes.report(lost, message, "reserved1" if family.noun == "file" else "folder_id")
        second = mine & (np.append(place[BACKWARD], -1)[at] >= 0)
        inodes = subject.table(CODE, "inodes", _locate_first_link(subject, catalog, family))
        for wrong, message in (
            ((first >= 0) & ~mine, "the first link of an inode is none of its links"),
            (second, "the first link of an inode has one before it"),
        ):
            inodes.report(wrong, message, expected="the head of the chain of its links", found=first)
        named = np.append(np.where(mine & ~second, first, -1), -1)[target]
        is_head = (catalog.files[BACKWARD][links] == 0) & ~np.isin(np.arange(len(ids)), place[FORWARD])
        headless = np.flatnonzero(is_head & (named >= 0) & (ids != named))
        _report_links(subject, catalog, BACKWARD, links[headless], "no link leads to this one, which is not the first")


def _read_first_links(subject: Subject, catalog: CatalogRecords, family: LinkGroup) -> I64:
    """Return the first link that each inode names, -1 if it names none; 0 if an attribute names it by no number."""
    files, attributes = catalog.files, subject.attributes
    if family.noun == "file":
        place = find(files["row"], family.inode_rows)
        # The field has this meaning only if the flag, which came with 10.5, is set (hfs_format.h).
        first = files["reserved1"][place].astype(np.int64)
        return np.where(files["has_link_chain"][place] & (first != 0), first, -1)
    if attributes is None:
        return np.full(len(family.inode_ids), -1, np.int64)
    rows = np.flatnonzero(attributes["first_link"] >= 0)
    place = find(attributes["file_id"][rows], family.inode_ids)
    return np.where(place >= 0, np.append(attributes["first_link"][rows], -1)[place], -1)


def _locate_first_link(
    subject: Subject, catalog: CatalogRecords, family: LinkGroup
) -> Callable[[int, str], FindingLog]:
    """Bind the log to the name of an inode's first link: a field of a file's record, or a folder's attribute."""
    attributes = subject.attributes
    if family.noun == "file" or attributes is None:
        return lambda row, _: catalog.leaf_field(family.inode_rows[row], "reserved1")
    places = attributes["data"] + INLINE.width
    holders = np.where(attributes["first_link"] >= 0, attributes["file_id"], -1)
    return lambda row, _: attributes.at(places[np.flatnonzero(holders == family.inode_ids[row])[0]])


FLAG = grammar.HfsplusCatalog.CatalogFlag
OWNER = grammar.HfsplusCatalog.OwnerFlag
FINDER = grammar.HfsplusCatalog.FinderFlag
_MODE = grammar.HfsplusCatalog.ModeType
_TYPE_BITS: Final = 0xF000
_OF_FILES: Final = tuple(int(kind) for kind in _MODE if kind not in (_MODE.directory, _MODE.whiteout))


def check_catalog_fields(subject: Subject, catalog: CatalogRecords) -> None:
    """Compare single fields of files and folders with the format and the rest of their record."""
    files, folders = catalog.files, catalog.folders
    # The files with the type of links of files, and of folders, whatever their dates.
    of_files, of_folders = bear_a_links_type(
        files["user_info.file_type"], files["user_info.file_creator"], files["has_link_chain"]
    )
    are_dated = _have_link_date(catalog)
    file_home = find_private_folder(catalog, FILE_LINKS_DIRECTORY)
    folder_home = find_private_folder(catalog, DIRECTORY_LINKS_DIRECTORY)
    parents = catalog.parent_id[files["row"]]
    # A driver treats a link with another date as a plain file, with an arbitrary number. fsck_hfs uses the type.
    may_be_links = of_files | of_folders | np.isin(parents, [file_home, folder_home])
    is_folder_inode = (catalog.parent_id[folders["row"]] == folder_home) & (folder_home > 0)
    is_link_home = folders["folder_id"] == max(folder_home, 0)
    has_child_link = _mark_ancestors(catalog, parents[of_folders & are_dated].tolist(), folder_home)

    def report(
        kind: Kind, field: str, broken: Mask, message: str, expected: str, code: str, level: Level = "error"
    ) -> None:
        table = subject.table(code, f"catalog {kind}", catalog.locate_kind(kind), level)
        table.report(broken, message, field, expected=expected, found=getattr(catalog, kind).get(field, ""))

    def require_bit(
        kind: Kind, field: str, bit: int, chosen: Mask | bool, message: str, code: str, *, is_set: bool = True
    ) -> None:
        """Report the chosen records whose bit is not set, or not clear."""
        broken = chosen & ((getattr(catalog, kind)[field] & int(bit) != 0) != is_set)
        report(kind, field, broken, message, f"bit {bit:#x}" if is_set else f"no bit {bit:#x}", code)

    code, field = "permissions-invalid", "permissions.file_mode"
    # TN1150, HFSPlusBSDInfo; fsck_hfs: E_InvalidPermissions. Zero means that the field is unused.
    mode = files[field]
    broken = (mode != 0) & ~np.isin(mode & _TYPE_BITS, _OF_FILES)
    report("files", field, broken, "a file's mode is not that of a file", "the type of a file, or 0", code)
    mode = folders[field]
    broken = (mode != 0) & (mode & _TYPE_BITS != int(_MODE.directory))
    report("folders", field, broken, "a folder's mode is not that of a folder", "the type of a folder, or 0", code)

    code, field = "flags-invalid", "flags"
    # TN1150, Catalog Folder Records; fsck_hfs: E_CatalogFlagsNotZero. Folders always have a thread, so the thread flag
    # of files has no meaning for them.
    broken = folders[field] & (int(FLAG.locked) | int(FLAG.thread)) != 0
    report("folders", field, broken, "a folder has flags of files", "neither locked nor with a thread", code)
    # hfs_format.h; fsck_hfs: E_HsFldCount.
    message = "a folder of an HFSX volume does not say that it counts its subfolders"
    require_bit("folders", field, FLAG.folder_count, subject.volume.is_hfsx, message, code)
    # hfs_format.h; fsck_hfs: E_LinkChainNonLink, E_DirInodeBadFlags.
    message = "a file that is not a hard link is in a chain of links"
    require_bit("files", field, FLAG.link_chain, ~may_be_links, message, code, is_set=False)
    message = "the inode of a folder is in no chain of links"
    require_bit("folders", field, FLAG.link_chain, is_folder_inode, message, code)
    # hfs_format.h; fsck_hfs: E_DirLinkAncestorFlags.
    message = "a folder with a link of a folder in it does not say so"
    require_bit("folders", field, FLAG.child_link, has_child_link, message, code)
    # fsck_hfs: E_LockedDirName.
    is_root = folders["folder_id"] == ROOT_FOLDER
    message = "the name of the root folder, which is the volume's, is locked"
    require_bit("folders", "user_info.finder_flags", FINDER.name_locked, is_root, message, code, is_set=False)

    # fsck_hfs: E_FileLinkCountError. Depending on the kind of the record, the field is a device number, an inode
    # number, or a count of links.
    is_device = np.isin(files["permissions.file_type"], (int(_MODE.character_device), int(_MODE.block_device)))
    broken = (files[SPECIAL] > 1) & ~is_device & ~may_be_links
    report("files", SPECIAL, broken, "a file with one name counts several links", "at most 1", "link-count-differs")

    code = "link-invalid"
    # TN1150, Hard Links; fsck_hfs: E_LinkHasData, E_BadHardLinkDate. Unlike fsck_hfs, drivers treat a file of this type
    # with another date as a plain file.
    broken = ((of_files & are_dated) | of_folders) & (parents != file_home) & (files["data_fork.num_blocks"] != 0)
    report("files", "data_fork.num_blocks", broken, "a hard link has data of its own", "0", code)
    broken, expected = of_files & ~are_dated & (file_home > 0), "the date of the private folder or of the root folder"
    message = "a file of a hard link's type has another date than links, so that drivers take it for a plain file"
    report("files", "create_date", broken, message, expected, code, "warning")
    # fsck_hfs: E_DirHardLinkOwnerFlags, E_DirHardLinkFinderInfo.
    field = "permissions.owner_flags"
    require_bit("files", field, OWNER.immutable, of_folders, "a link of a folder may be changed", code)
    broken, expected = of_folders & ~files["user_info.is_alias"], f"bit {FINDER.is_alias:#x}"
    message = "a link of a folder is not an alias to the Finder"
    report("files", "user_info.finder_flags", broken, message, expected, code)

    code = "permissions-invalid"
    # fsck_hfs: E_BadPermPrivDir.
    message = "the private folder for folders with links may be changed"
    require_bit("folders", field, OWNER.immutable, is_link_home, message, code)
    message = "anybody may take folders out of the private folder for folders with links"
    require_bit("folders", "permissions.file_mode", grammar.HfsplusCatalog.ModeBit.sticky, is_link_home, message, code)

    # TN1150, Text Encodings; fsck_hfs: ValidMacEncoding.
    field, message = "text_encoding", "a name is in no encoding that there is"
    kinds: tuple[tuple[Kind, Columns], ...] = ("files", files), ("folders", folders)
    for kind, columns in kinds:
        broken = ~np.isin(columns[field], np.array(sorted(ENCODINGS), np.uint32))
        report(kind, field, broken, message, "the number of a text encoding of the Mac", "encodings-differ")


def _mark_ancestors(catalog: CatalogRecords, parents: list[int], home: int) -> Mask:
    """Mark the ancestors of links of folders."""
    ids = catalog.folders["folder_id"]
    is_ancestor = np.zeros(len(ids), np.bool_)
    if not parents:
        return is_ancestor
    place = {cnid: row for row, cnid in enumerate(ids.tolist()) if cnid not in (ROOT_FOLDER, home)}
    above = catalog.parent_id[catalog.folders["row"]]
    for parent in parents:
        at = place.get(parent)
        while at is not None and not is_ancestor[at]:
            is_ancestor[at] = True
            at = place.get(int(above[at]))
    return is_ancestor


def check_record_types(subject: Subject) -> None:
    """Check that catalog and attribute records have known types and their lengths."""
    catalog, attributes, overflow = subject.catalog, subject.attributes, subject.overflow
    code, unknown = "records-invalid", "a record is of no known type, or shorter than it"
    if catalog is not None:
        noun = "catalog records"
        data = subject.table(code, noun, catalog.locate("data"))
        data.report(catalog["kind"] == 0, unknown)
        data.report(catalog["excess"], "a record is longer than its type")
        rows, _, _ = catalog.entries()
        # Only the key of a thread has an empty name (TN1150, "Catalog File Key").
        names = subject.table(code, noun, catalog.locate("key", KEY.num_name_units.offset))
        names.report(rows[catalog.keys.count[rows] == 0], "a file or folder has a name without letters")
    if attributes is not None:
        data = subject.table(code, "attribute records", attributes.locate("data"))
        data.report(attributes["kind"] == 0, unknown)
    if overflow is not None:
        leaf = np.flatnonzero(overflow.rows["level"] == 0)
        keys = subject.table(code, "extents-overflow records", overflow.locate("key"))
        keys.report(np.setdiff1d(leaf, overflow["row"]), "a record is shorter than eight extents")


def check_ids(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that CNIDs of files and folders are not reserved, and unique."""
    _, ids, is_folder = catalog.entries()
    is_root = is_folder & (ids == CNID.root_folder)
    # CNIDs below 16 belong to the root folder and to special files, which are not in the catalog.
    reserved = (ids < CNID.first_user) & ~is_root
    order = np.argsort(ids, kind="stable")
    same = np.zeros(len(ids), np.bool_)
    same[order[1:]] |= ids[order[1:]] == ids[order[:-1]]
    same[order[:-1]] |= ids[order[1:]] == ids[order[:-1]]
    table, least = subject.table("cnid-reserved", "catalog records", catalog.locate_ids()), int(CNID.first_user)
    table.report(reserved, "a file or folder has a reserved CNID", expected=f"at least {least}", found=ids)
    message, expected = "two files or folders have the same CNID", "a CNID of its own"
    table.report(same, message, expected=expected, found=ids, code="cnid-duplicate")


def check_parents(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that each file and folder is in an existing folder."""
    rows, ids, is_folder = catalog.entries()
    parent = catalog.parent_id[rows]
    key = catalog.locate("key", KEY.parent_id.offset)
    table = subject.table("parent-missing", "catalog records", lambda place, _: key(rows[place], ""))
    wrong = (find(ids[is_folder], parent) < 0) & (parent != CNID.root_parent)
    table.report(wrong, lambda place: f"the folder of CNID {ids[place]} does not exist", found=parent)


def check_threads(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that folders, and files with the flag, have threads with their type, parent and name."""
    rows, ids, is_folder = catalog.entries()
    threads = catalog.threads
    owner = catalog.parent_id[threads["row"]]
    # In HFS, files had threads only on request. HFS+ requires a thread for each file, and the flag for it (TN1150,
    # "Catalog File"); this reports threads that the flag promises.
    claims = is_folder.copy()
    claims[~is_folder] = catalog.files["has_thread"]
    entries = subject.table("thread-differs", "catalog records", catalog.locate_ids())
    lost = claims & (find(owner, ids) < 0)
    entries.report(lost, "a file or folder has no thread", expected="the CNID of a thread", found=ids)
    # If two entries share a CNID, the thread belongs to the one in the folder that it names.
    place = _match_entries(catalog, owner)
    key = catalog.locate("key", KEY.parent_id.offset)
    orphans = subject.table("thread-orphaned", "catalog threads", lambda row, _: key(threads["row"][row], ""))
    orphans.report(place < 0, "a thread belongs to no file or folder", found=owner)
    known = np.flatnonzero(place >= 0)
    _compare_threads(subject, catalog, known, rows[place[known]], is_folder[place[known]])


def _match_entries(catalog: CatalogRecords, owner: I64) -> I64:
    """Return the position of the entry of each thread, -1 without one."""
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


def _compare_threads(subject: Subject, catalog: CatalogRecords, known: I64, entry: I64, is_folder: Mask) -> None:
    """Compare threads with the entries of their CNIDs."""
    threads, at = catalog.threads, catalog.locate_kind("threads")
    row = threads["row"][known]
    table = subject.table("thread-differs", "catalog threads", lambda case, field: at(known[case], field))
    folder, file = (np.uint8(kind) for kind in (CATALOG_TYPES.folder_thread, CATALOG_TYPES.file_thread))

    def compare(field: str, message: str, expected: NDArray[Any], found: NDArray[Any]) -> None:
        """Report the threads in which a field differs; arrays with a row per thread are then released."""
        table.report(expected != found, message, field, expected=expected, found=found)

    types = np.where(is_folder, folder, file)
    compare("record_type", "a thread has the type of another kind", types, catalog["kind"][row])
    compare("parent_id", "a thread names another folder", catalog.parent_id[entry], threads["parent_id"][known])

    def at_name(case: int, _: str) -> FindingLog:
        is_longer = threads["num_name_units"][known[case]] != catalog.keys.count[entry[case]]
        plus = THREAD.num_name_units.offset if is_longer else THREAD.width
        return catalog.at(int(catalog.rows["data"][row[case]]) + plus)

    names = subject.table("thread-differs", "catalog threads", at_name)
    names.report(_find_other_names(catalog, known, entry), "a thread has another name")


NAMES_PER_BATCH: Final = 1 << 16


def _find_other_names(catalog: CatalogRecords, known: I64, entry: I64) -> I64:
    """Find the threads whose names differ from those of their entries."""
    all_lengths = catalog.threads["num_name_units"]
    lengths, entry_lengths = all_lengths[known], catalog.keys.count[entry]
    thread_names, starts = catalog.leaves["thread-names"]["units"], starts_of(np.maximum(all_lengths, 0))
    differs = lengths != entry_lengths
    # Names are compared exactly, although keys ignore case, because a look-up by CNID returns the name in the thread.
    rows = np.flatnonzero(~differs)
    for start in range(0, len(rows), NAMES_PER_BATCH):
        same = rows[start : start + NAMES_PER_BATCH]
        thread_units = take_ranges(thread_names, starts[known[same]], lengths[same])
        entry_units = take_ranges(catalog.keys.units, catalog.keys.start[entry[same]], entry_lengths[same])
        unlike = np.flatnonzero(thread_units != entry_units)
        differs[same[np.searchsorted(np.cumsum(lengths[same]), unlike, side="right")]] = True
    return np.flatnonzero(differs)


def check_valence(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that folders count their entries."""
    # Hidden entries count as well: the journal's files and the private directories in the root folder.
    _compare_folders(subject, catalog, catalog.entries()[0], "valence-differs", "entries", "valence")


def check_subfolders(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that folders with the flag of HFSX volumes count their subfolders, including links of folders."""
    links = catalog.files["row"][mark_links(catalog)[1]]
    rows = np.concatenate([catalog.folders["row"], links])
    has_count = catalog.folders["has_folder_count"]
    _compare_folders(subject, catalog, rows, "folder-count-differs", "subfolders", "num_folders", has_count)


def _compare_folders(
    subject: Subject, catalog: CatalogRecords, rows: I64, code: str, noun: str, field: str, chosen: Mask | bool = True
) -> None:
    """Compare a count of chosen folders with the number of some records in them."""
    counted = count_entries_by_parent(catalog.parent_id[rows], catalog.folders["folder_id"].astype(np.int64))
    wrong, declared = chosen & (counted != catalog.folders[field]), catalog.folders[field].astype(np.int64)
    folders = subject.table(code, "catalog folders", catalog.locate_kind("folders"))
    folders.report(wrong, f"a folder counts other {noun} than it has", field, expected=counted, found=declared)


def check_hot_files(subject: Subject, hot: TreeRecords) -> None:
    """Check that records and threads of hot files correspond, with equal temperatures, and that their files exist."""
    is_thread = hot["key.is_thread"] != 0
    files, threads = np.flatnonzero(~is_thread), np.flatnonzero(is_thread)
    cnid, temperature = hot["key.file_id"], hot["data"][threads]
    # The fork is one byte on disk: none of its bits for data, all of them for resources.
    fork = cnid << 8 | hot["key.fork_type"]

    table = subject.table("hot-file-differs", "hot files", hot.leaf_field, "warning")

    def report(own: I64, wrong: Mask, field: str, message: str, expected: object = "") -> None:
        table.report(own[wrong], message, field, expected=expected, found=hot[field])

    thread, file = find(fork[threads], fork[files]), find(fork[files], fork[threads])
    report(files, thread < 0, "key.file_id", "a hot file has no thread record")
    report(threads, file < 0, "key.file_id", "a thread record leads to no hot file")
    expected = np.zeros(len(hot), np.int64)
    expected[threads] = np.append(hot["key.temperature"][files], 0)[file]
    wrong = (file >= 0) & (temperature != expected[threads])
    report(threads, wrong, "data", "a thread record has another temperature than the file", expected)
    order = np.argsort(fork[files], kind="stable")
    again = np.zeros(len(files), np.bool_)
    again[order[1:][np.diff(fork[files][order]) == 0]] = True
    report(files, again, "key.file_id", "a hot file has a second temperature")
    if subject.catalog is not None:
        lost = find(subject.catalog.files["file_id"].astype(np.int64), cnid[files]) < 0
        report(files, lost, "key.file_id", "a hot file does not exist", "the CNID of a file")


_KIND: Final = grammar.HfsplusAttributes.CompressionType
_MAGIC: Final = int(grammar.HfsplusAttributes.DecmpfsMagic.cmpf)
IN_RESOURCE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_resource"))
IN_ATTRIBUTE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_attribute"))
_CODE: Final = "compression-differs"


def check_compressed_files(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that compressed files have a valid header of a known kind, and their data where it says."""
    files, attributes = catalog.files, subject.attributes
    ids = files["file_id"].astype(np.int64)
    is_compressed = (files["permissions.owner_flags"] & int(OWNER.compressed)) != 0
    claims, length = np.flatnonzero(is_compressed), "data_fork.len_logical"
    table = subject.table(_CODE, "catalog files", catalog.locate_kind("files"), "warning")
    wrong = claims[files[length][claims] != 0]
    message = lambda row: f"file {ids[row]} is compressed, but has a data fork"  # noqa: E731
    table.report(wrong, message, length, expected=0, found=files[length])
    if attributes is None or not is_whole(attributes.tree):
        return
    rows = np.flatnonzero(attributes["compression_type"] >= 0)
    table.report(
        claims[find(attributes["file_id"][rows], ids[claims]) < 0],
        lambda row: f"file {ids[row]} is compressed, but has no {COMPRESSION_ATTRIBUTE}",
        "permissions.owner_flags",
        expected="an attribute with a header",
    )
    place = find(ids, attributes["file_id"][rows])
    # Without the flag, the attribute has no special meaning, and the file is read as stored.
    known = (place >= 0) & np.append(is_compressed, False)[place]
    _check_headers(subject, attributes, rows[known], files["resource_fork.len_logical"][place[known]])


def _check_headers(subject: Subject, attributes: TreeRecords, rows: I64, resource: NDArray[np.uint64]) -> None:
    """Check the headers of compressed files; `resource` has the lengths of their resource forks."""
    header = {str(name): attributes[name][rows] for name in HEADER_FIELDS}
    kind, length = header["compression_type"], header["len_uncompressed"]
    behind = attributes["size"][rows] - DECMPFS.width
    is_used = length > 0

    def at(case: int, field: str) -> FindingLog:
        log = attributes.at(int(attributes["data"][rows[case]]) + INLINE.width + DECMPFS.offset_of(field))
        return log.within(attributes.path(int(rows[case]), f"attribute_data.{field}"))

    def report(wrong: Mask, field: str, message: str, expected: object) -> None:
        table.report(wrong, message, field, expected=expected, found=header[field])

    table = subject.table(_CODE, "attributes", at, "warning")
    wrong = header["compression_magic"] != _MAGIC
    report(wrong, "compression_magic", "the header does not begin as one", _MAGIC)
    kinds = [int(known) for known in _KIND]
    report(~np.isin(kind, kinds), "compression_type", "the file is compressed in no known way", f"1 to {max(kinds)}")
    wrong = is_used & np.isin(kind, IN_RESOURCE) & (resource == 0)
    message = "the bytes should be in the resource fork, which is empty"
    report(wrong, "compression_type", message, "a resource fork")
    wrong = is_used & np.isin(kind, IN_ATTRIBUTE) & (behind <= 0)
    message = "the bytes should follow the header, but nothing is there"
    report(wrong, "compression_type", message, "bytes after the header")
    wrong = (kind == int(_KIND.uncompressed_attribute)) & (behind != length)
    message = "the file is stored uncompressed, but not with the size that is stated"
    report(wrong, "len_uncompressed", message, "the bytes after the header")
