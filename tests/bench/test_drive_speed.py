"""How many reads a second a drive serves; printed, not asserted (run with -s)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service

READS = 1_000_000


def _reads(pattern: str) -> AccessTrace:
    """A million reads of 4 KiB: one after another, jumping back and forth within 64 MiB, all over 8 GB."""
    rng = np.random.default_rng(1)
    place = {
        "sequential": np.arange(READS) * 4096,
        "clumped": np.cumsum(rng.integers(-8000, 8001, READS)) % 16_384 * 4096,
        "random": rng.integers(0, 8 * 10**9 // 4096, READS) * 4096,
    }[pattern]
    return AccessTrace.from_reads(place, np.full(READS, 4096), think_us=20)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["sequential", "clumped", "random"])
@pytest.mark.parametrize("drive", ["cheetah9lp", "cheetah15k5", "generic-7200", "sata-ssd"])
def test_reads_per_second(drive, pattern):
    """Prints reads a second, all included but reading the profile and compiling, and serves every read."""
    profile, reads = load_profile(drive), _reads(pattern)
    service(reads, profile)
    start = time.perf_counter()
    result = service(reads, profile)
    seconds = time.perf_counter() - start
    print(f"\n{drive} ({result.geometry}), {pattern}: {READS / seconds / 1e6:.2f} million reads a second")  # noqa: T201
    assert result.reads == READS
    assert (result.reads_ms.service_ms > 0).all()
