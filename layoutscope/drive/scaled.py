"""The interval of a quick prediction: its causes scaled by the draws, without serving the reads again.

To first order a slower arm makes the seeks longer and nothing else. What another buffer would do is no factor on a
cause: a sample of the reads is served with each that is drawn. `layoutscope.drive.draws` serves all reads once for each
draw and knows better; this uses the same draws and takes a few milliseconds, which a scan can afford.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.drive.priors import num_draws
from layoutscope.drive.uncertain import HOST, MODEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.uncertain import Uncertain

    F64 = NDArray[np.float64]


def scaled_seconds(
    causes_s: Mapping[str, float],
    phases: Sequence[float],
    profile: DriveProfile,
    unknown: Uncertain,
    buffers: Sequence[float] = (),
) -> F64:
    """Scale the causes of a prediction by what is not known.

    Parameters
    ----------
    causes_s : mapping of str to float
        Seconds by cause: ``seek``, ``rotation``, ``transfer``, ``overhead``, ``host``.
    phases : sequence of float
        Seconds of the drive for each start angle, the first being that of the causes.
    profile : DriveProfile
        The drive or set as it is named.
    unknown : Uncertain
        What is not known of it, and of the host.
    buffers : sequence of float
        By how much the drive's time differs with the buffer of each draw; empty where the buffer is known.

    Returns
    -------
    (n_draws,) float64 array
    """
    seconds = np.zeros(num_draws())
    for cause, factor in cause_factors(profile, unknown).items():
        seconds += causes_s[cause] * factor
    seconds *= np.array(buffers) if buffers else 1.0
    started = np.resize(np.array(phases) / max(phases[0], 1e-12), num_draws())
    return np.asarray(seconds * started * unknown.of(MODEL) + causes_s["host"] * unknown.of(HOST))


def cause_factors(profile: DriveProfile, unknown: Uncertain) -> dict[str, F64]:
    """Return by how much each cause of a drive's time differs, draw by draw."""
    if profile.geometry == "none":
        latency = unknown.of("flash_latency")
        return {
            "seek": np.ones(num_draws()),
            "rotation": np.ones(num_draws()),
            "transfer": 1 / unknown.of("flash_rate"),
            "overhead": latency,
        }
    turn = np.ones(num_draws())
    if "rpm" in unknown.choice:
        rotating = profile if not profile.members else next(m for m in profile.members if m.geometry != "none")
        turn = rotating.number("rpm") / unknown.choice["rpm"].astype(np.float64)
    return {
        "seek": unknown.of("seek"),
        "rotation": turn,
        "transfer": 1 / unknown.of("rate"),
        "overhead": unknown.of("overhead"),
    }
