"""Names and file numbers that ``fls -r`` (The Sleuth Kit) lists on an image."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from layoutscope.results.scan import ScanResult

LONGEST_SECONDS = 30
SECTOR_BYTES = 512
LINE = re.compile(rb"^[+ ]*[-rdlcbps]/[-rdlcbps] (?:\* )?(\d+):\t(.*)$", re.MULTILINE)
VOLUME = re.compile(rb"APSB Block Number: (\d+)")

Name = tuple[int, bytes]
"""File number and name."""


class Peer:
    """``fls`` for one image. It is given the volume starts, which a user would look up first.

    Parameters
    ----------
    result : ScanResult
        Of the sound image.
    """

    def __init__(self, result: ScanResult) -> None:
        facts = [volume.layout.facts for volume in result.parts]
        self._starts = {(item.filesystem, item.image_offset // SECTOR_BYTES) for item in facts}

    @staticmethod
    def is_there() -> bool:
        """Whether the programs are installed."""
        return all(shutil.which(program) for program in ("fls", "pstat"))

    def names(self, path: Path) -> set[Name]:
        """List an image; entries that cannot be listed are missing."""
        found: set[Name] = set()
        for filesystem, sector in self._starts:
            if filesystem == "hfsplus":
                found |= _listed(path, sector, "-f", "hfs")
                continue
            for block in VOLUME.findall(_output("pstat", "-o", str(sector), str(path))):
                found |= _listed(path, sector, "-P", "apfs", "-B", block.decode())
        return found


def _listed(path: Path, sector: int, *words: str) -> set[Name]:
    lines = LINE.findall(_output("fls", "-r", "-o", str(sector), *words, str(path)))
    return {(int(number), name.removesuffix(b" (deleted)")) for number, name in lines}


def _output(*words: str) -> bytes:
    """Return a program's output, up to the point of failure."""
    try:
        return subprocess.run(words, capture_output=True, timeout=LONGEST_SECONDS, check=False).stdout
    except subprocess.TimeoutExpired as error:
        return error.stdout or b""
