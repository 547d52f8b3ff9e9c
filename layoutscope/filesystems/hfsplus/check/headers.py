"""Checks of the volume header, the special files and the headers of B-trees.

TN1150, "Volume Header", "Header Record".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.hfsplus.contents.rules import check_counts, check_leaf_count, check_tree_header
from layoutscope.filesystems.hfsplus.tree.keys import FORMS
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import HEADER_NODE

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.findings import FindingLog

CNID = grammar.HfsplusVolume.Cnid
COMPARE = grammar.HfsplusBtree.KeyCompareType

SPECIAL_FILES: Final = {
    int(CNID.allocation_file): "allocation_file",
    int(CNID.extents_file): "extents_file",
    int(CNID.catalog_file): "catalog_file",
    int(CNID.attributes_file): "attributes_file",
    int(CNID.startup_file): "startup_file",
}
"""Fields of the volume header by the CNID of the file."""


def check_unmounted(subject: Subject) -> None:
    """Say whether the volume was left without being unmounted; no damage, if its journal was replayed."""
    header = subject.volume.header
    # Two bits of opposite senses: a clean unmount sets the one and clears the other (TN1150, "Volume Attributes").
    if not header.is_unmounted or header.is_boot_inconsistent:
        subject.volume.header_field("attributes").add(
            "not-unmounted", "info", "the volume was not cleanly unmounted, or is mounted now"
        )


def check_volume_counts(subject: Subject) -> None:
    """Compare files, folders and the next CNID with the catalog."""
    if subject.catalog is not None:
        check_counts(subject.volume, subject.contents.catalog)


def check_special_sizes(subject: Subject) -> None:
    """A special file is as long as its extents."""
    header, block = subject.volume.header, subject.volume.block_size_bytes
    for cnid, name in SPECIAL_FILES.items():
        fork, blocks = getattr(header, name), subject.contents.special[cnid].num_blocks
        if int(fork.num_blocks) != blocks:
            subject.volume.header_field(f"{name}.num_blocks").add(
                "fork-size-differs",
                "error",
                f"the {name.replace('_', ' ')} counts other blocks than its extents hold",
                expected=blocks,
                found=int(fork.num_blocks),
            )
        if int(fork.len_logical) > blocks * block:
            subject.volume.header_field(f"{name}.len_logical").add(
                "fork-size-differs",
                "error",
                f"the {name.replace('_', ' ')} is longer than its extents",
                expected=f"at most {blocks * block}",
                found=int(fork.len_logical),
            )


def check_allocation_size(subject: Subject) -> None:
    """The allocation file has a bit for every block."""
    header = subject.volume.header
    needed, found = -(-int(header.num_blocks) // 8), int(header.allocation_file.len_logical)
    # It may have more: bits behind the last block are unused (TN1150, "Allocation File").
    if found < needed:
        subject.volume.header_field("allocation_file.len_logical").add(
            "allocation-file-short",
            "error",
            "the allocation file has fewer bits than the volume has blocks",
            expected=f"at least {needed}",
            found=found,
        )


def check_tree_headers(subject: Subject) -> None:
    """Compare every tree's header record with its nodes."""
    for tree in subject.contents.trees.values():
        check_leaf_count(subject.volume, tree)
        check_tree_header(subject.volume, tree)


def check_key_compare(subject: Subject) -> None:
    """On HFSX volumes the catalog says how names compare; on others the field has no meaning."""
    if subject.catalog is None or not subject.volume.is_hfsx:
        return
    found = int(subject.catalog.located.tree.file.header.key_compare_type)
    if found not in {int(kind) for kind in COMPARE}:
        _tree_header(subject, "catalog", "key_compare_type").add(
            "tree-header-differs",
            "error",
            "names compare in no known way",
            expected=" or ".join(str(int(kind)) for kind in COMPARE),
            found=found,
        )


def check_key_lengths(subject: Subject) -> None:
    """The longest key that a tree's header allows is that of the format."""
    for name, located in subject.trees.items():
        # Index nodes whose keys are not of variable length give each of them the room of the longest one, so that a
        # wrong length here moves every pointer.
        expected, found = FORMS[name].max_length, int(located.tree.file.header.len_key_max)
        if expected is not None and found != expected:
            message = "the header allows other keys than the format"
            _tree_header(subject, name, "len_key_max").add(
                "tree-header-differs", "error", message, expected=expected, found=found
            )


def _tree_header(subject: Subject, tree: str, field: str) -> FindingLog:
    return subject.trees[tree].at(HEADER_NODE.offset_of(f"header.{field}"))
