"""Extended fields of inodes and directory records, as columns.

Apple File System Reference, Extended Fields: a head, descriptions, then the data of each field, padded to eight bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ExtendedFields:
    """One row a field.

    Attributes
    ----------
    record : (n,) int64 array
        Which value it belongs to, as position among those given.
    type : (n,) uint8 array
        As in the grammar's ``inode_field`` or ``drec_field``.
    start, size_bytes : (n,) int64 arrays
        Its data, in bytes from the start of the buffer.
    damaged : (k,) int64 array
        Values whose fields do not fit into them; none of their fields is listed.
    """

    record: NDArray[np.int64]
    type: NDArray[np.uint8]
    start: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    damaged: NDArray[np.int64]

    def without(self, torn: NDArray[np.int64]) -> ExtendedFields:
        """Leave out the fields of values that turn out to be damaged, and list these."""
        damaged = np.array(sorted({*self.damaged.tolist(), *torn.tolist()}), np.int64)
        if not len(torn):
            return replace(self, damaged=damaged)
        keep = ~np.isin(self.record, torn)
        return ExtendedFields(self.record[keep], self.type[keep], self.start[keep], self.size_bytes[keep], damaged)

    def of_type(self, field_type: int, min_size_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return record and start of every field of one type that is large enough."""
        chosen = (self.type == field_type) & (self.size_bytes >= min_size_bytes)
        return self.record[chosen], self.start[chosen]
