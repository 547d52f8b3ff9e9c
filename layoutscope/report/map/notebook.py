"""The map's figure as an object of Plotly, for notebooks and picture files."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import plotly.graph_objects as go

from layoutscope.report.map.figure import WIDTH, dots_words, drives_of, figure, roles_for
from layoutscope.report.map.page import headline_of
from layoutscope.results.explanation import drive_words
from layoutscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from layoutscope.report.map.pyramid import Share
    from layoutscope.report.map.scans import MapDisk

LINE: Final = 96
"""Characters of a line of the title."""
LINE_PIXELS: Final = 26
UNDER: Final = 44
"""Pixels of the line under the title."""


class LayoutMap(go.Figure):  # type: ignore[misc]  # Plotly has no types
    """The figure of one or more disks; a notebook shows the page of the map itself, as alive as in a window."""

    _ipython_display_ = None

    def __init__(self, drawn: dict[str, Any], page: Callable[[], str] | None = None) -> None:
        super().__init__(drawn)
        self._page = page

    def __repr__(self) -> str:
        return f"LayoutMap({format_count(len({trace.yaxis for trace in self.data}), 'disk')})"

    def _repr_html_(self) -> str:
        if self._page is None:
            return str(super()._repr_html_())
        looks = 'style="width:100%;height:46em;border:0" title="layout map"'
        return f'<iframe {looks} srcdoc="{escape(self._page())}"></iframe>'

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, str]:
        return {"text/html": self._repr_html_()}


def layout_figure(
    disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]], page: Callable[[], str] | None = None
) -> LayoutMap:
    """Draw disks under the sentence that says what matters, with the colours named."""
    drawn = figure(disks, shares)
    layout, lines = drawn["layout"], wrap(headline_of(disks), LINE)
    top = LINE_PIXELS * len(lines) + UNDER
    drive = next(iter(drives_of(disks)), "")
    under = f"Predicted for a {drive_words(drive)}. {dots_words(disks, drive)}" if drive else ""
    named = "  ".join(
        f'<span style="color:{role.light}">■</span> {escape(role.label)}' for role in roles_for(disks, shares)
    )
    title = "<br>".join(f"<b>{escape(line)}</b>" for line in lines)
    layout |= {
        "width": WIDTH,
        "height": layout["height"] + top,
        "margin": {**layout["margin"], "t": top},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "hovermode": "closest",
        "modebar": {"remove": ["sendChartToCloud", "editInChartStudio"]},
        "title": {
            "text": f'{title}<br><span style="font-size:13px;color:#5b6470">{escape(under)} {named}</span>',
            "x": 0.01, "y": 1, "yref": "container", "yanchor": "top", "xanchor": "left", "font": {"size": 20},
            "pad": {"t": 14},
        },
    }  # fmt: skip
    for trace in drawn["data"]:
        trace["hoverinfo"] = "skip" if trace["meta"]["part"] in ("path", "marks") else "x+y+name"
    return LayoutMap(drawn, page)
