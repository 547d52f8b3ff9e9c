"""What ``validate`` returns: a Mac's measurement beside what is predicted for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.results.predict import ReplayResult


class KitMachine(Displayed, Struct, frozen=True):
    """What a kit says of its Mac.

    Attributes
    ----------
    system, model : str
        Version of macOS, and of the Mac.
    drive : str
        What the whole disk calls itself.
    solid_state : bool or None
        Whether it is flash, as `diskutil` says.
    device, container, physical : str
        The volume's device, the disk that its container makes, and the whole disk.
    unit_bytes : int or None
        The block of the volume's device, as `diskutil` says.
    cache_sizes : mapping of str to str
        Memory, and how many vnodes and buffers there may be.
    """

    system: str
    model: str
    drive: str
    solid_state: bool | None
    device: str
    container: str
    physical: str
    unit_bytes: int | None
    cache_sizes: Mapping[str, str] = field(default_factory=dict)


class KitWalk(Displayed, Struct, frozen=True):
    """One recorded walk.

    Attributes
    ----------
    name : str
        As the kit calls it: ``find``, ``ls`` or ``bulk``.
    order : str
        The order that it is held against.
    why_not : str
        Why it cannot be scored; an empty string where it is.
    real_s, cpu_s : float or None
        What `time` measured: on the clock, and of the processor (user and system).
    replay : ReplayResult or None
        Its recording beside the prediction.
    entries : int or None
        Entries that it printed.
    notes : tuple of str
        What the recording says otherwise than the kit.
    """

    name: str
    order: str
    why_not: str = ""
    real_s: float | None = None
    cpu_s: float | None = None
    replay: ReplayResult | None = None
    entries: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_hit(self) -> bool | None:
        """Whether the time on the clock lies in the predicted interval; None where there is not both."""
        if self.replay is None or not self.replay.expected or self.real_s is None:
            return None
        expected = self.replay.expected[0]
        return expected.seconds_low <= self.real_s <= expected.seconds_high


class LeafPolicy(Displayed, Struct, frozen=True):
    """How a volume came to lie as it does, as far as its leaves tell.

    Attributes
    ----------
    leaves : int
        Leaves of the tree that is walked.
    adjacent_share : float or None
        Share of them whose successor in key order starts where they end.
    transactions : int
        Different transactions that wrote them; 0 where the file system notes none.
    leaves_per_transaction : (float, float, float)
        Median, 90th percentile and maximum.
    xid_deciles : tuple of int
        Transactions by tenths of the leaves, the oldest first: minimum, nine deciles, maximum.
    """

    leaves: int
    adjacent_share: float | None
    transactions: int = 0
    leaves_per_transaction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    xid_deciles: tuple[int, ...] = ()


class KitResult(Shown, Struct, frozen=True):
    """A kit, scored.

    Attributes
    ----------
    name : str
        Its archive.
    machine : KitMachine
        What it was made on.
    profile : str
        The drive that is predicted for, and why that one.
    walks : tuple of KitWalk
        The recorded walks.
    policy : LeafPolicy or None
        What the leaves tell; None without a capture.
    filesystem : str
        Of the volume, as people say.
    missing : tuple of (str, str)
        Steps of the script that made nothing, and why.
    """

    name: str
    machine: KitMachine
    profile: str
    walks: tuple[KitWalk, ...]
    policy: LeafPolicy | None
    filesystem: str = ""
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def scored(self) -> tuple[KitWalk, ...]:
        """The walks that could be held against a prediction."""
        return tuple(walk for walk in self.walks if walk.replay is not None)
