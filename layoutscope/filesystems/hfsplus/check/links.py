"""Checks of hard links: every link has an inode that counts it.

TN1150, "Hard Links".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus.records.links import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY, ROOT_FOLDER
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject

_TYPE = grammar.HfsplusCatalog.FinderType
_CREATOR = grammar.HfsplusCatalog.FinderCreator


def is_file_link(files: Columns) -> Mask:
    """Say which files are hard links of files."""
    found: Mask = (files["user_info.file_type"] == _TYPE.hard_link) & (
        files["user_info.file_creator"] == _CREATOR.hfs_plus
    )
    return found


def is_directory_link(files: Columns) -> Mask:
    """Say which files are hard links of folders; the Finder's own aliases are told by a flag."""
    found: Mask = (
        (files["user_info.file_type"] == _TYPE.directory_alias)
        & (files["user_info.file_creator"] == _CREATOR.macs)
        & files["has_link_chain"]
    )
    return found


@dataclass(frozen=True, slots=True)
class Family:
    """Links of one kind and the inodes that they lead to.

    Attributes
    ----------
    noun : str
        ``file`` or ``folder``.
    links : (n,) int64 array
        Places of the links among the files.
    target : (n,) int64 array
        Place of each link's inode among the inodes; -1 where it has none.
    inode_rows, inode_ids : (m,) int64 arrays
        Catalog records of the inodes, and their CNIDs.
    declared : (m,) int64 array
        Links that each inode counts.
    """

    noun: str
    links: I64
    target: I64
    inode_rows: I64
    inode_ids: I64
    declared: I64


def families(catalog: CatalogRecords) -> tuple[Family, Family]:
    """Group the links of files, and those of folders, with what they lead to."""
    return (
        _family(catalog, "file", FILE_LINKS_DIRECTORY, "iNode", is_file_link(catalog.files), catalog.files),
        _family(
            catalog, "folder", DIRECTORY_LINKS_DIRECTORY, "dir_", is_directory_link(catalog.files), catalog.folders
        ),
    )


def _family(catalog: CatalogRecords, noun: str, directory: str, prefix: str, is_link: Mask, holders: Columns) -> Family:
    home = _home(catalog, directory)
    inside = np.flatnonzero(catalog.parent_id[holders["row"]] == home)
    numbers = np.array([_number(catalog.name(int(row)), prefix) for row in holders["row"][inside]], np.int64)
    inside, numbers = inside[numbers >= 0], numbers[numbers >= 0]
    links = np.flatnonzero(is_link)
    target = find(numbers, catalog.files["permissions.special"][links].astype(np.int64))
    declared = holders["permissions.special"][inside].astype(np.int64)
    ids = holders["file_id" if noun == "file" else "folder_id"][inside].astype(np.int64)
    return Family(noun, links, target, holders["row"][inside], ids, declared)


def _home(catalog: CatalogRecords, directory: str) -> int:
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
