"""Running the campaign: a mutant is scanned as it is and with a sweep, and compared with the sound image."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope import scan
from layoutscope.errors import LayoutscopeError
from tests.fuzz.bounds import limited_time
from tests.fuzz.runner import signature, work_folder
from tests.losses.damage import damages
from tests.losses.images import images
from tests.losses.peer import Peer
from tests.losses.victim import rows_of, victim_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from layoutscope.results.scan import ScanResult
    from tests.losses.damage import Damage
    from tests.losses.peer import Name
    from tests.losses.victim import Row, Victim

EXIT_UNREADABLE = 1
EXIT_DAMAGED = 3


@dataclass(frozen=True, slots=True)
class Reading:
    """One scan of a mutant.

    Attributes
    ----------
    exit_code : int
        0, 1 or 3; -1 where something else than an error of the package ended it.
    coverage : float or None
        As the scan says it.
    lost, extra : int
        Entries of the sound image that are missing, and entries that it has not.
    seconds : float
        CPU time.
    failure : str
        What ended it, where it was not to be.
    """

    exit_code: int
    coverage: float | None
    lost: int
    extra: int
    seconds: float
    failure: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether entries are lost and the exit code or the coverage does not say so."""
        if not self.lost or self.exit_code == EXIT_UNREADABLE:
            return False
        return self.exit_code != EXIT_DAMAGED or (self.coverage is not None and self.coverage >= 1)


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what was read of it.

    Attributes
    ----------
    image : str
        Name of the sound image.
    number : int
        Of the mutant, which with the seed makes it again.
    damages : tuple of Damage
        What was done.
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
    """Mutants of some images, by seed and number.

    Parameters
    ----------
    images : sequence of (path, password)
        Sound images.
    folder : path
        Where working copies go.
    seed : int
        Draws everything.
    asks_peer : bool
        Whether ``fls`` is run as well.
    """

    def __init__(
        self, images: list[tuple[Path, str | None]], folder: Path, seed: int, *, asks_peer: bool = False
    ) -> None:
        self.victims = [victim_of(path, folder, password) for path, password in images]
        self.seed = seed
        self._peers: dict[str, tuple[Peer, set[Name]]] = {}
        if asks_peer and Peer.is_there():
            for victim in self.victims:
                if victim.password is None:
                    result = scan(victim.path, drives=())
                    peer = Peer(result)
                    self._peers[victim.name] = peer, peer.names(victim.path) & names_of(result)

    def judge(self, number: int) -> Judged:
        """Make one mutant, and read it."""
        rng = random.Random(f"{self.seed} {number}")  # noqa: S311
        victim = self.victims[number % len(self.victims)]
        done = damages(victim, rng)
        with damaged(victim, done):
            plain, result = read(victim, sweep=False)
            swept, _ = read(victim, sweep=True)
            return Judged(
                victim.name, number, done, victim.rows.total(), plain, swept, self._is_peer_better(victim, result)
            )

    def _is_peer_better(self, victim: Victim, result: ScanResult | None) -> bool | None:
        if victim.name not in self._peers:
            return None
        peer, both = self._peers[victim.name]
        ours = names_of(result) if result else set()
        return len(peer.names(victim.path) & both) > len(ours & both)


def run(seed: int, numbers: Iterable[int], *, only: str = "", asks_peer: bool = False) -> list[Judged]:
    """Judge the mutants of some numbers, in a folder of their own.

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
    """
    with work_folder() as name:
        folder = Path(name, "work")
        folder.mkdir()
        chosen = [item for item in images(Path(name)) if only in item[0].name]
        campaign = Campaign(chosen, folder, seed, asks_peer=asks_peer)
        return [campaign.judge(number) for number in numbers]


@contextmanager
def damaged(victim: Victim, done: tuple[Damage, ...]) -> Iterator[None]:
    """Damage the working copy, and make it sound again."""
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


def read(victim: Victim, *, sweep: bool, seconds: float = 60) -> tuple[Reading, ScanResult | None]:
    """Scan the working copy as it is."""
    start, result, code, failure = time.process_time(), None, EXIT_UNREADABLE, ""
    try:
        with limited_time(seconds):
            result = scan(victim.path, drives=(), sweep=sweep, password=victim.password)
            code = result.exit_code
    except LayoutscopeError:
        pass
    except Exception as error:  # noqa: BLE001  (whatever else escapes is a failure of its own)
        code, failure = -1, f"{signature(error)}: {error}"[:200]
    rows: Counter[Row] = rows_of(result) if result else Counter()
    coverage = result.coverage if result else None
    lost, extra = (victim.rows - rows).total(), (rows - victim.rows).total()
    return Reading(code, coverage, lost, extra, time.process_time() - start, failure), result


def names_of(result: ScanResult) -> set[Name]:
    """Return names with file numbers as ``fls`` writes them."""
    return {
        (number, name.encode())
        for volume in result.volumes
        for number, name in volume.layout.entries.select("file_id", "name").iter_rows()
        if name is not None
    }
