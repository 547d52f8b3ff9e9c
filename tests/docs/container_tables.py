"""The table of docs/images.md: what a file may be, whether it is read, and what to do where it is not."""

from __future__ import annotations

from itertools import groupby

from layoutscope.image.signatures import FORMS, SIGNATURES, Form

CLASSIC = Form("classic HFS", "named", "its master directory block", "read it with hfsutils")
STATES = ("read", "named", "refused")


def rows() -> list[tuple[str, str, str, str]]:
    """Return name, state, recognition and advice of each; signatures of one name are one row."""
    found = [(form.name, form.state, form.recognition, form.advice) for form in (*FORMS, CLASSIC)]
    known = {form.name for form in FORMS}
    for name, same in groupby((each for each in SIGNATURES if each.name not in known), lambda each: each.name):
        each = list(same)
        library = "; needs the extra `containers`" if each[0].reader.startswith("py") else ""
        where = " or ".join(map(_recognition, each))
        found.append((name, each[0].state, where + library, "" if each[0].state == "read" else each[0].advice))
    return sorted(found, key=lambda row: STATES.index(row[1]))


def _recognition(signature) -> str:
    text = signature.magic.rstrip(b"\0")
    shown = f"`{text.decode()}`" if text.isascii() and text.decode().isprintable() else f"`{signature.magic.hex(' ')}`"
    if signature.head_offset is None:
        return f"{shown} at byte {signature.trailer_offset} of the last 512"
    return f"{shown} at byte {signature.head_offset}"


def table() -> None:
    """Write the table."""
    print("| what | state | recognised by | advice |\n|---|---|---|---|")  # noqa: T201
    for name, state, recognition, advice in rows():
        # The search of the pages would lead "image" here.
        print(f"| {name.replace(' image', '')} | {state} | {recognition} | {advice} |")  # noqa: T201
