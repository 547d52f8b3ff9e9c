"""Recomputes all evidence: ``python -m tests.validation.evidence`` writes ``results/*.json`` for docs/evidence.md.

``python -m tests.validation.evidence witnesses`` (or ``reference``, ``ager``) does one part. Afterwards
``python -m cogapp -P -r README.md docs/*.md``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.conftest import cache_dir, shared_dir
from tests.validation import ager, reference, witnesses
from tests.validation.disksim import Witness
from tests.validation.traces import Traces

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("ager", "witnesses", "reference")


def part(name: str, folder: Path) -> dict[str, Any]:
    """Compute the results of one part."""
    images = Traces(folder, lambda image: cache_dir() / image)
    if name == "ager":
        return {"rows": ager.comparison(images)}
    if name == "witnesses":
        return witnesses.collect(images, Witness(folder))
    return reference.collect(images)


def main(arguments: list[str]) -> None:
    """Write the requested parts."""
    folder = shared_dir()
    if folder is None:
        sys.exit("the reference images (../shared) are absent")
    unknown = sorted(set(arguments) - set(PARTS))
    if unknown:
        sys.exit(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    for name in arguments or PARTS:
        reference.save(name, part(name, folder))


if __name__ == "__main__":
    main(sys.argv[1:])
