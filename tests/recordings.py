"""Writes our reads as a macOS recorder prints them, in the line format of Apple's ``fs_usage.c``.

The layout follows the ``printf`` formats of ``format_print`` and is independent of our reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from layoutscope.access.trace import AccessTrace


def fs_usage_lines(
    reads: AccessTrace,
    service_us: np.ndarray,
    *,
    unit: int = 512,  # of block numbers
    base: int = 0,  # image offset of block 0
    device: str = "disk2s1",
    process: str = "find",
    start_us: float = 9 * 3600e6,  # time of day at which the first is issued
) -> Iterator[str]:
    """Yield one line per read of a sequence, in order of completion."""
    now = start_us
    for offset, length, think, service in zip(
        reads.image_offset.tolist(),
        reads.length_bytes.tolist(),
        reads.think_us.tolist(),
        service_us.tolist(),
        strict=True,
    ):
        now += round(think) + round(service)
        yield line(now, (offset - base) // unit, length, round(service), device=device, process=process)


def line(
    done_us: float,
    block: int,
    length: int,
    service_us: int,
    *,
    call: str = "RdMeta[S]",
    device: str = "disk2s1",
    process: str = "find",
) -> str:
    """Return one line as ``format_print`` prints it."""
    seconds, micro = divmod(int(done_us) % 86_400_000_000, 1_000_000)
    stamp = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micro:06d}"
    taken = f"{service_us // 1_000_000:3d}.{service_us % 1_000_000:06d}"
    return f"{stamp}    {call:<15} D=0x{block:08x}  B=0x{length:<6x} /dev/{device}  {taken} W {process}.4711"
