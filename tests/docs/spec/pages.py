"""The tables as Markdown: one page a document, and one with the sums."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.spec import grammars
from tests.docs.spec.coverage import constant_line, line
from tests.docs.spec.documents import FORMATS, document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.docs.spec.coverage import ConstantLine, Line
    from tests.docs.spec.documents import Document, Section, Structure

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "spec-coverage"
MOST = 4
"""Modules that are named; of more there is the number."""
LETTERS = {"fixture": "f", "driver": "d", "macOS": "m"}
HEAD = "<!-- Written by python -m tests.docs.spec; edit the lists in tests/docs/spec instead. -->\n"

LEGEND = """
Every line is computed. *At* and *bytes* are the document's; a test holds the grammar's field to them
(`tests/docs/test_spec.py`), so that a field at another place fails. A size that varies has none.

- **grammar**: the field in `ksy/` by grammar, type and field; `+` where it takes several.
- **used by**: modules below `layoutscope/filesystems/{format}` or `layoutscope` that use it, by the type checker's
  word; *parsing* where a wrong value ends it; *→* where it is a structure with a table of its own; `inspect` where
  it is shown and nothing is derived from it.
- **findings**: the result of `check` on a sound image in which only this field has another value (with a correct
  checksum); *not opened* where layoutscope does not read the image any more.
- **tests**: `p` the field's place, by the test above; `d` record type and grammar read the same on random bytes
  (`tests/differential`); `t` another value changes a table or a fact, which tests compare with the plan of an image
  that was written without the reader (`tests/images`); `c` another value is a finding.
- **seen**: where it is not zero, or there at all if its size varies: `f` on fixtures, `d` on images that Linux's
  drivers, newfs_hfs or xorriso made, `m` on images that macOS made.
"""


def pages() -> dict[Path, str]:
    """Return each page's text by its path."""
    texts = {DOCS / f"{name}.md": _page(name) for name in FORMATS}
    return {DOCS / "README.md": _sums(), **texts}


def write() -> None:
    """Write the pages."""
    DOCS.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def lines(doc: Document) -> Iterator[tuple[Structure, Line]]:
    """Yield every field of a document with what is known of it."""
    return ((structure, line(structure, field)) for _, structure in doc.structures() for field in structure.fields)


SUMS = """# Coverage of the formats' documents

What of Apple's two documents is read, used, checked, tested and seen: every section, structure, field and constant has
a line, also those that are not read, with the reason. What the grammars have beyond the documents is listed at the end
of each page, with its source.

| | [{names[0]}](hfsplus.md) | [{names[1]}](apfs.md) |
|---|--:|--:|
{rows}

A changed value: the field of a sound image is given another one, and the checksum made right.
"""


def _sums() -> str:
    docs = [document(name) for name in FORMATS]
    both = [counts(doc) for doc in docs]
    rows = "\n".join(f"| {what} | " + " | ".join(f"{each[what]:,}" for each in both) + " |" for what in both[0])
    return HEAD + "\n" + SUMS.format(names=[doc.name for doc in docs], rows=rows)


def counts(doc: Document) -> dict[str, int]:
    """Count what is known of a document's fields and constants."""
    known = [each for _, each in lines(doc)]
    constants = [constant_line(each) for _, each in doc.constants()]
    return {
        "sections": len(doc.sections),
        "structures": len(list(doc.structures())),
        "fields": len(known),
        "fields that a grammar names": sum(bool(each.found) for each in known),
        "fields that a reader or a check uses, or that parsing holds": sum(
            each.is_used or bool(each.within) for each in known
        ),
        "fields that `inspect` alone shows": sum(not (each.is_used or each.within) and each.is_shown for each in known),
        "fields that nothing reads; each has its reason": sum(not each.is_read for each in known),
        "fields of which a changed value is a finding": sum(bool(each.findings) for each in known),
        "fields that hold something on an image": sum(bool(each.seen) for each in known),
        "fields that hold something on an image that macOS made": sum("macOS" in each.seen for each in known),
        "constants": len(constants),
        "constants that a grammar or the package names; the others have their reason": sum(
            bool(each.addresses or each.modules) for each in constants
        ),
    }


def _page(name: str) -> str:
    doc = document(name)
    parts = [
        HEAD,
        f"# {doc.name}\n",
        f"Edition of {doc.edition}, <{doc.url}>. [Sums](README.md).",
        LEGEND.replace("{format}", name),
    ]
    parts += [_section(doc, section, name) for section in doc.sections]
    return "\n".join([*parts, _beyond(doc)]).rstrip("\n") + "\n"


def _section(doc: Document, section: Section, name: str) -> str:
    where = f"p. {section.page}" if section.page else f"[in the document]({doc.url}#{section.anchor})"
    parts = [f"## {section.title}\n", where + _words(section) + "\n"]
    for structure in section.structures:
        parts += _structure(structure, name)
    if section.constants:
        parts += _constants([constant_line(each) for each in section.constants], name)
    return "\n".join(parts)


def _words(section: Section) -> str:
    see = ", ".join(f"`{path}`" for path in section.see)
    about = f". {section.about}" if section.about else ""
    return (
        about + (f" See {see}." if see else "") + (f". Not read: {_small(section.because)}" if section.because else "")
    )


def _small(text: str) -> str:
    return text[0].lower() + text[1:]


def _structure(structure: Structure, name: str) -> Iterator[str]:
    known = [line(structure, field) for field in structure.fields]
    size = f", {structure.size:,} bytes" if structure.size else ""
    yield f"**{structure.name}**{size}\n"
    yield "| field | at | bytes | grammar | used by | findings | tests | seen |"
    yield "|---|--:|--:|---|---|---|---|---|"
    for each in known:
        field = each.field
        row = (
            f"`{field.name}`", str(field.offset), str(field.size or ""), _addresses(each), _used(each, name),
            " ".join(f"`{code}`" if "-" in code else code for code in each.findings), _tests(each),
            "".join(LETTERS[kind] for kind in each.seen),
        )  # fmt: skip
        yield "| " + " | ".join(row) + " |"
    yield ""


def _addresses(known: Line) -> str:
    found = [each.address for each in known.found]
    parts = [f"`{found[0]}`"] if found else []
    return " + ".join([*parts, *(f"`{each.rpartition('.')[2]}`" for each in found[1:])])


def _used(known: Line, name: str) -> str:
    modules = [_short(each, name) for each in (*known.readers, *known.checkers)]
    more = f" +{len(modules) - MOST}" if len(modules) > MOST else ""
    words = [", ".join(f"`{each}`" for each in modules[:MOST]) + more] if modules else []
    if known.is_held:
        words.append("parsing")
    if known.within:
        words.append(f"→ {known.within}")
    if not words and known.is_shown:
        words.append("`inspect`")
    if known.field.because:
        words.append(f"not read: {known.field.because}" if not known.is_read else known.field.because)
    return "; ".join(words)


def _short(module: str, name: str) -> str:
    return module.removeprefix(f"layoutscope.filesystems.{name}.").removeprefix("layoutscope.")


def _tests(known: Line) -> str:
    letters = "p" if known.found else ""
    if any(each.type_name in grammars.record_types() and each.size for each in known.found):
        letters += "d"
    return letters + ("t" if known.tables else "") + ("c" if known.findings else "")


def _constants(known: Iterable[ConstantLine], name: str) -> Iterator[str]:
    yield "| constant | value | grammar | used by |"
    yield "|---|--:|---|---|"
    for each in known:
        constant, modules = each.constant, [_short(module, name) for module in each.modules]
        more = f" +{len(modules) - MOST}" if len(modules) > MOST else ""
        used = ", ".join(f"`{module}`" for module in modules[:MOST]) + more
        addresses = ", ".join(f"`{address}`" for address in dict.fromkeys(each.addresses))
        words = [word for word in (used, constant.because) if word]
        value = constant.value if isinstance(constant.value, str) else _number(constant.value)
        yield f"| `{constant.name}` | {value} | {addresses} | {'; '.join(words)} |"
    yield ""


def _number(value: int) -> str:
    return str(value) if value < 256 else hex(value)


def _beyond(doc: Document) -> str:
    rows = [f"| `{name}` | {source} |" for name, source in sorted(doc.beyond.items())]
    return "\n".join(["## Beyond the document\n", "| in the grammars | source |", "|---|---|", *rows, ""])
