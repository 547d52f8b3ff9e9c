"""Layouts without the names of what is on the volume, or with hashes in their place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.frames import pl

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.tables.layout import VolumeLayout

    Change = Callable[[str], str]

HASH_DIGITS: Final = 20
"""Hexadecimal digits of a hashed name: as long as walks take a name to be that was left out."""

FORKS: Final = ("data", "resource")
"""Forks that are no names of attributes."""


def without_names(layout: VolumeLayout) -> VolumeLayout:
    """Return the layout without names of files, attributes, snapshots and the volume."""
    known: dict[str, str] = {}

    def numbered(name: str) -> str:
        return known.setdefault(name, str(len(known) + 1))

    nothing = [pl.lit(None, pl.String).alias("name"), pl.lit(None, pl.Binary).alias("name_raw")]
    changed = replace(
        _with_snapshots(layout, numbered),
        entries=layout.entries.with_columns(nothing),
        extents=_with_forks(layout.extents, lambda _: "attribute"),
    )
    return replace(changed, facts=replace(changed.facts, name=""))


def with_hashed_names(layout: VolumeLayout, salt: bytes) -> VolumeLayout:
    """Return the layout with a keyed hash in place of every name; equal names have equal hashes.

    Parameters
    ----------
    layout : VolumeLayout
        With its names.
    salt : bytes
        The key, 1 to 64 bytes; without it nobody can try names out.
    """
    import hashlib

    def hashed(name: str) -> str:
        return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).hexdigest()[:HASH_DIGITS]

    names = _mapped(layout.entries["name"], hashed)
    changed = replace(
        _with_snapshots(layout, hashed),
        entries=layout.entries.with_columns(names, names.cast(pl.Binary).alias("name_raw")),
        extents=_with_forks(layout.extents, hashed),
    )
    own = hashed(layout.facts.name) if layout.facts.name else ""
    return replace(changed, facts=replace(changed.facts, name=own))


def _with_forks(extents: pl.DataFrame, change: Change) -> pl.DataFrame:
    forks = _mapped(extents["fork"].cast(pl.String), lambda name: name if name in FORKS else change(name))
    return extents.with_columns(forks.cast(pl.Categorical))


def _mapped(column: pl.Series, change: Change) -> pl.Series:
    """Change each different value once."""
    known = {value: change(value) for value in column.drop_nulls().unique(maintain_order=True)}
    return column.replace_strict(known, default=None, return_dtype=pl.String)


def _with_snapshots(layout: VolumeLayout, change: Change) -> VolumeLayout:
    """Change the names of snapshots and of the volume wherever texts quote them."""
    views = {layout.facts.view, *layout.node_views["view"].cast(pl.String).unique(), *layout.facts.details}
    quoted = [f"volume {layout.facts.name}"] if layout.facts.name else []
    quoted += sorted({str(view).removesuffix(" nodes") for view in views if str(view).startswith("snapshot ")})
    if not quoted:
        return layout
    pattern = re.compile("|".join(rf"{re.escape(text)}(?!\w)" for text in sorted(quoted, key=len, reverse=True)))

    def told(text: str) -> str:
        return pattern.sub(lambda found: " ".join((found[0].split(" ")[0], change(found[0].partition(" ")[2]))), text)

    texts = [_mapped(layout.findings[name], told) for name in ("structure", "expected", "found", "message")]
    facts = layout.facts
    details = {told(key): told(value) if isinstance(value, str) else value for key, value in facts.details.items()}
    views_told = _mapped(layout.node_views["view"].cast(pl.String), told).cast(pl.Categorical)
    return replace(
        layout,
        facts=replace(facts, view=told(facts.view), details=details),
        node_views=layout.node_views.with_columns(views_told),
        findings=layout.findings.with_columns(texts),
    )
