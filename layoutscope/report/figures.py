"""Numbers for people: values of metrics in their units, counts, shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from layoutscope.metrics import Metric

NOTHING = "-"


def format_share(share: float) -> str:
    """Percent with as many digits as the smallness asks for.

    Examples
    --------
    >>> format_share(1), format_share(0.613), format_share(0.0094), format_share(0.0003), format_share(0)
    ('100 %', '61.3 %', '0.94 %', '0.03 %', '0 %')
    """
    percent = share * 100
    if percent in (0, 100):
        return f"{percent:.0f} %"
    if percent > 99.9:
        return f"{min(percent, 99.99):.2f} %"
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def format_number(value: float) -> str:
    """Group thousands; keep two decimals of what is no whole number and below a hundred.

    Examples
    --------
    >>> format_number(20000), format_number(1.5), format_number(1234.5)
    ('20,000', '1.50', '1,234')
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"


def format_ratio(ratio: float | None) -> str:
    """Show three digits of how many times as large something is; a dash where nothing can be said.

    Examples
    --------
    >>> format_ratio(1.0), format_ratio(12.78), format_ratio(0.078), format_ratio(2859), format_ratio(None)
    ('1.00', '12.8', '0.078', '2,859', '-')
    """
    if ratio is None:
        return NOTHING
    if ratio >= 999.5:
        return f"{ratio:,.0f}"
    return f"{ratio:#.3g}".rstrip(".") if ratio >= 0.9995 else f"{ratio:.3g}"


def format_value(value: float | None, unit: str) -> str:
    """Show a value in its unit; a dash where there is none."""
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
    """Show a value without the noun that it counts, for columns whose title has it.

    Examples
    --------
    >>> format_plain(7, "clumps"), format_plain(0.5, "share"), format_plain(86.25, "nodes"), format_plain(None, "bytes")
    ('7', '50.0 %', '86.25', '-')
    """
    has_noun = value is not None and unit not in ("share", "bytes", "seconds", "ratio")
    return format_number(value) if has_noun and value is not None else format_value(value, unit)


def format_metric(metric: Metric) -> str:
    """Show the value of a metric in its unit."""
    return format_value(metric.value, metric.unit)
