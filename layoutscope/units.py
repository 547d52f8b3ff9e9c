"""Formatting of sizes, times, shares, counts and metric values for people; reports use only these functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

NOTHING: Final = "-"
"""Placeholder for a missing value."""

EN_DASH: Final = "\N{EN DASH}"
"""Separator of the ends of a range."""

_BINARY: Final = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def format_bytes(length_bytes: float) -> str:
    """Format a size with three significant digits (four from 1000 on) and a binary unit.

    >>> format_bytes(512), format_bytes(1536), format_bytes(1020 * 1024**3)
    ('512 B', '1.50 KiB', '1,020 GiB')
    """
    value, unit = _to_binary_unit(length_bytes)
    if unit == "B":
        return f"{value:.0f} B"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f} {unit}"


def _to_binary_unit(length_bytes: float) -> tuple[float, str]:
    units = ((length_bytes / factor, unit) for factor, unit in _BINARY if abs(length_bytes) >= factor)
    return next(units, (length_bytes, "B"))


def format_seconds(seconds: float) -> str:
    """Format a time in the unit that a person would choose.

    >>> format_seconds(0.0000612), format_seconds(0.0123), format_seconds(4.2)
    ('61.2 us', '12.3 ms', '4.20 s')
    >>> format_seconds(0.99999), format_seconds(380), format_seconds(12450)
    ('1.00 s', '6 min 20 s', '3 h 28 min')
    """
    if seconds < 0.0009995:
        return f"{seconds * 1e6:.3g} us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 119.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    if seconds < 7199.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def brief_bytes(length_bytes: float) -> str:
    """Format a size for first screens, with two significant digits or all integer digits, and a binary unit.

    >>> brief_bytes(512), brief_bytes(1536), brief_bytes(27.3 * 1024**2), brief_bytes(256 * 1024**2)
    ('512 B', '1.5 KiB', '27 MiB', '256 MiB')
    """
    value, unit = _to_binary_unit(length_bytes)
    return f"{value:.0f} B" if unit == "B" else f"{_two_digits(value)} {unit}"


def _two_digits(value: float) -> str:
    """Round to two significant digits, but keep all integer digits."""
    if value >= 9.95:
        return f"{value:,.0f}"
    decimals = 1 - math.floor(math.log10(value * 1.005)) if value else 0
    return f"{value:.{decimals}f}"


def brief_seconds(seconds: float) -> str:
    """Format a time for first screens, with two significant digits in the unit that a person would choose.

    >>> brief_seconds(0.0000612), brief_seconds(0.0123), brief_seconds(0.7), brief_seconds(0.9996), brief_seconds(43.6)
    ('under 1 ms', '12 ms', '0.70 s', '1.0 s', '44 s')
    >>> brief_seconds(119), brief_seconds(380), brief_seconds(12450)
    ('119 s', '6.3 min', '3.5 h')
    """
    if seconds < 0.0009995:
        return "under 1 ms" if seconds else "0 s"
    if seconds < 0.0995:
        return f"{_two_digits(seconds * 1e3)} ms"
    for limit, factor, unit in ((119.5, 1, "s"), (7200, 60, "min")):
        if seconds < limit:
            return f"{_two_digits(seconds / factor)} {unit}"
    return f"{_two_digits(seconds / 3600)} h"


def format_range(low_s: float, high_s: float) -> str:
    """Format a range of times, with the unit once if both ends share it, or one time if they look alike.

    >>> format_range(39.2, 48.7), format_range(0.0842, 0.558), format_range(44, 380), format_range(1.01, 1.02)
    ('39–49 s', '0.084–0.56 s', '44 s – 6.3 min', '1.0 s')
    """  # noqa: RUF002  (ranges have en dashes)
    low, high = brief_seconds(low_s), brief_seconds(high_s)
    if low == high:
        return high
    number, _, unit = low.rpartition(" ")
    if unit == "ms" and low_s >= 0.01 and high.endswith(" s"):
        number, unit = _two_digits(low_s), "s"
    is_one_unit = high.endswith(f" {unit}") and number[0].isdigit()
    return f"{number}{EN_DASH}{high}" if is_one_unit else f"{low} {EN_DASH} {high}"


def brief_share(share: float) -> str:
    """Format a share in percent with two significant digits; only a complete share is 100 %.

    >>> brief_share(0.9512), brief_share(0.0344), brief_share(0.0094), brief_share(1), brief_share(0.9999)
    ('95 %', '3.4 %', '0.94 %', '100 %', 'over 99 %')
    """
    percent = share * 100
    if 99.5 <= percent < 100:
        return "over 99 %"
    return f"{_two_digits(percent)} %" if percent >= 0.01 or not percent else "under 0.01 %"


def format_coverage(coverage: float | None) -> str:
    """Format a coverage in percent, or as words if unknown, such as after the loss of the metadata that counts it.

    >>> format_coverage(0.613), format_coverage(None)
    ('61.3 %', 'an unknown share')
    """
    return "an unknown share" if coverage is None else format_share(coverage)


def format_share(share: float) -> str:
    """Format a share in percent, with more digits for small shares.

    >>> format_share(1), format_share(0.613), format_share(0.0094), format_share(0.0003), format_share(0)
    ('100 %', '61.3 %', '0.94 %', '0.03 %', '0 %')
    >>> format_share(4.1e-8), format_share(0.99996), format_share(3.367)
    ('under 0.0001 %', '99.99 %', '337 %')
    """
    percent = share * 100
    if percent in (0, 100):
        return f"{percent:.0f} %"
    if percent > 100:
        return f"{percent:,.0f} %"
    if percent > 99.9:
        return f"{min(percent, 99.99):.2f} %"
    if 0 < percent < 1e-4:  # Python would write an exponent
        return "under 0.0001 %"
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def format_number(value: float) -> str:
    """Format a number with grouped thousands, and two decimals for fractions below a hundred.

    >>> format_number(20000), format_number(1.5), format_number(1234.5)
    ('20,000', '1.50', '1,234')
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> format_count(1, "read"), format_count(20000, "read"), format_count(0, "directory")
    ('1 read', '20,000 reads', '0 directories')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{count:,} {noun}s"


MAX_LISTED: Final = 8
"""Number of names in a list within a sentence; the others are counted."""


def format_list(items: Sequence[str], separator: str = ", ", limit: int = MAX_LISTED) -> str:
    """Format a list of names for a sentence, truncated because a disk may have thousands.

    >>> format_list(["a", "b"]), format_list(["a"] * 1000)
    ('a, b', 'a, a, a, a, a, a, a, a and 992 more')
    """
    num_others = len(items) - limit
    return separator.join(items[:limit]) + (f" and {num_others:,} more" if num_others > 0 else "")


def format_ratio(ratio: float | None) -> str:
    """Format a ratio with three digits; a dash if it is unknown.

    >>> format_ratio(1.0), format_ratio(12.78), format_ratio(0.078), format_ratio(2859), format_ratio(None)
    ('1.00', '12.8', '0.078', '2,859', '-')
    """
    if ratio is None:
        return NOTHING
    if ratio >= 999.5:
        return f"{ratio:,.0f}"
    return f"{ratio:#.3g}".rstrip(".") if ratio >= 0.9995 else f"{ratio:.3g}"


def format_value(value: float | None, unit: str) -> str:
    """Format a value in its unit; a dash without a value."""
    if value is None:
        return NOTHING
    if unit == "share":
        return format_share(value)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "seconds":
        return format_seconds(value)
    if unit == "ratio":
        return f"{value:.3g}"
    return f"{format_number(value)} {unit.removesuffix('s') if value == 1 else unit}"


def format_plain(value: float | None, unit: str) -> str:
    """Format a value without the noun of its unit, for columns whose title has it.

    >>> format_plain(7, "clumps"), format_plain(0.5, "share"), format_plain(86.25, "nodes"), format_plain(None, "bytes")
    ('7', '50.0 %', '86.25', '-')
    """
    has_noun = value is not None and unit not in ("share", "bytes", "seconds", "ratio")
    return format_number(value) if has_noun and value is not None else format_value(value, unit)


def parse_size(text: str) -> int:
    """Parse a size such as ``4096``, ``64KiB``, ``1GiB`` or ``2TB`` (decimal) into bytes.

    >>> parse_size("64KiB"), parse_size("2TB"), parse_size("0x200")
    (65536, 2000000000000, 512)
    """
    cleaned = text.strip().lower()
    for factor, unit in (*_BINARY, *_DECIMAL):
        if cleaned.endswith(unit.lower()):
            return round(float(cleaned[: -len(unit)]) * factor)
    return int(cleaned.removesuffix("b") if not cleaned.startswith("0x") else cleaned, 0)


_DECIMAL: Final = (
    (10**12, "TB"),
    (10**9, "GB"),
    (10**6, "MB"),
    (10**3, "kB"),
    (TIB, "T"),
    (GIB, "G"),
    (MIB, "M"),
    (KIB, "K"),
)
