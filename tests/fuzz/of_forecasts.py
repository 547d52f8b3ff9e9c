"""Forecasts: images of both file systems with changed fields, whose volumes age for two cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.fuzz import of_apfs, of_hfsplus

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.base import Base


REFUSED: Final = ("encrypted", "many")
"""Images without a forecast: a locked volume, and several volumes when none is named."""


def bases() -> tuple[Base, ...]:
    """Return the sound images of both file systems that have a forecast."""
    return *of_hfsplus.bases(), *(base for base in of_apfs.bases() if base.name not in REFUSED)


def run(path: Path, base: Base) -> int:  # noqa: ARG001  (both file systems are read alike)
    """Let the volume age."""
    from layoutscope import forecast
    from layoutscope.errors import UsageError

    try:
        forecast(path, cycles=2, seeds=1, share=0.3, drives=())
    except UsageError:
        return 1
    return 0
