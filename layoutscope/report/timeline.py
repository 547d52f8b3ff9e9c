"""Files with their times as mactime's body file, version 3 (wiki.sleuthkit.org, Body_file).

``MD5|name|inode|mode_as_string|UID|GID|size|atime|mtime|ctime|crtime``, times in whole seconds since 1970. mactime
takes 0 for a time that is not there, and turns ``%`` and two hexadecimal digits into a byte (``tm_split``), so that a
name may hold what separates fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.analysis.files import PERMISSIONS
from layoutscope.frames import pl
from layoutscope.report import escape_text
from layoutscope.report.tables import SLICE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def bodyfile(files: pl.DataFrame, prefix: str = "") -> Iterator[str]:
    """Yield lines of a body file, with their line ends.

    Parameters
    ----------
    files : DataFrame
        From :func:`layoutscope.analysis.files.with_stats`.
    prefix : str
        Before each path, where there are several volumes.
    """
    seconds = [pl.col(name).dt.epoch("s").fill_null(0).alias(name) for name in TIMES]
    for part in files.select(*_COLUMNS, *seconds).iter_slices(SLICE_ROWS):
        for path, number, kind, mode, user, group, size, *times in part.iter_rows():
            letter = LETTERS.get(kind, "-")
            shown = mode_text(letter, mode)
            owner = f"{_number(user)}|{_number(group)}|{_number(size)}"
            yield f"0|{field(prefix + path)}|{number}|{letter}/{shown}|{owner}|{'|'.join(map(str, times))}\n"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def field(text: str) -> str:
    r"""Write a text so that it is one field: separators as mactime reads them, unsafe characters made visible.

    Examples
    --------
    >>> field("50 % | a\nb")
    '50 %25 %7C a\\u000ab'
    """
    return escape_text(text.replace("%", "%25").replace("|", "%7C"))


def mode_text(letter: str, mode: int | None) -> str:
    """Write a mode as ``ls -l`` does; question marks where it is not known.

    Parameters
    ----------
    letter : str
        Of the kind.
    mode : int or None
        Permissions, and what else ``st_mode`` has.

    Examples
    --------
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
