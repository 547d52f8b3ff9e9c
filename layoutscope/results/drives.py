"""What ``drives`` returns: a profile, and what its simulation makes of simple reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.drive import DriveProfile


@dataclass(frozen=True, slots=True)
class DriveFacts:
    """A profile and what its simulation makes of simple reads.

    Attributes
    ----------
    profile : DriveProfile
        The numbers and their sources.
    random_ms : tuple of float
        Median, 90th and 99th percentile of random reads of 4 KiB over the whole drive, one at a time.
    sequential_mb_s : float
        Rate of large sequential reads at the start of the drive, 10^6 bytes a second.
    latencies_ms : (n,) float64 array
        The random reads themselves.
    """

    profile: DriveProfile
    random_ms: tuple[float, ...]
    sequential_mb_s: float
    latencies_ms: NDArray[np.float64]
