"""Read-only structure check of HFS+ and HFSX volumes.

TN1150. A check reads everything that a scan reads, and then every record again with all its fields: so each finding
carries the address of the field that contradicts the others. What cannot be told apart, such as which of two numbers is
the wrong one, is reported at one of them, as the message says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.contract import Checked
from layoutscope.filesystems.hfsplus.check import (
    catalog_fields,
    compression,
    forks,
    header_nodes,
    headers,
    links,
    nodes,
    records,
    space,
    volume_fields,
)
from layoutscope.filesystems.hfsplus.check.causes import CAUSES
from layoutscope.filesystems.hfsplus.check.needs import OF_HEADER, unchecked_rules
from layoutscope.filesystems.hfsplus.check.subject import Subject, read_subject
from layoutscope.filesystems.hfsplus.contents import reopened
from layoutscope.findings import refined
from layoutscope.ondisk.consequences import told_once, with_causes

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.findings import Finding

CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "unmounted": headers.check_unmounted,
    "volume-counts": headers.check_volume_counts,
    "volume-fields": volume_fields.check_volume_fields,
    "special-sizes": headers.check_special_sizes,
    "allocation-size": headers.check_allocation_size,
    "tree-headers": headers.check_tree_headers,
    "key-compare": headers.check_key_compare,
    "key-lengths": headers.check_key_lengths,
    "header-nodes": header_nodes.check_header_nodes,
    "map-nodes": header_nodes.check_map_nodes,
    "unused-nodes": nodes.check_unused_nodes,
    "descriptors": nodes.check_descriptors,
    "record-offsets": nodes.check_record_offsets,
    "keys": nodes.check_keys,
    "index-links": nodes.check_index_links,
    "pointers": nodes.check_pointers,
    "index-keys": nodes.check_index_keys,
    "key-order": nodes.check_key_order,
    "record-types": records.check_record_types,
    "ids": records.check_ids,
    "parents": records.check_parents,
    "threads": records.check_threads,
    "valence": records.check_valence,
    "subfolders": records.check_subfolders,
    "catalog-fields": catalog_fields.check_catalog_fields,
    "link-targets": links.check_link_targets,
    "link-counts": links.check_link_counts,
    "link-chains": links.check_link_chains,
    "first-links": links.check_first_links,
    "fork-sizes": forks.check_fork_sizes,
    "extents": forks.check_extents,
    "unused-extents": volume_fields.check_unused_extents,
    "overflow-records": forks.check_overflow_records,
    "overflow-starts": forks.check_overflow_starts,
    "attribute-values": forks.check_attribute_values,
    "attribute-owners": forks.check_attribute_owners,
    "attribute-flags": forks.check_attribute_flags,
    "compressed-files": compression.check_compressed_files,
    "hot-files": records.check_hot_files,
    "double-claims": space.check_double_claims,
    "allocation": space.check_allocation,
}
"""Every check by its name, in the order in which they run; what is found while reading comes before all of them."""

BY_NODE: Final = ("records-invalid", "pointer-invalid", "node-invalid")
"""What reading reports of a whole node, and a check of the byte in it."""


def check_volume(request: VolumeRequest, without: Container[str] = ()) -> list[Finding]:
    """Check the structure of an HFS+ or HFSX volume; names of checks that are left out may be given."""
    return list(checked_volume(request, without).findings)


def checked_volume(request: VolumeRequest, without: Container[str] = ()) -> Checked:
    """Check the structure of a volume, and say which rules could not be held against all of it."""
    volume, contents = reopened(request)
    seen = len(volume.log.findings)
    subject = read_subject(volume, contents)
    for name, check in CHECKS.items():
        if name not in without and not (volume.is_inferred and name in OF_HEADER):
            check(subject)
    read, fine = volume.log.findings[:seen], volume.log.findings[seen:]
    # Reading tells of a whole node what a check tells of the byte in it.
    exact = {(item.code, item.structure) for item in fine if item.code in BY_NODE}
    places = {(item.code, item.image_offset) for item in fine}
    found = refined(
        read, fine, lambda item: (item.code, item.structure) in exact or (item.code, item.image_offset) in places
    )
    return Checked(with_causes(told_once(found), CAUSES), len(CHECKS), tuple(unchecked_rules(subject)))
