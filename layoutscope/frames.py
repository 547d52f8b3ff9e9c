"""polars, loaded when the first frame is made: anyone who asks for no frame does not wait for it.

Readers, metrics and walks work on arrays (:mod:`layoutscope.tables.columns`); a table becomes a frame in
:mod:`layoutscope.tables.columns`, where somebody asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutscope.errors import UnsupportedError, install_command

if TYPE_CHECKING:
    import polars as pl
else:

    class _WhenAsked:
        """Stands for the module until one of its members is wanted."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)  # who only looks at the module, as doctest does, asks for no frame
            try:
                import polars  # noqa: ICN001  (this is what others call pl)
            except ImportError as error:
                raise UnsupportedError(
                    "tables as frames and as Parquet need the package polars",
                    code="frames-missing",
                    advice=install_command("frames"),
                ) from error
            return getattr(polars, name)

    pl = _WhenAsked()

__all__ = ["pl"]
