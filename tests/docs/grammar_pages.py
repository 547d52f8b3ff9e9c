"""A page for each grammar, with every type, field and value, from the texts of ``ksy``."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.markdown import table
from tests.fields.grammars import fields_of, grammars, width


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    return {f"{name.replace('_', '-')}.md": page(name, spec) for name, spec in grammars().items()}


def overview() -> str:
    """Return a row for each grammar."""
    rows = []
    for name, spec in grammars().items():
        types = spec.get("types", {})
        fields = sum(len(body.get("seq", ())) for body in types.values())
        rows.append((f"[`{name}`]({name.replace('_', '-')}.md)", _first(spec), len(types), fields))
    return table("grammar | what it describes | structures | fields", rows)


def _first(spec: dict[str, Any]) -> str:
    return _line(str(spec.get("doc", spec["meta"].get("title", "")))).split(". ")[0].rstrip(".") + "."


def page(name: str, spec: dict[str, Any]) -> str:
    """Write the page of one grammar."""
    order = {"le": "little-endian", "be": "big-endian"}.get(str(spec["meta"].get("endian")), "of several byte orders")
    parts = [
        f"# {spec['meta'].get('title', name)}",
        prose(spec),
        f"`ksy/{name}.ksy`, {order}. [All grammars](README.md)",
    ]
    for key, body in spec.get("types", {}).items():
        parts += structure(f"{name}.{key}", body)
    for key, values in spec.get("enums", {}).items():
        parts += [f"## Values of `{key}`", _values(values)]
    return "\n\n".join(part for part in parts if part) + "\n"


def prose(body: dict[str, Any]) -> str:
    """Return a text and its source."""
    references = body.get("doc-ref", ())
    links = [_link(each) for each in ([references] if isinstance(references, str) else references)]
    return "\n\n".join(filter(None, [escape(str(body.get("doc", "")).strip()), " · ".join(links)]))


def _link(reference: str) -> str:
    address, _, words = str(reference).partition(" ")
    return f"[{words or address}]({address})" if address.startswith("http") else escape(str(reference))


def structure(name: str, body: dict[str, Any]) -> list[str]:
    """Write a structure: its fields, and what is worked out of them."""
    original = f", Apple's `{body['-orig-id']}`" if body.get("-orig-id") else ""
    size = width(name)
    bytes_ = "" if size is None else f", {size:,} bytes"
    parts = [f"## `{name.partition('.')[2]}`", f"{name}{original}{bytes_}.", prose(body)]
    if body.get("seq"):
        parts.append(_fields(name, body["seq"]))
    if body.get("instances"):
        parts.append(_instances(body["instances"]))
    return parts


def _fields(name: str, items: list[dict[str, Any]]) -> str:
    rows = []
    for item, field in zip(items, fields_of(name), strict=True):
        numbers = ("" if each is None else f"{each:,}" for each in (field.offset, field.size))
        original = f"`{field.original}`" if field.original else ""
        rows.append((*numbers, f"`{item['id']}`", original, kind(item), _line(meaning(item))))
    return table("at | bytes | field | Apple's name | type | meaning", rows)


def kind(item: dict[str, Any]) -> str:
    """Describe the type of a field, how often it is there, and when."""
    kind = item.get("type")
    switched = isinstance(kind, dict)
    words = f"as `{kind['switch-on']}` says" if switched else f"`{kind}`" if kind else "bytes"
    if "contents" in item:
        words = "constant"
    if item.get("repeat"):
        words += {"eos": ", to the end", "until": ", until the last"}.get(
            item["repeat"], f", {item.get('repeat-expr')} times"
        )
    return _line(words + (f", if `{item['if']}`" if "if" in item else ""))


def meaning(item: dict[str, Any]) -> str:
    """Describe a field and its named values."""
    named = f" Values: `{item['enum']}`." if item.get("enum") else ""
    return escape(str(item.get("doc", "")).strip()) + named


def _instances(items: dict[str, Any]) -> str:
    rows = []
    for key, item in items.items():
        of = f"`{item['value']}`" if "value" in item else f"at byte `{item.get('pos')}`: {kind(item)}"
        rows.append((f"`{key}`", _line(of), _line(meaning(item))))
    return table("worked out | of | meaning", rows)


def _values(values: dict[Any, Any]) -> str:
    rows = []
    for number, told in values.items():
        body = told if isinstance(told, dict) else {"id": told}
        shown = f"{int(number):#x}" if isinstance(number, int) and number > 9 else str(number)
        original = f"`{body['-orig-id']}`" if body.get("-orig-id") else ""
        rows.append((shown, f"`{body['id']}`", original, _line(escape(str(body.get("doc", ""))))))
    return table("value | name | Apple's name | meaning", rows)


def escape(text: str) -> str:
    """Escape the marks of Markdown in a text of a grammar."""
    return re.sub(r"([*_<>\[\]$])", r"\\\1", text)


def _line(text: str) -> str:
    return " ".join(text.split())
