"""Results rendered: as text, JSON documents, tables in files, plots and maps; nothing is worked out here.

Names from an image are hostile: what a terminal, a CSV or a JSON reader would act on is made visible. Control
characters move the cursor or change colours, bidirectional overrides show a name backwards, lone surrogates cannot be
encoded. What a spreadsheet would run is guarded where CSV is written (:mod:`layoutscope.report.tables`).
"""

from __future__ import annotations

import re
from typing import Final

UNSAFE: Final = "\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Control, format and bidirectional characters and line separators, as within the brackets of a regular expression.

Line ends are not among them, which text in quotes may have; nor lone surrogates, which no encoded text can have.
"""

_UNSAFE: Final = re.compile(f"[\n{UNSAFE}\ud800-\udfff]")


def escape_text(text: str) -> str:
    r"""Show unsafe characters as ``\u`` escapes.

    Examples
    --------
    >>> escape_text("a\x1b[31mb")
    'a\\u001b[31mb'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
