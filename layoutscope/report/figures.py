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


def format_metric(metric: Metric) -> str:
    """Show the value of a metric in its unit."""
    return format_value(metric.value, metric.unit)
