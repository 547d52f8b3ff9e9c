"""The reader of HFS+ and HFSX (TN1150), and the codes of the findings that only it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.findings import declare

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_LINKS_DIRECTORY: Final = "\0\0\0\0HFS+ Private Data"
DIRECTORY_LINKS_DIRECTORY: Final = ".HFS+ Private Directory Data\r"
"""Folders in the root that hold the targets of hard links (TN1150, "Hard Links"); users never type these names."""

CODES: Final[Mapping[str, str]] = declare(
    {
        "volume-header-invalid": "The volume header is damaged; its copy at the end of the volume serves (HFS+).",
        "alternate-header-missing": "No copy of the volume header ends the volume, or it cannot be read (HFS+).",
        "alternate-header-differs": "The copy of the volume header contradicts it (HFS+).",
        "tree-header-invalid": "The header node of a B-tree is damaged; its nodes were looked for in its file (HFS+).",
        "tree-size-differs": "A B-tree's header counts other nodes than its file holds (HFS+).",
        "tree-unreachable": "No leaf of a B-tree can be reached from its root (HFS+).",
        "tree-count-differs": "A B-tree's header counts other leaf records than its leaves hold (HFS+).",
        "tree-header-differs": "A B-tree's header contradicts its nodes (HFS+).",
        "next-cnid-used": "The next catalog node ID is in use already (HFS+).",
        "fork-size-differs": "Forks count other blocks than their extents hold (HFS+).",
        "pointer-invalid": "An index node points to a node that cannot be its child (HFS+).",
        "node-map-short": "The map of used nodes of a B-tree ends early (HFS+).",
        "node-map-differs": "The map calls nodes free that the tree uses (HFS+).",
        "node-unreached": "The map calls nodes used that the tree does not reach (HFS+).",
        "node-unreadable": "B-tree nodes are outside the image or in areas that could not be read (HFS+).",
        "leaf-chain-broken": "The chain of leaves differs from their order in the index (HFS+).",
        "records-invalid": "Record offsets, keys or types of a B-tree node contradict the format (HFS+).",
        "allocation-file-unreadable": "The allocation file cannot be read; free space is unknown (HFS+).",
        "free-count-differs": "The volume header counts other free blocks than the allocation file (HFS+).",
        "file-count-differs": "The volume header counts other files or folders than the catalog holds (HFS+).",
        "thread-differs": "Thread records contradict the files and folders they belong to (HFS+).",
        "valence-differs": "Folders count other entries than they have (HFS+).",
        "hard-link-broken": "Hard links lead to no indirect node (HFS+).",
        "hard-link-plain": "A file has the type of a hard link, but not its date: it is a plain file (HFS+).",
        "extents-orphaned": "Extents-overflow records belong to no file (HFS+).",
        "extent-outside": "Extents leave their volume or the image (HFS+).",
        "not-unmounted": "The volume was not cleanly unmounted, or is mounted now (HFS+).",
        "allocation-file-short": "The allocation file has fewer bits than the volume has blocks (HFS+).",
        "node-links-differ": "Index nodes are not linked in the order of their keys (HFS+).",
        "hot-file-differs": "Records of the hot-file B-tree contradict each other or the catalog (HFS+).",
        "index-key-differs": "The key of a pointer is not the first key of the node it leads to (HFS+).",
        "cnid-reserved": "A file or folder has a CNID that is reserved (HFS+).",
        "cnid-duplicate": "Two files or folders have the same CNID (HFS+).",
        "parent-missing": "A file or folder is in a folder that does not exist (HFS+).",
        "thread-orphaned": "A thread record belongs to no file or folder (HFS+).",
        "folder-count-differs": "A folder counts other subfolders than it has (HFS+).",
        "link-count-differs": "An inode counts other hard links than lead to it (HFS+).",
        "link-chain-broken": "The chain of hard links of an inode is broken (HFS+).",
        "extents-invalid": "An extents-overflow record contradicts itself (HFS+).",
        "extents-gap": "Overflow extents do not go on where those before them end (HFS+).",
        "attribute-invalid": "An attribute contradicts its record or its extents (HFS+).",
        "attribute-orphaned": "An attribute belongs to no file or folder (HFS+).",
        "attribute-flag-differs": "A file or folder denies attributes that it has, or claims what it lacks (HFS+).",
        "compression-differs": "A compressed file contradicts the header that describes its data (HFS+).",
        "clump-size-invalid": "A clump size is not a whole number of blocks, or too large for its volume (HFS+).",
        "volume-field-invalid": "A field of the volume header is out of its range (HFS+).",
        "node-not-zeroed": "An unused B-tree node holds remains, although the volume says that none does (HFS+).",
        "encodings-differ": "A name is in no text encoding that there is, or the volume header lacks it (HFS+).",
        "permissions-invalid": "The mode of a file or folder is not that of its kind (HFS+).",
        "link-invalid": "A hard link has fields that links do not have (HFS+).",
        "flags-invalid": "A file or folder has flags that its kind does not have (HFS+).",
        "journal-replayed": "The journal held transactions; they were applied in memory, as a mount would (HFS+).",
        "journal-pending": "The journal holds transactions that were not applied (HFS+).",
        "journal-external": "The journal is on another device and was not read (HFS+).",
        "journal-invalid": "The journal is damaged; what is sound of it was applied (HFS+).",
    }
)
