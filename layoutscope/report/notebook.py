"""Objects of the library as HTML for notebooks: sortable tables, and strips with the placement of nodes.

Their contents come from an image, so all texts are escaped for display (:func:`layoutscope.report.escape_text`) and for
HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from layoutscope.display import PLAIN, Displayed, Struct, shorten
from layoutscope.metrics.scatter import node_density
from layoutscope.report import escape_text
from layoutscope.results import Shown
from layoutscope.results.scan import VolumeScan
from layoutscope.tables import TABLES, VolumeLayout
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_ROWS: Final = 200
"""Number of rows of a table that are shown, because a notebook stores all of them."""

STRIP_COLUMNS: Final = 128
STRIP_COLOUR: Final = "#0072B2"

SORT: Final = (
    "(h=>{const b=h.closest('table').tBodies[0],i=h.cellIndex,d=h.dataset.up==='1'?-1:1;"
    "h.dataset.up=d===1?'1':'0';"
    "const v=r=>r.cells[i].dataset.v??r.cells[i].textContent;"
    "[...b.rows].sort((x,y)=>{const p=v(x),q=v(y),n=p-q;return d*(isNaN(n)?String(p).localeCompare(q):n)})"
    ".forEach(r=>b.append(r))})(this)"
)
"""The script of a column header, which sorts the rows by the column; a second click reverses the order."""

STYLE: Final = (
    "<style>.layoutscope th,.layoutscope td{text-align:left;padding:0 .8em 0 0;white-space:pre}"
    ".layoutscope th{cursor:pointer}.layoutscope td.n{text-align:right}</style>"
)


def to_html(displayed: Displayed) -> str:
    """Return an object as HTML."""
    if isinstance(displayed, Shown):
        return "".join(
            [STYLE, displayed.text_html(), *(_fold_frame(name, getattr(displayed, name)) for name in displayed.frames)]
        )
    parts = [STYLE, f"<strong>{escape(type(displayed).__name__)}</strong>"]
    layout = displayed.layout if isinstance(displayed, VolumeScan) else displayed
    if isinstance(layout, VolumeLayout):
        facts = layout.facts
        about = (facts.name, facts.variant, format_bytes(facts.size_bytes), facts.view)
        parts += [draw_density_strip(layout), table(("name", "variant", "size", "state"), [about])]
        parts.append(table(("table", "rows"), [(name, len(layout.columns(name))) for name in TABLES]))
    return "".join([*parts, *_show_members(displayed)])


def _show_members(displayed: Any) -> Iterator[str]:
    """Show the simple fields of an object in one table, and each list of objects and each frame in its own table."""
    if not isinstance(displayed, Struct):
        return
    values = asdict(displayed)
    yield table(("member", "value"), [(name, _shorten_cell(value)) for name, value in values.items()])
    for name, value in values.items():
        if hasattr(value, "iter_rows") and value.height:
            yield _fold_frame(name, value)
        elif isinstance(value, Mapping) and value:
            yield _fold(
                name, table(("name", "value"), [(str(key), _shorten_cell(item)) for key, item in value.items()])
            )
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            names = value[0].__struct_fields__
            rows = ([_shorten_cell(getattr(item, name)) for name in names] for item in value[:MAX_ROWS])
            yield _fold(name, table(names, rows, len(value)))


def _shorten_cell(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else shorten(value)


def _fold_frame(name: str, frame: Any) -> str:
    """Show a frame, folded under its name and height."""
    shown = table(frame.columns, frame.head(MAX_ROWS).iter_rows(), frame.height)
    return _fold(f"{name}: {frame.height:,} rows", shown)


def _fold(name: str, text: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{text}</details>"


def table(columns: Iterable[str], rows: Iterable[Sequence[Any]], height: int = 0) -> str:
    """Return a table that a click on a column header sorts."""
    click = escape(SORT, quote=True)
    head = "".join(f'<th onclick="{click}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_format_cell, row))}</tr>" for row in rows)
    more = f"<p>{MAX_ROWS:,} of {height:,} rows</p>" if height > MAX_ROWS else ""
    return f"<table class='layoutscope'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _format_cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(escape_text('' if value is None else str(value)))}</td>"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    return f'<td class="n" data-v="{value}">{text}</td>'


def draw_density_strip(layout: VolumeLayout) -> str:
    """Draw the density of nodes on the stretch of the volume that they occupy; darker parts have more nodes."""
    density, low, high = node_density(layout, STRIP_COLUMNS)
    top = max(density.max(initial=0.0), 1.0)
    cells = "".join(
        f'<rect x="{place}" width="1" height="1" fill-opacity="{0.15 + 0.85 * value / top:.2f}"/>'
        for place, value in enumerate(density.tolist())
        if value
    )
    ends = f"nodes, from {format_bytes(low)} to {format_bytes(high)} of {format_bytes(layout.facts.size_bytes)}"
    return (
        f'<svg viewBox="0 0 {STRIP_COLUMNS} 1" preserveAspectRatio="none" role="img" aria-label="{ends}" '
        f'style="width:100%;max-width:60em;height:1em;background:#8882;display:block" fill="{STRIP_COLOUR}">'
        f"<title>{ends}</title>{cells}</svg>"
    )
