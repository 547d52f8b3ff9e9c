"""The interface of a file system to all code outside of its package.

Each file system has one object that recognises, reads, checks, shows and lists its volumes. No other code tests for the
name of a file system. Objects are found through :mod:`layoutscope.filesystems.registry`, and must be cheap to create:
the code that reads a volume is imported when a volume is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from msgspec import field

from layoutscope.display import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.driver import Driver, DriverProperties, HostProfile
    from layoutscope.filesystems.content import Content
    from layoutscope.filesystems.traits import Traits
    from layoutscope.findings import Finding
    from layoutscope.image.source import Source, Window
    from layoutscope.structs.grammar import Described, FieldValue
    from layoutscope.tables import VolumeLayout

Row = dict[str, Any]
"""A row of a table."""

Piece = tuple[int, int]
"""Offset in the image and length, in bytes."""


class VolumeRequest(Struct, frozen=True):
    """A volume or container to read, with the options for reading it."""

    source: Source  # the image
    image_offset: int = 0  # start of the volume or container, in bytes
    size_bytes: int | None = None  # its maximum size in bytes, if it ends before the image does
    stack: tuple[str, ...] = ()  # the layers from the image to the volume, its own label last
    first_volume: int = 1  # number of its first volume on the image, counted from 1
    sweep: bool = False  # whether to search all blocks for nodes, to rebuild broken trees and to count old copies
    # the other image of a set of devices, and the offset of the part on it; only for file systems with an option
    # `second`
    second: tuple[Source, int] | None = None
    # options of the file system (`Traits.options`), as given or with their defaults
    options: Mapping[str, Any] = field(default_factory=dict)
    # whether a partition map or the caller gives the start; otherwise, contents read without headers are uncertain
    is_start_named: bool = True
    # contents by `image_offset`, which a later check of the same volume reuses instead of reading again; None if no
    # check follows
    kept: dict[int, Any] | None = None

    def keep(self, contents: object, marks: Sequence[Callable[[], None]]) -> None:
        """Keep the contents for a later check, if there will be one.

        `marks` remove the findings of comparisons made for the tables, which a check reports more precisely.
        """
        if self.kept is not None:
            self.kept[self.image_offset] = contents, marks

    def take_up(self) -> Any:
        """Return the kept contents, in their state before any comparison; None if there are none."""
        contents, marks = (self.kept or {}).pop(self.image_offset, (None, ()))
        for forget in marks:
            forget()
        return contents


class Unchecked(Struct, frozen=True):
    """A rule that could not be checked on all objects that it applies to."""

    rule: str  # its name
    reason: str  # the reason, as a clause after "because"


class Checked(Struct, frozen=True):
    """The result of checking one volume, or the parts of a container outside of its volumes."""

    findings: tuple[Finding, ...] = ()  # all problems
    num_rules: int = 0  # number of rules that apply to it
    unchecked: tuple[Unchecked, ...] = ()  # rules that did not run, or that covered only a part


class ReadableState(Struct, frozen=True):
    """A readable state of a container or volume."""

    kind: Literal["checkpoint", "snapshot"]  # of the whole container, or of one volume
    label: str  # transaction of a checkpoint, or name of a snapshot; for lost snapshots, their number
    xid: int  # transaction; 0 if unknown
    volume: str  # name of the snapshot's volume, or names of a checkpoint's volumes
    time_ns: int  # nanoseconds since 1970: creation, or last change of a volume; 0 if unknown
    is_complete: bool  # whether all superblocks and object maps that lead to it still exist
    num_nodes: int  # number of nodes of its main trees in its object maps
    num_sound_nodes: int  # number of those nodes that are still sound


class InodeStats(NamedTuple):
    """Fields of inode records that no table contains; arrays of one length, one row per record."""

    file_id: NDArray[np.uint64]  # CNID or inode number
    mode: NDArray[np.uint16]  # type and permissions as in `st_mode`; 0 if a record has none
    # user_id, group_id: owners
    user_id: NDArray[np.uint32]
    group_id: NDArray[np.uint32]
    # access_us, change_us: last access, and last change of the record, in microseconds since 1970; `NO_TIME` if none
    # was written
    access_us: NDArray[np.int64]
    change_us: NDArray[np.int64]


NO_TIME: Final = -(2**63)
"""Value for a time that was never written."""


class View(Protocol):
    """The bytes of a volume as its reader sees them, and their structures, for display.

    By default, a view shows no structures.
    """

    def read(self, row: Row, piece: Piece) -> bytes:
        """Read a piece of the node or region in a row, after replaying the journal and decrypting."""

    def describe_node(self, data: bytes, tree: str) -> list[Described]:  # noqa: ARG002
        """List the structures of a whole node, header first; addresses count from its start."""
        return []

    def compare_node(self, data: bytes, tree: str) -> tuple[int, list[str]]:  # noqa: ARG002
        """Decode a whole node's records as in reading, and parse them; return their number and the differences."""
        return 0, []

    def describe_region(self, data: bytes, type_name: str) -> list[Described]:  # noqa: ARG002
        """List the structures of a region, if it has any."""
        return []

    def is_about(self, record: Described, file_id: int) -> bool:  # noqa: ARG002
        """Return whether a described record belongs to a file."""
        return False

    def decode_field(self, part: Described, field: FieldValue) -> str:  # noqa: ARG002
        """Return the meaning of a time or a mode; empty for other fields, and for unset times."""
        return ""

    def inode_stats(self, nodes: NDArray[np.uint8]) -> InodeStats | None:  # noqa: ARG002
        """Decode the inode records of leaves, whole nodes of shape (n, node_size); None if they have no further fields.

        Records whose fixed part does not fit into their node are skipped.
        """
        return None


class PlainView(View):
    """A view of the raw bytes, without structures."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def read(self, row: Row, piece: Piece) -> bytes:  # noqa: ARG002  (every row is on the one image)
        """Read a piece of the image."""
        return self.source.read(*piece)


class FileSystem(Protocol):
    """A file system: its names, and the operations on its volumes."""

    @property
    def name(self) -> str:
        """Name in tables, captures and JSON."""

    @property
    def traits(self) -> Traits:
        """Facts about it that need no volume."""

    @property
    def hosts(self) -> Mapping[str, DriverProperties]:
        """Behaviour of its driver on each host, by the host's name; users can change single properties."""

    @property
    def host_sources(self) -> Mapping[str, tuple[str, str]]:
        """Sources of these properties on Linux and macOS.

        Costs share the entry with the file system's name. A cost from another source has its own entry, ``name.cost``.
        """

    def probe(self, stretch: Window, *, thorough: bool = False) -> Content | None:
        """Recognise the file system, or a related one that cannot be read, from the content of a stretch.

        Callers set `thorough` if nothing was recognised at the usual places. Then copies of a lost header also count,
        although they may be left over from before the stretch was formatted for another file system.
        """

    def find_in(self, stretch: Window, data: NDArray[np.uint8], offset: int) -> list[Content]:
        """Find volumes whose structures are in `data`, a piece of a stretch without a partition map.

        The piece begins at a sector, at byte `offset` of the stretch. Structures that confirm a start are read from the
        stretch. An unconfirmed start gets a finding ``start-uncertain``.
        """

    def read(self, request: VolumeRequest) -> list[VolumeLayout]:
        """Read a volume, or a container's own layout followed by those of its volumes.

        Raises
        ------
        FormatError
            If there is no usable start; other damage is reported in the findings of the layouts.
        UsageError
            If the requested state does not exist.
        """

    def check(self, request: VolumeRequest, layouts: Sequence[VolumeLayout]) -> list[Checked]:
        """Run all possible checks; return one result per layout of :meth:`read`."""

    def explained(self, findings: Sequence[Finding], volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
        """Name the possible causes of findings of a volume or container that may follow from other findings.

        `volumes` gives the volume of each finding in a container. It is empty for the container's own findings.
        """

    def view(self, request: VolumeRequest, layout: VolumeLayout) -> View:
        """Open the bytes of a volume for the display of single structures."""

    def is_second(self, request: VolumeRequest) -> bool:
        """Return whether the image named first holds the second device of the set of both images."""

    def states(self, request: VolumeRequest) -> list[ReadableState]:
        """List the older states that can be read, newest first; empty if the file system keeps none."""

    def remade(self, layout: VolumeLayout) -> VolumeLayout | None:
        """Model the entries of any volume as a volume of this file system; None if that is not supported."""

    def copied(self, layout: VolumeLayout, host: HostProfile) -> tuple[VolumeLayout, ...]:
        """Lay out the entries as a host's driver does when it creates them one by one, in the order of their numbers.

        The most likely layout is first, followed by alternatives. The result is empty if the driver's method is
        unknown.
        """

    def written_by(self, layout: VolumeLayout) -> str:
        """Return the host whose driver last wrote a volume, from the volume's traces; empty if there are none."""

    def driver(self, host: HostProfile) -> Driver:
        """Return a host's accesses for a look-up, a listing and a mount, and their costs."""
