"""Figures of a campaign, by kind of structure and in total."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.losses.campaign import Judged


class Figures(NamedTuple):
    """Results of some mutants.

    Attributes
    ----------
    mutants : int
        Number of mutants.
    kept, kept_swept : float
        Share of all their entries that is still found, without and with a sweep.
    silent, silent_swept : int
        Mutants that lost entries without exit code 3, or with a coverage of 1.
    renamed, renamed_swept : int
        Entries that have another name.
    extra, extra_swept : int
        Entries that the sound image does not have.
    failures : int
        Scans that ended neither with a result nor with an error of the package.
    peer_better : int or None
        Mutants of which ``fls`` lists more; None if it was not run.
    slowest_s : float
        CPU seconds of the slowest scan.
    """

    mutants: int
    kept: float
    kept_swept: float
    silent: int
    silent_swept: int
    renamed: int
    renamed_swept: int
    extra: int
    extra_swept: int
    failures: int
    peer_better: int | None
    slowest_s: float


BEGIN, END = "<!-- figures of a campaign -->", "<!-- end of the figures -->"
HEADINGS = ("structure", "mutants", "kept %", "kept by a sweep %", "silent", "silent, swept",
            "renamed", "renamed, swept", "extra", "extra, swept",
            "failures", "fls lists more", "slowest s")  # fmt: skip


def figures(judged: Iterable[Judged]) -> Figures:
    """Sum up."""
    all_of = list(judged)
    total = sum(item.total for item in all_of) or 1
    asked = [item.peer_is_better for item in all_of if item.peer_is_better is not None]
    return Figures(
        mutants=len(all_of),
        kept=1 - sum(item.plain.lost for item in all_of) / total,
        kept_swept=1 - sum(item.swept.lost for item in all_of) / total,
        silent=sum(item.plain.is_silent for item in all_of),
        silent_swept=sum(item.swept.is_silent for item in all_of),
        renamed=sum(item.plain.renamed for item in all_of),
        renamed_swept=sum(item.swept.renamed for item in all_of),
        extra=sum(item.plain.extra for item in all_of),
        extra_swept=sum(item.swept.extra for item in all_of),
        failures=sum(bool(reading.failure) for item in all_of for reading in (item.plain, item.swept)),
        peer_better=None if not asked else sum(map(bool, asked)),
        slowest_s=max((max(item.plain.seconds, item.swept.seconds) for item in all_of), default=0),
    )


def by_structure(judged: Iterable[Judged]) -> dict[str, Figures]:
    """Group mutants with one damaged place by structure and the others together; the costliest group comes first."""
    groups: dict[str, list[Judged]] = {}
    for item in judged:
        name = item.damages[0].spot.structure if len(item.damages) == 1 else "several at once"
        groups.setdefault(name, []).append(item)
    summed = {name: figures(group) for name, group in groups.items()}
    return dict(sorted(summed.items(), key=lambda item: (item[1].kept, item[0])))


def table(judged: list[Judged]) -> str:
    """Return the figures as a Markdown table, with the sum last."""
    alone = [item for item in judged if len(item.damages) == 1]
    rows = {**by_structure(judged), "**one place**": figures(alone), "**all**": figures(judged)}
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for name, row in rows.items():
        cells = [name, *(_cell(key, value) for key, value in row._asdict().items())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(text: str, judged: list[Judged], seed: int) -> str:
    """Insert the figures into a page, between its two marks.

    Parameters
    ----------
    text : str
        The page.
    judged : list of Judged
        The campaign.
    seed : int
        Of the campaign.
    """
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    asked = "" if figures(judged).peer_better is None else " --fls"
    command = f"python -m tests.losses --seed {seed} --count {len(judged)}{asked} --told"
    return f"{before}{BEGIN}\n`{command}`\n\n{table(judged)}\n{END}{after}"


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return ""
    if key.startswith("kept"):
        return f"{100 * value:.2f}"
    return f"{value:.2f}" if key == "slowest_s" else str(value)


def tell(item: Judged) -> None:
    """Print a mutant as a JSON line if it lost entries silently, failed, or ``fls`` lists more of it."""
    for way, reading in (("plain", item.plain), ("sweep", item.swept)):
        is_worse = way == "plain" and bool(item.peer_is_better)
        if reading.is_silent or reading.failure or is_worse:
            told = {
                "image": item.image, "number": item.number, "way": way, "exit": reading.exit_code,
                "coverage": reading.coverage, "lost": reading.lost, "of": item.total, "renamed": reading.renamed,
                "extra": reading.extra, "failure": reading.failure, "fls lists more": is_worse,
                "damage": [f"{done.kind}{' mended' * done.is_mended}: {done.spot.structure} at {done.at}"
                           for done in item.damages],
            }  # fmt: skip
            print(json.dumps(told), flush=True)  # noqa: T201
