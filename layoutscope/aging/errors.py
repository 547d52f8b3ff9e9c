"""What the models were off by on volumes that real drivers aged: by so much more than its draws a number may be off."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def model_errors(filesystem: str, host: str) -> Mapping[tuple[str, str], float]:
    """Return by which share of itself each number was off, by metric and subject; nothing where none was held.

    >>> model_errors("one of another package", "linux")
    {}
    """
    # No other host's volumes were there to hold forecasts against.
    if host != "linux":
        return {}
    told = json.loads(files("layoutscope.aging").joinpath("errors.json").read_text()).get(filesystem, {})
    return {(name.partition(" ")[0], name.partition(" ")[2]): share for name, share in told.items()}
