"""The text of the tutorial agrees with its screens; the tests of the README keep these up to date."""

from __future__ import annotations

import re

import pytest

from layoutscope.drive.uncertain import QUANTILES
from tests.docs.imports import ROOT

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
TIME = r"([\d.]+) (us|ms|s)\b"


def screen(words: str) -> str:
    """Return the screen of the command that begins so."""
    return TEXT.split(f"$ layoutscope {words}", 1)[1].split("```")[0]


def seconds(pattern: str, text: str) -> float:
    """Return a time on a screen; an at sign in the pattern stands for it."""
    found = re.search(pattern.replace("@", TIME), text)
    assert found is not None, pattern
    return float(found[1]) * UNITS[found[2]]


def test_sentences_on_the_screens_are_true():
    """The disk is small, no folder stands out, APFS takes longer on disks and hardly on flash, causes overlap."""
    assert "APFS volume of 256 MiB" in TEXT
    assert "256 MiB" in screen("scan").splitlines()[1]
    assert "nine in ten" in TEXT
    assert QUANTILES[-1] - QUANTILES[0] == pytest.approx(0.9)
    shares = [float(share) for share in re.findall(r"([\d.]+) %$", screen("predict"), re.MULTILINE)]
    assert (len(shares), max(shares) < 5) == (10, True)
    ratios = dict(re.findall(r"^([\w.-]+) .* ([\d.]+)$", screen("compare"), re.MULTILINE))
    assert min(float(ratios[drive]) for drive in ("generic-5400-2.5", "generic-7200")) > 5
    assert float(ratios["sata-ssd"]) < 2.5
    causes = screen("scan").split("Why (")[1].split("What helps")[0]
    assert sum(float(share) for share in re.findall(r"^ +([\d.]+) %  ", causes, re.MULTILINE)) > 100


def test_the_remedies_are_of_three_kinds():
    """A drive leads, HFS+ saves most without one, rewriting saves four fifths of the time; some cost nothing."""
    plan = screen("plan")
    rows = re.findall(r"^ +[\d.]+ m?s +([\d.]+) %.*?\d m?s +(?:nothing|[\d.]+ s)  (.*)$", plan, re.MULTILINE)
    words = [what for _, what in rows]
    assert words[0].startswith("move to a solid-state")
    assert words[1].startswith("use a Fusion Drive")
    that_copy = [what for what in words if what.startswith("copy everything off")]
    assert "to HFS+" in plan.split(that_copy[0], 1)[1].split("\n")[1]
    assert seconds(r"@ +rewrite the nodes", plan) == pytest.approx(2, abs=0.5)
    whole = seconds(r"5400 rpm\) +@", screen("scan"))
    rewritten = next(float(share) for share, what in rows if what.startswith("rewrite the nodes"))
    assert rewritten == pytest.approx(80, abs=5)
    names = seconds(r"(?m)^ +@ .*nothing  list names only", plan)
    assert 0.5 < names / whole < 0.65


def test_reading_by_place_takes_half_as_long():
    """The list in the order of the disk takes half as long as the walk."""
    made = " ".join(screen("plan fixtures/images/apfs-scattered.img.zst --emit-order").split())
    own, of_walk = seconds("files: @ in this order", made), seconds("@ in walk order", made)
    assert own / of_walk == pytest.approx(0.5, abs=0.05)
