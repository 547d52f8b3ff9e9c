"""Helpers that read and check a bare APFS container, without a partition map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from layoutscope.checks.apfs import registry
from layoutscope.checks.apfs.scan import compare_contents
from layoutscope.filesystems.apfs import reader
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.plugins.apfs import TRAITS

if TYPE_CHECKING:
    from collections.abc import Collection

    from layoutscope.filesystems.contract import ReadableState
    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout

OWN: Final = {option.name for option in TRAITS.options} - {"second"}


def request_of(source: Source, **asked: Any) -> VolumeRequest:
    """Return a request for a container; `asked` holds options of APFS or fields of a request."""
    own = {name: asked.pop(name) for name in OWN & asked.keys()}
    return VolumeRequest(source, **asked, options=own)


def read_layouts(source: Source, **asked: Any) -> list[VolumeLayout]:
    """Read a container with all its volumes, and compare what a scan compares."""
    return reader.read_layouts(request_of(source, **asked), compare_contents)


def check_container(source: Source, *, without: Collection[str] = (), **asked: Any) -> list[Finding]:
    """Check a container, and return the findings of all its parts."""
    found = registry.check_container(request_of(source, **asked), without)
    return [item for result in found.values() for item in result.findings]


def list_states(source: Source, **asked: Any) -> list[ReadableState]:
    """List the states of a container that can be read."""
    return reader.list_states(request_of(source, **asked))
