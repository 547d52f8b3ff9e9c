"""Frozen dataclasses that are quick to make, for the many that a start makes.

``dataclass(frozen=True, slots=True)`` compiles six functions for each class, a millisecond together, which for the
classes that a scan loads is a tenth of a second. Here all classes share them but for ``__init__``.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class what ``dataclass(frozen=True, slots=True)`` makes of it; fields are all of its ``__init__``."""
    written = dict(vars(cls))
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    of: tuple[Field[Any], ...] = fields(made)  # type: ignore[arg-type]  # it has just become a dataclass
    compared = _values([item.name for item in of if item.compare])
    shared: dict[str, Any] = {
        "__init__": _initializer(made, of),
        "__repr__": _shown,
        "__eq__": _equality(compared),
        "__hash__": lambda self: hash(compared(self)),
        "__setattr__": _refuse_setting,
        "__delattr__": _refuse_deleting,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    if made.__repr__ is not object.__repr__:
        shared.pop("__repr__")  # that of a base is as good
    for name, member in shared.items():
        # A class that defines equality alone has None for its hash; as with Python's decorator, it gets one.
        if written.get(name) is None:
            setattr(made, name, member)
    return made


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Make a function that lists the values of fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _initializer(made: type, of: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compile ``__init__``, which sets slots by their descriptors, since to set an attribute is refused."""
    known: dict[str, Any] = {"_missing": MISSING}
    parameters, steps = ["self"], list[str]()
    for item in sorted(of, key=lambda item: bool(item.kw_only)):
        name = value = item.name
        known[f"_set_{name}"] = getattr(made, name).__set__
        known[f"_make_{name}"], known[f"_default_{name}"] = item.default_factory, item.default
        if item.kw_only and "*" not in parameters:
            parameters.append("*")
        if item.default_factory is not MISSING:
            value = f"_make_{name}() if {name} is _missing else {name}" if item.init else f"_make_{name}()"
        parameters += [name + _preset(item)] if item.init else []
        steps.append(f" _set_{name}(self, {value})")
    steps.append(" self.__post_init__()" if hasattr(made, "__post_init__") else " return")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(steps), known)  # noqa: S102  (names of fields alone)
    function: Callable[..., None] = known["__init__"]
    function.__qualname__ = f"{made.__qualname__}.__init__"
    function.__annotations__ = {item.name: item.type for item in of if item.init} | {"return": "None"}
    return function


def _preset(item: Field[Any]) -> str:
    if item.default_factory is not MISSING:
        return "=_missing"
    return f"=_default_{item.name}" if item.default is not MISSING else ""


@recursive_repr()
def _shown(self: Any) -> str:
    shown = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
    return f"{type(self).__qualname__}({shown})"


def _equality(compared: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def equal(self: Any, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _refuse_setting(self: Any, name: str, value: object) -> None:  # noqa: ARG001  (what setting an attribute is given)
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> None:  # noqa: ARG001  (what deleting an attribute is given)
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for item, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
