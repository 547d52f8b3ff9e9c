"""Fields of many structures, gathered through the generated dtypes.

One of two twins: :mod:`.decode_grammar` returns the same arrays through the compiled grammars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.filesystems.apfs.store.xfields import ExtendedFields
from layoutscope.ondisk import bulk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def columns(
    type_name: str,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fields: Sequence[str],
    lengths_bytes: NDArray[np.integer] | None = None,  # noqa: ARG001  (its twin needs them)
) -> dict[str, NDArray[Any]]:
    """Decode some fields of many structures.

    Parameters
    ----------
    type_name : str
        Full name of the grammar type.
    buffer : (n_bytes,) uint8 array
        Where the structures lie.
    starts : (n,) int64 array
        Their starts, in bytes from the start of the buffer.
    fields : sequence of str
        Dotted names of fields or instances.
    lengths_bytes : (n,) integer array, optional
        Lengths of structures that vary in size; the fixed prefix if left out.

    Returns
    -------
    dict of str to (n,) array
        In native byte order.

    Raises
    ------
    FormatError
        If a structure does not fit into the buffer.
    """
    return bulk.columns(type_name, buffer, starts, fields)


def extended_fields(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.integer]
) -> ExtendedFields:
    """Locate every extended field of many values.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        Where the values lie.
    starts, lengths_bytes : (n,) integer arrays
        The part of each value behind its fixed fields; of length 0 where there is none.
    """
    head_size, entry_size = bulk.size("apfs_fsrecords.xf_blob_head"), bulk.size("apfs_fsrecords.x_field")
    record = np.flatnonzero(lengths_bytes >= head_size)
    start, length = starts[record], lengths_bytes[record]
    counts = bulk.records("apfs_fsrecords.xf_blob_head", buffer, start)["num_exts"].astype(np.int64)
    fits = head_size + counts * entry_size <= length
    damaged = np.concatenate([np.flatnonzero((lengths_bytes > 0) & (lengths_bytes < head_size)), record[~fits]])
    if not fits.all():
        record, start, length, counts = record[fits], start[fits], length[fits], counts[fits]
    before = np.cumsum(counts) - counts
    slot = np.arange(int(counts.sum()))
    spots = np.repeat(start + head_size - before * entry_size, counts) + slot * entry_size
    found = bulk.columns("apfs_fsrecords.x_field", buffer, spots, ("type", "size_bytes", "padded_size"))
    sizes = found["size_bytes"].astype(np.int64)
    ends = np.append(0, np.cumsum(found["padded_size"], dtype=np.int64))
    data_start = np.repeat(start + head_size + counts * entry_size - ends[before], counts) + ends[:-1]
    fields = ExtendedFields(np.repeat(record, counts), found["type"], data_start, sizes, damaged)
    # The last field's padding may be cut off, its data may not.
    return fields.without(fields.record[data_start + sizes > np.repeat(start + length, counts)])
