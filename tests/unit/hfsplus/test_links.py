"""Hard links: which entries are links, and their targets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from layoutscope.filesystems.hfsplus import FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.btree import TreeFile
from layoutscope.filesystems.hfsplus.catalog import (
    EPOCH_SECONDS,
    FILE,
    FOLDER,
    KEY,
    collect_catalog,
    resolve_links,
    start_catalog,
)
from layoutscope.filesystems.hfsplus.forks import Fork
from layoutscope.findings import FindingLog
from tests.unit.hfsplus.written import decoded, named, node

LINK = {"user_info.file_type": int.from_bytes(b"hlnk", "big"), "user_info.file_creator": int.from_bytes(b"hfs+", "big")}
HOME = FOLDER.blank({"record_type": 1, "folder_id": 18})


def file(number, **values):
    return FILE.blank({"record_type": 2, "file_id": number, **values})


def resolved(*records):
    """Resolve links among catalog records; return them and the finding codes."""
    volume = SimpleNamespace(log=FindingLog(), block_size_bytes=4096)
    tables, decode = start_catalog()
    found, _ = decoded(decode, node(list(records)))
    catalog = collect_catalog(SimpleNamespace(records=found), tables)
    none = np.empty(0, np.int64)
    fork = Fork(8192, np.array([10]), np.array([2]), np.array([-1]))
    header = SimpleNamespace(len_node=4096)
    tree = TreeFile("catalog", fork, header, b"", 2, none, none, (), none)
    return resolve_links(volume, catalog, tree), volume.log.findings


def test_a_link_leads_to_the_inode_with_its_number():
    """The link says 20, and iNode20 is in the private directory: its row is the link's target."""
    links, findings = resolved(
        named(KEY, "link", file(30, **LINK, **{"permissions.special": 20}), parent_id=2),
        named(KEY, "plain", file(31, **{"permissions.special": 20}), parent_id=2),
        named(KEY, FILE_LINKS_DIRECTORY, HOME, parent_id=2),
        named(KEY, "iNode20", file(20), parent_id=18),
        named(KEY, "other", file(21), parent_id=18),
    )
    assert links.is_link.tolist() == [True, False, False, False, False]
    assert links.target.tolist() == [3, 1, 2, 3, 4]
    assert links.is_private.tolist() == [False, False, True, True, True]
    assert links.is_inode.tolist() == [False, False, False, True, False]
    assert links.follow(np.array([30, 31, 18, 20, 21])).tolist() == [20, 31, 18, 20, 21]
    assert findings == []
    # It is reported at its leaf, node 1 of the tree, at block 11.
    links, (finding,) = resolved(
        named(KEY, "link", file(30, **LINK, **{"permissions.special": 99}), parent_id=2),
        named(KEY, FILE_LINKS_DIRECTORY, HOME, parent_id=2),
    )
    assert links.target.tolist() == [0, 1]
    assert (finding.code, finding.image_offset) == ("hard-link-broken", 11 * 4096)


def link(name, number, **values):
    return named(KEY, name, file(number, **LINK, **values, **{"permissions.special": 20}), parent_id=2)


def private_folder(create_date):
    record = FOLDER.blank({"record_type": 1, "folder_id": 18, "create_date": create_date})
    return named(KEY, FILE_LINKS_DIRECTORY, record, parent_id=2)


def test_a_link_has_the_date_of_the_root_or_the_private_folder():
    # Drivers follow a link only if its creation date is that of the root folder or the private folder.
    links, (finding,) = resolved(
        *(link(f"link {date}", 30 + date, create_date=date) for date in (3, 4, 5)),
        named(KEY, "root", FOLDER.blank({"record_type": 1, "folder_id": 2, "create_date": 5}), parent_id=1),
        private_folder(3),
        named(KEY, "iNode20", file(20), parent_id=18),
    )
    assert links.is_link.tolist() == [True, False, True, False, False, False]
    assert links.target.tolist() == [5, 1, 5, 3, 4, 5]
    assert (finding.code, finding.level) == ("hard-link-plain", "info")
    # A link with dates from 1970 can be as old as a folder with dates from 1904.
    links, findings = resolved(
        link("link", 30, flags=0x1000, create_date=7),
        private_folder(EPOCH_SECONDS + 7),
        named(KEY, "iNode20", file(20), parent_id=18),
    )
    assert links.target.tolist() == [2, 1, 2]
    assert findings == []
