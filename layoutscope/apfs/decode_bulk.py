"""Fields of many structures, gathered through the generated dtypes.

One of two twins: :mod:`layoutscope.apfs.decode_grammar` returns the same arrays through the compiled grammars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.apfs.xfields import ExtendedFields
from layoutscope.ondisk import bulk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def columns(
    type_name: str,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fields: Sequence[str],
    lengths_bytes: NDArray[np.int64] | None = None,  # noqa: ARG001  (its twin needs them)
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
    lengths_bytes : (n,) int64 array, optional
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
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.int64]
) -> ExtendedFields:
    """Locate every extended field of many values.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        Where the values lie.
    starts, lengths_bytes : (n,) int64 arrays
        The part of each value behind its fixed fields; of length 0 where there is none.
    """
    head_size, entry_size = bulk.size("apfs_fsrecords.xf_blob_head"), bulk.size("apfs_fsrecords.x_field")
    record = np.flatnonzero(lengths_bytes >= head_size)
    counts = bulk.records("apfs_fsrecords.xf_blob_head", buffer, starts[record])["num_exts"].astype(np.int64)
    fits = head_size + counts * entry_size <= lengths_bytes[record]
    bad = [np.flatnonzero((lengths_bytes > 0) & (lengths_bytes < head_size)), record[~fits]]
    record, counts = record[fits], counts[fits]
    owner, slot = _expand(counts)
    descriptions = bulk.records("apfs_fsrecords.x_field", buffer, starts[record][owner] + head_size + slot * entry_size)
    padded = descriptions["padded_size"].astype(np.int64)
    sizes = descriptions["size_bytes"].astype(np.int64)
    first = starts[record] + head_size + counts * entry_size
    data_start = first[owner] + _running_within(padded, owner, len(record))
    stop = starts[record] + lengths_bytes[record]
    # The last field's padding may be cut off, its data may not.
    torn = np.unique(owner[data_start + sizes > stop[owner]])
    keep = ~np.isin(owner, torn)
    bad.append(record[torn])
    return ExtendedFields(
        record=record[owner][keep],
        type=descriptions["type"][keep],
        start=data_start[keep],
        size_bytes=sizes[keep],
        damaged=np.unique(np.concatenate(bad)),
    )


def _expand(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Owner and slot of each item, for owners with so many items each."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _running_within(sizes: NDArray[np.int64], owner: NDArray[np.int64], num_owners: int) -> NDArray[np.int64]:
    """Sum of the sizes before each item within its owner."""
    before = np.cumsum(sizes) - sizes
    counts = np.bincount(owner, minlength=num_owners)
    first_of_owner = (np.cumsum(counts) - counts)[owner]
    return before - before[first_of_owner] if len(before) else before
