"""The grammars agree with Apple's documents: ``document-*.toml`` lists the structures, fields and constants of both."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.fields import grammars

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parents[2] / "layoutscope"
FORMATS = {"hfsplus": ("hfsplus_", "hfs_wrapper"), "apfs": ("apfs_",)}
"""Documents, and the prefixes of the grammars that they describe."""

DOCUMENTS = {
    name: tomllib.loads(Path(__file__).with_name(f"document-{name}.toml").read_text(encoding="utf-8"))
    for name in FORMATS
}


class DocField(NamedTuple):
    """A field of a structure as the document has it; a size of 0 varies."""

    structure: str
    name: str
    offset: int
    size: int
    addresses: list[str]  # its fields in the grammars, where its name does not lead to them
    also: list[str]  # where the same bytes are read through another type
    reason: str  # why it is not read

    def in_grammars(self) -> list[grammars.GrammarField]:
        """Return its fields in the grammars, in every type that is its structure."""
        if self.addresses:
            return [grammars.place(address) for address in self.addresses]
        types = grammars.named(self.structure)
        found = [each for name in types for each in grammars.fields_of(name) if each.original == self.name]
        return [each for each in found if each.member not in types]


def _of(known: dict | str, name: str) -> list[str]:
    """Return what a table or a text for all names has for one of them."""
    found = known if isinstance(known, str) else known.get(name, [])
    return [found] if isinstance(found, str) else found


def structures(document: str) -> Iterator[dict]:
    return (each for section in DOCUMENTS[document]["section"] for each in section.get("structure", ()))


def fields(document: str) -> list[DocField]:
    """List the fields of a document in its order."""
    return [
        DocField(
            each["name"], name, offset, size, _of(each.get("grammar", {}), name), _of(each.get("also", {}), name),
            "".join(_of(each.get("because", {}), name)),
        )
        for each in structures(document)
        for name, offset, size in each["fields"]
    ]  # fmt: skip


def constants(document: str) -> list[tuple[str, int | str, list[str], str]]:
    """List the constants of a document: name, value, addresses in the grammars, and the reason if there are none."""
    groups = (group for section in DOCUMENTS[document]["section"] for group in section.get("constants", ()))
    number = lambda value: int(value, 16) if isinstance(value, str) and value.startswith("0x") else value  # noqa: E731
    return [
        (name, number(value), _of(group.get("grammar", {}), name), "".join(_of(group.get("because", {}), name)))
        for group in groups
        for name, value in group["values"]
    ]


@pytest.fixture(params=FORMATS)
def document(request) -> str:
    """Return the name of a document."""
    return request.param


def test_every_field_is_where_the_document_has_it(document):
    """Offset and size are the document's; several fields that are one of the document's have its size together."""
    wrong, starts = [], {}
    for field in fields(document):
        found = [each for each in field.in_grammars() if each.address not in grammars.types()]
        for each in found[:1] if field.addresses else found:
            # A structure that the grammar has as a part of another one starts where its first field does.
            own = (each.offset or 0) - field.offset
            start = starts.setdefault((field.structure, each.type_name), own) if field.addresses else 0
            if each.offset is not None and each.offset != field.offset + start:
                wrong.append((field.structure, field.name, each))
        sizes = [each.size for each in field.in_grammars()]
        possible = {sum(size or 0 for size in sizes)} if field.addresses else set(sizes)
        if field.size and sizes and None not in sizes and field.size not in possible:
            wrong.append((field.structure, field.name, sizes))
    assert wrong == []


def test_every_field_is_in_a_grammar_or_has_a_reason(document):
    """No field of the document is missing without a word."""
    assert [each[:2] for each in fields(document) if not each.in_grammars() and not each.reason] == []


def test_fields_of_a_structure_do_not_overlap(document):
    """The lists themselves are sound: only fields that share all of their bytes start at the same place."""
    overlapping = [
        (structure["name"], after[0])
        for structure in structures(document)
        for before, after in zip(structure["fields"], structure["fields"][1:], strict=False)
        if after[1] < before[1] + before[2] and after[1] != before[1]
    ]
    assert overlapping == []


def test_constants_have_the_values_of_the_document(document):
    """A named value has the number of the document, and so has a grammar that holds the number; others have a reason.

    Texts are in the code. The document gives the numbers of some bits, of which the grammars have the masks.
    """
    wrong, code = [], "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")).lower()
    for name, value, addresses, reason in constants(document):
        if isinstance(value, str):
            wrong += [] if reason or value.lower() in code else [(name, value)]
            continue
        named = grammars.constants().get(name, ())
        masks = {value, 1 << value} if name.endswith("Bit") else {value}
        wrong += [(name, value, address) for address, number in named if number is not None and number not in masks]
        wrong += [(name, address) for address in addresses if not grammars.held(address, value)]
        if not (named or addresses or reason):
            wrong.append((name, "neither named nor explained"))
    assert wrong == []


def test_every_section_says_how_it_is_covered(document):
    """A section without structures and constants says where it is covered, or why not."""
    sections = DOCUMENTS[document]["section"]
    bare = [each for each in sections if not each.get("structure") and not each.get("constants")]
    assert [each["title"] for each in bare if not (each.get("about") or each.get("because"))] == []
    assert [path for each in sections for path in each.get("see", ()) if not (PACKAGE / path).exists()] == []


def test_what_is_in_the_grammars_alone_has_a_source(document):
    """A field of a grammar that the document does not have belongs to a type with a source of its own."""
    beyond, covered = DOCUMENTS[document]["beyond"], set()
    for field in fields(document):
        covered |= set(field.also)
        for each in field.in_grammars():
            covered.add(each.address)
            if each.address in grammars.types():
                covered |= {inner.address for inner in grammars.fields_of(each.address)}
    unknown = []
    for type_name in (name for name in grammars.types() if name.startswith(FORMATS[document])):
        own = grammars.types()[type_name].get("-orig-id")
        for field in grammars.fields_of(type_name):
            is_own_part = field.member and grammars.types().get(field.member, {}).get("-orig-id") == own
            if field.address not in covered and not is_own_part and type_name not in beyond:
                unknown.append(field.address)
    assert unknown == []
    assert set(beyond) <= set(grammars.types())


def test_grammars_lead_to_sections_that_there_are():
    """What a grammar names as its source is a section of the document, by its anchor, or by title and page."""
    anchors = {each["anchor"] for each in DOCUMENTS["hfsplus"]["section"]}
    pages = {each["title"]: f"p. {each['page']}" for each in DOCUMENTS["apfs"]["section"]}
    wrong = []
    for type_name, body in grammars.types().items():
        source = str(body.get("doc-ref", ""))
        if (anchor := re.search(r"tn1150\.html#(\w+)", source)) and anchor[1] not in anchors:
            wrong.append((type_name, anchor[1]))
        parts = source.partition("), ")[2].split(", ")
        if "Apple File System Reference (" in source and parts[-1] not in {pages.get(part) for part in parts}:
            wrong.append((type_name, source))
    assert wrong == []
