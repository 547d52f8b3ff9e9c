"""Flash: the latency of a read follows from its size alone, wherever it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile


def flash_ms(
    profile: DriveProfile, length_bytes: NDArray[np.int64], queue_depth: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the latency of single reads.

    Parameters
    ----------
    profile : DriveProfile
        Of kind ``ssd``; between the sizes of its table straight lines, beyond the last the bandwidth.
    length_bytes : (n_reads,) int64 array
    queue_depth : int
        Reads that are outstanding; up to ``parallel_reads`` of them proceed side by side, as the bandwidth allows.

    Returns
    -------
    service, transfer : (n_reads,) float64 arrays
        Milliseconds in all, and the share that the bandwidth explains.
    """
    sizes = np.array(profile.numbers("latency_bytes"), np.float64)
    latency = np.array(profile.numbers("latency_us"), np.float64)
    bandwidth = profile.number("bandwidth_mb_s")
    beyond = np.maximum(length_bytes - sizes[-1], 0) / bandwidth
    service = (np.interp(length_bytes, sizes, latency) + beyond) / 1000
    transfer = length_bytes / bandwidth / 1000
    side_by_side = min(queue_depth, max(profile.number("parallel_reads", 1), 1))
    service = np.maximum(service / side_by_side, np.minimum(transfer, service))
    return service, np.minimum(transfer, service)
