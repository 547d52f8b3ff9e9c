"""Properties of a host given by name: how a user says that a driver differs from the one that was modelled.

Names are those of :func:`~layoutscope.walk.host.property_values`; those of costs begin with the file system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.units import parse_size
from layoutscope.walk.host import changed, property_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.access.host import HostProfile

TRUTH: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

UNLIMITED: Final = ("cache_bytes", "name_cache_entries")
"""Properties that may have no limit."""


def with_properties(profile: HostProfile, given: Mapping[str, object]) -> HostProfile:
    """Return a host with some properties changed.

    Parameters
    ----------
    profile : HostProfile
        The host.
    given : mapping of str to value
        Property to its value; text is read as the kind of value that the property has: ``yes`` or ``no``, a number,
        a size such as ``128KiB``, names separated by commas, or ``unlimited``.

    Raises
    ------
    ValueError
        If there is no such property, or it does not have such values.

    Examples
    --------
    >>> from layoutscope.walk.host import LINUX, property_values
    >>> other = with_properties(LINUX, {"read_ahead_bytes": "1MiB", "apfs_looks_up_dstream": "no"})
    >>> other.read_ahead_bytes, property_values(other)["apfs_looks_up_dstream"]
    (1048576, False)
    """
    values = property_values(profile)
    for name, value in given.items():
        if name not in values:
            raise ValueError(f"no host property {name!r}; there are {', '.join(values)}")
        profile = changed(profile, name, read_value(name, value, values[name]))
    return profile


def read_value(name: str, value: object, usual: object) -> object:
    """Read the value of a property.

    Parameters
    ----------
    name : str
        The property.
    value : object
        What was given; anything but text is taken as it is.
    usual : object
        A value that it has, which tells the kind; None stands for a size.

    Raises
    ------
    ValueError
        If the property does not have such values.
    """
    if not isinstance(value, str):
        return value
    if name in UNLIMITED and value.strip().lower() == "unlimited":
        return None
    try:
        return _read(value, usual)
    except (KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {value!r} is no {_kind(usual)}") from error


def _read(text: str, usual: object) -> object:
    if isinstance(usual, bool):
        return TRUTH[text.strip().lower()]
    if isinstance(usual, float):
        return _positive(float(text))
    if isinstance(usual, tuple):
        return tuple(filter(None, text.split(",")))
    return int(_positive(parse_size(text)))


def _positive(number: float) -> float:
    if not 0 <= number < float("inf"):
        raise ValueError(number)
    return number


def _kind(usual: object) -> str:
    if isinstance(usual, bool):
        return "yes or no"
    return "number" if isinstance(usual, float) else "number or size"
