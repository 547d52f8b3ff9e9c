"""Layouts without the names of what is on the volume, or with hashes in their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.tables import TextColumn, Values
from layoutscope.tables.schema import FORKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.tables import Table, VolumeLayout

    Change = Callable[[str], str]

HASH_DIGITS: Final = 20
"""Hexadecimal digits of a hashed name: as long as walks take a name to be that was left out."""


def without_names(layout: VolumeLayout) -> VolumeLayout:
    """Return the layout without names of files, attributes, snapshots and the volume."""
    known: dict[str, str] = {}

    def numbered(name: str) -> str:
        return known.setdefault(name, str(len(known) + 1))

    entries = layout.columns("entries")
    rows = np.zeros(len(entries), np.int64)
    nothing = TextColumn(np.empty(0, np.uint8), np.zeros(1, np.int64), rows, np.zeros(len(entries), np.bool_))
    changed = _with_snapshots(layout, numbered)
    return changed.changed(
        facts=replace(changed.facts, name=""),
        entries=entries.changed("name", nothing).changed("name_raw", nothing),
        extents=_with_forks(layout.columns("extents"), lambda _: "attribute"),
    )


def with_hashed_names(
    layout: VolumeLayout,
    salt: bytes,  # the key, 1 to 64 bytes; without it nobody can try names out
) -> VolumeLayout:
    """Return the layout with a keyed hash in place of every name; equal names have equal hashes."""
    import hashlib

    def hashed(name: str) -> str:
        return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).hexdigest()[:HASH_DIGITS]

    entries, changed = layout.columns("entries"), _with_snapshots(layout, hashed)
    names = _mapped(entries, "name", hashed)
    return changed.changed(
        facts=replace(changed.facts, name=hashed(layout.facts.name) if layout.facts.name else ""),
        entries=entries.changed("name", names).changed("name_raw", names),
        extents=_with_forks(layout.columns("extents"), hashed),
    )


def _with_forks(extents: Table, change: Change) -> Table:
    return extents.changed("fork", _renamed(extents["fork"], lambda name: name if name in FORKS else change(name)))


def _renamed(column: Values, change: Change) -> Values:
    """Change the words that some row has; what were two words may be one then."""
    codes, words = column.numbered()
    told = [change(word) if word else "" for word in words]
    kept = list(dict.fromkeys(told))
    places = np.array([kept.index(word) for word in told] or [0], np.uint32)
    return Values(places[codes], column.known, kept)


def _mapped(table: Table, name: str, change: Change) -> TextColumn:
    """Change each different text once."""
    texts = table.listed(name)
    known = {text: change(text) for text in dict.fromkeys(texts) if text is not None}
    return TextColumn.of([None if text is None else known[text] for text in texts])


def _with_snapshots(layout: VolumeLayout, change: Change) -> VolumeLayout:
    """Change the names of snapshots and of the volume wherever texts quote them."""
    node_views, findings = layout.columns("node_views"), layout.columns("findings")
    views = {layout.facts.view, *node_views["view"].numbered()[1], *layout.facts.details}
    quoted = [f"volume {layout.facts.name}"] if layout.facts.name else []
    quoted += sorted({str(view).removesuffix(" nodes") for view in views if str(view).startswith("snapshot ")})
    if not quoted:
        return layout
    pattern = re.compile("|".join(rf"{re.escape(text)}(?!\w)" for text in sorted(quoted, key=len, reverse=True)))

    def told(text: str) -> str:
        return pattern.sub(lambda found: " ".join((found[0].split(" ")[0], change(found[0].partition(" ")[2]))), text)

    for name in ("structure", "expected", "found", "message"):
        findings = findings.changed(name, _mapped(findings, name, told))
    facts = layout.facts
    details = {told(key): told(value) if isinstance(value, str) else value for key, value in facts.details.items()}
    return layout.changed(
        facts=replace(facts, view=told(facts.view), details=details),
        node_views=node_views.changed("view", _renamed(node_views["view"], told)),
        findings=findings,
    )
