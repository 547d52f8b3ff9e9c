"""A plan ranks the remedies that it simulated on the same drives, and says what would not help."""

from __future__ import annotations

import io

import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

from layoutscope import read_layouts
from layoutscope.drive import load_profile, simulate
from layoutscope.drive.simulation import Part, Unknowns
from layoutscope.drive.uncertain import Host, interval_of
from layoutscope.remedies import planning
from layoutscope.remedies.case import Case, Changed, serve_change, words_of
from layoutscope.remedies.changes import CHANGES, clump_nodes, copied_in_walk_order, on_other_file_system, pack_nodes
from layoutscope.remedies.planning import QUICK, Trial, plan_of
from layoutscope.report.text.plan import lasting, print_plan
from layoutscope.results.plan import Pace, PlannedRemedy, PlanResult
from layoutscope.results.scan import ImageFacts, Prediction
from layoutscope.walk.host import host_profile
from layoutscope.walk.orders import trace
from tests.layouts import entries, layout, leaves

DISK = load_profile("generic-7200")
UNKNOWNS = Unknowns(Host("linux"))
WORDS = words_of("names-only")


def case_of(made, order="fts"):
    return Case(made, DISK, order, host_profile("linux"))


@pytest.fixture(scope="module")
def apfs():
    return next(item for item in read_layouts("fixtures/images/apfs-scattered.img.zst") if item.entries.height)


@pytest.fixture(scope="module")
def planned(apfs):
    return plan_of(case_of(apfs))


def remedy(share, **changes):
    return PlannedRemedy(WORDS, 100 * (1 - share), saved_s=100 * share, share=share, **changes)


def test_helps_pays_and_is_sure():
    """A remedy helps if it saves a twentieth, pays off after its effort, and is sure on nearly all drives."""
    # A remedy helps if it saves at least 5 % of the time; one that does not apply never helps.
    assert remedy(0.05).helps
    assert not remedy(0.0499).helps
    assert not remedy(0.9, why_not="no such call").helps
    # Ten minutes of work that save 40 seconds each time pay off after 15 times; saving nothing never pays off.
    assert remedy(0.4, effort_s=600.0).pays_after == 15
    assert remedy(-0.1, effort_s=600.0).pays_after is None
    assert remedy(0.4, effort_s=None).pays_after is None
    # A saving whose lower end is below zero is not called sure.
    assert remedy(0.4, saved=interval_of(np.array([1.0, 2.0]), {})).is_sure
    assert not remedy(0.4, saved=interval_of(np.array([-100.0, 200.0]), {})).is_sure


def test_what_saves_most_comes_first(planned):
    """Helpful remedies come first, by seconds saved; those that do not apply come last; each occurs once."""
    rows = planned.remedies
    applying = [row.saved_s for row in rows if not row.why_not]
    assert applying == sorted(applying, reverse=True)
    assert [bool(row.why_not) for row in rows] == sorted(bool(row.why_not) for row in rows)
    assert len(planned.helpful) + len(planned.useless) + len(planned.inapplicable) == len(rows)
    # Each draw saves nothing: its range has no width, and it is listed under what would not help.
    (row,) = (row for row in planned.useless if row.words.name == "block-copy")
    assert (row.saved_s, row.saved.low_s, row.saved.high_s) == (0, 0, 0)
    assert row.effort_s > 0
    # A pair is listed only if the second remedy saves a twentieth of what the first leaves.
    first = min(row.seconds for row in planned.helpful if row.words.name in planned.pair.names)
    assert planned.pair.seconds <= 0.95 * first
    assert plan_of(case_of(layout(nodes=leaves(1), entries=entries((2, 20, "a", "file", 0))))).pair is None


def test_times_are_those_of_predictions(apfs, planned):
    """The time is that of `predict`, and parts sum up."""
    # It is the time of `predict` and `scan` for the same reads on the same drive.
    case = case_of(apfs)
    found = simulate(case.reads, DISK, Host("linux"), knows_offset=case.knows_offset)
    assert (planned.seconds, planned.interval.low_s, planned.interval.high_s) == (
        found.seconds,
        found.seconds_low,
        found.seconds_high,
    )
    assert all(row.seconds == pytest.approx(planned.seconds - row.saved_s) for row in planned.remedies)
    # Two halves of a walk on two drives take the sum of both, but never less than the computer needs.
    case = case_of(apfs)
    flash, host = load_profile("sata-ssd"), Unknowns(Host("linux"))
    half = len(case.reads) // 2
    parts = (Part(replace(case.reads[:half], after_us=0.0), DISK), Part(case.reads[half:], flash))
    alone = [serve_change(Changed((part,)), host).draws_s for part in parts]
    assert serve_change(Changed(parts), host).draws_s == pytest.approx(sum(alone))
    assert serve_change(Changed(parts, least_s=1e6), host).seconds == 1e6


def test_a_drive_that_a_remedy_cannot_use_is_no_failure(apfs, monkeypatch):
    """Reads beyond the end of a drive give a reason why the remedy does not apply."""

    def too_far(case):
        return Changed((Part(case.reads, DISK, start_offset_bytes=DISK.capacity_bytes),))

    monkeypatch.setitem(CHANGES, "names-only", too_far)
    (row,) = plan_of(case_of(apfs), ["names-only"]).remedies
    assert "cannot be modelled on this drive" in row.why_not


def text_of(volume, **changes):
    target = io.StringIO()
    result = PlanResult(ImageFacts("disk.img", 2**20, 512), (volume,), **changes)
    print_plan(result, Console(file=target, width=200))
    return " ".join(target.getvalue().split())


def test_a_plan_lists_what_helps_what_does_not_and_what_is_uncertain(planned, apfs):
    # Both titles, the pair, and under 5 % for remedies that do not help; reasons only on request.
    text = text_of(planned)
    assert "Remedies, largest" in text
    assert planned.helpful[0].words.title in text
    assert "Does not help here (saves under 5.0 %)" in text
    assert "copy block by block" in text
    assert "Both together, without another drive" in text
    assert "Does not apply" not in text
    assert "linux has no such call" in text_of(planned, shows_all=True)
    # A plan with only a block copy has no table of help, no pair and no instructions.
    text = text_of(plan_of(case_of(apfs), ["block-copy"]))
    assert "None of the remedies tried helps here." in text
    assert "Remedies, largest" not in text
    assert "Together" not in text
    assert "asr restore" not in text
    # The mark appears only if the drives disagree.
    best = planned.helpful[0]
    assert best.is_sure
    doubtful = replace(best, saved=interval_of(np.array([-3.0, 5.0]), {}))
    assert "(not on every such drive)" not in text_of(replace(planned, remedies=(best,), pair=None))
    assert "(not on every such drive)" in text_of(replace(planned, remedies=(doubtful,), pair=None))


def test_a_plan_reports_damage_few_reads_and_refusals(apfs, planned):
    # A plan for the readable part says so and plans no copy; a plan for a whole volume does not mention damage.
    facts = replace(apfs.facts, metadata_read_bytes=apfs.facts.metadata_known_bytes // 2)
    broken = plan_of(case_of(apfs.changed(facts=facts)), ["block-copy"])
    assert "with 0 errors. The plan covers only what was read." in text_of(broken)
    assert "with 1 error. The plan covers only what was read." in text_of(replace(broken, num_errors=1))
    assert any("before it is repaired" in sentence for sentence in broken.unknown)
    assert "the plan is for what was read" not in text_of(planned)
    assert not any("repaired" in sentence for sentence in planned.unknown)
    # For a walk of one read the plan says above its table that it is too short; for a long one it does not.
    nodes = leaves(1, 5, 2, level=[0, 0, 1], kind=["leaf", "leaf", "index"], parent_row=[2, 2, None])
    rows = {**entries((2, 20, "a", "file", 1)), "entry_node_row": [0]}
    tiny = plan_of(case_of(layout(nodes=nodes, entries=rows)), ())
    assert tiny.unknown == ("reads: 1, too few to judge a remedy by",)
    told = text_of(replace(tiny, remedies=planned.remedies))
    assert told.index("too few to judge a remedy by") < told.index("Remedies, largest")
    assert not any("too few" in sentence for sentence in planned.unknown)
    cached = plan_of(case_of(layout(nodes=leaves(1), entries=entries((2, 20, "a", "file", 0)))), ())
    assert cached.unknown == ("the work reads nothing beyond the mount: there is nothing to save",)
    # A remedy that does not apply has a reason, which is never empty.
    case = case_of(layout(nodes=leaves(1), entries=entries((2, 20, "a", "file", 0))))
    rows = plan_of(case).remedies
    assert all(row.why_not or row.interval is not None for row in rows)


def test_draws_are_off_by_the_error_of_the_model(apfs):
    """The draws take turns: one is unchanged, one is shorter, one is longer."""
    # A third of the draws have the times of the reads alone; the others take longer.
    part = Part(case_of(apfs).reads, DISK)
    plain = serve_change(Changed((part,)), UNKNOWNS)
    all_three = serve_change(
        Changed((part,), alternatives=tuple((replace(part, times=times),) for times in (3.0, 5.0))), UNKNOWNS
    )
    for turn, times in enumerate((1.0, 3.0, 5.0)):
        assert all_three.draws_s[turn::3] == pytest.approx(times * plain.draws_s[turn::3])
    # A third of the draws are unchanged, a third are less by the error, a third are more by it.
    part = Part(case_of(apfs).reads, DISK)
    plain, off = (serve_change(Changed((part,), error_share=share), UNKNOWNS) for share in (0.0, 0.1))
    for turn, times in enumerate((1.0, 0.9, 1.1)):
        assert off.draws_s[turn::3] == pytest.approx(times * plain.draws_s[turn::3])


def test_a_copy_has_as_many_outcomes_as_there_are_rules_that_may_hold(apfs):
    """Each HFS+ driver has one rule; that of APFS depends on its version on Linux and is unknown on macOS.

    From HFS+, the driver may have another version or keep nodes apart from the data; on APFS the volume shows which.
    """
    for host in ("linux", "macos"):
        case = Case(apfs, DISK, "fts", host_profile(host))
        assert len(copied_in_walk_order(case).alternatives) == 1
        assert len(on_other_file_system("hfsplus")(case).alternatives) == 0
    made = next(item for item in read_layouts("fixtures/images/hfsplus-scattered.img.zst") if item.entries.height)
    assert len(on_other_file_system("apfs")(case_of(made)).alternatives) == 2


@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered"])
def test_quick_remedies_are_the_plans(name):
    """Seconds, order and helpfulness are equal, for a drive with an arm and one without."""
    made = next(item for item in read_layouts(f"fixtures/images/{name}.img.zst") if item.entries.height)
    for drive in ("generic-7200", "sata-ssd"):
        case = Case(made, load_profile(drive), "fts", host_profile("linux"))
        found = plan_of(case, QUICK)
        now = Prediction.of(simulate(case.reads, case.drive, Host("linux"), knows_offset=case.knows_offset), case.drive)
        told = Trial(case, now).quick_remedies()
        rows = [row for row in found.remedies if not row.why_not]
        assert [(item.name, item.seconds, item.helps, item.is_sure) for item in told] == [
            (row.words.name, row.seconds, row.helps, row.is_sure) for row in rows
        ]
        assert [item.is_bought for item in told] == [row.words.kind == "hardware" for row in rows]


def test_what_changes_nothing_is_not_served_again(apfs, monkeypatch):
    """If the reads stay the same, the time is that of the original; other reads, drives or times are simulated."""
    trial = Trial(case_of(apfs))
    part = trial.case.part(trial.case.reads)
    same = Changed((part,), least_s=0.0)
    fewer = Changed((trial.case.part(trial.case.reads[1:]),))
    served = [fewer, Changed((part, part)), Changed((replace(part, times=2.0),)), Changed((part,), error_share=0.1)]
    served.append(Changed((replace(part, reads=trial.case.reads.scale_host_time(2.0)),)))
    called = []
    monkeypatch.setattr(planning, "serve_change", lambda changed, _: called.append(changed))
    assert trial._serve(same) is trial.now
    for changed in served:
        trial._serve(changed)
    assert called == served


def test_how_long_a_remedy_lasts_follows_from_the_pace():
    """Forty seconds saved, two more lost per cycle: twenty cycles; without a slowdown there is no limit."""
    copied = replace(remedy(0.4), words=words_of("block-copy"))
    slower, steady = Pace(10, 0.05, 100.0, 120.0), Pace(10, 0.05, 100.0, 99.0)
    assert slower.lasts(copied) == 20
    assert "20 cycles at most, at 2.00 s a cycle" in lasting(copied, slower)
    assert slower.lasts(replace(copied, saved_s=-1.0)) is None
    assert steady.lasts(copied) is None
    assert lasting(copied, steady).startswith("unknown: ")
    assert "not known" not in lasting(copied, slower)
    assert "--lasts" in lasting(copied, None)
    # A program's read method and a drive last as long as they are used, however fast the volume ages.
    for pace in (None, slower):
        assert lasting(remedy(0.4), pace) == "as long as the program is used"
        assert lasting(replace(remedy(0.4), words=words_of("solid-state")), pace) == "as long as the drive is used"


@pytest.mark.parametrize("host", ["linux", "macos"])
@pytest.mark.parametrize("lay_out", [pack_nodes, clump_nodes])
@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered"])
def test_a_listing_of_moved_nodes_is_the_one_that_a_new_walk_gives(name, lay_out, host):
    """The reads are equal one by one, whether or not the nodes are visited again."""
    made = next(item for item in read_layouts(f"fixtures/images/{name}.img.zst") if item.entries.height)
    moved = Case(made, DISK, "fts", host_profile(host)).lay_out("moved", lay_out)
    assert moved is not None
    again = trace(moved.layout, host=host)
    assert again.image_offset.tolist() != trace(made, host=host).image_offset.tolist()
    for column in ("device", "image_offset", "length_bytes", "cause", "tree", "directory_id", "issuer", "think_us"):
        assert getattr(moved.reads, column).tolist() == getattr(again, column).tolist()
    assert moved.reads.after_us == again.after_us
