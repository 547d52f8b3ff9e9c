"""Results as JSON documents, each with the name and the version of its form.

The document of a result of ``layoutscope.results.NAME`` is built by the module of that name here.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layoutscope.results import Shown


def result_document(result: Shown) -> dict[str, Any]:
    """Build the document of a result."""
    kind = type(result)
    family = import_module(f"{__name__}.{kind.__module__.rpartition('.')[2]}")
    document: dict[str, Any] = family.DOCUMENTS[kind](result)
    return document


def result_json(result: Shown) -> str:
    """Write the document of a result as JSON text; ASCII, so that no name can act on a terminal."""
    return json.dumps(result_document(result), indent=2, allow_nan=False)
