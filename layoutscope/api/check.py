"""``check`` and ``verify``: what structures contradict, and where bulk decoding and the grammars differ."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from layoutscope.api.keywords import takes
from layoutscope.api.reading import (
    container_findings,
    make_request,
    make_volume_request,
    open_volumes,
    parts_of_node,
    views_of,
)
from layoutscope.api.save import without_names
from layoutscope.filesystems.contract import Checked, Unchecked, VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.image.failing import around_failures
from layoutscope.options import ReadOptions
from layoutscope.progress import each, reporting
from layoutscope.results.check import CheckedVolume, CheckResult, TableVerdict, Verification
from layoutscope.results.scan import volume_name, volume_names
from layoutscope.tables import findings_table, layout_findings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.filesystems.contract import View
    from layoutscope.findings import Finding
    from layoutscope.tables import VolumeLayout


@takes(ReadOptions)
def check(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> CheckResult:
    """Check the structures of an image.

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
    asked = make_request(options, path)
    hidden = not asked["names"]
    request: ReadOptions = {**asked, "names": True}
    kept: dict[int, Any] = {}
    with open_volumes(path, request, kept) as image:

        def check_once() -> list[Checked]:
            # What reading kept is good for one attempt, since a check changes it.
            given = dict(kept)
            kept.clear()
            return check_volumes(image, request, given)

        found = around_failures(image.images or (), check_once)
        layouts = [without_names(layout) if hidden else layout for layout in image.layouts]
        told = [_without_names(each.findings, image.layouts) if hidden else each.findings for each in found]
        volumes = tuple(
            CheckedVolume(name, findings, layout.coverage, each.num_rules, each.unchecked)
            for name, layout, findings, each in zip(volume_names(layouts), layouts, told, found, strict=True)
        )
        # Checking a container may read parts that scanning did not.
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


def check_volumes(image: Opened, request: ReadOptions, kept: dict[int, Any]) -> list[Checked]:
    """Check the volumes of an opened image record by record; a capture has only what its scan found."""
    if image.images is None:
        return [Checked(layout_findings(layout), 0, (_NOT_THERE,)) for layout in image.layouts]
    found = []
    # Volumes of one container are checked together.
    parts = [list(same) for _, same in groupby(image.layouts, lambda layout: layout.facts.image_offset)]
    for layouts in each(parts, "checking record by record"):
        where = layouts[0].facts.image_offset
        chosen = filesystem_of(layouts[0])
        place = VolumeRequest(image.images[0], where, image.spaces.get(where), kept=kept)
        found += chosen.check(make_volume_request(place, image.images, chosen, request), layouts)
    return found


_NOT_THERE: Final = Unchecked("all rules", "a capture has the tables, and not the records that rules are about")

MAX_DIFFERENCES: Final = 5
"""Differences of a table that are shown."""


@takes(ReadOptions)
def verify(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Verification:
    """Parse every node of an image through its grammar and compare that with bulk decoding.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.verify("fixtures/images/hfsplus-scattered.img.zst")
    >>> [table.differences for table in found.tables if table.table == "nodes"]
    [()]
    """
    request = make_request(options, path)
    with open_volumes(path, request) as image:
        devices, view = image.bytes(), views_of(image, request)

        def compared() -> list[TableVerdict]:
            return [verdict for layout in image.layouts for verdict in compare_nodes(layout, view(layout))]

        with reporting(request["progress"]):
            verdicts = around_failures(devices, compared)
    outside = sum(finding.level == "error" for finding in image.findings)
    return Verification(image.about.name, tuple(verdicts), outside + sum(item.num_errors for item in image.layouts))


def compare_nodes(layout: VolumeLayout, view: View) -> Iterator[TableVerdict]:
    """Compare the nodes of a layout, and the records of each tree, with what the grammars make of their bytes."""
    nodes = layout.columns("nodes")
    has_records = nodes["kind"].equals("leaf") | nodes["kind"].equals("index") | nodes["kind"].equals("header")
    rows = nodes.take(has_records & ~nodes["condition"].equals("unread")).rows()
    num_records: Counter[str] = Counter(dict.fromkeys(sorted({str(row["tree"]) for row in rows}), 0))
    wrong: dict[str, list[str]] = {tree: [] for tree in num_records}
    different: list[str] = []
    for row in each(rows, "parsing nodes through the grammars"):
        tree, place = str(row["tree"]), f"{row['tree']}:{row['node_id']} at byte {row['image_offset']:,}"
        data = b"".join(view.read(row, piece) for piece in parts_of_node(layout, row))
        count, found = view.compare_node(data, tree)
        num_records[tree] += count
        wrong[tree] += [f"{place}, {item}" for item in found]
        if row["condition"] == "sound" and row["kind"] != "header" and count != row["num_records"]:
            different.append(f"{place}: {row['num_records']} records in the table, {count} in the node")
    name = volume_name(layout)
    yield TableVerdict(name, "nodes", len(rows), _shorten(different))
    for tree, count in num_records.items():
        yield TableVerdict(name, tree, count, _shorten(wrong[tree]))


def _shorten(differences: list[str]) -> tuple[str, ...]:
    """Return the first differences, and how many follow."""
    more = len(differences) - MAX_DIFFERENCES
    return (*differences[:MAX_DIFFERENCES], *([f"and {more:,} more"] if more > 0 else []))
