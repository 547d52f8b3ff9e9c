"""What single fields must satisfy, as data: one rule a field, and the check of many structures against their rules.

A rule says which field, what it must be, in which words, and who says so: a section of the format's document, or the
checker of its maker. Only checks declare rules; no reader needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from layoutscope.findings import FindingLog, Level
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import Field, RecordType

Facts = TypeVar("Facts")


@frozen
class Want:
    """What a field must be, and what is said of that."""

    # says of the values of a field in many structures, of shape (n,) or (n, k), which are as they must be
    is_met: Callable[[NDArray[Any]], NDArray[np.bool_]]
    expected: object  # in a finding; an array has a row a structure


@frozen
class FieldRule(Generic[Facts]):
    """A rule about one field."""

    field: Field  # the field; of a repeated one every item must satisfy the rule
    message: str  # what is wrong where it is broken
    # from what is known otherwise to what the field must be; None where that says nothing
    want: Callable[[Facts], Want | None]
    # code, level: of the finding
    code: str
    level: Level
    source: str  # who says so


def rules(
    code: str,
    source: str,
    *rows: tuple[Field, Want | Callable[[Facts], Want | None], str],
    level: Level = "error",
) -> tuple[FieldRule[Facts], ...]:
    """Declare rules that have code, source and level in common."""
    return tuple(
        FieldRule(field, message, _always(want) if isinstance(want, Want) else want, code, level, source)
        for field, want, message in rows
    )


def _always(want: Want) -> Callable[[Any], Want]:
    return lambda _: want


def equals(expected: object) -> Want:
    """Demand a value; an array has one for each structure."""
    values = np.asarray(expected)
    return Want(lambda found: found == (values if values.ndim == 0 else _beside(values, found)), expected)


def one_of(*expected: int) -> Want:
    """Demand one of some values."""
    return Want(lambda found: np.isin(found, np.array(expected, found.dtype)), " or ".join(map(str, expected)))


def only_bits(mask: int) -> Want:
    """Demand that no bit is set but those of a mask."""
    return Want(lambda found: found & found.dtype.type(~mask & _ones(found)) == 0, f"no bits outside of {mask:#x}")


def bits_set(mask: int) -> Want:
    """Demand that all bits of a mask are set."""
    return Want(lambda found: found & found.dtype.type(mask) == mask, f"bits {mask:#x}")


def at_most(limit: int) -> Want:
    """Demand no more than a value."""
    return Want(lambda found: found <= limit, f"at most {limit}")


def at_least(limit: int) -> Want:
    """Demand no less than a value."""
    return Want(lambda found: found >= limit, f"at least {limit}")


def _zero(found: NDArray[Any]) -> NDArray[np.bool_]:
    # Reserved bytes have no number: numpy compares them as a whole.
    result: NDArray[np.bool_] = found == np.zeros((), found.dtype)
    return result


ZERO: Final = Want(_zero, 0)
"""Demand that nothing is there."""

NOT_ZERO: Final = Want(lambda found: ~_zero(found), "not 0")


def _beside(values: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(-1, *[1] * (found.ndim - 1))


def _ones(found: NDArray[Any]) -> int:
    return (1 << (8 * found.dtype.itemsize)) - 1


@frozen
class Structures:
    """Structures of one type that are looked at together."""

    record_type: RecordType  # what they are
    buffer: NDArray[np.uint8]  # where they lie
    starts: NDArray[Any]  # where each starts, in bytes from the start of the buffer
    decoder: Decoder  # how they are decoded


def check_fields(
    structures: Structures,
    declared: Iterable[FieldRule[Facts]],
    facts: Facts,
    at: Callable[[int, int], FindingLog],
    most: int = 100,
) -> None:
    """Hold structures against the rules of their fields."""
    wanted = [(rule, want) for rule in declared if (want := rule.want(facts)) is not None]
    fields = list(dict.fromkeys(rule.field for rule, _ in wanted))
    if not fields or not len(structures.starts):
        return
    found = structures.decoder.columns(structures.record_type, structures.buffer, structures.starts, fields)
    for rule, want in wanted:
        values = found[rule.field]
        for row, *items in np.argwhere(~want.is_met(values))[:most].tolist():
            plus = rule.field.offset + sum(n * stride for n, stride in zip(items, rule.field.strides, strict=True))
            expected = want.expected[row] if isinstance(want.expected, np.ndarray) else want.expected
            name = _item(rule.field, items)
            at(row, plus).within(name).add(
                rule.code,
                rule.level,
                f"{name}: {rule.message}",
                expected=expected,
                found=_shown(values[row, *items]),
            )


def _item(field: Field, items: Sequence[int]) -> str:
    return f"{field}{''.join(f'[{number}]' for number in items)}"


def _shown(value: Any) -> object:
    return f"{value.tobytes()[:16].hex()}..." if isinstance(value, np.void) else value
