"""Hard links: from the link's record to the file or folder that it stands for.

TN1150, "Hard Links"; links of directories are newer and follow the system's hfs_catalog.h. A link is a file record
with a Finder type of its own whose ``special`` field numbers an indirect node, which lies in a private directory
of the root folder under a name made of that number. Drivers follow it only if it was created, by its date, together
with the root folder or with the private directory of files (hfs_catalog.c, `cat_lookup`; Linux's dir.c likewise): of
any other date it is a plain file that somebody gave that type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.records.catalog import unix_seconds
from layoutscope.filesystems.hfsplus.tree.shape import node_log
from layoutscope.findings import Contradiction
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.tree.btree import TreeFile
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

ROOT_FOLDER: Final = int(grammar.HfsplusVolume.Cnid.root_folder)

_TYPE = grammar.HfsplusCatalog.FinderType
_CREATOR = grammar.HfsplusCatalog.FinderCreator

_PLAIN: Final = Contradiction(
    "hard-link-plain", "files have the type of a link, but not its date, and are files; the first is", "info"
)
_BROKEN: Final = Contradiction("hard-link-broken", "links lead to no indirect node; the first is file", "error")
# A link of another type or date shows as a file.
_MISSING: Final = Contradiction(
    "link-count-differs", "indirect nodes count links that are missing; the first has CNID", "error"
)


@frozen
class Links:
    """Which entries are links, and what they stand for."""

    # row of the entry that holds the inode: of the indirect node for a link that leads to one, else its own
    target: NDArray[np.uint32]
    # is_link, is_directory_link: hard links of files, and of directories
    is_link: Mask
    is_directory_link: Mask
    is_private: Mask  # the private directories and what lies directly in them
    is_inode: Mask  # indirect nodes: files and folders whose `special` field counts their links

    def follow(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a column of entries with each link's value taken from its target."""
        is_followed = bool((self.is_link | self.is_directory_link).any())
        return values[self.target] if is_followed else values


def resolve_links(
    volume: Volume,
    catalog: Catalog,
    file: TreeFile | None,  # the catalog's file, for the addresses of findings; None where there is no catalog
) -> Links:
    """Find every link's indirect node; one that leads nowhere is reported and stands for itself."""
    entries = catalog.entries
    is_file = ~entries["is_folder"]
    typed = bear_a_links_type(entries["finder_type"], entries["finder_creator"], entries["has_link_chain"])
    is_link, is_directory_link = (is_file & mask for mask in typed)
    is_dated = bear_a_links_date(catalog, is_link | is_directory_link)
    _report(volume, catalog, file, np.flatnonzero((is_link | is_directory_link) & ~is_dated), _PLAIN)
    is_link, is_directory_link = is_link & is_dated, is_directory_link & is_dated
    target = np.arange(len(is_file), dtype=np.uint32)
    is_private, is_inode = np.zeros(len(is_file), np.bool_), np.zeros(len(is_file), np.bool_)
    for directory, prefix, links in (
        (FILE_LINKS_DIRECTORY, "iNode", is_link),
        (DIRECTORY_LINKS_DIRECTORY, "dir_", is_directory_link),
    ):
        home, inodes = _private_directory(catalog, directory)
        is_private[home] = True
        is_private[inodes] = True
        numbers = _numbers(catalog, inodes, prefix)
        is_inode[inodes[numbers >= 0]] = True
        rows = np.flatnonzero(links)
        found = find(numbers, entries["special"][rows].astype(np.int64))
        target[rows[found >= 0]] = inodes[found[found >= 0]]
        _report(volume, catalog, file, rows[found < 0], _BROKEN)
        counted = np.bincount(found[found >= 0], minlength=len(inodes))
        is_short = (numbers >= 0) & (counted < entries["special"][inodes])
        _report(volume, catalog, file, inodes[is_short], _MISSING)
    return Links(target, is_link, is_directory_link, is_private, is_inode)


def bear_a_links_type(
    finder_type: NDArray[Any], finder_creator: NDArray[Any], has_link_chain: NDArray[Any]
) -> tuple[Mask, Mask]:
    """Say which files call themselves hard links, of files and of folders."""
    is_of_file: Mask = (finder_type == _TYPE.hard_link) & (finder_creator == _CREATOR.hfs_plus)
    # The Finder's own aliases have the same type and creator: only the flag tells a directory link.
    is_of_folder: Mask = (finder_type == _TYPE.directory_alias) & (finder_creator == _CREATOR.macs) & has_link_chain
    return is_of_file, is_of_folder


def bear_a_links_date(catalog: Catalog, may_be_link: Mask) -> Mask:
    """Say which of some entries were created, by their dates, when a driver creates links."""
    entries = catalog.entries
    if not may_be_link.any():
        return may_be_link
    created = unix_seconds(entries["create_date"], entries["has_expanded_times"])
    root = np.flatnonzero(entries["is_folder"] & (entries["file_id"] == ROOT_FOLDER))
    home, _ = _private_directory(catalog, FILE_LINKS_DIRECTORY)
    return may_be_link & np.isin(created, created[np.concatenate([root, home])])


def _private_directory(catalog: Catalog, name: str) -> tuple[I64, I64]:
    """Rows of a private directory, one at most, and of what lies in it."""
    entries = catalog.entries
    rows = np.flatnonzero((entries["parent_id"] == ROOT_FOLDER) & entries["is_folder"])
    home = rows[catalog.name.take(rows).equal_to(name.encode())][:1]
    inside = entries["parent_id"] == entries["file_id"][home] if len(home) else np.zeros(len(catalog.name), np.bool_)
    return home, np.flatnonzero(inside)


def _numbers(catalog: Catalog, rows: I64, prefix: str) -> I64:
    """Numbers in the names of indirect nodes; -1 where a name has another form."""
    form = re.compile(f"{prefix}([0-9]{{1,10}})".encode())
    found = map(form.fullmatch, catalog.name.take(rows).raw())
    return np.array([int(match[1]) if match else -1 for match in found], np.int64)


def _report(volume: Volume, catalog: Catalog, file: TreeFile | None, rows: I64, told: Contradiction) -> None:
    """Report entries in one finding at the leaf of the first one, whose number ends its message."""
    if len(rows) and file is not None:
        node, cnid = (int(catalog.entries[name][rows[0]]) for name in ("node", "file_id"))
        node_log(volume, file, node).add(told.code, told.level, f"{len(rows):,} {told.message} {cnid}")
