"""``check`` and ``verify``: what the structures of an image contradict, and where the two decoders differ."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.analysis.frames import volume_name, volume_names
from layoutscope.api.keywords import takes
from layoutscope.api.naming import without_names
from layoutscope.api.reading import container_findings, opened, request_of, with_options
from layoutscope.filesystems.contract import Checked, Unchecked, VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.image.failing import around_failures
from layoutscope.options import ReadOptions
from layoutscope.partition import VolumeSearch
from layoutscope.progress import each, phase, reporting
from layoutscope.results.check import CheckedVolume, CheckResult, TableVerdict, Verification
from layoutscope.tables import TABLES, findings_table, layout_findings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.api.images import Opened
    from layoutscope.findings import Finding
    from layoutscope.options import ReadRequest
    from layoutscope.tables import Table, VolumeLayout


@takes(ReadOptions)
def check(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> CheckResult:
    """Check the structures of an image.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Returns
    -------
    CheckResult
        Every finding of partition maps and volumes.

    Raises
    ------
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.check("fixtures/images/apfs-scattered.img.zst")
    >>> found.is_clean, found.exit_code
    (True, 0)
    """
    # Findings quote names, so that these are needed even where they are left out.
    asked = request_of(options, path)
    hidden, request = not asked.names, replace(asked, names=True)
    kept: dict[int, Any] = {}
    with opened(path, request, kept) as image:
        found = _checked_around(image, request, kept)
        layouts = [without_names(layout) if hidden else layout for layout in image.layouts]
        told = [_without_names(each.findings, image.layouts) if hidden else each.findings for each in found]
        volumes = tuple(
            CheckedVolume(name, findings, layout.coverage, each.num_rules, each.unchecked)
            for name, layout, findings, each in zip(volume_names(layouts), layouts, told, found, strict=True)
        )
        # Of a container, checking may read what scanning did not.
        known = image.findings if image.images is None else (*container_findings(image.images), *image.findings)
        outside = tuple(dict.fromkeys(known))
        outside = _without_names(outside, image.layouts) if hidden else outside
        return CheckResult(image.about.name, volumes, outside, other_contents=image.about.other_contents)


def _without_names(findings: tuple[Finding, ...], layouts: tuple[VolumeLayout, ...]) -> tuple[Finding, ...]:
    """Leave out the names of all volumes and snapshots that findings quote."""
    told = findings
    for layout in layouts:
        told = layout_findings(without_names(layout.changed(findings=findings_table(told))))
    # Tables have no columns of these: a path in a structure holds no names, a cause is one of the same findings.
    number = {item: number for number, item in enumerate(findings)}
    told = tuple(replace(new, field=old.field) for new, old in zip(told, findings, strict=True))
    return tuple(
        replace(new, causes=tuple(told[number[cause]] for cause in old.causes))
        for new, old in zip(told, findings, strict=True)
    )


def _checked_around(image: Opened, request: ReadRequest, kept: dict[int, Any]) -> list[Checked]:
    """Check volumes; what reading kept is good for one attempt, since a check changes it."""

    def once() -> list[Checked]:
        given = dict(kept)
        kept.clear()
        return _checked(image, request, given)

    return around_failures(image.images.devices if image.images is not None else (), once)


def _checked(image: Opened, request: ReadRequest, kept: dict[int, Any]) -> list[Checked]:
    """Check volumes record by record, those of one container together; of a capture there is what its scan found."""
    if image.images is None:
        return [Checked(layout_findings(layout), 0, (_NOT_THERE,)) for layout in image.layouts]
    found = []
    parts = [list(same) for _, same in groupby(image.layouts, lambda layout: layout.facts.image_offset)]
    for layouts in each(parts, "checking record by record"):
        where = layouts[0].facts.image_offset
        chosen = filesystem_of(layouts[0])
        place = VolumeRequest(image.images.main, where, image.spaces.get(where), kept=kept)
        found += chosen.check(with_options(place, image.images, chosen, request), layouts)
    return found


_NOT_THERE: Final = Unchecked("all rules", "a capture has the tables, and not the records that rules are about")


MOST_DIFFERENCES: Final = 5
"""Rows of a column that are shown."""


@takes(ReadOptions)
def verify(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Verification:
    """Read an image with both decoders and compare their tables row by row.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`~layoutscope.options.ReadOptions`; the decoder is not among them.

    Raises
    ------
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.verify("fixtures/images/hfsplus-scattered.img.zst")
    >>> [table.differences for table in found.tables if table.table == "nodes"]
    [()]
    """
    request = request_of(options, path)
    with opened(path, replace(request, decoder="bulk")) as image:
        image.bytes()
        bulk = image
    again = phase("reading again through the grammars")
    with reporting(request.progress), again, opened(path, replace(request, decoder="grammar")) as image:
        grammar = image
    pairs = zip(bulk.layouts, grammar.layouts, strict=False)
    verdicts = [compare_searches(bulk, grammar), *(verdict for pair in pairs for verdict in compare_layouts(*pair))]
    outside = sum(finding.level == "error" for finding in bulk.findings)
    return Verification(bulk.about.name, tuple(verdicts), outside + sum(item.num_errors for item in bulk.layouts))


def compare_searches(bulk: Opened, grammar: Opened) -> TableVerdict:
    """Compare what was found on the image: partition maps, what each partition holds, the volumes read of them."""
    found = [
        f"{name} differ"
        for name in VolumeSearch.__struct_fields__
        if getattr(bulk.search, name) != getattr(grammar.search, name)
    ]
    if len(bulk.layouts) != len(grammar.layouts):
        found.append(f"{len(bulk.layouts)} volumes in bulk, {len(grammar.layouts)} through the grammars")
    return TableVerdict("image", "volumes", len(bulk.layouts), tuple(found))


def compare_layouts(bulk: VolumeLayout, grammar: VolumeLayout) -> Iterator[TableVerdict]:
    """Compare every table of two layouts."""
    for table in TABLES:
        first, second = bulk.columns(table), grammar.columns(table)
        yield TableVerdict(volume_name(bulk), table, len(first), tuple(differences(first, second)))
    same = bulk.facts == grammar.facts
    yield TableVerdict(volume_name(bulk), "facts", 1, () if same else ("the facts differ",))


def differences(first: Table, second: Table) -> Iterator[str]:
    """Say what differs between two tables of one name, column by column."""
    if len(first) != len(second):
        yield f"{len(first):,} rows in bulk, {len(second):,} through the grammars"
        return
    for column in TABLES[first.name]:
        rows = _unequal(first, second, column.name)
        if len(rows):
            places = ", ".join(map(str, rows[:MOST_DIFFERENCES].tolist()))
            yield f"column {column.name}: {len(rows):,} rows, the first {places}"


def _unequal(first: Table, second: Table, name: str) -> NDArray[np.int64]:
    """Rows whose values differ; what is unknown in both is the same."""
    kind = next(column.kind for column in TABLES[first.name] if column.name == name)
    if kind in ("String", "Binary", "Categorical"):
        pairs = zip(first.listed(name), second.listed(name), strict=True)
        return np.flatnonzero(np.fromiter((one != other for one, other in pairs), np.bool_, len(first)))
    one, other = first[name], second[name]
    return np.flatnonzero((one.is_known != other.is_known) | (one.filled(0) != other.filled(0)))
