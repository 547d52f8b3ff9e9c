"""Objects of the library as HTML for notebooks: tables that sort by a click, and strips of where nodes are, offline.

Their content comes from an image: every text is made visible (:func:`layoutscope.report.escape_text`) and
escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from layoutscope.display import PLAIN, Displayed, Struct, shorten
from layoutscope.metrics.space import node_density
from layoutscope.report import escape_text
from layoutscope.results import Shown
from layoutscope.results.scan import VolumeScan
from layoutscope.tables import TABLES, VolumeLayout
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_ROWS: Final = 200
"""Rows of a table that are shown; a page of a notebook has to hold them all."""

STRIP_COLUMNS: Final = 128
STRIP_COLOUR: Final = "#0072B2"

SORT: Final = (
    "(h=>{const b=h.closest('table').tBodies[0],i=h.cellIndex,d=h.dataset.up==='1'?-1:1;"
    "h.dataset.up=d===1?'1':'0';"
    "const v=r=>r.cells[i].dataset.v??r.cells[i].textContent;"
    "[...b.rows].sort((x,y)=>{const p=v(x),q=v(y),n=p-q;return d*(isNaN(n)?String(p).localeCompare(q):n)})"
    ".forEach(r=>b.append(r))})(this)"
)
"""What a click on a column's head runs: sorts the rows by it, numbers as numbers; again, the other way round."""

STYLE: Final = (
    "<style>.layoutscope th,.layoutscope td{text-align:left;padding:0 .8em 0 0;white-space:pre}"
    ".layoutscope th{cursor:pointer}.layoutscope td.n{text-align:right}</style>"
)


def html_of(thing: Displayed) -> str:
    """Return an object as HTML."""
    if isinstance(thing, Shown):
        return "".join([STYLE, thing.text_html(), *(_folded(name, getattr(thing, name)) for name in thing.frames)])
    parts = [STYLE, f"<strong>{escape(type(thing).__name__)}</strong>"]
    layout = thing.layout if isinstance(thing, VolumeScan) else thing
    if isinstance(layout, VolumeLayout):
        parts += [density_strip(layout), *_of_layout(layout)]
    return "".join([*parts, *_members(thing)])


def _of_layout(layout: VolumeLayout) -> Iterator[str]:
    facts = layout.facts
    yield table(
        ("name", "variant", "size", "state"), [(facts.name, facts.variant, format_bytes(facts.size_bytes), facts.view)]
    )
    yield table(("table", "rows"), [(name, len(layout.columns(name))) for name in TABLES])


def _members(thing: Any) -> Iterator[str]:
    """Show what is plain about an object in one table, and each list of objects and each frame in one of its own."""
    if not isinstance(thing, Struct):
        return
    values = asdict(thing)
    plain = [(name, value if isinstance(value, PLAIN) else shorten(value)) for name, value in values.items()]
    yield table(("member", "value"), plain)
    for name, value in values.items():
        if _is_frame(value) and value.height:
            yield _folded(name, value)
        elif isinstance(value, Mapping) and value:
            yield _folds(name, table(("name", "value"), [(str(key), _cell(item)) for key, item in value.items()]))
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            yield _folds(name, _objects(value))


def _objects(items: Sequence[Any]) -> str:
    """Show objects of one kind, a row each."""
    names = items[0].__struct_fields__
    rows = ([_cell(getattr(item, name)) for name in names] for item in items[:MAX_ROWS])
    return table(names, rows, len(items))


def _cell(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else shorten(value)


def _is_frame(value: Any) -> bool:
    return hasattr(value, "iter_rows")


def _folded(name: str, frame: Any) -> str:
    """Show a frame below its name and height."""
    shown = table(frame.columns, frame.head(MAX_ROWS).iter_rows(), frame.height)
    return _folds(f"{name}: {frame.height:,} rows", shown)


def _folds(name: str, text: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{text}</details>"


def table(columns: Iterable[str], rows: Iterable[Sequence[Any]], height: int = 0) -> str:
    """Return a table whose columns sort by a click on their heads."""
    click = escape(SORT, quote=True)
    head = "".join(f'<th onclick="{click}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in rows)
    more = f"<p>{MAX_ROWS:,} of {height:,} rows</p>" if height > MAX_ROWS else ""
    return f"<table class='layoutscope'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _td(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(escape_text('' if value is None else str(value)))}</td>"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
    return f'<td class="n" data-v="{value}">{text}</td>'


def density_strip(layout: VolumeLayout) -> str:
    """Draw where nodes are, on the stretch of the volume that they occupy: the darker, the more of a piece is nodes."""
    held, low, high = node_density(layout, STRIP_COLUMNS)
    top = max(held.max(initial=0.0), 1.0)
    cells = "".join(
        f'<rect x="{place}" width="1" height="1" fill-opacity="{0.15 + 0.85 * value / top:.2f}"/>'
        for place, value in enumerate(held.tolist())
        if value
    )
    ends = f"nodes, from {format_bytes(low)} to {format_bytes(high)} of {format_bytes(layout.facts.size_bytes)}"
    return (
        f'<svg viewBox="0 0 {STRIP_COLUMNS} 1" preserveAspectRatio="none" role="img" aria-label="{ends}" '
        f'style="width:100%;max-width:60em;height:1em;background:#8882;display:block" fill="{STRIP_COLOUR}">'
        f"<title>{ends}</title>{cells}</svg>"
    )


def frame_page(page: str) -> str:
    """Put a page that reaches no network into a frame of its own."""
    return (
        '<iframe style="width:100%;height:46em;border:0" title="layout map" '
        f'srcdoc="{escape(page, quote=True)}"></iframe>'
    )
