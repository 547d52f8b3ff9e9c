"""Units for people: sizes, times, shares. Reports use nothing else."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

_BINARY: Final = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def format_bytes(length_bytes: float) -> str:
    """Three significant digits (four from 1000 on) and a binary unit.

    Examples
    --------
    >>> format_bytes(512), format_bytes(1536), format_bytes(1020 * 1024**3)
    ('512 B', '1.50 KiB', '1,020 GiB')
    """
    for factor, unit in _BINARY:
        if abs(length_bytes) >= factor:
            return (
                f"{length_bytes / factor:,.0f} {unit}"
                if length_bytes / factor >= 100
                else _short(length_bytes / factor, unit)
            )
    return f"{length_bytes:.0f} B"


def _short(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"


def format_seconds(seconds: float) -> str:
    """Time in the unit a person would choose.

    Examples
    --------
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


def parse_size(text: str) -> int:
    """Read a size such as ``4096``, ``64KiB``, ``1GiB`` or ``2TB`` (decimal) into bytes.

    Raises
    ------
    ValueError
        If the text is no size.

    Examples
    --------
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
