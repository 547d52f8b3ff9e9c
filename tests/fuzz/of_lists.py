"""Lists given with an image: paths to visit, offsets to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fuzz.base import Base, base_of
from tests.fuzz.of_captures import capture

if TYPE_CHECKING:
    from pathlib import Path

_PATHS = b"/\n/folder 000\n/folder 001/file 0001\nfile\n//\n/../..\n/nothing/here\n"
_OFFSETS = b"0\n1,4096\n2 8192\n3;12288\n100\n"


def bases() -> tuple[Base, ...]:
    """Return one list of each kind."""
    return base_of("paths", _PATHS, is_text=True), base_of("offsets", _OFFSETS, is_text=True)


def run(path: Path, base: Base) -> int:
    """Visit or read the items of the list."""
    from layoutscope import predict
    from layoutscope.cli.options import read_lines, read_offsets
    from layoutscope.errors import UsageError

    workload: dict[str, Any] = {"order": "paths", "paths": read_lines(path)}
    if base.name == "offsets":
        workload = {"order": "read", "file": _file(), "offsets": read_offsets(path)}
    try:
        predict(capture(), drives=("generic-7200",), workload=workload)
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1
    return 0


def _file() -> str:
    from layoutscope import open as open_session

    with open_session(capture()) as session:
        layout = session.volumes[1]
    files = layout.entries.filter(kind="file", parent_id=2)
    return f"/{files['name'][0]}"
