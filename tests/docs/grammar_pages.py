"""Writes ``docs/reference/grammars``: a page a grammar, with every type, field and value, from the texts of ``ksy``.

``python -m tests.docs.grammar_pages``; ``test_grammar_pages.py`` keeps them up to date.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.docs.grammar_diagrams import path_of
from tests.docs.spec.grammars import fields_of, grammars, width

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference" / "grammars"
HEAD = """\
<!-- Written by python -m tests.docs.grammar_pages; edit ksy/*.ksy instead. -->

# Grammars

Each structure of the formats is described once, in `ksy`, in the language of [Kaitai Struct](https://kaitai.io).
Parsers and the record types that read a million records at once are made from the same text, and so are these pages.
They are under CC0-1.0, so that anybody may take them; each imports at most its neighbours here. What of Apple's
documents they cover is in [the coverage](../spec-coverage/README.md).

Numbers in the column *at* are bytes from the start of the structure; where a field before it varies, there is none.
A diagram has a box for each structure with the same numbers: its place, its length, its name and its type.
`[8]` is eight times, `[n]` as often as another field says, `[…]` to the end, `?` only under a condition. An arrow leads
from a field to the structure that it is, a broken one to what a field may be. What would be too wide goes on below.

## All

| grammar | what it describes | structures | fields |
|---|---|---|---|
"""

OFFER = """
## For the public collection

Kaitai's [collection of formats](https://github.com/kaitai-io/kaitai_struct_formats) asks for a licence, a compiler that
has nothing to say, general words on the format, and its [style guide](https://doc.kaitai.io/ksy_style_guide.html). A
test (`tests/docs/test_grammar_style.py::test_keys_stand_as_the_guide_wants_them`) holds what of it a program can:
identifiers and names of files, the keys of `meta` and their order, sorted tags and cross-references, the order of
sections and of the keys of each field; others, that every structure has words and their source. The content of `xref`
was looked up in the wiki of file formats or in the collection; of APFS nothing was found there, so it has none. To
offer them, this would have to change:

- A file there describes a file from its first byte; here only `lzfse` does. The entry points in `ksy/ide` do this for
  images of HFS+ and APFS and for disks with a GPT: they would go along, and become what is opened.
- The collection has an `apm_partition_table`, a `gpt_partition_table` and an `mbr_partition_table`. `apm`, `gpt` and
  `mbr` would be proposed as changes of these, not beside them. `foreign` and `sparse_disks` describe just enough of
  others' formats to recognise them, and would stay here.
- Lines of words are up to 120 characters long here, and should be 80 there.
- Each proposal is to name a file to try it on: those in `fixtures/images`, once decompressed, are small enough.
"""


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    made = {f"{name.replace('_', '-')}.md": page(name, spec) for name, spec in grammars().items()}
    return made | {"README.md": HEAD + "".join(_row(name, spec) for name, spec in grammars().items()) + OFFER}


def _row(name: str, spec: dict[str, Any]) -> str:
    fields = sum(len(body.get("seq", ())) for body in spec.get("types", {}).values())
    title = f"[`{name}`]({name.replace('_', '-')}.md)"
    return f"| {title} | {_first(spec)} | {len(spec.get('types', {}))} | {fields} |\n"


def _first(spec: dict[str, Any]) -> str:
    return cell(str(spec.get("doc", spec["meta"].get("title", "")))).split(". ")[0].rstrip(".") + "."


def page(name: str, spec: dict[str, Any]) -> str:
    """Write the page of one grammar."""
    order = {"le": "little-endian", "be": "big-endian"}.get(str(spec["meta"].get("endian")), "of several byte orders")
    drawing = f"../../drawings/{path_of(name).name}"
    parts = [
        "<!-- Written by python -m tests.docs.grammar_pages; edit ksy/*.ksy instead. -->",
        f"# {spec['meta'].get('title', name)}",
        prose(spec),
        f"`ksy/{name}.ksy`, {order}. [All grammars](README.md)",
    ]
    parts += ["## Diagram", f"[![Structures of {name}]({drawing})]({drawing})"]
    for key, body in spec.get("types", {}).items():
        parts += structure(f"{name}.{key}", body)
    for key, values in spec.get("enums", {}).items():
        parts += [f"## Values of `{key}`", "\n".join(_values(values))]
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
        parts.append("\n".join(_fields(name, body["seq"])))
    if body.get("instances"):
        parts.append("\n".join(_instances(body["instances"])))
    return parts


def _fields(name: str, items: list[dict[str, Any]]) -> Iterator[str]:
    yield "| at | bytes | field | Apple's name | type | meaning |"
    yield "|--:|--:|---|---|---|---|"
    for item, field in zip(items, fields_of(name), strict=True):
        numbers = ("" if each is None else f"{each:,}" for each in (field.offset, field.size))
        original = f"`{field.original}`" if field.original else ""
        yield f"| {' | '.join(numbers)} | `{item['id']}` | {original} | {kind(item)} | {cell(meaning(item))} |"


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
    return cell(words + (f", if `{item['if']}`" if "if" in item else ""))


def meaning(item: dict[str, Any]) -> str:
    """Describe a field and its named values."""
    named = f" Values: `{item['enum']}`." if item.get("enum") else ""
    return escape(str(item.get("doc", "")).strip()) + named


def _instances(items: dict[str, Any]) -> Iterator[str]:
    yield "| worked out | of | meaning |"
    yield "|---|---|---|"
    for key, item in items.items():
        of = f"`{item['value']}`" if "value" in item else f"at byte `{item.get('pos')}`: {kind(item)}"
        yield f"| `{key}` | {cell(of)} | {cell(meaning(item))} |"


def _values(values: dict[Any, Any]) -> Iterator[str]:
    yield "| value | name | Apple's name | meaning |"
    yield "|--:|---|---|---|"
    for number, told in values.items():
        body = told if isinstance(told, dict) else {"id": told}
        shown = f"{int(number):#x}" if isinstance(number, int) and number > 9 else str(number)
        original = f"`{body['-orig-id']}`" if body.get("-orig-id") else ""
        yield f"| {shown} | `{body['id']}` | {original} | {cell(escape(str(body.get('doc', ''))))} |"


def escape(text: str) -> str:
    """Escape the marks of Markdown in a text of a grammar."""
    return re.sub(r"([*_<>\[\]$])", r"\\\1", text)


def cell(text: str) -> str:
    """Put a text into one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
