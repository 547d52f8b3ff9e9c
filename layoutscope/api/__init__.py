"""The verbs of the library, under the same names as those of the command line.

Each verb stands in the module of its name. As these imports come last, ``layoutscope.api.scan`` is the function; what
else a module holds is imported from it by name. This loads all that any verb needs; ``import layoutscope`` does so when
a verb is first used.
"""

from __future__ import annotations

from layoutscope.api.check import check
from layoutscope.api.checkpoints import checkpoints
from layoutscope.api.compare import compare
from layoutscope.api.drives import drives, fit
from layoutscope.api.export import export
from layoutscope.api.extract import extract
from layoutscope.api.inspect import inspect
from layoutscope.api.map import layout_map, write_map
from layoutscope.api.map import map_images as map  # noqa: A004  (the command's own name)
from layoutscope.api.predict import predict
from layoutscope.api.reading import read_layouts
from layoutscope.api.replay import replay
from layoutscope.api.save import save
from layoutscope.api.scan import scan
from layoutscope.api.series import series
from layoutscope.api.trace import trace, write_trace
from layoutscope.api.verify import verify
from layoutscope.report.text import print_result
from layoutscope.results.shown import Shown

__all__ = [
    "check",
    "checkpoints",
    "compare",
    "drives",
    "export",
    "extract",
    "fit",
    "inspect",
    "layout_map",
    "map",
    "predict",
    "read_layouts",
    "replay",
    "save",
    "scan",
    "series",
    "trace",
    "verify",
    "write_map",
    "write_trace",
]

Shown.print_with(print_result)
