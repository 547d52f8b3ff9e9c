"""The matrix of docs/reference/check-matrix.md: which faults are found in each field, or why the field is free.

A recording is a table of changes of single fields,
each with the verdict of the maker's own checker, so that neither the images nor that program are needed again:

``image``    the scenario of the writer (``fx-NAME``), or a reference image
``object``   what the field is in: the kind of an APFS object, or ``kind N`` of an HFS+ node, N being its node kind
``field``    its address
``change``   how it was changed
``at``       where, in bytes from the start of the volume; with ``sum mended`` of the whole head that has the checksum
``old, new`` the bytes, in hexadecimal
``peer``     whether the peer found it: 1 or ``found``
``codes``    what this check found, codes with blanks between them; or
``ours``     ``found`` where it found something
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fields.grammars import fields_of, types

HERE: Final = Path(__file__).parent
PEERS: Final = {"hfsplus": "fsck_hfs 627.40.1", "apfs": "apfsck 0.2.1"}
"""Formats by the prefix of their grammars, and the program whose verdicts are recorded."""

NOT_DRAWN: Final = "; not drawn"
"""Prefix of a reason that applies where no fault was planted."""

NOTHING: Final = "no fault that is found is recorded yet"
"""Text of a row that has neither codes nor a reason."""


@dataclass
class Row:
    """Faults of one field."""

    planted: int = 0
    found: int = 0
    peer: int = 0
    both: int = 0
    codes: set[str] = field(default_factory=set)


def recorded(name: str) -> list[dict[str, str]]:
    """Read the recording of a format; empty if there is none yet."""
    path = HERE / "recorded" / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(name: str) -> dict[str, Row]:
    """Gather the faults of each field."""
    rows: dict[str, Row] = defaultdict(Row)
    for fault in recorded(name):
        row = rows[fault["field"]]
        is_found, by_peer = bool(fault.get("codes") or fault.get("ours") == "found"), fault["peer"] in ("1", "found")
        row.planted += 1
        row.found += is_found
        row.peer += by_peer
        row.both += is_found and by_peer
        row.codes |= set(fault.get("codes", "").split())
    return rows


def fields(name: str) -> list[str]:
    """List the addresses of all fields of a format that are not structures themselves."""
    every = [each for kind in types() if kind.startswith(name) for each in fields_of(kind)]
    return [each.address for each in every if not each.member]


def reason(name: str, address: str) -> str:
    """Return why no fault of a field is recorded as found; empty if no reason is given."""
    known = tomllib.loads((HERE / "free.toml").read_text(encoding="utf-8")).get(name, {})
    return next((why for pattern, why in known.items() if re.fullmatch(pattern, address)), "")


def told(row: Row, why: str) -> str:
    """Describe a field whose faults have no codes; a "not drawn" :func:`reason` is ignored if faults were planted."""
    rule, drawn, _ = why.partition(NOT_DRAWN)
    if row.found:
        return f"found{'' if rule.startswith('has a rule') else ', by another rule'}; {rule}" if rule else "found"
    return f"{rule}; none of the faults drawn breaks it" if row.planted and drawn else why or NOTHING


def tables() -> str:
    """Return the tables of both formats."""
    parts = []
    for name, peer in PEERS.items():
        rows = rows_of(name)
        if not rows:
            continue
        sums = [sum(getattr(row, part) for row in rows.values()) for part in ("planted", "peer", "both", "found")]
        planted, by_peer, both, found = sums
        missed = ", ".join(f"`{address}`" for address, row in sorted(rows.items()) if row.peer > row.both) or "none"
        parts.append(
            f"## {name}\n\n{planted:,} faults; {peer} finds {by_peer:,} of them, and of these `check` {both:,} "
            f"({100 * both / by_peer:.1f} %), missed in {missed}; `check` finds {found:,} in all.\n\n"
            f"| field | planted | {peer.split()[0]} | of these `check` | `check` | codes, or why there is none |\n"
            "|---|---|---|---|---|---|"
        )
        for address in sorted({*fields(name), *rows}):
            row = rows.get(address, Row())
            codes = ", ".join(f"`{code}`" for code in sorted(row.codes))
            what = codes or told(row, reason(name, address))
            parts.append(f"| `{address}` | {row.planted} | {row.peer} | {row.both} | {row.found} | {what} |")
        parts.append("")
    return "\n".join(parts).rstrip("\n")
