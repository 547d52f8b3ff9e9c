"""One offline HTML page from the data of one or more disks."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from layoutscope.report.map import encode, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.report.map.model import MapDisk

_SCRIPTS = ("data.js", "address.js", "panels.js", "page.js")


def render(disks: Sequence[MapDisk], *, made: str, names: bool = True) -> str:
    """Return the whole page; the same input gives the same text.

    Parameters
    ----------
    disks : sequence of MapDisk
        Shown side by side on one scale.
    made : str
        How it was made: version, identity of the image, options.
    names : bool
        Whether names from the image may appear.
    """
    data = {"disks": [payload.disk(item, names=names) for item in disks], "made": made}
    title = " and ".join(item.title for item in disks) if names else "layout map"
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        style=_asset("page.css"),
        payload=encode.script_json(data),
        plotly=_plotly(),
        script=_script(),
    )


def _script() -> str:
    """Plotly is kept compressed and started first; the page's own scripts follow."""
    own = "\n".join(_asset(name).replace('"use strict";\n', "") for name in _SCRIPTS)
    unpack = (
        '"use strict";\n(async () => {\n'
        'const raw = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));\n'
        'const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));\n'
        "(0, eval)(await new Response(stream).text());\n"
    )
    return f"{unpack}{own}\n}})();"


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return encode.text(get_plotlyjs())


@cache
def _asset(name: str) -> str:
    return resources.files("layoutscope.report.map").joinpath("assets", name).read_text("utf-8")
