"""What differs between two folders of answers, as a short list: kinds of lines, and how often each stands there."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOWN = 160
"""Characters of a line that are shown, from a little before what is special about it."""


def compare(before: Path, after: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Compare two folders; return the files that differ, and those with each kind of line, by one line of the kind.

    Lines of a kind differ in numbers alone. Kinds of most files come first.
    """
    old_names, new_names = ({str(path.relative_to(each)) for path in each.rglob("*.txt")} for each in (before, after))
    differing, kinds, shown = list[str](), dict[str, list[str]](), dict[str, str]()
    for name in sorted(old_names | new_names):
        if name not in old_names & new_names:
            line = f"{'-' if name in old_names else '+'} (the whole output)"
            kinds.setdefault(line, []).append(name)
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
            kind = shown.setdefault(re.sub(r"[0-9a-f]{32,}|\d+(\.\d+)?(e-?\d+)?", "#", line)[:400], line)
            files = kinds.setdefault(kind, [])
            if files[-1:] != [name]:
                files.append(name)
    return differing, dict(sorted(kinds.items(), key=lambda item: -len(item[1])))


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
    for line, files in [*kinds.items()][:most]:
        images = {name.rpartition("/")[0] for name in files}
        outputs = Counter(name.rpartition("/")[2].removesuffix(".txt") for name in files)
        named = ", ".join(name for name, _ in outputs.most_common(4)) + (", …" if len(outputs) > 4 else "")
        cut = line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
        told.append(f"{cut}\n    {len(images)} images ({min(images)}), {len(outputs)} outputs ({named})")
    if len(kinds) > most:
        told.append(f"and {len(kinds) - most} more kinds of lines")
    return "\n".join(told)
