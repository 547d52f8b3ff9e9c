"""Apple Data Compression, which disk images of the classic Mac OS era use.

A byte stream of literal runs and of copies from what came before, with two- and three-byte copy codes. The codes are
those of libyal's description of Mac OS disk images.
"""

from __future__ import annotations

from layoutscope.errors import ImageError


def decompress(data: bytes, limit: int) -> bytes:
    """Decompress at most `limit` bytes.

    Raises
    ------
    ImageError
        If a code is cut off or points before the start.
    """
    out = bytearray()
    at = 0
    while at < len(data) and len(out) < limit:
        code = data[at]
        if code & 0x80:
            length = (code & 0x7F) + 1
            out += data[at + 1 : at + 1 + length]
            at += 1 + length
            continue
        length, distance, width = _copy(data, at)
        _repeat(out, distance, length)
        at += width
    return bytes(out[:limit])


def _copy(data: bytes, at: int) -> tuple[int, int, int]:
    """Length, distance and width of a copy code."""
    code = data[at]
    width = 3 if code & 0x40 else 2
    if at + width > len(data):
        raise ImageError("an ADC stream is cut off")
    if width == 3:
        return (code & 0x3F) + 4, (data[at + 1] << 8 | data[at + 2]) + 1, 3
    return ((code & 0x3C) >> 2) + 3, ((code & 0x03) << 8 | data[at + 1]) + 1, 2


def _repeat(out: bytearray, distance: int, length: int) -> None:
    if distance > len(out):
        raise ImageError("an ADC stream refers to bytes before its start")
    start = len(out) - distance
    if distance >= length:
        out += out[start : start + length]
        return
    # A copy that overlaps itself repeats its pattern.
    pattern = bytes(out[start:])
    out += (pattern * (length // distance + 1))[:length]
