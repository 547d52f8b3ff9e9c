"""Host time of a workload: what the processors do, whether or not the drive is read.

On flash this is most of the time, so a report must be able to say it apart from the reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layoutscope.access.host import HostProfile


@dataclass(frozen=True, slots=True)
class HostTime:
    """Processor time of a workload, in seconds.

    Attributes
    ----------
    cpu_s : float
        Processor seconds with all threads of the host, waiting for locks included.
    wall_s : float
        Time on the clock if the drive answered at once.
    """

    cpu_s: float
    wall_s: float


def host_time(work_us: float, host: HostProfile) -> HostTime:
    """Spread host work over the threads of a host.

    Parameters
    ----------
    work_us : float
        Sum of a trace's host times (:attr:`AccessTrace.host_us`), in microseconds.
    host : HostProfile
        Threads and processors.

    Examples
    --------
    >>> from layoutscope.walk.host import host_profile
    >>> host_time(9.2e6, host_profile("macos", threads=20))
    HostTime(cpu_s=9.2, wall_s=2.3)
    """
    cpu_s = work_us / 1e6
    return HostTime(cpu_s, round(cpu_s / host.parallel_threads, 9))
