"""The article's experiment under each assumption that the article leaves open: ``results/article.json``.

``python -m tests.validation.article`` ages the article's million files as each `Story` assumes, and predicts what its
tool would have measured. Nothing is fitted, but the stories were chosen with the article's four times in view. Drive
and computer parameters that a story does not fix are drawn, as for every prediction.

Measurement: "An analysis of APFS enumeration performance on rotational hard drives" (2019).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec.structs
import numpy as np

from fixtures.fileset import FileSet
from layoutscope.drive import load_profile, service
from layoutscope.drive.simulation import Part, draw_seconds
from layoutscope.drive.uncertain import Host, num_draws, quantiles, uncertain
from layoutscope.walk import trace
from tests.validation.plans import MACOS_APFS, MACOS_HFSPLUS, aging
from tests.validation.reference import ENCLOSURE, HALF_BYTES, save

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fixtures.fileset import CreationOrder
    from layoutscope.access.trace import AccessTrace

AGES: Final = (0, 5, 10, 20)
MEASURED: Final = {"hfsplus": ((20, 27),) * 4, "apfs": ((75, 85), None, (290, 310), (300, 380))}
"""Seconds at each age, as ranges; "about" means 5 % or 10 s. For 5 cycles the article only says that the increase is
linear."""
KEEP_ALL: Final = max(AGES)
FILES: Final = 1_000_000
ONE_DISK: Final = "wd-mybook-duo-disk"


class Story(NamedTuple):
    """Assumptions about what the article leaves open."""

    creation: CreationOrder  # in which order files were created and replaced
    case: str  # `mirror` or `stripe`
    on_arrival: str = "none"  # what the drive buffers of the data that pass under the head before the wanted sector
    merge_share: float = MACOS_APFS.policy.merge_share  # of APFS leaves
    snapshots: int = KEEP_ALL  # for how many cycles snapshots hold replaced files
    temporary_names: bool = True  # whether files are replaced under a temporary name in their folder, or deleted first


STORIES: Final = (
    Story("alphabetical", "stripe"),
    Story("alphabetical", "mirror"),
    Story("hash", "stripe", merge_share=0.97),
    Story("hash", "mirror", merge_share=0.97),
    Story("hash", "mirror", merge_share=0.97, snapshots=3),
    Story("hash", "mirror", merge_share=0.97, snapshots=0),
    Story("hash", "mirror", merge_share=0.97, temporary_names=False),
    Story("alphabetical", "mirror", on_arrival="track"),
    Story("alphabetical", "mirror", on_arrival="track", temporary_names=False),
    Story("hash", "mirror", on_arrival="track", merge_share=0.97),
    Story("hash", "mirror", on_arrival="track", merge_share=0.97, temporary_names=False),
)


def walks(filesystem: str, story: Story, files: int = FILES) -> Iterator[AccessTrace]:
    """Age the files as a story assumes, and walk them at each age.

    The first free blocks are reused: with next-fit, keeping snapshots would change nothing, but the article saw that it
    does.
    """
    placement = MACOS_HFSPLUS if filesystem == "hfsplus" else MACOS_APFS
    if filesystem == "apfs":
        policy = replace(placement.policy, next_fit=False, merge_share=story.merge_share)
        placement = replace(placement, policy=policy)
    file_set, names = FileSet(files=files, order=story.creation), story.temporary_names
    for layout in aging(file_set, placement, AGES, keep_cycles=story.snapshots, has_temporary_names=names):
        yield trace(layout, order="fts", host="macos")


def predicted(reads: AccessTrace, story: Story) -> list[float]:
    """Predict seconds on drives like the article's under a story: 5 %, median, 95 %, over both halves."""
    profile = load_profile(ENCLOSURE)
    unknown = uncertain(profile, Host("macos"))
    settled = {"mirror": story.case == "mirror", "on_arrival": story.on_arrival}
    choice = {name: np.full_like(values, settled.get(name, values)) for name, values in unknown.choice.items()}
    unknown = msgspec.structs.replace(unknown, choice=choice)
    halves = [
        draw_seconds(
            Part(reads, profile, start_offset_bytes=start), unknown, numbers=np.arange(half, num_draws(), 2)
        ).seconds
        for half, start in enumerate((0, HALF_BYTES))
    ]
    return [float(value) for value in quantiles(np.concatenate(halves), (0.05, 0.5, 0.95))]


def verdict(story: Story, rows: dict[str, list[list[float]]]) -> dict[str, float]:
    """Return the factors by which a story's medians miss measurements that lie outside their ranges.

    The article's times are those of the simulation in which all snapshots were kept.
    """
    missed: dict[str, float] = {}
    if story.snapshots != KEEP_ALL:
        return missed
    for filesystem, ages in rows.items():
        for age, (low, median, high), measured in zip(AGES, ages, MEASURED[filesystem], strict=True):
            if measured is not None and not (low <= measured[1] and high >= measured[0]):
                missed[f"{filesystem} {age}"] = median / measured[0 if median < measured[0] else 1]
    return missed


def collect(files: int = FILES) -> dict[str, Any]:
    """Predict every story; stories that differ only in the drive share their workloads."""
    made: dict[tuple[str, Story], list[AccessTrace]] = {}
    told = []
    for story in STORIES:
        rows, waited = {}, {}
        for filesystem in MEASURED:
            plan = story._replace(case="", on_arrival="none")
            if filesystem == "hfsplus":
                plan = Story(story.creation, "", temporary_names=story.temporary_names)
            if (filesystem, plan) not in made:
                made[filesystem, plan] = list(walks(filesystem, plan, files))
            rows[filesystem] = [predicted(reads, story) for reads in made[filesystem, plan]]
            drive = load_profile(ENCLOSURE if story.case == "stripe" else ONE_DISK)
            served = [service(reads, drive) for reads in made[filesystem, plan]]
            waited[filesystem] = [[each.seek_s, each.rotation_s] for each in served]
        told.append({**story._asdict(), **rows, "missed": verdict(story, rows), "seek_and_rotation_s": waited})
        print(told[-1], file=sys.stderr)  # noqa: T201
    return {"stories": told}


if __name__ == "__main__":
    save("article", collect())
