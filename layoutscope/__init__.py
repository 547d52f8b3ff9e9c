"""On-disk layout of Apple file systems: where the metadata is stored, and what that costs.

Bytes flow one way: image, partition, reader (a package of ``filesystems``), tables, metrics and walk, drive, results,
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.version import __version__

__all__ = [
    "__version__",
    "batch",
    "check",
    "checkpoints",
    "compare",
    "drives",
    "explain",
    "export",
    "extract",
    "fit",
    "forecast",
    "inspect",
    "kit",
    "list",
    "load_profile",
    "map",
    "open",
    "plan",
    "predict",
    "query",
    "read_layouts",
    "replay",
    "scan",
    "series",
    "service",
    "simulate",
    "trace",
    "validate",
    "verify",
    "write_forecast_plot",
    "write_report",
    "write_trace",
]

if TYPE_CHECKING:
    from layoutscope.api.check import check, verify
    from layoutscope.api.compare import compare, series
    from layoutscope.api.drives import drives, fit
    from layoutscope.api.explain import explain
    from layoutscope.api.export import export
    from layoutscope.api.extract import extract
    from layoutscope.api.forecast import forecast, write_forecast_plot
    from layoutscope.api.inspect import checkpoints, inspect
    from layoutscope.api.listing import list_files as list  # noqa: A004  (the command's own name)
    from layoutscope.api.map import map_images as map  # noqa: A004  (the command's own name)
    from layoutscope.api.plan import plan
    from layoutscope.api.predict import predict
    from layoutscope.api.reading import read_layouts
    from layoutscope.api.scan import scan
    from layoutscope.api.session import open_session as open  # noqa: A004  (as `gzip.open` and others are called)
    from layoutscope.api.trace import replay, trace, write_trace
    from layoutscope.api.validate import kit, validate
    from layoutscope.drive import load_profile, service, simulate
    from layoutscope.fleet.batch import batch
    from layoutscope.fleet.query import query
    from layoutscope.fleet.report import write_report
else:
    # A verb is in the module of its name, or of the first verb of its family.
    _HOMES = {
        "batch": "fleet.batch",
        "checkpoints": "api.inspect",
        "fit": "api.drives",
        "kit": "api.validate",
        "list": "api.listing",
        "load_profile": "drive",
        "open": "api.session",
        "query": "fleet.query",
        "read_layouts": "api.reading",
        "replay": "api.trace",
        "series": "api.compare",
        "service": "drive",
        "simulate": "drive",
        "verify": "api.check",
        "write_forecast_plot": "api.forecast",
        "write_report": "fleet.report",
        "write_trace": "api.trace",
    }
    # Names of the release before, with what to write in their place.
    _OLD = {
        "layout_map": ("map", "scan.figure()"),
        "save": ("save", 'scan.save("NAME.lscope")'),
        "write_map": ("map", 'scan.map("FILE.html")'),
    }
    # In its own module such a name would hide the built-in function.
    _OWN_NAMES = {"list": "list_files", "map": "map_images", "open": "open_session"}

    def __dir__() -> list[str]:
        """Name the verbs, loaded or not, so that Tab shows them."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

    def __getattr__(name: str) -> object:
        """Import a verb when it is first used, with what it needs and no more."""
        if name in _OLD:
            import warnings
            from importlib import import_module

            home, new = _OLD[name]
            message = f"layoutscope.{name} is removed in the next release: write {new}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(import_module(f"layoutscope.api.{home}"), name)
        if name not in __all__:
            from layoutscope.errors import did_you_mean

            # A request for a name with underscores asks what a module can do, so verbs are not returned.
            hint = "" if name.startswith("_") else did_you_mean(name, __all__)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        from importlib import import_module

        module = import_module(f"layoutscope.{_HOMES.get(name, f'api.{name}')}")
        globals()[name] = getattr(module, _OWN_NAMES.get(name, name))
        return globals()[name]
