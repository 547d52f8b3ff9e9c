"""Compressed files: the header in the attribute, the flag of the file, and both forks.

XNU, ``sys/decmpfs.h``. The flag alone makes a file compressed to the kernel; the header says where the bytes are and
how long they become. ``fsck_hfs`` looks at none of it, so that nothing here is an error: the file cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus.records.attributes import COMPRESSION_ATTRIBUTE, DECMPFS, INLINE
from layoutscope.filesystems.hfsplus.tree.tree import is_whole
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.check.attributes import AttributeRecords
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject

_KIND: Final = grammar.HfsplusAttributes.CompressionType
_MAGIC: Final = int(grammar.HfsplusAttributes.DecmpfsMagic.cmpf)
_FLAG: Final = int(grammar.HfsplusCatalog.OwnerFlag.compressed)
IN_RESOURCE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_resource"))
IN_ATTRIBUTE: Final = tuple(int(kind) for kind in _KIND if kind.name.endswith("_attribute"))
KINDS: Final = tuple(int(kind) for kind in _KIND)


@frozen
class _Headers:
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
