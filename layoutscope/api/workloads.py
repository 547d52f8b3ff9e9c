"""Workloads: which order, as which host, from where; and the reads that this makes on a layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.access.entries import ROOT_ID
from layoutscope.analysis.paths import resolve
from layoutscope.errors import UsageError
from layoutscope.walk.host import HOSTS, host_profile
from layoutscope.walk.hosttime import HostTime, host_time
from layoutscope.walk.order import Work
from layoutscope.walk.orders import ORDERS, trace
from layoutscope.walk.properties import with_properties
from layoutscope.walk.records import random_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.host import HostProfile
    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Workload
    from layoutscope.tables import VolumeLayout


RECORD_BYTES: Final = 4096

OPTIONS: Final = {"paths": "--list", "file": "--file"}
"""What an order may need, and the option of the command line that gives it."""


def checked(workload: Workload) -> Workload:
    """Refuse before the work what would fail in it.

    Raises
    ------
    UsageError
        If order, host or a property is unknown, or the order misses its paths or its file, or cannot be repeated.
    """
    order, host = workload.get("order", "fts"), workload.get("host", "linux")
    if order not in ORDERS:
        raise UsageError(f"no order {order!r}; there are {', '.join(ORDERS)}")
    if host not in HOSTS:
        raise UsageError(f"no host {host!r}; there are {', '.join(HOSTS)}")
    chosen, given = ORDERS[order], [name for name in OPTIONS if workload.get(name)]
    try:
        chosen.check(given, is_repeated=workload.get("warm", False) or workload.get("passes", 1) > 1)
    except ValueError as error:
        missing = OPTIONS.get(chosen.needs) if chosen.needs not in given else None
        raise UsageError(f"{error} ({missing})" if missing else str(error)) from error
    host_of(workload)
    return workload


def host_of(workload: Workload) -> HostProfile:
    """Return the host of a workload.

    Raises
    ------
    UsageError
        If it has no such property.
    """
    threads = workload.get("threads") or 1
    usual = host_profile(workload.get("host", "linux"), cache_bytes=workload.get("cache_bytes"), threads=threads)
    try:
        return with_properties(usual, workload.get("host_properties") or {})
    except ValueError as error:
        raise UsageError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Walk:
    """What a workload does.

    Attributes
    ----------
    reads : AccessTrace
        The reads. Think times are those of the wall clock: several threads share the work.
    host_time : HostTime
        The host's work in processor and in wall seconds.
    """

    reads: AccessTrace
    host_time: HostTime


def walk(layout: VolumeLayout, workload: Workload, host: HostProfile | None = None) -> Walk:
    """Work out the reads of a workload.

    Parameters
    ----------
    layout : VolumeLayout
        The volume.
    workload : Workload
        What is done.
    host : HostProfile, optional
        In place of the workload's own.

    Raises
    ------
    UsageError
        If a path is not on the volume.
    """
    chosen = host_of(workload) if host is None else host
    start, file = workload.get("start"), workload.get("file")
    file_id = None if file is None else _needed(layout, file)
    work = Work(
        start_directory_id=ROOT_ID if start is None else _needed(layout, start),
        stat=workload.get("stat", True),
        paths=workload.get("paths"),
        file_id=file_id,
        records=None if file_id is None else _records(layout, file_id, workload),
        record_bytes=_record_bytes(workload),
        warm=workload.get("warm", False),
        passes=workload.get("passes", 1),
    )
    reads = trace(layout, order=workload.get("order", "fts"), host=chosen, work=work)
    wall = host_time(1e6, chosen).wall_s
    paced = replace(reads, think_us=reads.think_us * wall, after_us=reads.after_us * wall)
    return Walk(paced, host_time(reads.host_us, chosen))


def _record_bytes(workload: Workload) -> int:
    return workload.get("record_bytes") or RECORD_BYTES


def _records(layout: VolumeLayout, file_id: int, workload: Workload) -> NDArray[np.int64] | None:
    """Offsets of the records that are read; None for the whole file."""
    offsets, count = workload.get("offsets"), workload.get("records")
    if offsets is not None:
        return np.array(offsets, np.int64)
    if not count:
        return None
    size = layout.entries.filter(pl.col("file_id") == file_id)["size_bytes"][0] or 0
    if size < _record_bytes(workload):
        raise UsageError(f"the file has {size:,} bytes, which is less than a record of {_record_bytes(workload):,}")
    return random_records(size, count, _record_bytes(workload), workload.get("seed", 1))


def _needed(layout: VolumeLayout, path: str) -> int:
    file_id = resolve(layout, path)
    if file_id is None:
        raise UsageError(f"no file at {path!r}")
    return file_id
