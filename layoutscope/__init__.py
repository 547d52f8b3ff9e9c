"""On-disk layout of Apple file systems: where the metadata lies, and what that costs.

Bytes flow one way: image, partition, reader (a package of ``filesystems``), tables, metrics and walk, drive, report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layoutscope.version import __version__ as __version__

if TYPE_CHECKING:
    from layoutscope.api import check as check
    from layoutscope.api import checkpoints as checkpoints
    from layoutscope.api import compare as compare
    from layoutscope.api import drives as drives
    from layoutscope.api import export as export
    from layoutscope.api import extract as extract
    from layoutscope.api import fit as fit
    from layoutscope.api import inspect as inspect
    from layoutscope.api import layout_map as layout_map
    from layoutscope.api import predict as predict
    from layoutscope.api import read_layouts as read_layouts
    from layoutscope.api import replay as replay
    from layoutscope.api import save as save
    from layoutscope.api import scan as scan
    from layoutscope.api import series as series
    from layoutscope.api import trace as trace
    from layoutscope.api import verify as verify
    from layoutscope.api import write_map as write_map
    from layoutscope.api import write_trace as write_trace


def __getattr__(name: str) -> Any:
    """Import a verb of :mod:`layoutscope.api` when it is first used."""
    if name.startswith("_") or name == "api":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("layoutscope.api"), name)
