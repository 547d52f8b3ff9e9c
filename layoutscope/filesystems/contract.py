"""What a file system is to everything outside of its package.

One object a file system answers every question about it: how it is recognised, read, checked, shown and walked.
Nobody else compares its name. Objects are found through :mod:`layoutscope.filesystems.registry`, and must be cheap to
make: what reads a volume is imported when one is read.
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
    from layoutscope.filesystems.recognition import Content
    from layoutscope.filesystems.traits import Traits
    from layoutscope.findings import Finding
    from layoutscope.image.source import Source, Window
    from layoutscope.structs.grammar import Described, FieldValue
    from layoutscope.tables import VolumeLayout

Row = dict[str, Any]
"""Row of a table."""

Piece = tuple[int, int]
"""Address on the image and length, in bytes."""


class VolumeRequest(Struct, frozen=True):
    """What is to be read, and how."""

    source: Source  # the image
    image_offset: int = 0  # where the volume or container starts, in bytes
    size_bytes: int | None = None  # bytes that it has at most, where it ends before the image does
    stack: tuple[str, ...] = ()  # the layers from the image down to it, its own label last
    first_volume: int = 1  # number of its first volume on the image; the first of all is 1
    sweep: bool = False  # whether everything is looked at for nodes, to rebuild broken trees and to count old copies
    # the other image of a set of devices, and where the part on it starts; only if `second` is among the options that
    # the file system understands
    second: tuple[Source, int] | None = None
    # its own options (`Traits.options`), as given or with their defaults
    options: Mapping[str, Any] = field(default_factory=dict)
    # whether a map or the caller says where it starts; what is read without its headers is uncertain otherwise
    is_start_named: bool = True
    # where reading leaves, by `image_offset`, what a check of the same place can take up, so that nothing is read
    # twice; None where no check follows
    kept: dict[int, Any] | None = None

    def keep(self, contents: object, marks: Sequence[Callable[[], None]]) -> None:
        """Leave what was read to a check that follows, if one does.

        The marks drop what comparing for the tables wrote down since: a check says the same more exactly.
        """
        if self.kept is not None:
            self.kept[self.image_offset] = contents, marks

    def take_up(self) -> Any:
        """Take what reading left, as it was before anything was compared; None if there is nothing."""
        contents, marks = (self.kept or {}).pop(self.image_offset, (None, ()))
        for forget in marks:
            forget()
        return contents


class Unchecked(Struct, frozen=True):
    """A rule that could not be checked on all its subjects."""

    rule: str  # its name
    reason: str  # why, as what follows "because"


class Checked(Struct, frozen=True):
    """The result of a check of one volume, or of a container outside of its volumes."""

    findings: tuple[Finding, ...] = ()  # everything that is wrong
    num_rules: int = 0  # how many rules there are for it
    unchecked: tuple[Unchecked, ...] = ()  # those of them that did not run, or saw a part alone


class ReadableState(Struct, frozen=True):
    """A state of a container or volume."""

    kind: Literal["checkpoint", "snapshot"]  # of the whole container, or of one volume
    label: str  # transaction of a checkpoint, name of a snapshot; of snapshots that are lost, how many
    xid: int  # transaction; 0 if unknown
    volume: str  # name of the snapshot's volume; of a checkpoint, the names of its volumes
    time_ns: int  # nanoseconds since 1970: creation, or the last change of a volume; 0 if unknown
    is_complete: bool  # whether all superblocks and object maps that lead to it are still there
    num_nodes: int  # nodes of its main trees that its object maps still name
    num_sound_nodes: int  # those of them that hold what they should


class InodeStats(NamedTuple):
    """What inode records hold that no table does; arrays of one length, one row per record."""

    file_id: NDArray[np.uint64]  # CNID or inode number
    mode: NDArray[np.uint16]  # type and permissions as `st_mode` has them; 0 where a record has none
    # user_id, group_id: owners
    user_id: NDArray[np.uint32]
    group_id: NDArray[np.uint32]
    # access_us, change_us: last access, and last change of the record, in microseconds since 1970; `NO_TIME` where none
    # was written
    access_us: NDArray[np.int64]
    change_us: NDArray[np.int64]


NO_TIME: Final = -(2**63)
"""In place of a time that was never written."""


class View(Protocol):
    """The bytes of a volume as its reader saw them, and the structures in them, for people who look at places."""

    def read(self, row: Row, piece: Piece) -> bytes:
        """Read a piece of what a row of nodes or regions names: after a journal's replay, decrypted."""

    def describe_node(self, data: bytes, tree: str) -> list[Described]:
        """List the structures of a whole node, its head first; addresses count from its start."""

    def compare_node(self, data: bytes, tree: str) -> tuple[int, list[str]]:
        """Decode the records of a whole node as reading does, and parse them: their number, and what differs."""

    def describe_region(self, data: bytes, type_name: str) -> list[Described]:
        """List the structures of a region, where it has any."""

    def is_about(self, record: Described, file_id: int) -> bool:
        """Whether a described record belongs to a file."""

    def decode_field(self, part: Described, field: FieldValue) -> str:
        """Return the meaning of a time or a mode; empty for other fields, and for times that were never set."""

    def inode_stats(self, nodes: NDArray[np.uint8]) -> InodeStats | None:
        """Decode the inode records of leaves, whole nodes of shape (n, node_size); None where nothing more is in them.

        Parts of a record outside its node are left out.
        """


class PlainView(Struct, frozen=True):
    """A view of the raw bytes, whose structures are not shown."""

    source: Source  # the image

    def read(self, row: Row, piece: Piece) -> bytes:  # noqa: ARG002  (every row is on the one image)
        """Read a piece."""
        return self.source.read(*piece)

    def describe_node(self, data: bytes, tree: str) -> list[Described]:  # noqa: ARG002  (it has no description)
        """Describe nothing."""
        return []

    def compare_node(self, data: bytes, tree: str) -> tuple[int, list[str]]:  # noqa: ARG002  (nothing is decoded)
        """Compare nothing."""
        return 0, []

    def describe_region(self, data: bytes, type_name: str) -> list[Described]:  # noqa: ARG002  (it has no description)
        """Describe nothing."""
        return []

    def is_about(self, record: Described, file_id: int) -> bool:  # noqa: ARG002  (there are no records)
        """Say no."""
        return False

    def decode_field(self, part: Described, field: FieldValue) -> str:  # noqa: ARG002  (there are no fields)
        """Decode nothing."""
        return ""

    def inode_stats(self, nodes: NDArray[np.uint8]) -> None:
        """Decode nothing."""


class FileSystem(Protocol):
    """A file system: what it is called, and what can be done with a volume of it."""

    @property
    def name(self) -> str:
        """Word of the tables, captures and JSON."""

    @property
    def traits(self) -> Traits:
        """What is known of it without a volume."""

    @property
    def hosts(self) -> Mapping[str, DriverProperties]:
        """What its driver does on each host, by the host's name; users change it property by property."""

    @property
    def host_sources(self) -> Mapping[str, tuple[str, str]]:
        """Where the values of these properties come from, on Linux and macOS.

        Costs share the entry under the file system's name; one with another source has its own, as ``name.cost``.
        """

    def probe(self, stretch: Window, *, thorough: bool = False) -> Content | None:
        """Recognise by content whether a stretch holds it, or a relative of it that is only named.

        It is asked to be `thorough` where nothing at all was recognised at the usual places. Then copies of a lost
        header count too: they may be left over from before the stretch was formatted for something else.
        """

    def find_in(self, stretch: Window, data: NDArray[np.uint8], offset: int) -> list[Content]:
        """Find volumes whose structures are in `data`, a piece of a stretch that no map divides.

        The piece begins with a sector, at a byte `offset` of the stretch, from which what confirms a start is read. A
        start that nothing confirms is a finding ``start-uncertain`` of its content.
        """

    def read(self, request: VolumeRequest) -> list[VolumeLayout]:
        """Read a volume, or a container's own layout and then those of its volumes.

        Raises
        ------
        FormatError
            If there is nothing to start from; what can be survived is among the findings of the layouts.
        UsageError
            If a state was asked for that does not exist.
        """

    def check(self, request: VolumeRequest, layouts: Sequence[VolumeLayout]) -> list[Checked]:
        """Check all that can be checked; of each layout that :meth:`read` made what is wrong with it."""

    def explained(self, findings: Sequence[Finding], volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
        """Name the causes of each finding of a volume, or of a container, that may follow from others.

        `volumes` gives the volume of each finding in a container, and is empty for the container's own.
        """

    def view(self, request: VolumeRequest, layout: VolumeLayout) -> View:
        """Open the bytes of a volume for people who look at single structures."""

    def is_second(self, request: VolumeRequest) -> bool:
        """Whether the image that was named holds the second device of the set that both images make."""

    def states(self, request: VolumeRequest) -> list[ReadableState]:
        """List the older states that can be read, the newest first; nothing where none are kept."""

    def remade(self, layout: VolumeLayout) -> VolumeLayout | None:
        """Model the entries of any volume as a volume of this file system; None if that is not modelled."""

    def copied(self, layout: VolumeLayout, host: HostProfile) -> tuple[VolumeLayout, ...]:
        """Lay the entries out as a host's driver does that makes them one by one, in the order of their numbers.

        The likeliest layout first, then what else it could be; nothing where that driver's way is not known.
        """

    def written_by(self, layout: VolumeLayout) -> str:
        """Name the host whose driver wrote a volume last, from the volume's traces; empty if there are none."""

    def driver(self, host: HostProfile) -> Driver:
        """Say what a host touches on it for a look-up, a listing, a mount, and what that costs."""
