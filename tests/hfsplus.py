"""Helpers that write HFS+ volumes from scenarios, and read and check a bare volume without a partition map."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope.checks.hfsplus import registry
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.plugins.hfsplus import HFSPLUS

if TYPE_CHECKING:
    from collections.abc import Container

    from layoutscope.findings import Finding
    from layoutscope.image import Source
    from layoutscope.tables import VolumeLayout


def read_layout(source: Source, **asked: Any) -> VolumeLayout:
    """Read a volume; `asked` holds fields of a request."""
    return HFSPLUS.read(VolumeRequest(source, **asked))[0]


def check_volume(source: Source, *, without: Container[str] = (), **asked: Any) -> list[Finding]:
    """Check a volume; `asked` holds fields of a request."""
    return list(registry.check_volume(VolumeRequest(source, **asked), without).findings)


@cache
def rendered(name: str) -> tuple[bytes, Any]:
    """Write the image of a scenario; return it with the expected result of reading it."""
    canvas, expected = render(SCENARIOS[name])
    return bytes(canvas.to_bytearray()), expected
