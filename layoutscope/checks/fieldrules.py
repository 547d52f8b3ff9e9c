"""Rules about single fields, as data: one rule per field, and the check of many structures against their rules.

A rule has a field, its permitted values, and the message of the finding. Tables of rules name their source: a section
of the format's documentation, or the vendor's checker. Only checks declare rules; readers do not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.findings import MAX_CASES
from layoutscope.structs.bulk import decode_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.arrays import U8, Mask
    from layoutscope.structs.recordtypes import Field, RecordType


class Want(Struct, frozen=True):
    """The permitted values of a field; a rule adds the message for other values."""

    # returns which values of a field in many structures, of shape (n,) or (n, k), are permitted
    is_met: Callable[[NDArray[Any]], Mask]
    expected: object  # in a finding; an array has one row per structure


class FieldRule(Struct, frozen=True):
    """A rule about one field."""

    field: Field  # the field; every item of a repeated field must satisfy the rule
    want: Want | None  # permitted values; None if nothing else on the volume determines them
    message: str  # text of the finding
    # code, level: of the finding
    code: str
    level: Level


def rules(code: str, *rows: tuple[Field, Want | None, str], level: Level = "warning") -> tuple[FieldRule, ...]:
    """Declare rules that share a code and a level."""
    return tuple(FieldRule(*row, code, level) for row in rows)


def equals(expected: object) -> Want:
    """Require a value; an array has one value per structure."""
    values = np.asarray(expected)

    def is_met(found: NDArray[Any]) -> Mask:
        # Each item of a repeated field is compared with the value of its structure.
        equal: Mask = found == (values.reshape(-1, *[1] * (found.ndim - 1)) if values.ndim else values)
        return equal

    return Want(is_met, expected)


def one_of(*expected: int) -> Want:
    """Require one of several values."""
    return Want(lambda found: np.isin(found, np.array(expected, found.dtype)), " or ".join(map(str, expected)))


def only_bits(mask: int) -> Want:
    """Require that no bits outside a mask are set."""
    return Want(lambda found: found & ~np.array(mask, found.dtype) == 0, f"no bits outside of {mask:#x}")


def bits_set(mask: int) -> Want:
    """Require that all bits of a mask are set."""
    return Want(lambda found: found & found.dtype.type(mask) == mask, f"bits {mask:#x}")


def at_most(limit: int) -> Want:
    """Require at most a value."""
    return Want(lambda found: found <= limit, f"at most {limit}")


def at_least(limit: int) -> Want:
    """Require at least a value."""
    return Want(lambda found: found >= limit, f"at least {limit}")


def _zero(found: NDArray[Any]) -> Mask:
    # Reserved bytes have no numeric type: numpy compares them as a whole.
    result: Mask = found == np.zeros((), found.dtype)
    return result


ZERO: Final = Want(_zero, 0)
"""Require that all bytes are zero."""

NOT_ZERO: Final = Want(lambda found: ~_zero(found), "not 0")


def check_fields(
    record_type: RecordType,
    buffer: U8,
    starts: NDArray[Any],  # start of each structure, in bytes from the start of the buffer
    declared: Iterable[FieldRule],
    at: Callable[[int, int], FindingLog],  # binds the log to a structure by its number, and to a byte of the buffer
) -> None:
    """Check structures of one type against the rules of their fields."""
    wanted = [(rule, rule.want) for rule in declared if rule.want is not None]
    fields = list(dict.fromkeys(rule.field for rule, _ in wanted))
    if not fields or not len(starts):
        return
    found = decode_columns(record_type, buffer, starts, fields)
    for rule, want in wanted:
        values = found[rule.field]
        for row, *items in np.argwhere(~want.is_met(values))[:MAX_CASES].tolist():
            expected = want.expected[row] if isinstance(want.expected, np.ndarray) else want.expected
            name = f"{rule.field}{''.join(f'[{number}]' for number in items)}"
            log = at(row, int(starts[row]) + item_offset(rule.field, items)).within(name)
            stored = _format_value(values[row, *items])
            log.add(rule.code, rule.level, f"{name}: {rule.message}", expected=expected, found=stored)


def item_offset(field: Field, items: Iterable[int]) -> int:
    """Return the offset of an item of a repeated field, in bytes from the start of the structure."""
    return field.offset + sum(number * stride for number, stride in zip(items, field.strides, strict=True))


def _format_value(value: Any) -> object:
    return f"{value.tobytes()[:16].hex()}..." if isinstance(value, np.void) else value
