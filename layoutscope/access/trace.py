"""Access traces: the ordered reads of one workload, after the host's caches.

An order (:mod:`layoutscope.walk`) makes them from tables, :mod:`layoutscope.drive` turns them into service time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


def place_of(device: NDArray[np.uint8] | int, offset: NDArray[Any]) -> NDArray[np.int64]:
    """Return places on all images of a set as one number: no image comes near to 2**56 bytes."""
    return (np.asarray(device, np.int64) << 56) + np.asarray(offset, np.int64)


@frozen
class AccessTrace(Displayed):
    """Reads in the order in which they reach the drive; all arrays have shape (n_reads,)."""

    device: NDArray[np.uint8]  # image of a Fusion set, 0 otherwise
    # image_offset, length_bytes: what is read, in bytes from the start of the image
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    cause: NDArray[np.uint8]  # index into `causes`: why the host reads this
    tree: NDArray[np.uint8]  # index into `trees`: what is read
    # the directory (CNID or oid) whose enumeration caused the read; 0 where there is none
    directory_id: NDArray[np.uint64]
    issuer: NDArray[np.uint16]  # the thread that asks
    think_us: NDArray[np.float64]  # host time between the completion of the read before and this one, in microseconds
    # causes, trees: names behind the codes
    causes: tuple[str, ...] = ("read",)
    trees: tuple[str, ...] = ("data",)
    after_us: float = 0.0  # host time behind the last read: all of it where everything is cached

    @property
    def host_us(self) -> float:
        """Host time of the whole workload."""
        return float(self.think_us.sum()) + self.after_us

    def __len__(self) -> int:
        return len(self.image_offset)

    def __getitem__(self, places: NDArray[np.int64] | NDArray[np.bool_] | slice) -> AccessTrace:
        """Select reads."""
        return AccessTrace(
            self.device[places],
            self.image_offset[places],
            self.length_bytes[places],
            self.cause[places],
            self.tree[places],
            self.directory_id[places],
            self.issuer[places],
            self.think_us[places],
            self.causes,
            self.trees,
            self.after_us,
        )

    @classmethod
    def from_reads(
        cls,
        image_offset: NDArray[np.int64],  # image_offset, length_bytes: the reads, in bytes from the start of the image
        length_bytes: NDArray[np.int64],
        *,
        think_us: float = 0.0,
    ) -> AccessTrace:
        """Make a trace of plain reads, for someone else's list of offsets and lengths in bytes."""
        n = len(image_offset)
        return cls(
            device=np.zeros(n, np.uint8),
            image_offset=np.asarray(image_offset, np.int64),
            length_bytes=np.asarray(length_bytes, np.int64),
            cause=np.zeros(n, np.uint8),
            tree=np.zeros(n, np.uint8),
            directory_id=np.zeros(n, np.uint64),
            issuer=np.zeros(n, np.uint16),
            think_us=np.full(n, think_us, np.float64),
        )
