"""Representation of objects in consoles, in one line, and in notebooks.

Results, layouts and traces hold tables with millions of rows. Their representation shows their type, their short
fields, and the lengths of the others.
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
"""Length of a representation in characters, about three lines in a console."""

MAX_VALUE: Final = 60
MAX_ITEMS: Final = 4
PLAIN: Final = (str, int, float, bool, type(None))


def describe_fields(kind: type) -> dict[str, str]:
    """Return the comments of the fields of a class by name, from the line of a field or the lines above it."""
    source = dedent(getsource(kind))
    lines = source.splitlines()
    comments_by_name = dict[str, str]()
    for item in ast.parse(source).body[0].body:  # type: ignore[attr-defined]  # it is a class
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            first = item.lineno - 1
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            comments = [*lines[first : item.lineno - 1], lines[(item.end_lineno or 0) - 1][item.end_col_offset :]]
            comments_by_name[item.target.id] = " ".join(
                text for line in comments if (text := line.strip().lstrip("# "))
            )
    return comments_by_name


class StructType(StructMeta):  # noqa: D101  (its docstring is that of each struct)
    # The metaclass of structs, so `help` and `inspect.signature` show their fields. The one of msgspec evaluates the
    # annotations, which is not possible here: they are strings with names that only type checkers import.

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # type checkers take it for a plain text
        """The docstring of a class, with a section on the fields that have comments."""
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
        # Keyword-only fields are not among those that a pattern matches by position.
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
    # Type checkers know the rules of msgspec's own class, which a frozen class may derive from.
    from msgspec import Struct as Struct  # noqa: PLC0414  (imported from here by all)
else:

    class Struct(msgspec.Struct, metaclass=StructType):
        """A record of the library."""


class Displayed:
    """An object that is shown in one line in a console, and as a table in a notebook.

    Reports draw the notebook form. Objects do not depend on reports: the library registers the function that draws
    them.
    """

    __slots__ = ()

    _html: ClassVar[Callable[[Displayed], str] | None] = None

    @staticmethod
    def draw_with(draw: Callable[[Displayed], str]) -> None:
        """Set the function that draws objects in notebooks."""
        Displayed._html = draw

    def __repr__(self) -> str:
        return brief(self)

    def _repr_html_(self) -> str | None:
        """Show the object in a notebook; None, which shows the one-line form, without a registered function."""
        return None if Displayed._html is None else Displayed._html(self)


def brief(value: object) -> str:
    """Describe an object in a line: its type, and as many of its shortened fields as fit.

    >>> from msgspec import Struct
    >>> class Shelf(Displayed, Struct):
    ...     name: str
    ...     books: tuple
    >>> Shelf("upper", ("a" * 99, Shelf("lower", ())))
    Shelf(name='upper', books=2 of str)
    """
    name, parts, remaining = type(value).__name__, list[str](), MAX_REPR
    for field in getattr(value, "__struct_fields__", ()):
        part = f"{field}={shorten(getattr(value, field))}"
        remaining -= len(part) + 2
        if remaining < 0:
            parts.append("…")
            break
        parts.append(part)
    return f"{name}({', '.join(parts)})"


def shorten(value: Any) -> str:
    """Format a value in short: simple values as they are, others by type and length."""
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
