"""Checks of hard links: every link has an inode that counts it, and stands in the chain of that inode's links.

TN1150, "Hard Links". Chains follow the system's hfs_catalog.h and hfs_link.c: each link names the one before it and the
one behind it, in fields that hold the owner and the group of other files. The inode of a file names its first link in
a field, that of a folder in an attribute, as digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.records.attributes import INLINE
from layoutscope.filesystems.hfsplus.records.catalog import unix_seconds
from layoutscope.filesystems.hfsplus.records.links import ROOT_FOLDER, bear_a_links_type
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.findings import FindingLog


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


@frozen
class Family:
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


@frozen
class _Chains:
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
