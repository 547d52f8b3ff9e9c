"""Damage to one to eight places of an image's metadata, and scans of the damaged image."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fixtures.apfs.checksum import with_checksum
from layoutscope import scan
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError
from layoutscope.options import ReadOptions
from layoutscope.results.scan import ScanResult, VolumeScan
from layoutscope.tables.layout import layout_findings
from tests.fuzz.runner import limited_time, signature
from tests.losses.victim import Row, rows_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.losses.victim import Spot, Victim

EXIT_UNREADABLE = 1
EXIT_DAMAGED = 3
KINDS = ("zeroed", "noise", "bytes", "exchanged", "older")
NUMBERS_OF_SPOTS = (1, 1, 1, 1, 2, 3, 5, 8)
CHECKED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """New bytes for one place, and whether an APFS checksum was corrected for them."""

    spot: Spot
    kind: str
    is_mended: bool
    at: int
    data: bytes


def damages(victim: Victim, rng: random.Random, count: int | None = None) -> tuple[Damage, ...]:
    """Draw the damage to an image; every kind of structure is equally likely, whatever its number of instances."""
    by_structure: dict[str, list[Spot]] = {}
    for spot in victim.spots:
        by_structure.setdefault(spot.structure, []).append(spot)
    chosen = []
    for _ in range(rng.choice(NUMBERS_OF_SPOTS) if count is None else count):
        kind = rng.choice(sorted(by_structure)) if rng.random() < 0.5 else rng.choice(victim.spots).structure
        chosen.append(_damage(victim, rng.choice(by_structure[kind]), rng))
    return tuple(chosen)


def _damage(victim: Victim, spot: Spot, rng: random.Random) -> Damage:
    old = victim.read(spot.at, spot.length)
    kind = rng.choice(KINDS)
    older = victim.older.get(spot.at, ())
    if kind == "older" and not older and (victim.is_apfs or not spot.structure.endswith(" leaf")):
        kind = "bytes"
    if kind == "zeroed":
        data = bytes(len(old))
    elif kind == "noise":
        data = rng.randbytes(len(old))
    elif kind == "bytes":
        data = _few_bytes(old, rng)
    elif kind == "older" and not victim.is_apfs:
        data = before_the_last(old)
    else:
        place = rng.choice(older) if kind == "older" else rng.choice(_alike(victim, spot)).at
        data = victim.read(place, spot.length)
    is_mended = victim.is_apfs and len(data) == CHECKED_BYTES and kind in ("bytes", "noise") and rng.random() < 0.5
    return Damage(spot, kind, is_mended, spot.at, with_checksum(data) if is_mended else data)


def _alike(victim: Victim, spot: Spot) -> list[Spot]:
    """Return other pieces of metadata of the same size, or the piece itself if there are none."""
    return [other for other in victim.spots if other.length == spot.length and other.at != spot.at] or [spot]


def before_the_last(old: bytes) -> bytes:
    """Return an HFS+ leaf as it was before its last record was added; HFS+ keeps no older versions of nodes.

    The number of records is at byte 10 of a node. Their offsets are at its end, in reverse order, followed by the
    offset of the free space, which begins where the last record was (TN1150, "Node Structure").
    """
    count = int.from_bytes(old[10:12], "big")
    if not count:
        return old
    free_at = len(old) - 2 * (count + 1)
    data = bytearray(old)
    data[10:12] = (count - 1).to_bytes(2, "big")
    data[free_at : free_at + 2] = bytes(2)
    return bytes(data)


def _few_bytes(old: bytes, rng: random.Random) -> bytes:
    """Change one to eight numbers of one to eight bytes, at places that are not zero."""
    data = bytearray(old)
    used = [at for at in range(len(old)) if old[at]] or [0]
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, width = rng.choice(used), rng.choice((1, 2, 4, 8))
        data[at : at + width] = rng.randbytes(len(data[at : at + width]))
    return bytes(data)


@dataclass(frozen=True, slots=True)
class Reading:
    """One scan of a mutant: exit code, coverage, and how its entries differ from those of the sound image.

    A code of -1 means that anything but an error of the package ended it; `failure` names that error. Renamed entries
    count as lost, too, unless the exit code reports a problem.
    """

    exit_code: int
    coverage: float | None
    lost: int
    extra: int
    failure: str = ""
    renamed: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether entries are lost and neither the exit code nor the coverage shows it."""
        if not self.lost or self.exit_code == EXIT_UNREADABLE:
            return False
        return self.exit_code != EXIT_DAMAGED or (self.coverage is not None and self.coverage >= 1)


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
    """Scan the working copy as it is; with `is_whole`, measure and serve the result as well. CPU time is limited."""
    result, code, failure = None, EXIT_UNREADABLE, ""
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
    return Reading(code, coverage, lost, extra, failure, renamed), result


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
