"""Where lost objects can still lie: what is looked at to find them again.

With ``--sweep`` that is every block. Without, a reader looks where it must: at blocks that the space manager calls used
and that no reference calls data of a file, if these are few enough to be read unasked. Otherwise, and for superblocks
in any case, it looks where earlier checkpoints say. What is found bears number, transaction and checksum of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.apfs.container import checkpoint as checkpoints
from layoutscope.filesystems.apfs.container.regions import as_runs
from layoutscope.filesystems.apfs.store.sweep import sweep
from layoutscope.filesystems.apfs.volume.states import mapped_at, volumes_at
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.spaceman import Space
    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.sweep import Swept
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

SEARCHED_BYTES: Final = 1024**3
"""No more than this is searched without being asked to: some seconds of reading."""


@dataclass(slots=True)
class Evidence:
    """What is found of lost objects, looked for when it is first asked for."""

    container: Container  # the container; its log is told what was looked at
    space: Space | None  # what the space manager says, if it can be read
    volumes: list[VolumeParts]  # volumes that could be opened: they know which blocks hold data
    swept: Swept | None  # all that there is, where a sweep was asked for
    _found: Swept | None = field(default=None, init=False)

    @property
    def is_complete(self) -> bool:
        """Whether every block is looked at, because that was asked for."""
        return self.swept is not None

    def copies(self) -> Swept:
        """Return the objects that are left, several versions of one among them."""
        if self._found is None:
            self._found = self._looked_for() if self.swept is None else self.swept
        return self._found

    def _looked_for(self) -> Swept:
        container, block_size = self.container, self.container.blocks.block_size
        data = [item.data_runs() for item in self.volumes]
        used = used_blocks(container.blocks, container.device_blocks, self.space, data)
        is_small = intervals.total(used) * block_size <= SEARCHED_BYTES
        places = [used] if is_small else []
        # Blocks of the volumes' own maps: a map names an object all the same where the bitmap of its chunk is damaged.
        places += [_runs(item.state.omap.paddr, item.state.omap.size_bytes, block_size) for item in self.volumes]
        for paddr, size_bytes in earlier_places(container, with_nodes=not is_small):
            places.append(_runs(paddr, size_bytes, block_size))
        told = tell_search(used, block_size)
        container.at_superblock().add("tree-rebuilt", "warning", told)
        return sweep(container.blocks, container.decoder, intervals.union(places))


def tell_search(used: NDArray[np.int64], block_size: int) -> str:
    """Say in one sentence what is searched without being asked to, or why that is not enough."""
    size = intervals.total(used) * block_size
    if size <= SEARCHED_BYTES:
        return f"{format_bytes(size)} that are in use, and not known to be data, were searched for lost nodes"
    return (
        f"lost nodes were looked for where earlier checkpoints had them: {format_bytes(size)} are in use, more than "
        f"the {format_bytes(SEARCHED_BYTES)} that are searched unasked; --sweep would find more"
    )


def used_blocks(
    blocks: Blocks,
    num_blocks: tuple[int, ...],  # blocks of each device
    space: Space | None,
    data: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """List the runs of blocks that hold something of the state that is read, and no data of files that is known."""
    # A damaged superblock may count any number of blocks; what an image does not hold is not searched.
    sizes = [source.size_bytes // blocks.block_size if source else 0 for source in blocks.sources]
    held = [min(count, size) for count, size in zip(num_blocks, sizes, strict=False)]
    runs = [[device * blocks.tier2_mark, count] for device, count in enumerate(held) if count]
    devices = np.array(runs, np.int64).reshape(-1, 2)
    # What waits in a free queue is used as the bitmaps have it, so that earlier checkpoints stay whole: old copies.
    unused = [] if space is None else [space.free, as_runs(space.pending)]
    return intervals.subtract(devices, intervals.union([np.empty((0, 2), np.int64), *unused, *data]))


def _runs(paddr: NDArray[np.uint64], size_bytes: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    sane = (size_bytes > 0) & (size_bytes <= SEARCHED_BYTES) & (paddr < np.uint64(2**62))
    return intervals.runs_of(paddr[sane], size_bytes[sane] // block_size)


def earlier_places(container: Container, *, with_nodes: bool) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """Give addresses and sizes of what earlier checkpoints name: volume superblocks, and nodes if they are wanted."""
    one = np.array([container.blocks.block_size], np.int64)
    for _, superblock in checkpoints.superblocks(container.store.apart(), container.area):
        if superblock.hdr.xid < container.xid:
            for volume, paddr in volumes_at(container, superblock):
                yield np.array([paddr], np.uint64), one
                omap = mapped_at(container, volume, superblock.hdr.xid) if with_nodes else None
                if omap is not None:
                    yield omap.paddr, omap.size_bytes
