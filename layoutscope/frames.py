"""polars, loaded when the first frame is made: whoever asks for no frame does not wait for it.

Readers, metrics and walks work on arrays (:mod:`layoutscope.tables.columns`); a table becomes a frame in
:mod:`layoutscope.tables.table`, where somebody asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _WhenAsked:
        """Stands for the module until one of its members is wanted."""

        def __getattr__(self, name: str) -> Any:
            import polars  # noqa: ICN001  (this is what others call pl)

            return getattr(polars, name)

    pl = _WhenAsked()

__all__ = ["pl"]
