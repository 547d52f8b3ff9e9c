"""The campaign: each mutant is scanned with and without a sweep, and compared with the sound image."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutscope import scan
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError
from layoutscope.options import ReadOptions
from layoutscope.results.scan import ScanResult, VolumeScan
from layoutscope.tables.layout import layout_findings
from tests.fuzz.bounds import limited_time
from tests.fuzz.runner import signature, work_folder
from tests.losses.damage import damages
from tests.losses.images import images
from tests.losses.peer import Peer
from tests.losses.victim import Row, rows_of, victim_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.losses.damage import Damage
    from tests.losses.images import Sound
    from tests.losses.peer import Name
    from tests.losses.victim import Victim

    Tell = Callable[["Judged"], None]

EXIT_UNREADABLE = 1
EXIT_DAMAGED = 3
WHOLE_SCANS = 8
"""One mutant in this many gets a full scan; the others are only read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One scan of a mutant.

    Attributes
    ----------
    exit_code : int
        0, 1 or 3; -1 if anything but an error of the package ended it.
    coverage : float or None
        As reported by the scan.
    lost, extra : int
        Entries of the sound image that are missing, and entries that it does not have. Renamed entries count as lost,
        too, unless the exit code reports a problem.
    renamed : int
        Entries that have another name.
    seconds : float
        CPU time.
    failure : str
        The unexpected error that ended it.
    """

    exit_code: int
    coverage: float | None
    lost: int
    extra: int
    seconds: float
    failure: str = ""
    renamed: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether entries are lost and neither the exit code nor the coverage shows it."""
        if not self.lost or self.exit_code == EXIT_UNREADABLE:
            return False
        return self.exit_code != EXIT_DAMAGED or (self.coverage is not None and self.coverage >= 1)


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and its scans.

    Attributes
    ----------
    image : str
        Name of the sound image.
    number : int
        Number of the mutant; with the seed it reproduces the mutant.
    damages : tuple of Damage
        The damage.
    total : int
        Entries of the sound image.
    plain, swept : Reading
        Scans without and with a sweep.
    peer_is_better : bool or None
        Whether ``fls`` still lists more of what both list of the sound image; None where it was not asked.
    """

    image: str
    number: int
    damages: tuple[Damage, ...]
    total: int
    plain: Reading
    swept: Reading
    peer_is_better: bool | None = None


class Campaign:
    """Numbered mutants of some images, drawn from a seed.

    Parameters
    ----------
    images : sequence of Sound
        The sound images.
    folder : path
        Folder for working copies.
    seed : int
        Draws everything.
    asks_peer : bool
        Whether ``fls`` is run as well.
    """

    def __init__(self, images: list[Sound], folder: Path, seed: int, *, asks_peer: bool = False) -> None:
        self.victims = [victim_of(sound, folder) for sound in images]
        self.seed = seed
        self._peers: dict[str, tuple[Peer, set[Name]]] = {}
        if asks_peer and Peer.is_there():
            for victim in self.victims:
                if not victim.options:
                    result = scan(victim.path, drives=())
                    peer = Peer(result)
                    self._peers[victim.name] = peer, peer.names(victim.path) & names_of(result)

    def judge(self, number: int) -> Judged:
        """Make a mutant, and scan it."""
        rng = random.Random(f"{self.seed} {number}")  # noqa: S311
        victim = self.victims[number % len(self.victims)]
        done = damages(victim, rng)
        is_whole = number // len(self.victims) % WHOLE_SCANS == 0
        with damaged(victim, done):
            plain, result = read(victim, sweep=False, is_whole=is_whole)
            swept, _ = read(victim, sweep=True, is_whole=is_whole)
            is_better = self._is_peer_better(victim, result)
            return Judged(victim.name, number, done, victim.rows.total(), plain, swept, is_better)

    def _is_peer_better(self, victim: Victim, result: ScanResult | None) -> bool | None:
        """Whether ``fls`` lists more; it cannot if nothing is missing that both list on the sound image."""
        if victim.name not in self._peers:
            return None
        peer, both = self._peers[victim.name]
        ours = (names_of(result) if result else set()) & both
        return ours != both and len(peer.names(victim.path) & both) > len(ours)


def run(seed: int, numbers: Iterable[int], *, only: str = "", asks_peer: bool = False, seconds: float = 1e9,
        tell: Tell | None = None) -> list[Judged]:  # fmt: skip
    """Judge the mutants with these numbers, in a temporary folder.

    Parameters
    ----------
    seed : int
        Draws everything.
    numbers : iterable of int
        Which mutants.
    only : str
        Images with this in their names.
    asks_peer : bool
        Whether ``fls`` is run as well.
    seconds : float
        No further mutant is started after this time.
    tell : callable, optional
        Called with each mutant as it is judged.
    """
    end = time.monotonic() + seconds
    with work_folder() as name:
        folder = Path(name, "work")
        folder.mkdir()
        chosen = [item for item in images(Path(name)) if only in item.name]
        campaign = Campaign(chosen, folder, seed, asks_peer=asks_peer)
        judged = []
        for number in takewhile(lambda _: time.monotonic() < end, numbers):
            judged.append(campaign.judge(number))
            if tell is not None:
                tell(judged[-1])
        return judged


@contextmanager
def damaged(victim: Victim, done: tuple[Damage, ...]) -> Iterator[None]:
    """Damage the working copy, and restore it afterwards."""
    kept = [(item.at, victim.read(item.at, len(item.data))) for item in done]
    with victim.path.open("r+b") as file:
        for item in done:
            os.pwrite(file.fileno(), item.data, item.at)
    try:
        yield
    finally:
        with victim.path.open("r+b") as file:
            for at, data in reversed(kept):
                os.pwrite(file.fileno(), data, at)


def read(
    victim: Victim, *, sweep: bool, is_whole: bool = True, seconds: float = 60
) -> tuple[Reading, ScanResult | None]:
    """Scan the working copy as it is.

    Parameters
    ----------
    victim : Victim
        The image.
    sweep : bool
        Whether the scan sweeps.
    is_whole : bool
        Whether the result is measured and served as well.
    seconds : float
        Limit of CPU time.
    """
    start, result, code, failure = time.process_time(), None, EXIT_UNREADABLE, ""
    verb = scan if is_whole else _read_only
    try:
        with limited_time(seconds):
            result = verb(victim.path, drives=(), sweep=sweep, **victim.options)
            code = result.exit_code
    except LayoutscopeError:
        pass
    except Exception as error:  # noqa: BLE001  (whatever else escapes is a failure of its own)
        code, failure = -1, f"{signature(error)}: {error}"[:200]
    coverage = result.coverage if result else None
    lost, renamed, extra = _differences(victim, result)
    if code != EXIT_DAMAGED:
        lost += renamed
    return Reading(code, coverage, lost, extra, time.process_time() - start, failure, renamed), result


def _read_only(path: Path, *, drives: tuple[()], **options: Any) -> ScanResult:
    """Read an image as a scan does, without measuring it."""
    with open_volumes(path, make_request(ReadOptions(**options))) as image:
        volumes = tuple(
            VolumeScan(layout, (), (), (), None, drives, layout_findings(layout)) for layout in image.layouts
        )
        return ScanResult(image.about, volumes, image.findings)


def _differences(victim: Victim, result: ScanResult | None) -> tuple[int, int, int]:
    """Count entries that are missing, that were renamed, and that the sound image does not have."""
    found = rows_of(result) if result else Counter[Row]()
    missing, more = victim.rows - found, found - victim.rows
    places = [Counter[tuple[int, int]]() for _ in range(2)]
    for place, rows in zip(places, (missing, more), strict=True):
        for (parent, number, _), count in rows.items():
            place[parent, number] += count
    renamed = (places[0] & places[1]).total()
    return missing.total() - renamed, renamed, more.total() - renamed


def names_of(result: ScanResult) -> set[Name]:
    """Return names with file numbers as ``fls`` writes them."""
    return {
        (number, name.encode())
        for volume in result.parts
        for number, name in volume.layout.entries.select("file_id", "name").iter_rows()
        if name is not None
    }
