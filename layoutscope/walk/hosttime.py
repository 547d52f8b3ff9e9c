"""Host time of a workload: what the processors do, whether or not the drive is read.

On flash this is most of the time, so a report must be able to say it apart from the reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layoutscope.walk.host import FileSystem, HostProfile


@dataclass(frozen=True, slots=True)
class HostTime:
    """Processor time of a workload, in seconds.

    Attributes
    ----------
    work_s : float
        What one thread alone would need.
    cpu_s : float
        Processor seconds with all threads of the host, waiting for locks included.
    wall_s : float
        Time on the clock if the drive answered at once.
    """

    work_s: float
    cpu_s: float
    wall_s: float


def host_time(work_us: float, host: HostProfile, filesystem: FileSystem) -> HostTime:
    """Spread host work over the threads of a host.

    Parameters
    ----------
    work_us : float
        Sum of the trace's think times, or of the touches' host times, in microseconds.
    host : HostProfile
        Threads, processors and contention.
    filesystem : {'hfsplus', 'apfs'}
        Whose contention.

    Examples
    --------
    >>> from layoutscope.walk.host import host_profile
    >>> host_time(4e6, host_profile("macos", threads=20), "apfs")
    HostTime(work_s=4.0, cpu_s=9.2, wall_s=2.3)
    """
    work_s = work_us / 1e6
    together = min(host.threads, host.processors)
    cpu_s = work_s * (host.costs(filesystem).contention if together > 1 else 1.0)
    return HostTime(work_s, round(cpu_s, 9), round(cpu_s / together, 9))
