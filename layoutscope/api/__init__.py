"""The verbs of the library, under the same names as those of the command line.

Each verb is a module of this package, named in the continuous form so that ``layoutscope.api.scan`` is the function;
they are imported when first used, so that ``import layoutscope`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from layoutscope.api.capturing import save as save
    from layoutscope.api.checking import check as check
    from layoutscope.api.comparing import compare as compare
    from layoutscope.api.drive_profiles import drives as drives
    from layoutscope.api.drive_profiles import fit as fit
    from layoutscope.api.exporting import export as export
    from layoutscope.api.extracting import extract as extract
    from layoutscope.api.inspecting import inspect as inspect
    from layoutscope.api.mapping import layout_map as layout_map
    from layoutscope.api.mapping import write_map as write_map
    from layoutscope.api.predicting import predict as predict
    from layoutscope.api.reading import read_layouts as read_layouts
    from layoutscope.api.replaying import replay as replay
    from layoutscope.api.scanning import scan as scan
    from layoutscope.api.sequences import series as series
    from layoutscope.api.states import checkpoints as checkpoints
    from layoutscope.api.tracing import trace as trace
    from layoutscope.api.tracing import write_trace as write_trace
    from layoutscope.api.verifying import verify as verify

VERBS: Final = {
    "check": "layoutscope.api.checking",
    "checkpoints": "layoutscope.api.states",
    "compare": "layoutscope.api.comparing",
    "drives": "layoutscope.api.drive_profiles",
    "export": "layoutscope.api.exporting",
    "extract": "layoutscope.api.extracting",
    "fit": "layoutscope.api.drive_profiles",
    "inspect": "layoutscope.api.inspecting",
    "layout_map": "layoutscope.api.mapping",
    "map": "layoutscope.api.mapping:map_images",
    "predict": "layoutscope.api.predicting",
    "read_layouts": "layoutscope.api.reading",
    "replay": "layoutscope.api.replaying",
    "save": "layoutscope.api.capturing",
    "scan": "layoutscope.api.scanning",
    "series": "layoutscope.api.sequences",
    "trace": "layoutscope.api.tracing",
    "verify": "layoutscope.api.verifying",
    "write_map": "layoutscope.api.mapping",
    "write_trace": "layoutscope.api.tracing",
}
"""Public functions and their modules; the function's own name where it differs."""

__all__ = ["VERBS", *VERBS]  # noqa: PLE0604  (names of functions that come on demand)


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used."""
    if name not in VERBS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, function = VERBS[name].partition(":")
    return getattr(import_module(module), function or name)
