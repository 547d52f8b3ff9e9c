"""``plan``: what could be done about the time that a volume takes, with what each remedy saves and costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from layoutscope.api.keywords import check_choice, takes
from layoutscope.api.outputs import check_output, open_output
from layoutscope.api.reading import make_request, nothing_to_walk, open_volumes
from layoutscope.api.workloads import choose_host
from layoutscope.drive import load_profile
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.options import PlanOptions, fill, leave_out, options_of, own_options
from layoutscope.remedies.case import LISTINGS, WITH_DATA, Case
from layoutscope.remedies.changes import file_list
from layoutscope.remedies.planning import plan_of
from layoutscope.report.filescript import file_script
from layoutscope.results.locked import how_to_open, is_locked, make_several_volumes_error
from layoutscope.results.plan import EmittedOrder, Pace, PlanResult
from layoutscope.results.scan import volume_names
from layoutscope.walk.host import HOSTS, host_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from layoutscope.options import ReadOptions
    from layoutscope.tables import VolumeLayout

ORDER: Final = options_of(PlanOptions)["order"].default
"""The work that forecasts are of."""

PLANNED: Final = (*LISTINGS, *WITH_DATA)
"""Orders that there are remedies for."""

LASTS: Final = {"lasts": "--lasts"}


@takes(PlanOptions)
def plan(path: str | os.PathLike[str], **options: Unpack[PlanOptions]) -> PlanResult:
    """Rank remedies by the time that they save.

    Parameters
    ----------
    path : path
        The image. Nothing is written to it.

    Returns
    -------
    PlanResult
        Volume by volume; one of which nothing can be listed has its reason in `untold`.

    Raises
    ------
    UsageError
        If there is no such drive, host or order, or the volume does not fit on the drive.
    LockedError
        If all of its volumes are locked.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.plan("fixtures/images/apfs-scattered.img.zst", drive="generic-7200")
    >>> found.volumes[0].helpful[0].words.name
    'solid-state'
    >>> found.remedies["remedy"][0], found.remedies["helps"][0]
    ('solid-state', True)
    """
    asked = _fill_options(options)
    profile = load_profile(os.fspath(asked["drive"]))
    with open_volumes(path, make_request(options, path)) as image:
        volumes = [layout for layout in image.layouts if layout.facts.volume is not None]
        cases = [
            Case(
                layout,
                profile,
                asked["order"],
                host_profile(choose_host(layout, asked["host"])[0]),
                asked["start_offset_bytes"],
            )
            for layout in volumes
            if len(layout.columns("entries"))
        ]
        emitted = None if asked["emit_order"] is None else _emit_order(cases, asked, image.about.name)
        untold = tuple(_explain_no_plan(layout) for layout in volumes if not len(layout.columns("entries")))
        if not cases and any(map(is_locked, volumes)):
            raise nothing_to_walk(image.layouts, image.about.name)
        pace = None if asked["lasts"] is None else _pace(path, asked, leave_out(options, own_options(PlanOptions)))
        called = volume_names(image.layouts, [case.layout for case in cases])
        volumes_planned = tuple(
            replace(plan_of(case), pace=pace, volume=name) for name, case in zip(called, cases, strict=True)
        )
        return PlanResult(image.about, volumes_planned, untold, shows_all=asked["shows_all"], emitted=emitted)


def _fill_options(options: Mapping[str, Any]) -> PlanOptions:
    """Fill in the defaults of a plan, and refuse orders that have no remedies."""
    asked = fill(PlanOptions, {name: value for name, value in options.items() if value is not None})
    if not isinstance(asked["drive"], str | os.PathLike):
        raise UsageError(f"drive: a plan takes one drive, by its name or file: this is {asked['drive']!r}")
    if asked["order"] not in PLANNED:
        meant = did_you_mean(asked["order"], PLANNED)
        raise UsageError(
            f"no remedies are known for the order {asked['order']!r}{meant}. Choose from: {', '.join(PLANNED)}"
        )
    if asked["emit_script"] is not None and asked["emit_order"] is None:
        raise UsageError("a script needs its list. Give emit_order too.", options={"emit_order": "--emit-order FILE"})
    for path in (asked["emit_order"], asked["emit_script"]):
        if path is not None:
            check_output(Path(path), force=asked["force"])
    if asked["lasts"] is not None and (asked["order"] != ORDER or asked["start_offset_bytes"]):
        raise UsageError(f"lasts is forecast for the order {ORDER} alone, from the start of the drive", options=LASTS)
    if asked["host"] is not None:
        check_choice("host", asked["host"], HOSTS)
    return asked


def _pace(path: str | os.PathLike[str], asked: PlanOptions, reading: ReadOptions) -> Pace:
    """Forecast how fast the listing becomes slower while files are replaced as usual."""
    from layoutscope.api.forecast import forecast

    cycles = asked["lasts"] or 0
    found = forecast(path, cycles=cycles, drives=os.fspath(asked["drive"]), seeds=DRAWS, host=asked["host"], **reading)
    now, then = (point.times[0].seconds.value for point in (found.points[0], found.points[-1]))
    return Pace(found.points[-1].cycle, found.share, now, then)


DRAWS: Final = 2
"""Draws of a forecast whose slope alone is wanted."""


def _emit_order(cases: Sequence[Case], asked: PlanOptions, name: str) -> EmittedOrder:
    """Write the list of all files of one volume, and the script that goes with it."""
    if len(cases) != 1:
        layouts = [case.layout for case in cases]
        raise make_several_volumes_error(layouts, name) if cases else UsageError(f"{name}: has no files to list")
    if cases[0].layout.columns("entries").texts("name").known is not None:
        raise UsageError(f"{name}: names were left out, so no list of them can be written")
    path, is_null_separated = os.fspath(asked["emit_order"] or ""), asked["is_null_separated"]
    paths, found = file_list(cases[0], asked["memory_bytes"], is_null_separated=is_null_separated, path=path)
    end = b"\0" if is_null_separated else b"\n"
    with open_output(path, force=asked["force"], holds=f"{found.files:,} files") as file:
        file.writelines(each + end for each in paths)
    if asked["emit_script"] is not None:
        script = file_script(Path(asked["emit_script"]).name, path, is_null_separated=is_null_separated)
        with open_output(asked["emit_script"], force=asked["force"], holds="a script for sh") as file:
            file.write(os.fsencode(script))
    return found


def _explain_no_plan(layout: VolumeLayout) -> str:
    """Describe why there is no plan for a volume."""
    locked = how_to_open([layout])
    if locked:
        return f"{locked}; what would help cannot be known before"
    if layout.coverage != 1 or layout.num_errors:
        return (
            f"of the volume {layout.facts.name!r} no file could be read: nothing can be planned before it is repaired"
        )
    return f"the volume {layout.facts.name!r} is empty: there is nothing to list, and nothing to save"
