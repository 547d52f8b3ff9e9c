"""A verification as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layoutscope.results.verify import Verification


def verification_json(found: Verification) -> str:
    """Write a verification as JSON text."""
    document = {
        "schema": "layoutscope.verify/1",
        "image": found.image,
        "exit_code": found.exit_code,
        "tables": [
            {"volume": item.volume, "table": item.table, "rows": item.rows, "differences": list(item.differences)}
            for item in found.tables
        ],
    }
    return json.dumps(document, indent=2)
