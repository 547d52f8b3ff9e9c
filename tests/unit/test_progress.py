"""Progress of long work: phases, their listeners, and silence without a listener."""

from __future__ import annotations

import pytest

import layoutscope
from layoutscope import progress
from layoutscope.progress import Step, each, phase, reporting, tick

IMAGE = "fixtures/images/apfs-scattered.img.zst"


@pytest.fixture
def every_step(monkeypatch):
    """Report every step to listeners, however quick."""
    monkeypatch.setattr(progress, "REPORT_INTERVAL_S", 0.0)


@pytest.mark.usefixtures("every_step")
def test_the_innermost_phase_is_what_is_being_done():
    """An inner phase is reported until it ends, then the outer one again, and finally none."""
    heard = []
    with reporting(heard.append), phase("outer", 4) as outer:
        outer.advance(3)
        with phase("inner", unit="steps"):
            pass
    assert [step.phase for step in heard] == ["outer", "outer", "inner", "inner", "outer", "outer", ""]
    assert heard[1] == Step("outer", 3, 4, "bytes")
    assert heard[1].share == 0.75
    assert heard[2].share is None
    # A phase's own counter is read when it is displayed.
    heard, done = [], [0]
    with reporting(heard.append), phase("reading", count=lambda: done[0]):
        done[0] = 7
        tick()
    assert [step.done for step in heard] == [0, 7, 7, 0]


def test_a_listener_is_not_told_of_every_turn_of_a_loop(monkeypatch):
    """For ten thousand instant turns, only start and end are reported; listening costs a loop almost nothing."""
    heard = []
    monkeypatch.setattr(progress, "monotonic", lambda: 1.0)
    with reporting(heard.append):
        list(each(range(10_000), "counting"))
    assert [step.done for step in heard] == [0, 10_000, 0]


def test_phases_end_with_an_error():
    """Failed work ends its phases for listeners too."""
    heard = []
    with pytest.raises(ValueError, match="broken"), reporting(heard.append), phase("breaking"):
        raise ValueError("broken")
    assert heard[-1] == Step("")


def test_without_a_listener_nothing_is_told(capsys):
    """The library is silent, and a phase without a listener counts nothing."""
    with phase("unheard", 10) as unheard:
        unheard.advance(5)
        assert unheard.step().done == 0
    assert capsys.readouterr() == ("", "")


def test_verbs_tell_what_they_do():
    """A verb reports decompressing, reading and simulating, with shares if they are known.

    The scan simulates flash to find remedies.
    """
    heard = []
    layoutscope.scan(IMAGE, drives=["generic-7200"], progress=heard.append)
    assert {step.phase for step in heard if step.phase} == {
        "decompressing", f"reading {IMAGE}", "working out the reads of fts", "measuring",
        "drawing drives like generic-7200", "asking what it is spent for", "drawing drives like sata-ssd",
    }  # fmt: skip
    assert {step.share for step in heard if step.phase == "decompressing"} >= {0.0, 1.0}
    assert max(step.done for step in heard if step.phase.startswith("reading")) > 1_000_000


def test_a_sweep_tells_how_far_it_is():
    """A sweep counts the stored bytes that it has searched, and knows their total in advance."""
    heard = []
    layoutscope.read_layouts(IMAGE, sweep=True, progress=heard.append)
    swept = [step for step in heard if step.phase == "looking at every block for nodes"]
    assert swept[0].done == 0
    assert 1024**2 < swept[-1].total < 256 * 1024**2
    assert swept[-1].share == 1.0
