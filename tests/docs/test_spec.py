"""The tables of what is read of Apple's documents are those that the grammars, the lists and the measurements give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.spec import grammars, pages
from tests.docs.spec.coverage import constant_line, uses
from tests.docs.spec.documents import FORMATS, document

PACKAGE = Path(__file__).resolve().parents[2] / "layoutscope"
PREFIXES = {"hfsplus": ("hfsplus_", "hfs_wrapper"), "apfs": ("apfs_",)}
NOT_AN_OFFSET = re.compile(r"Bit$")
"""Constants that are a bit's number; the grammars have its mask."""


@pytest.fixture(params=FORMATS)
def name(request) -> str:
    """Return the name of a format."""
    return request.param


def test_pages_are_up_to_date():
    """What is committed is what ``python -m tests.docs.spec`` writes."""
    assert [path.name for path, text in pages.pages().items() if path.read_text(encoding="utf-8") != text] == []


def test_every_field_lies_where_the_document_has_it(name):
    """Offset and size of each field are the document's; where several fields are one of the document's, together."""
    wrong, starts = [], {}
    for structure, known in pages.lines(document(name)):
        field, found = known.field, [each for each in known.found if each.address not in grammars.types()]
        for each in found[:1] if field.grammar else found:
            # A structure that the grammar has as a part of another one starts where its first field does.
            start = (
                starts.setdefault((structure.name, each.type_name), (each.offset or 0) - field.offset)
                if field.grammar
                else 0
            )
            if each.offset is not None and each.offset != field.offset + start:
                wrong.append((structure.name, field.name, each))
        sizes = [each.size for each in known.found]
        possible = {sum(size or 0 for size in sizes)} if field.grammar else set(sizes)
        if field.size and sizes and None not in sizes and field.size not in possible:
            wrong.append((structure.name, field.name, sizes))
    assert wrong == []


def test_every_field_is_read_or_has_a_reason(name):
    """No field of the document is neither in a grammar nor explained, and none is neither read nor explained."""
    known = list(pages.lines(document(name)))
    assert [(s.name, each.field.name) for s, each in known if not each.found and not each.field.because] == []
    assert [(s.name, each.field.name) for s, each in known if not each.is_read and not each.field.because] == []


def test_fields_of_a_structure_follow_each_other(name):
    """The lists themselves are sound: no field overlaps the one before it, but for those that share their bytes."""
    overlapping = [
        (structure.name, after.name)
        for _, structure in document(name).structures()
        for before, after in zip(structure.fields, structure.fields[1:], strict=False)
        if after.offset < before.offset + before.size and after.offset != before.offset
    ]
    assert overlapping == []


def test_constants_have_the_values_of_the_document(name):
    """A named value has the number of the document, and a number that a field holds is in the document."""
    wrong = []
    for _, constant in document(name).constants():
        for address, number in grammars.constants_for(constant):
            masks = {constant.value, 1 << constant.value} if NOT_AN_OFFSET.search(constant.name) else {constant.value}
            if number is not None and number not in masks:
                wrong.append((constant.name, constant.value, address, number))
        wrong += [
            (constant.name, address) for address in constant.grammar if not grammars.held(address, constant.value)
        ]
    assert wrong == []


def test_every_constant_is_named_or_has_a_reason(name):
    """No constant of the document is missing without a word."""
    known = [constant_line(each) for _, each in document(name).constants()]
    assert [each.constant.name for each in known if not (each.addresses or each.modules or each.constant.because)] == []


def test_every_section_has_a_line(name):
    """A section without structures and constants has a note how and where it is covered, or why not."""
    bare = [each for each in document(name).sections if not each.structures and not each.constants]
    assert [each.title for each in bare if not (each.about or each.because)] == []
    assert [path for each in document(name).sections for path in each.see if not (PACKAGE / path).exists()] == []


def test_reasons_stand_only_where_something_is_missing(name):
    """A reason explains why something is not read, so nothing that a reader or a check uses has one."""
    known = [(structure, each) for structure, each in pages.lines(document(name)) if each.field.because]
    assert [(s.name, each.field.name) for s, each in known if each.is_used and each.found] == []


def test_everything_in_the_grammars_is_the_document_or_beyond_it(name):
    """A field of a grammar that the document does not have says where it is from."""
    doc, covered = document(name), set()
    for _, known in pages.lines(doc):
        for each in known.found:
            covered.add(each.address)
            covered |= (
                {inner.address for inner in grammars.fields_of(each.address)}
                if each.address in grammars.types()
                else set()
            )
        covered |= set(known.field.also)
    unknown = []
    for type_name in grammars.of_format(PREFIXES[name]):
        own = grammars.types()[type_name].get("-orig-id")
        for field in grammars.fields_of(type_name):
            is_own_part = field.member and grammars.types().get(field.member, {}).get("-orig-id") == own
            if field.address not in covered and not is_own_part and type_name not in doc.beyond:
                unknown.append(field.address)
    assert unknown == []
    assert set(doc.beyond) <= set(grammars.types())


def test_grammars_lead_to_sections_that_there_are():
    """What a grammar names as its source is a section of the document, by its anchor, or by title and page."""
    anchors = {each.anchor for each in document("hfsplus").sections}
    pages_of = {each.title: f"p. {each.page}" for each in document("apfs").sections}
    wrong = []
    for type_name, body in grammars.types().items():
        source = str(body.get("doc-ref", ""))
        if (anchor := re.search(r"tn1150\.html#(\w+)", source)) and anchor[1] not in anchors:
            wrong.append((type_name, anchor[1]))
        parts = source.partition("), ")[2].split(", ")
        if "Apple File System Reference (" in source and parts[-1] not in {pages_of.get(part) for part in parts}:
            wrong.append((type_name, source))
    assert wrong == []


def test_modules_that_use_fields_exist():
    """The uses of fields are from modules that still exist."""
    there = {
        f"layoutscope.{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}".removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
    }
    assert {module for modules in uses().values() for module in modules} - there == set()
