"""Drive profiles: every profile of the package, mutated, then read and used."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.base import Base, base_of

if TYPE_CHECKING:
    from pathlib import Path


def bases() -> tuple[Base, ...]:
    """Return the profiles that need no other file."""
    folder = files("layoutscope.drive") / "profiles"
    found = {item.name: item.read_bytes() for item in folder.iterdir() if item.name.endswith(".toml")}
    return tuple(
        base_of(name, data, is_text=True) for name, data in sorted(found.items())
        if b"map" not in data.split(b"[", 1)[-1] and b"member" not in data
    )  # fmt: skip


def run(path: Path, base: Base) -> int:  # noqa: ARG001
    """Load a profile and serve a few reads."""
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import load_profile, service

    profile = load_profile(path)
    offsets = np.array([0, 4096, 1 << 20, 1 << 30, 0], np.int64)
    service(AccessTrace.from_reads(offsets, np.full(5, 4096, np.int64)), profile)
    return 0
