"""Compares an image node by node: decoded values against the grammars, as ``verify`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.api.check import compare_nodes
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.image import Source
    from layoutscope.tables import VolumeLayout


def node_differences(source: Source, layouts: Sequence[VolumeLayout], **options: object) -> list[str]:
    """List differences between bulk decoding and the grammars; `options` are those of the file system."""
    second = options.pop("second", None)
    found = []
    for layout in layouts:
        request = VolumeRequest(source, layout.facts.image_offset, second=second, options=options)
        view = filesystem_of(layout).view(request, layout)
        found += [item for verdict in compare_nodes(layout, view) for item in verdict.differences]
    return found
