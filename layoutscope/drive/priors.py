"""What is not known, as distributions: ``priors.toml`` read, and drawn from by numbers that are always the same.

Every input has its own column of draws, made from its name: two predictions that share an input share its draws, so
that what they have in common cancels where they are compared (common random numbers). A column is a permutation of the
middles of equal shares (a Latin hypercube).
"""

from __future__ import annotations

import hashlib
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

FILE: Final = Path(__file__).with_name("priors.toml")
NINE_IN_TEN: Final = float(np.log(19))
"""Logit of 95 %: between this and its opposite lie nine of ten draws of a logistic distribution."""


@lru_cache(maxsize=1)
def priors() -> dict[str, Any]:
    """Return the file as it stands."""
    return tomllib.loads(FILE.read_text("utf-8"))


def fingerprint() -> str:
    """Return the hash of the file: its first twelve digits of SHA-256."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()[:12]


def num_draws() -> int:
    """Return how many draws make an interval."""
    return int(priors()["draws"])


@lru_cache(maxsize=64)
def uniform(name: str, count: int = 0) -> F64:
    """Return the column of an input: shares between 0 and 1, each equally likely, in an order that its name makes."""
    count = count or num_draws()
    drawn = hashlib.shake_128(name.encode()).digest(8 * count)
    order = np.argsort(np.frombuffer(drawn, np.uint64), kind="stable")
    column = (order + 0.5) / count
    column.setflags(write=False)
    return np.asarray(column)


def factors(name: str, factor: float, count: int = 0) -> F64:
    """Draw factors of which nine in ten lie between ``1 / factor`` and `factor`."""
    share = uniform(name, count)
    return np.asarray(np.exp(np.log(share / (1 - share)) * (np.log(factor) / NINE_IN_TEN)))


def drawn(name: str, prior: Mapping[str, Any], count: int = 0) -> NDArray[Any]:
    """Draw from a range (evenly by logarithm), a span (evenly) or words (by their weights)."""
    share = uniform(name, count)
    if "range" in prior:
        low, high = np.log(prior["range"])
        return np.asarray(np.exp(low + (high - low) * share))
    if "span" in prior:
        low, high = prior["span"]
        return np.asarray(low + (high - low) * share)
    key = next(key for key in ("words", "rpm", "chunk_bytes") if key in prior)
    values = np.array(prior[key])
    weights = np.cumsum(prior.get("weights", np.full(len(values), 1 / len(values))))
    return np.asarray(values[np.minimum(np.searchsorted(weights, share, side="right"), len(values) - 1)])
