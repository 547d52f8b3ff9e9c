"""Fetches the reference images and traces that are not in the checkout, and compares them with their checksums.

::

    python -m tests.fetch --from https://host/folder    # or --from /path/to/folder
    python -m tests.fetch --list

The images were made by the HFS+ and APFS drivers of Linux; fixtures/images/README.md describes them. A server offers
the files under the names that ``reference.sha256`` lists. Complete files are not fetched again. The set has no public
address yet. Images made by macOS belong to third parties and are not part of it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import urllib.request
from pathlib import Path
from urllib.parse import quote

from tests.conftest import cache_dir

CHECKSUMS = Path(__file__).with_name("reference.sha256")


def read_checksums() -> dict[str, str]:
    """Return the SHA-256 of each file of the set, by name."""
    lines = CHECKSUMS.read_text("ascii").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(name: str, digest: str, server: str, folder: Path) -> str:
    """Fetch a file, unless it is there; return what happened, or raise ValueError where the checksum differs."""
    target = folder / name
    if target.exists() and sha256(target) == digest:
        return "complete"
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    address = f"{server.rstrip('/')}/{quote(name)}"
    with urllib.request.urlopen(address, timeout=60) as answer, part.open("wb") as file:  # noqa: S310 - as asked for
        while block := answer.read(1 << 20):
            file.write(block)
    if (found := sha256(part)) != digest:
        part.unlink()
        raise ValueError(f"checksum differs: expected {digest}, found {found}")
    part.replace(target)
    return "fetched"


def main(words: list[str] | None = None) -> int:
    """Fetch what is missing, or list the set."""
    parser = argparse.ArgumentParser(prog="python -m tests.fetch", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", dest="server", metavar="URL", help="address or folder that has the files")
    parser.add_argument("--to", type=Path, default=cache_dir() / "reference", help="default: %(default)s")
    parser.add_argument("--list", action="store_true", help="list the files and which of them are complete")
    options = parser.parse_args(words)
    files = read_checksums()
    if options.list:
        for name, digest in files.items():
            path = options.to / name
            print("complete" if path.exists() and sha256(path) == digest else "missing ", name)
        return 0
    if options.server is None:
        parser.error("the set has no public address yet: pass --from URL or --from FOLDER")
    server = Path(options.server).resolve().as_uri() if Path(options.server).is_dir() else options.server
    failed = 0
    for name, digest in files.items():
        try:
            print(fetch(name, digest, server, options.to), name)
        except (OSError, ValueError) as error:
            failed += 1
            print(f"error: {name}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
