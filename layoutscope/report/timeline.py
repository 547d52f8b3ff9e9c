"""Files with their times as mactime's body file, version 3 (wiki.sleuthkit.org, Body_file).

``MD5|name|inode|mode_as_string|UID|GID|size|atime|mtime|ctime|crtime``, times in whole seconds since 1970. mactime
takes 0 for a time that is not there, and turns ``%`` and two hexadecimal digits into a byte (``tm_split``), so that a
name may hold what separates fields.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from layoutscope.analysis.files import PERMISSIONS
from layoutscope.report import escape_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LETTERS: Final = {
    "file": "r",
    "directory": "d",
    "symlink": "l",
    "fifo": "p",
    "socket": "s",
    "char-device": "c",
    "block-device": "b",
    "whiteout": "w",
}
"""The letter of each kind, as sleuthkit has them; of any other kind ``-``."""

TIMES: Final = ("access_time", "modify_time", "change_time", "create_time")
_COLUMNS: Final = ("path", "file_id", "kind", "mode", "user_id", "group_id", "size_bytes")
_BITS: Final = "rwxrwxrwx"
_SPECIAL: Final = ((0o4000, 2, "sS"), (0o2000, 5, "sS"), (0o1000, 8, "tT"))
"""Bits that change the letter of another: set-user-id, set-group-id, sticky; with that bit and without it."""


def bodyfile(files: Iterable[dict[str, Any]], prefix: str = "") -> Iterator[str]:
    """Yield lines of a body file, with their line ends."""
    for row in files:
        path, number, kind, mode, *owner = (row[name] for name in _COLUMNS)
        letter = LETTERS.get(kind, "-")
        what = f"{letter}/{mode_text(letter, mode)}"
        numbers = "|".join([*map(_number, owner), *(str(_seconds(row[name])) for name in TIMES)])
        # What cannot be reached from the root begins with a number, without a slash.
        whole = f"{prefix}/{path.removeprefix('/')}" if prefix else path
        yield f"0|{field(whole)}|{number}|{what}|{numbers}\n"


def _seconds(time: datetime | None) -> int:
    return 0 if time is None else (time - _EPOCH) // timedelta(seconds=1)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def field(text: str) -> str:
    r"""Write a text so that it is one field: separators as mactime reads them, unsafe characters made visible.

    >>> field("50 % | a\nb")
    '50 %25 %7C a\\u000ab'
    """
    return escape_text(text.replace("%", "%25").replace("|", "%7C"))


def mode_text(letter: str, mode: int | None) -> str:
    """Write a mode as ``ls -l`` does; question marks where it is not known.

    >>> mode_text("r", 0o104750)
    'rrwsr-x---'
    """
    if mode is None:
        return letter + "?" * len(_BITS)
    bits = mode & PERMISSIONS
    shown = [sign if bits >> (8 - place) & 1 else "-" for place, sign in enumerate(_BITS)]
    for bit, place, (with_x, without_x) in _SPECIAL:
        if bits & bit:
            shown[place] = with_x if shown[place] == "x" else without_x
    return letter + "".join(shown)
