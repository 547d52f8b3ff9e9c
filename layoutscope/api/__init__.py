"""The verbs of the library, under the same names as those of the command line.

Each verb is a module of this package, named in the continuous form so that ``layoutscope.api.scan`` is the function;
they are imported when first used, so that ``import layoutscope`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from layoutscope.api.check import check as check
    from layoutscope.api.checkpoints import checkpoints as checkpoints
    from layoutscope.api.compare import compare as compare
    from layoutscope.api.drives import drives as drives
    from layoutscope.api.drives import fit as fit
    from layoutscope.api.export import export as export
    from layoutscope.api.extract import extract as extract
    from layoutscope.api.inspect import inspect as inspect
    from layoutscope.api.map import layout_map as layout_map
    from layoutscope.api.map import write_map as write_map
    from layoutscope.api.predict import predict as predict
    from layoutscope.api.reading import read_layouts as read_layouts
    from layoutscope.api.replay import replay as replay
    from layoutscope.api.save import save as save
    from layoutscope.api.scan import scan as scan
    from layoutscope.api.series import series as series
    from layoutscope.api.trace import trace as trace
    from layoutscope.api.trace import write_trace as write_trace
    from layoutscope.api.verify import verify as verify

VERBS: Final = {
    "check": "layoutscope.api.check",
    "checkpoints": "layoutscope.api.checkpoints",
    "compare": "layoutscope.api.compare",
    "drives": "layoutscope.api.drives",
    "export": "layoutscope.api.export",
    "extract": "layoutscope.api.extract",
    "fit": "layoutscope.api.drives",
    "inspect": "layoutscope.api.inspect",
    "layout_map": "layoutscope.api.map",
    "map": "layoutscope.api.map:map_images",
    "predict": "layoutscope.api.predict",
    "read_layouts": "layoutscope.api.reading",
    "replay": "layoutscope.api.replay",
    "save": "layoutscope.api.save",
    "scan": "layoutscope.api.scan",
    "series": "layoutscope.api.series",
    "trace": "layoutscope.api.trace",
    "verify": "layoutscope.api.verify",
    "write_map": "layoutscope.api.map",
    "write_trace": "layoutscope.api.trace",
}
"""Public functions and their modules; the function's own name where it differs."""

__all__ = ["VERBS", *VERBS]  # noqa: PLE0604  (names of functions that come on demand)


def __getattr__(name: str) -> Any:
    """Import a verb when it is first used."""
    if name not in VERBS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, function = VERBS[name].partition(":")
    return getattr(import_module(module), function or name)
