"""Rendering of results as text, JSON documents, files with tables, plots and maps; nothing is computed here.

Names from an image are not trusted. Characters that a terminal, a CSV or a JSON reader would act on are escaped:
control characters move the cursor or change colours, bidirectional overrides reverse a name, and lone surrogates cannot
be encoded. Formulas for spreadsheets are guarded where CSV is written (:mod:`layoutscope.report.tables`).
"""

from __future__ import annotations

import re
from typing import Final

_FORMAT: Final = (
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Category Cf of Unicode 16.0: mostly invisible characters that reorder text, or join and separate letters."""

_IGNORABLE: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
)
"""Other characters with Default_Ignorable_Code_Point in Unicode 16.0: fillers, variation selectors, tags, reserved."""

UNSAFE: Final = f"\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029{_FORMAT}{_IGNORABLE}"
"""Characters that are invisible or move others, for use within the brackets of a regular expression.

They are the categories Cc, Cf, Zl and Zp, and the default ignorable characters.

Not included are line ends, which quoted text may have, lone surrogates, which encoded text cannot have, and visible
characters for private use, such as Apple's logo.
"""

_UNSAFE: Final = re.compile(f"[\n{UNSAFE}\ud800-\udfff]")


def escape_text(text: str) -> str:
    r"""Escape unsafe characters as ``\u``, or ``\U`` beyond the first 65,536.

    >>> escape_text("a\x1b[31mb"), escape_text("\U000e0041")
    ('a\\u001b[31mb', '\\U000e0041')
    """
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # as Python writes them, in 4 or 8 digits
