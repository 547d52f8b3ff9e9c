"""Sentences of the pages whose figures are constants of the code: a constant that changes breaks its sentence."""

from __future__ import annotations

import re
from typing import Final

from layoutscope.aging import hfsplus as writing
from layoutscope.api.forecast import VOLUMES
from layoutscope.api.trace import SURE
from layoutscope.checks.apfs.namehashes import MAX_SLOW_HASHES
from layoutscope.drive import load_profile
from layoutscope.drive.uncertain import num_draws
from layoutscope.filesystems.apfs.rescue import SEARCHED_BYTES
from layoutscope.image.signatures import SIGNATURES
from layoutscope.results import explanation
from layoutscope.results.predict import NAMED_SHARE
from layoutscope.results.verdict import ALL_OVER, DENSE, HELPS_FROM, NAMED_FROM, SLOW_FROM, WORTH_S
from layoutscope.walk.programs import SORTED_ABOVE
from tests.docs.imports import ROOT

SHARES: Final = {0.05: "a twentieth", 0.1: "a tenth", 0.25: "a quarter", 0.3: "three tenths", 0.5: "half"}
COUNTS: Final = {1.0: "a second", 3: "three", 8: "eight", 1000: "a thousand"}

SIDES: Final = ("outer", "inner")
DISK: Final = load_profile("generic-5400-2.5").figures

HELD: Final = {
    "docs/intervals.md": (
        f"{num_draws()} drives like the one that is named",
        f"{COUNTS[VOLUMES].capitalize()} volumes are made with its files",
        f"where it is {SHARES[NAMED_SHARE]} of the uncertainty or more",
    ),
    "docs/drives.md": (f"below {SURE:.0%} something is wrong".replace("%", " %"),),
    "docs/workloads.md": (
        f"above {SORTED_ABOVE:,} entries by inode number",
        f"Below {SURE:.0%} something is wrong".replace("%", " %"),
    ),
    "docs/dev/decisions/0011-witnesses.md": (
        f"these are at most {SEARCHED_BYTES >> 30} GiB",
        f"more than {COUNTS[MAX_SLOW_HASHES]} names",
    ),
    "docs/dev/decisions/0013-one-time.md": (f"are drawn {num_draws()} times",),
    "docs/images.md": (f"what the bitmaps call used, up to {SEARCHED_BYTES >> 30} GiB",),
    "docs/concepts.md": (
        f"up to {60_000 / DISK['rpm'].value:.0f} ms for a turn at {DISK['rpm'].value:,} rpm",
        "4 KiB in {:.0f} to {:.0f} us".format(*(round(4096 / DISK[f"{side}_mb_s"].value, -1) for side in SIDES)),
        f"listing all files takes {COUNTS[WORTH_S]} or more on the first drive",
        f"at most {SHARES[SLOW_FROM]} of that without one of the causes",
        f"leaves that are {writing.FILL:.0%} full".replace("%", " %"),
        f"it accounts for at least {SHARES[NAMED_FROM]} of the time",
        f"A listing of less than {COUNTS[WORTH_S]} has neither",
        f"it fills {SHARES[DENSE]} or more of the stretch that holds {explanation.SPAN_SHARE:.0%} of it".replace(
            "%", " %"
        ),
        f"with nothing between the nodes (`distance`) the listing would save less than {SHARES[NAMED_FROM]}",
        f"the listing would save {SHARES[NAMED_FROM]} or more",
        f"the stretch is {SHARES[ALL_OVER]} of the volume or more",
        f"A remedy helps if it saves {SHARES[HELPS_FROM]} or more",
    ),
}
"""Sentences, or parts of them, by the page that says them."""


def test_sentences_have_the_figures_of_the_code():
    """What the code has for a number is what its page says."""
    texts = {page: " ".join((ROOT / page).read_text(encoding="utf-8").split()) for page in HELD}
    assert [(page, each) for page, sentences in HELD.items() for each in sentences if each not in texts[page]] == []


def test_the_table_of_images_has_every_signature():
    """With what becomes of such a file, and what to do if it is not read."""
    table = (ROOT / "docs" / "images.md").read_text(encoding="utf-8").split("| what | state |")[1].split("\n\n")[0]
    rows = {cells[1]: cells[2:5] for cells in (re.split(r" ?\| ?", line) for line in table.splitlines()[2:])}
    for each in SIGNATURES:
        state, _, advice = rows[each.name.replace(" image", "")]
        is_read = each.open or each.code == "encrypted-image"  # with its password
        assert (state, advice) == (("read", "") if is_read else ("named", each.advice)), each.name
