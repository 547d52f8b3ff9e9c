"""Members of the objects in a capture's manifest, and their types; a stranger may have written it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from layoutscope.tables.layout import TreeFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST_TYPES: Final = {"format": str, "made_by": str, "image": dict, "findings": list, "volumes": list}
TREE_TYPES: Final = {item.name: str if item.name == "tree" else int for item in fields(TreeFacts)}
FACT_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("filesystem", "variant", "name", "uuid", "view"), str),
    **dict.fromkeys(("image_offset", "size_bytes", "block_size_bytes", "stamp"), int),
    **dict.fromkeys(("num_files", "num_directories", "metadata_known_bytes", "metadata_read_bytes"), int),
    "num_missing_entries": int,
    "volume": (int, type(None)),
    "stack": list,
    "case_sensitive": bool,
    "features": list,
    "details": dict,
    "trees": list,
}
"""Members of the manifest's objects, and their types."""


def check_values(what: str, values: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Check the members of a JSON object: those that are asked for and no others, each of its type."""
    if not isinstance(values, dict) or set(values) != set(types):
        raise ValueError(f"{what} has not the members of this version")
    for name, kind in types.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # In Python True is an int, too.
        if not isinstance(values[name], kinds) or (isinstance(values[name], bool) and bool not in kinds):
            raise ValueError(f"{what}.{name} is of the wrong type")
        if isinstance(values[name], int) and not 0 <= values[name] < 2**64:
            raise ValueError(f"{what}.{name} is negative or too large")
