"""Damage to the blocks of a disk, in one to eight places of its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fixtures.apfs.checksum import with_checksum

if TYPE_CHECKING:
    import random

    from tests.losses.victim import Spot, Victim

KINDS = ("zeroed", "noise", "bytes", "exchanged", "older")
NUMBERS_OF_SPOTS = (1, 1, 1, 1, 2, 3, 5, 8)
CHECKED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """New bytes for one place.

    Attributes
    ----------
    spot : Spot
        What was hit.
    kind : str
        One of `KINDS`.
    is_mended : bool
        Whether the checksum was corrected (APFS).
    at : int
        Offset of the bytes.
    data : bytes
        The new bytes.
    """

    spot: Spot
    kind: str
    is_mended: bool
    at: int
    data: bytes


def damages(victim: Victim, rng: random.Random, count: int | None = None) -> tuple[Damage, ...]:
    """Draw the damage to an image; every kind of structure is equally likely, whatever its number of instances.

    Parameters
    ----------
    victim : Victim
        The sound image.
    rng : random.Random
        Draws.
    count : int, optional
        Number of places; drawn if omitted.
    """
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
