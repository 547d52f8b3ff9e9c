"""What ``compare`` and ``series`` return: metrics and predictions side by side, what moved, and what explains that."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown
from layoutscope.tables.columns import Rows
from layoutscope.tables.schema import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.frames import pl
    from layoutscope.tables import Values


class MetricRow(Displayed, Struct, frozen=True):
    """One metric of all sides; `values` has None where a side lacks it."""

    name: str
    title: str
    unit: str
    subject: str
    values: tuple[float | None, ...]


class Reads(Displayed, Struct, frozen=True):
    """Reads of one kind in a walk.

    Attributes
    ----------
    count : int
        How many there are.
    seconds : float
        Sum of their service times.
    distance_bytes : float
        Median distance from the end of the read before; 0 where there is none.
    """

    count: int
    seconds: float
    distance_bytes: float = 0.0


class Cost(Displayed, Struct, frozen=True):
    """What the enumeration of one side costs on one drive.

    Attributes
    ----------
    seconds, seconds_low, seconds_high : float
        The time, and the ends of its quick interval, as those of a scan.
    causes_s : tuple of (str, float)
        Seconds by cause; they sum up to `seconds`.
    rotates : bool
        Whether the drive has an arm.
    entries : int
        Files and directories that are enumerated.
    nodes : int
        Nodes that the walk touches.
    sequence_share : float
        Share of them that start where the last one ended: the enumeration layout score, 0 where it has no value.
    in_sequence, elsewhere : Reads
        Reads that start where the last one ended, and the others; with the host's time they sum up to `seconds`.
    draws_s : tuple of float
        Seconds of each draw of the drive and the host; those of both sides belong together one by one.
    """

    seconds: float
    seconds_low: float
    seconds_high: float
    causes_s: tuple[tuple[str, float], ...]
    rotates: bool
    entries: int
    nodes: int
    sequence_share: float
    in_sequence: Reads
    elsewhere: Reads
    draws_s: tuple[float, ...] = ()


class TimeRow(Displayed, Struct, frozen=True):
    """One drive: what the enumeration of each side costs; None where it could not be predicted."""

    drive: str
    costs: tuple[Cost | None, ...]

    @property
    def seconds(self) -> tuple[float | None, ...]:
        """Predicted seconds of each side."""
        return tuple(None if cost is None else cost.seconds for cost in self.costs)


class ChangeRow(Displayed, Struct, frozen=True):
    """Things of one kind between two states.

    Attributes
    ----------
    what : str
        Name of a tree, ``entries`` or ``file data``.
    stayed, moved, appeared, went : int
        Same address in the volume, another one, only in the later state, only in the earlier.
    moved_by_bytes : float or None
        Median distance of what moved; None where nothing did, or no one distance says it.
    """

    what: str
    stayed: int
    moved: int
    appeared: int
    went: int
    moved_by_bytes: float | None = None


NODE_STAYED, NODE_MOVED, NODE_APPEARED, NODE_WENT = range(4)
CHANGE_WORDS: Final = ("stayed", "moved", "appeared", "went")
"""What happened to something that has an address in one state, the other, or both."""


class NodeChanges(Displayed, Struct, frozen=True):
    """What happened to the nodes of two states, in the order of trees and numbers.

    Attributes
    ----------
    tree, node_id, level : Values, (n,) uint64 array, Values
        As in the table of nodes.
    earlier_offset, later_offset : Values
        Where the node lies in each, in bytes from the start of the volume.
    change : (n,) uint8 array
        Places in :data:`CHANGE_WORDS`.
    """

    tree: Values
    node_id: NDArray[np.uint64]
    level: Values
    earlier_offset: Values
    later_offset: Values
    change: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.change)

    def take(self, chosen: NDArray[np.bool_]) -> NodeChanges:
        """Return some of them."""
        columns = (self.tree, self.level, self.earlier_offset, self.later_offset)
        tree, level, earlier, later = (column.take(chosen) for column in columns)
        return NodeChanges(tree, self.node_id[chosen], level, earlier, later, self.change[chosen])

    def rows(self) -> Rows:
        """Return them as rows, with words."""
        data = {
            "tree": [self.tree.words[code] for code in self.tree.data.tolist()],
            "node_id": self.node_id,
            "level": self.level.to_list(),
            "change": [CHANGE_WORDS[code] for code in self.change.tolist()],
            "earlier_offset": self.earlier_offset.to_list(),
            "later_offset": self.later_offset.to_list(),
        }
        return Rows.under(CHANGED_NODES, data)


CHANGED_NODES: Final = (
    Column("tree", "String", "", "which B-tree"),
    Column("node_id", "UInt64", "", "number by which its file system finds it"),
    Column("level", "UInt8", "", "depth from the leaves"),
    Column("change", "String", "", "stayed, moved, appeared or went"),
    Column("earlier_offset", "Int64", "bytes", "place in the earlier state, from the start of the volume"),
    Column("later_offset", "Int64", "bytes", "place in the later one"),
)
"""Columns of a table of nodes that did not stay."""


class Changes(Displayed, Struct, frozen=True):
    """What changed between two states of one volume, told by node number, oid, CNID or inode number.

    Attributes
    ----------
    rows : tuple of ChangeRow
        The enumerated tree, the other trees, entries, data of files.
    followed : NodeChanges
        The nodes that did not stay.
    """

    rows: tuple[ChangeRow, ...]
    followed: NodeChanges

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, Changes) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.rows)

    @property
    def nodes(self) -> pl.DataFrame:
        """One row a node that did not stay, with the columns of :data:`CHANGED_NODES`."""
        return self.followed.rows().frame


class Comparison(Shown, Struct, frozen=True):
    """Volumes side by side.

    Attributes
    ----------
    names : tuple of str
        The sides.
    metrics : tuple of MetricRow
        Metrics of the walk, the enumerated trees, metadata, files and free space.
    times : tuple of TimeRow
        Predictions.
    changes : tuple of Changes or None
        From each side to the next; None where the two are not states of the same volume.
    verdict : str
        What explains most of the difference between the first side and the last.
    coverages : tuple of float or None
        Share of the known metadata of each image that could be read, 0 to 1; None where that is unknown.
    """

    frames: ClassVar = ("frame",)

    names: tuple[str, ...]
    metrics: tuple[MetricRow, ...]
    times: tuple[TimeRow, ...]
    changes: tuple[Changes | None, ...]
    verdict: str
    coverages: tuple[float | None, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """Metrics and predicted times, a row a side, with the difference to the first side."""
        return self._frame("comparison")


def side_letters(count: int) -> list[str]:
    """Name the sides: A to Z, then AA, AB and so on.

    Examples
    --------
    >>> side_letters(28)[-3:]
    ['Z', 'AA', 'AB']
    """
    alphabet = [chr(ord("A") + number) for number in range(26)]
    return [(alphabet[number // 26 - 1] if number >= 26 else "") + alphabet[number % 26] for number in range(count)]


def ratio(values: Sequence[float | None]) -> float | None:
    """Return the last value over the first; None where that makes no sense."""
    first, last = values[0], values[-1]
    return last / first if first and last is not None else None


def ratios(values: Sequence[float | None]) -> list[float | None]:
    """Return every value but the first over the first."""
    return [ratio((values[0], value)) for value in values[1:]]


class Series(Shown, Struct, frozen=True):
    """Layouts in order, volume by volume.

    Attributes
    ----------
    by : str
        What they are ordered by: ``order``, ``xid`` or ``time``.
    places : tuple of str
        Place of each in that order, as text.
    volumes : tuple of str
        The volume of each: its curve, by a name that tells it from the others.
    found : Comparison
        Metrics and times, one side a layout.
    """

    by: str
    places: tuple[str, ...]
    volumes: tuple[str, ...]
    found: Comparison

    @property
    def frame(self) -> pl.DataFrame:
        """Rows as of `Comparison.frame`: a row a layout and metric."""
        return self.found.frame

    @property
    def curves(self) -> dict[str, list[int]]:
        """Numbers of the layouts of each volume, in order."""
        return {
            name: [n for n, other in enumerate(self.volumes) if other == name] for name in dict.fromkeys(self.volumes)
        }
