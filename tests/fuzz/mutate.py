"""Structure-aware mutation: fields get extreme values, values of others or a flipped bit; nodes overwrite nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.fuzz.base import Change, Recipe

if TYPE_CHECKING:
    import random

    from tests.fuzz.base import Base

EXTREMES = (0, 1, 2, 3, 14, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
            2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
WORDS = (b"0", b"-1", b"9" * 30, b"1e308", b"nan", b"inf", b"0x7fffffffffffffff", b"18446744073709551615", b"\xff\xfe",
         b"\0", b"\n", b",", b" ", b"=", b'"', b"[", b"1e-320", b"9223372036854775808")  # fmt: skip
NUMBER = re.compile(rb"[0-9][0-9a-fx.]*")


def mutate(target: str, base: Base, rng: random.Random) -> Recipe:
    """Make a case: one to eight changes, sometimes a truncation."""
    changes: list[Change] = []
    data = base.whole() if base.is_text else b""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        change = _splice(data, rng) if base.is_text else _overwrite(base, rng)
        changes.append(change)
        data = data[: change.at] + change.data + data[change.at + change.removed :] if base.is_text else data
    length = rng.randrange(base.size_bytes) if rng.random() < 0.03 else None
    if base.repair is not None and rng.random() < 0.9:
        changes += base.repair(base, tuple(changes))
    return Recipe(target, base.name, tuple(changes), length)


def _overwrite(base: Base, rng: random.Random) -> Change:
    kind = rng.random()
    if kind < 0.7 and base.spots:
        at, width = rng.choice(base.spots)
        return _at(base, at, _new_value(base, base.read(at, width), rng))
    if not base.ranges:
        at = rng.randrange(base.size_bytes)
        return _at(base, at, _new_value(base, base.read(at, rng.choice((1, 2, 4, 8))), rng))
    at, length = rng.choice(base.ranges)
    if kind < 0.9:
        width = rng.choice((1, 2, 4, 8))
        place = at + rng.randrange(max(1, length // width)) * width
        return _at(base, place, _new_value(base, base.read(place, width), rng))
    if kind < 0.93:
        return _at(base, at, bytes(length))
    if kind < 0.95:
        return _at(base, at, rng.randbytes(length))
    other, size = rng.choice(base.ranges)
    return _at(base, at, base.read(other, min(length, size)))


def _at(base: Base, at: int, data: bytes) -> Change:
    data = data[: max(0, base.size_bytes - at)]
    return Change(at, len(data), data)


def _new_value(base: Base, old: bytes, rng: random.Random) -> bytes:
    width = max(1, len(old))
    order = rng.choice(base.orders)
    number, top = int.from_bytes(old, order), 256**width
    choice = rng.random()
    if choice < 0.3:
        new = number ^ 1 << rng.randrange(8 * width)
    elif choice < 0.55:
        new = rng.choice(EXTREMES)
    elif choice < 0.75:
        new = number + rng.choice((-2, -1, 1, 2, 16, 256, 512, 4096, -4096))
    elif choice < 0.9 and base.spots:
        at, other = rng.choice(base.spots)
        new = int.from_bytes(base.read(at, other), order)
    else:
        new = rng.randrange(top)
    return (new % top).to_bytes(width, order)


def _splice(data: bytes, rng: random.Random) -> Change:
    """Change a text: numbers, single bytes, repeated and removed parts."""
    if not data:
        return Change(0, 0, rng.choice(WORDS))
    choice = rng.random()
    numbers = list(NUMBER.finditer(data[:100_000]))
    if choice < 0.4 and numbers:
        found = rng.choice(numbers)
        return Change(found.start(), len(found[0]), rng.choice(WORDS))
    at = rng.randrange(len(data))
    if choice < 0.6:
        return Change(at, 1, bytes([data[at] ^ 1 << rng.randrange(8)]))
    if choice < 0.75:
        return Change(at, rng.randrange(1, 40), b"")
    if choice < 0.9:
        return Change(at, 0, data[at : at + rng.randrange(1, 200)] * rng.choice((1, 2, 50)))
    return Change(at, 0, rng.choice(WORDS))
