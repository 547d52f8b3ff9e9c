"""Write a trace so that others can replay it: CSV, fio iolog version 3, blkparse text.

References
----------
.. [1] fio documentation, "Trace file format v3": time in microseconds, file, action, offset, length.
.. [2] blkparse(1), default output format.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.drive.surface import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace


def arrival_us(trace: AccessTrace, service_ms: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return when each read is issued, from the think times and, where known, the service times."""
    busy = np.zeros(len(trace)) if service_ms is None else service_ms * 1000
    return np.cumsum(trace.think_us) + np.cumsum(busy) - busy


def csv_text(trace: AccessTrace) -> str:
    """Return a trace as CSV, one line a read, causes and trees as words."""
    columns: dict[str, list[object]] = {
        "device": trace.device.tolist(),
        "image_offset": trace.image_offset.tolist(),
        "length_bytes": trace.length_bytes.tolist(),
        "cause": np.array(trace.causes)[trace.cause].tolist(),
        "tree": np.array(trace.trees)[trace.tree].tolist(),
        "directory_id": trace.directory_id.tolist(),
        "issuer": trace.issuer.tolist(),
        "think_us": trace.think_us.tolist(),
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def fio_lines(
    trace: AccessTrace,
    *,
    file: str,
    # how long each read takes; without it only think times pass between reads
    service_ms: NDArray[np.float64] | None = None,
) -> Iterator[str]:
    """Yield the lines of an iolog of fio, version 3."""
    times = np.rint(arrival_us(trace, service_ms)).astype(np.int64)
    yield "fio version 3 iolog"
    yield f"0 {file} add"
    yield f"0 {file} open"
    for time, offset, length in zip(
        times.tolist(), trace.image_offset.tolist(), trace.length_bytes.tolist(), strict=True
    ):
        yield f"{time} {file} read {offset} {length}"
    yield f"{times[-1] if len(times) else 0} {file} close"


def blkparse_lines(trace: AccessTrace, *, service_ms: NDArray[np.float64] | None = None) -> Iterator[str]:
    """Yield lines as blkparse prints them: each read issued, and completed where the service times are known."""
    seconds = (arrival_us(trace, service_ms) / 1e6).tolist()
    sectors = (trace.image_offset // SECTOR_BYTES).tolist()
    counts = (-(-trace.length_bytes // SECTOR_BYTES)).tolist()
    number = 0
    for k, (second, sector, count) in enumerate(zip(seconds, sectors, counts, strict=True)):
        events = [(second, "D")]
        if service_ms is not None:
            events.append((second + float(service_ms[k]) / 1000, "C"))
        for when, action in events:
            number += 1
            yield f"  8,0    0 {number:8d} {when:14.9f}     1  {action:<2s}  R {sector} + {count} [layoutscope]"
