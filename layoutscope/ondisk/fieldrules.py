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
    """What a field must be, and what is said of that.

    Attributes
    ----------
    is_met : callable
        Says of the values of a field in many structures, of shape (n,) or (n, k), which are as they must be.
    expected : object
        In a finding; an array has a row a structure.
    """

    is_met: Callable[[NDArray[Any]], NDArray[np.bool_]]
    expected: object


@frozen
class FieldRule(Generic[Facts]):
    """A rule about one field.

    Attributes
    ----------
    field : Field
        The field; of a repeated one every item must satisfy the rule.
    message : str
        What is wrong where it is broken.
    want : callable
        From what is known otherwise to what the field must be; None where that says nothing.
    code, level
        Of the finding.
    source : str
        Who says so.
    """

    field: Field
    message: str
    want: Callable[[Facts], Want | None]
    code: str
    level: Level
    source: str


def rules(
    code: str,
    source: str,
    *rows: tuple[Field, Want | Callable[[Facts], Want | None], str],
    level: Level = "error",
) -> tuple[FieldRule[Facts], ...]:
    """Declare rules that have code, source and level in common.

    Parameters
    ----------
    code, source, level
        As of :class:`FieldRule`.
    *rows : tuple
        Field, what it must be or how that is told from the facts, and the message.
    """
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
    """Structures of one type that are looked at together.

    Attributes
    ----------
    record_type : RecordType
        What they are.
    buffer : (n_bytes,) uint8 array
        Where they lie.
    starts : (n,) integer array
        Where each starts, in bytes from the start of the buffer.
    decoder : Decoder
        How they are decoded.
    """

    record_type: RecordType
    buffer: NDArray[np.uint8]
    starts: NDArray[Any]
    decoder: Decoder


def check_fields(
    structures: Structures,
    declared: Iterable[FieldRule[Facts]],
    facts: Facts,
    at: Callable[[int, int], FindingLog],
    most: int = 100,
) -> None:
    """Hold structures against the rules of their fields.

    Parameters
    ----------
    structures : Structures
        What is checked.
    declared : iterable of FieldRule
        The rules.
    facts : object
        What is known otherwise; given to each rule.
    at : callable
        Binds a log to a byte of a structure: its number and bytes from its start.
    most : int
        How many structures are named that break a rule.
    """
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
