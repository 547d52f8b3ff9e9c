"""Access traces: the ordered reads of one workload, after the host's caches.

Workloads (:mod:`layoutscope.walk`) make traces from tables; :mod:`layoutscope.drive` converts them into service time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from msgspec.structs import astuple, replace

from layoutscope.display import Displayed, Struct
from layoutscope.structs.arrays import Rows, ordinals, owners
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout


DEVICE_SHIFT: Final = 56


def place_of(device: NDArray[np.uint8] | int, offset: NDArray[Any]) -> NDArray[np.int64]:
    """Combine image and offset into one number per place; no image approaches 2**56 bytes."""
    return (np.asarray(device, np.int64) << DEVICE_SHIFT) + np.asarray(offset, np.int64)


def device_and_offset(place: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Split places (:func:`place_of`) into image numbers and offsets in these images."""
    return (place >> DEVICE_SHIFT).astype(np.uint8), place & ((1 << DEVICE_SHIFT) - 1)


class AccessTrace(Displayed, Struct, frozen=True):
    """Reads in the order in which they reach the drive; all arrays have shape (n_reads,)."""

    device: NDArray[np.uint8]  # image of a Fusion set, 0 otherwise
    # image_offset, length_bytes: range that is read, in bytes from the start of the image
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    cause: NDArray[np.uint8]  # index into `causes`: why the host reads this
    tree: NDArray[np.uint8]  # index into `trees`: the tree that is read
    # the directory (CNID or oid) whose enumeration caused the read; 0 if there is none
    directory_id: NDArray[np.uint64]
    issuer: NDArray[np.uint16]  # the thread that issues the read
    think_us: NDArray[np.float64]  # host time between the completion of the previous read and this one, in microseconds
    # causes, trees: names of the codes
    causes: tuple[str, ...] = ("read",)
    trees: tuple[str, ...] = ("data",)
    after_us: float = 0.0  # host time after the last read: the entire host time if everything is cached

    @property
    def host_us(self) -> float:
        """Host time of the whole workload."""
        return float(self.think_us.sum()) + self.after_us

    def scale_host_time(self, factor: float) -> AccessTrace:
        """Return the same reads from a host whose times between them are scaled by a factor."""
        return replace(self, think_us=self.think_us * factor, after_us=self.after_us * factor)

    def __len__(self) -> int:
        return len(self.image_offset)

    def __getitem__(self, places: NDArray[np.int64] | NDArray[np.bool_] | slice) -> AccessTrace:
        """Select reads."""
        names = "device", "image_offset", "length_bytes", "cause", "tree", "directory_id", "issuer", "think_us"
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    @classmethod
    def from_reads(
        cls,
        image_offset: NDArray[np.int64],  # image_offset, length_bytes: the reads, in bytes from the start of the image
        length_bytes: NDArray[np.int64],
        *,
        think_us: float = 0.0,
    ) -> AccessTrace:
        """Make a trace of plain reads from a list of offsets and lengths in bytes."""
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


CAUSES: Final = (
    "list",
    "next",
    "name",
    "inode",
    "thread",
    "dstream",
    "xattr",
    "extents",
    "index",
    "omap",
    "overflow",
    "data",
    "scan",
    "structure",
    "check",
)
"""Why the host reads: the search that begins a listing; the listing's next leaf; the search for a name, an inode, a
thread record, a data-stream record, an extended attribute or extents; an index node on the path; a node that maps the
address of another (object map, overflow tree); file data; a scan of all nodes; a structure that is not a node of a
tree, such as a header, a checkpoint or a bitmap; a checker's pass."""

CODE: Final = {name: np.uint8(code) for code, name in enumerate(CAUSES)}


class Touches(Rows, frozen=True):
    """Leaves in the order in which they are needed; arrays of shape (n_touches,)."""

    node: NDArray[np.int32]  # node; file data have the numbers after those of the nodes
    cause: NDArray[np.uint8]  # index into `CAUSES`
    directory_id: NDArray[np.uint64]  # directory whose enumeration needs it
    host_us: NDArray[np.float32]  # host time from this touch to the next

    def __getitem__(self, places: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Touches:
        """Select touches."""
        return self.take(places)


def touches(
    node: NDArray[np.int32],  # the nodes needed; -1 for none
    cause: str | NDArray[np.uint8],
    directory_id: NDArray[np.uint64],
    host_us: float = 0.0,
) -> Touches:
    """Make touches that share one cause and one cost."""
    causes = np.full(len(node), CODE[cause], np.uint8) if isinstance(cause, str) else cause
    return Touches(node, causes, directory_id, np.full(len(node), host_us, np.float32))


def nothing() -> Touches:
    """Return an empty array of touches."""
    return touches(np.empty(0, np.int32), "list", np.empty(0, np.uint64))


def concatenate(parts: Sequence[Touches]) -> Touches:
    """Concatenate touches; a single part is not copied."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return nothing()
    if len(parts) == 1:
        return parts[0]
    return Touches.join(parts)


def interleave_touches(parts: Sequence[Touches], places: Sequence[NDArray[np.int64]]) -> Touches:
    """Interleave touches so that element j of part i is at ``places[i][j]`` of the result."""
    total = sum(len(part) for part in parts)
    whole = [np.empty(total, column.dtype) for column in astuple(nothing())]
    for part, place in zip(parts, places, strict=True):
        for column, own in zip(whole, astuple(part), strict=True):
            column[place] = own
    return Touches(*whole)


MERGE_RUNS: Final = Kernel("merge_runs", "lllccC")


def merge_alternating(
    first: Touches, second: Touches, first_counts: NDArray[np.int64], second_counts: NDArray[np.int64]
) -> Touches:
    """Interleave touches by groups: those of group 0 of both, then those of group 1 of both, and so on."""
    dtypes = [column.dtype for column in astuple(first)]
    parts = [list(map(np.ascontiguousarray, astuple(part), dtypes)) for part in (first, second)]
    whole = [np.empty(len(first) + len(second), dtype) for dtype in dtypes]
    counts = [np.ascontiguousarray(each, np.int64) for each in (first_counts, second_counts)]
    widths = np.array([column.itemsize for column in whole])
    MERGE_RUNS(*counts, widths, *parts, whole)
    return Touches(*whole)


def columns(
    nodes: Sequence[NDArray[np.int32]],
    causes: Sequence[str],
    directory_id: NDArray[np.uint64],
    host_us: Sequence[float],
) -> Touches:
    """Interleave searches: for each entry the first column's node, then the second's, …; nodes of -1 are kept."""
    n = len(directory_id)
    return Touches(
        np.stack(nodes, axis=1).ravel() if n else np.empty(0, np.int32),
        np.tile(np.array([CODE[cause] for cause in causes], np.uint8), n),
        np.repeat(directory_id, len(nodes)),
        np.tile(np.asarray(host_us, np.float32), n),
    )


class FixedPlaces(Rows, frozen=True):
    """Places that are each read with one request, unchanged; arrays of shape (n,)."""

    kind: str  # the content: a region type or a tree
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, length_bytes: the places
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]

    def cut(self, largest: int) -> FixedPlaces:
        """Cut places into requests of at most the given size, each place from its own start."""
        count = -(-self.length_bytes // largest)
        source, nth = owners(count), ordinals(count)
        length = np.minimum(self.length_bytes[source] - nth * largest, largest)
        return FixedPlaces(self.kind, self.device[source], self.image_offset[source] + nth * largest, length)


MountStep: TypeAlias = "FixedPlaces | tuple[NDArray[np.int32], str]"
"""Places that are read, or nodes at which searches end (-1 for none) with a cause of `CAUSES`.

The index and mapping nodes on the path to each such node are read first; nothing is read twice."""


def group_by_kind(
    kinds: Sequence[str],
    kind: NDArray[np.integer[Any]],  # indexes into `kinds`
    device: NDArray[np.uint8],
    image_offset: NDArray[np.int64],
    length_bytes: NDArray[np.int64],
) -> list[FixedPlaces]:
    """Group consecutive reads of the same kind, keeping their order."""
    begins = np.flatnonzero(np.diff(kind.astype(np.int64), prepend=-1) != 0).tolist()
    return [
        FixedPlaces(kinds[kind[at]], device[at:end], image_offset[at:end], length_bytes[at:end])
        for at, end in pairwise([*begins, len(kind)])
    ]


def make_fixed_place(kind: str, image_offset: int, length_bytes: int) -> FixedPlaces:
    """Return a single place to read."""
    return FixedPlaces(kind, np.zeros(1, np.uint8), np.array([image_offset]), np.array([length_bytes]))


def regions_of(layout: VolumeLayout | None, kind: str, wanted: Callable[[str], bool] | None = None) -> FixedPlaces:
    """Find the regions of one type in address order; without a layout, return none."""
    if layout is None:
        none = np.empty(0, np.int64)
        return FixedPlaces(kind, none.astype(np.uint8), none, none)
    table = layout.columns("regions")
    chosen = np.flatnonzero(table["type"].equals(kind))
    if wanted is not None:
        named = table.texts("owner").take(chosen).to_list()
        chosen = chosen[[wanted(owner or "") for owner in named]] if len(chosen) else chosen
    order = np.lexsort((table["image_offset"].data[chosen], table["device"].filled(0)[chosen]))
    chosen = chosen[order]
    return FixedPlaces(
        kind,
        table["device"].filled(0)[chosen].astype(np.uint8),
        table["image_offset"].data[chosen],
        table["length_bytes"].data[chosen],
    )
