"""What differs between two folders of answers, as a short list: kinds of lines, and how often each stands there."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOWN = 160
"""Characters of a line that are shown, from a little before what is special about it."""


@dataclass(slots=True)
class Kind:
    """Lines that differ in numbers alone, in one folder and not in the other.

    Parameters
    ----------
    line : str
        One of them.
    files : list of str
        Files that have it.
    """

    line: str
    files: list[str] = field(default_factory=list)


def compare(before: Path, after: Path) -> tuple[list[str], dict[str, Kind]]:
    """Compare two folders; return the files that differ, and the kinds of lines, those of most files first."""
    old_names, new_names = ({str(path.relative_to(each)) for path in each.rglob("*.txt")} for each in (before, after))
    differing, kinds = list[str](), dict[str, Kind]()
    for name in sorted(old_names | new_names):
        if name not in old_names & new_names:
            line = f"{'-' if name in old_names else '+'} (the whole output)"
            kinds.setdefault(line, Kind(line)).files.append(name)
            differing.append(name)
            continue
        old, new = ((each / name).read_text(errors="surrogateescape") for each in (before, after))
        if old == new:
            continue
        differing.append(name)
        had, has = (Counter(parts(text)) for text in (old, new))
        gone, come = had - has, has - had
        lines = [*(f"- {line}" for line in gone), *(f"+ {line}" for line in come)] or [
            "! the order of lines, or what is around them"
        ]
        for line in lines:
            kind = kinds.setdefault(re.sub(r"[0-9a-f]{32,}|\d+(\.\d+)?(e-?\d+)?", "#", line)[:400], Kind(line))
            if kind.files[-1:] != [name]:
                kind.files.append(name)
    return differing, dict(sorted(kinds.items(), key=lambda item: -len(item[1].files)))


def parts(text: str) -> Iterator[str]:
    """Split an output into what is compared: lines without what is around them, of rows in JSON the fields."""
    for line in text.split("\n"):
        bare = line.strip().removesuffix(",")
        try:
            row = json.loads(bare) if bare.startswith("{") and bare.endswith("}") else None
        except ValueError:
            row = None
        if row:
            yield from (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in row.items())
        else:
            yield bare


def report(before: Path, after: Path, most: int = 60) -> str:
    """List what differs, one kind of line a line."""
    differing, kinds = compare(before, after)
    if not differing:
        return "no difference"
    told = [f"{len(differing)} files differ, {len(kinds)} kinds of lines"]
    for kind in list(kinds.values())[:most]:
        images = {name.rpartition("/")[0] for name in kind.files}
        outputs = Counter(name.rpartition("/")[2].removesuffix(".txt") for name in kind.files)
        named = ", ".join(name for name, _ in outputs.most_common(4)) + (", …" if len(outputs) > 4 else "")
        line = kind.line if len(kind.line) <= SHOWN else f"{kind.line[:SHOWN]}…"
        told.append(f"{line}\n    {len(images)} images ({min(images)}), {len(outputs)} outputs ({named})")
    if len(kinds) > most:
        told.append(f"and {len(kinds) - most} more kinds of lines")
    return "\n".join(told)
