"""Explanations of the difference between two enumerations, checked against hand arithmetic."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from layoutscope.drive.uncertain import paired_ratio
from layoutscope.results.compare import Cost, Reads, explain, growth_by_cause, growth_by_reads


def cost(causes, in_sequence, elsewhere, **changes):
    """Return the cost of a walk of 1,000 entries; its time is the sum of its causes."""
    seconds = sum(causes.values())
    plain = {"rotates": True, "entries": 1000, "nodes": 100, "sequence_share": 0.5}
    return Cost(
        seconds,
        0.9 * seconds,
        1.1 * seconds,
        tuple(causes.items()),
        in_sequence=Reads(*in_sequence),
        elsewhere=Reads(*elsewhere),
        **(plain | changes),
    )


FAST = cost({"seek": 0.2, "rotation": 0.7, "host": 0.1}, (80, 0.1), (20, 0.8, 4096.0))
SLOW = cost({"seek": 1.0, "rotation": 2.8, "host": 0.1}, (20, 0.1), (90, 3.7, 8192.0), nodes=110, sequence_share=0.1)


def test_differences_are_taken_apart():
    """Both ways sum up to the difference."""
    # By cause and by reads, the parts add up to the 2.9 s between 1.0 and 3.9 s.
    assert sum(growth_by_cause(FAST, SLOW).values()) == pytest.approx(2.9)
    assert sum(growth_by_reads(FAST, SLOW).values()) == pytest.approx(2.9)
    # 70 more reads at the mean of 40 and 41.1 ms each; 55 reads on average that take 1.1 ms longer.
    found = growth_by_reads(FAST, SLOW)
    earlier, later = 0.8 / 20, 3.7 / 90
    assert found["more-reads-elsewhere"] == pytest.approx(70 * (earlier + later) / 2)
    assert found["slower-reads-elsewhere"] == pytest.approx(55 * (later - earlier))


def test_the_sentence_names_cause_reads_and_what_stands_behind_them():
    """2.1 of 2.9 s are rotation (72.4 %), 2.84 s are more reads elsewhere (97.9 %), due to missing sequence."""
    text = explain("disk", (FAST, SLOW), ("A", "B"))
    assert "B takes 3.9 times as long as A (3.90 s against 1.00 s)" in text
    assert "72.4 % of the difference is waiting for the platter to turn" in text
    assert "97.9 % of it comes from more reads that do not start where the last one ended: 90 against 20" in text
    assert text.endswith("as 10.0 % of its nodes are read in sequence against 50.0 %.")
    assert explain("disk", (SLOW, FAST), ("B", "A")) == explain("disk", (FAST, SLOW), ("A", "B"))
    # Without a difference there is no explanation.
    assert explain("disk", (FAST, FAST), ("A", "B")) == "On disk, A and B take equally long: 1.00 s against 1.00 s."


def test_doubt_and_ratios():
    """Doubt and ratios are those of drives one by one."""
    # Slower on every drawn drive means no doubt, however wide the ranges; two exceptions in twenty mean no winner.
    fast = replace(FAST, draws_s=tuple(range(1, 21)))
    always = replace(SLOW, seconds_low=0.1, draws_s=tuple(1.5 * number for number in range(1, 21)))
    assert "B takes 1.5 times (1.5 to 1.5) as long as A" in explain("disk", (fast, always), ("A", "B"))
    turned = replace(always, draws_s=(0.5, 0.5, *always.draws_s[2:]))
    assert explain("disk", (fast, turned), ("A", "B")).endswith("which takes longer is open.")
    assert "open" not in explain("disk", (FAST, SLOW), ("A", "B"))
    # Two ranges of times may overlap although their ratio has a narrow range, as both are on the same drive.
    found = paired_ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert (found, found.is_open) == ((2.0, 2.0, 2.0), False)
    assert paired_ratio([1.0, 3.0], [2.0, 2.0]).is_open
    assert paired_ratio([], []) is None
    assert paired_ratio([1.0], [0.0]) is None
