"""How objects show themselves where somebody looks at them: in one line, and in a notebook.

Results, layouts and traces hold tables of millions of rows; what a console prints of them by itself is their kind, what
is short about them, and how many there are of the rest.
"""

from __future__ import annotations

import ast
from inspect import Parameter, Signature, cleandoc, getsource
from textwrap import dedent
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec import NODEFAULT, StructMeta

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REPR: Final = 240
"""Characters of a representation; logs and consoles show it in a line or three."""

MAX_VALUE: Final = 60
MAX_ITEMS: Final = 4
PLAIN: Final = (str, int, float, bool, type(None))


def describe_fields(kind: type) -> dict[str, str]:
    """Return what the comments at the fields of a class say, by name: after a field, or on the lines above it."""
    source = dedent(getsource(kind))
    lines = source.splitlines()
    found = dict[str, str]()
    for item in ast.parse(source).body[0].body:  # type: ignore[attr-defined]  # it is a class
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            first = item.lineno - 1
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            comments = [*lines[first : item.lineno - 1], lines[(item.end_lineno or 0) - 1][item.end_col_offset :]]
            found[item.target.id] = " ".join(text for line in comments if (text := line.strip().lstrip("# ")))
    return found


class StructType(StructMeta):  # noqa: D101  (its docstring is that of each struct)
    # The type of structs: `help` and `inspect.signature` show their fields. That of msgspec evaluates the annotations
    # first, which are strings here, of names that only type checkers import.

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # type checkers take it for a plain text
        """The docstring of a class, with a section of its fields where comments describe them."""
        own: str | None = vars(self).get("__doc__")
        try:
            described = {name: text for name, text in describe_fields(self).items() if text}
        except (OSError, TypeError):
            return own  # a class typed into an interpreter has no source file
        if not described or own is None:
            return own
        kinds = vars(self)["__annotations__"]
        entries = [
            f"{name} : {kinds[name]}\n    {text[0].upper()}{text[1:].removesuffix('.')}."
            for name, text in described.items()
        ]
        return "\n".join([cleandoc(own), "", "Attributes", "----------", *entries, ""])

    @property
    def __signature__(self) -> Signature:
        kinds: dict[str, str] = {}
        for base in reversed(self.__mro__):
            kinds.update(vars(base).get("__annotations__", {}))
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        padded = (NODEFAULT,) * (len(names) - len(defaults)) + tuple(defaults)
        # Fields that can only be given by name are none of those that a pattern matches by place.
        forms = dict.fromkeys(self.__match_args__, Parameter.POSITIONAL_OR_KEYWORD)
        return Signature(
            [
                Parameter(
                    name,
                    forms.get(name, Parameter.KEYWORD_ONLY),
                    annotation=kinds[name],
                    default=Parameter.empty if value is NODEFAULT else value,
                )
                for name, value in zip(names, padded, strict=True)
            ]
        )


if TYPE_CHECKING:
    # Type checkers know the rules of msgspec's own class: one that is frozen may derive from it.
    from msgspec import Struct as Struct  # noqa: PLC0414  (imported from here by all)
else:

    class Struct(msgspec.Struct, metaclass=StructType):
        """A record of the library."""


class Displayed:
    """An object of the library that people look at: short in a console, a table in a notebook.

    What is shown in a notebook is drawn by reports, which are made of such objects and of which these know nothing; the
    library says once who draws them.
    """

    __slots__ = ()

    _html: ClassVar[Callable[[Displayed], str] | None] = None

    @staticmethod
    def draw_with(draw: Callable[[Displayed], str]) -> None:
        """Describe how objects are drawn in notebooks."""
        Displayed._html = draw

    def __repr__(self) -> str:
        return brief(self)

    def _repr_html_(self) -> str | None:
        """Show the object in a notebook; None, by which the line is shown, where nobody said how."""
        return None if Displayed._html is None else Displayed._html(self)


def brief(thing: object) -> str:
    """Describe an object in a line: its kind, and as many of its fields in short as there is room for.

    >>> from msgspec import Struct
    >>> class Shelf(Displayed, Struct):
    ...     name: str
    ...     books: tuple
    >>> Shelf("upper", ("a" * 99, Shelf("lower", ())))
    Shelf(name='upper', books=2 of str)
    """
    name, parts, left = type(thing).__name__, list[str](), MAX_REPR
    for field in getattr(thing, "__struct_fields__", ()):
        part = f"{field}={shorten(getattr(thing, field))}"
        left -= len(part) + 2
        if left < 0:
            parts.append("…")
            break
        parts.append(part)
    return f"{name}({', '.join(parts)})"


def shorten(value: Any) -> str:
    """Write a value in short: plain ones as they are, of others their kind and how many they are."""
    if isinstance(value, PLAIN):
        text = repr(value)
        return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…{text[:1] * isinstance(value, str)}"
    if isinstance(value, tuple | list):
        is_short = len(value) <= MAX_ITEMS and all(isinstance(item, PLAIN) for item in value)
        text = repr(value) if is_short else ""
        if value and not 0 < len(text) <= MAX_VALUE:
            text = f"{len(value):,} of {type(value[0]).__name__}"
        return text or repr(value)
    if hasattr(value, "shape"):
        rows = value.shape[0] if value.shape else 1
        return f"{type(value).__name__} of {rows:,}"
    if hasattr(value, "__len__"):
        return f"{type(value).__name__} of {len(value):,}"
    if isinstance(value, Displayed):
        name = getattr(value, "name", "")
        return f"{type(value).__name__}({repr(name)[:MAX_VALUE] if name else '…'})"
    return repr(value)[:MAX_VALUE]
