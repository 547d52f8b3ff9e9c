"""The first screen: at most 24 lines of 80 columns, and each sentence only where it is true."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from layoutscope import scan
from layoutscope.filesystems.registry import filesystem
from layoutscope.findings import Finding
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan
from layoutscope.report.text.screen import strips
from layoutscope.results.scan import ImageFacts, ScanResult, VolumeScan
from layoutscope.results.verdict import Cause, Placement, Remedy, Verdict, Why, Yardstick
from tests.layouts import NODE, entries, layout, leaves

APFS, HFSPLUS = (f"fixtures/images/{name}-scattered.img.zst" for name in ("apfs", "hfsplus"))


@pytest.fixture(scope="module")
def results():
    return {path: scan(path) for path in (APFS, HFSPLUS)}


def shown(result, **how):
    """What is printed, and that it fits."""
    file = io.StringIO()
    print_scan(result, make_console(file, width=80), **how)
    lines = file.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    return "\n".join(lines)


def changed(result, number=-1, **changes):
    """A result whose volume of this number differs."""
    volumes = list(result.volumes)
    volumes[number] = replace(volumes[number], **changes)
    return replace(result, volumes=tuple(volumes))


def test_sections_come_in_their_order(results):
    """What it is, how long it takes, why, what would help, where nodes lie, what was read, where to go next."""
    text = shown(results[APFS])
    heads = ("apfs-scattered", "Listing every file", "per 1,000", "Why", "What would help", "Nodes 0", "Read:", "More:")
    assert [text.index(head) for head in heads] == sorted(text.index(head) for head in heads)
    assert "UUID" not in text


def test_a_quick_walk_is_neither_explained_nor_remedied(results):
    """Less than a second on a notebook disk needs no reasons; more does."""
    assert "Under a second" in shown(results[HFSPLUS])
    assert "Why" not in shown(results[HFSPLUS])
    assert "Under a second" not in shown(results[APFS])


@pytest.mark.parametrize(
    ("high", "said"),
    [
        (0.9, "Under a second: there is little to be gained."),
        (2.0, "Under a second, most likely: there is little to be gained."),
    ],
)
def test_a_short_time_is_called_likely_where_some_drives_take_longer(results, high, said):
    """What a quick walk is called follows from the range."""
    volume = results[HFSPLUS].volumes[-1]
    first = replace(volume.predictions[0], seconds_high=high)
    text = shown(changed(results[HFSPLUS], predictions=(first, *volume.predictions[1:])))
    assert f"  {said}\n" in text


def test_a_long_name_does_not_hide_what_follows_it(results):
    """Of a name of 255 characters the end is left out; size and counts stay."""
    volume = results[APFS].volumes[-1]
    facts = replace(volume.layout.facts, name="n" * 255)
    line = shown(changed(results[APFS], layout=volume.layout.changed(facts=facts))).splitlines()[1]
    assert line.endswith('nnn...", 256 MiB; 3,892 files, 304 folders')
    kept = replace(facts, view="snapshot kept")
    text = shown(changed(results[APFS], layout=volume.layout.changed(facts=kept)))
    assert text.splitlines()[1].endswith('nnn..." (snapshot kept), 256 MiB; 3,892 files, 304 folders')
    assert "1 snapshot" not in text
    assert "  besides 1 snapshot\n" in shown(results[APFS])


def test_names_that_are_neither_files_nor_folders_are_counted():
    """A volume of links is not called empty; root and private names are none of them."""
    rows = entries(
        (1, 2, "root", "directory", 0), (1, 3, "private-dir", "directory", 0), (2, 20, "a", "file", 0),
        (2, 20, "b", "file", 0), (2, 21, "c", "symlink", 0), flags=[0, 4, 1, 1, 0],
    )  # fmt: skip
    made = layout(nodes=leaves(1), entries=rows, num_files=1, num_directories=0)
    text = shown(volumes_of(made))
    assert "; 1 file, 0 folders\n  besides 2 other names (hard links, symbolic links, devices)\n" in text
    assert "besides" not in shown(volumes_of(made.changed(facts=replace(made.facts, num_files=3))))


def test_damage_stands_before_any_time(results):
    """What was lost comes first; nothing is called whole that is not, and sound volumes are not called damaged."""
    lost = Finding("checksum-mismatch", "error", "fs tree, node 7", 4096, "checksum differs")
    volume = results[APFS].volumes[-1]
    facts = replace(volume.layout.facts, num_missing_entries=3)
    text = shown(changed(results[APFS], layout=volume.layout.changed(facts=facts), findings=(lost,)))
    assert text.index("DAMAGED: 1 error; checksum-mismatch at byte 4,096: fs tree, node 7") < text.index(
        "Listing what was read of it"
    )
    assert "At least 3 entries are missing" in text
    assert "no damage" not in text
    assert "scan --sweep" in text
    sound = shown(results[APFS])
    assert "DAMAGED" not in sound
    assert "missing" not in sound
    assert "no damage seen" in sound


def test_the_cause_is_quoted_and_not_what_it_brought_along(results):
    """Reading a catalog whose leaf is lost finds first that the chain of leaves is broken; of two faults, the first."""
    broken = Finding("leaf-chain-broken", "error", "catalog node 59", 4096, "the next leaf is another")
    lost = Finding("pointer-invalid", "error", "catalog node 83", 8192, "a pointer leads to no node")

    def told(*findings):
        explained = filesystem("hfsplus").explained(findings)
        return " ".join(shown(changed(results[HFSPLUS], findings=explained)).split())

    of_chain = "leaf-chain-broken at byte 4,096: catalog node 59"
    assert "DAMAGED: 1 error and 1 consequence; pointer-invalid at byte 8,192: catalog node 83" in told(broken, lost)
    assert f"DAMAGED: 1 error; {of_chain}" in told(broken)
    assert f"DAMAGED: 2 errors; {of_chain}" in told(broken, replace(lost, structure="attributes node 8"))
    assert f"DAMAGED: 1 error, 1 warning; {of_chain}" in told(broken, replace(lost, level="warning"))


def test_damage_of_the_container_is_damage_of_its_volume(results):
    """What several volumes share can be broken alone; then none of them is called sound."""
    lost = Finding("checksum-mismatch", "error", "space manager", 4096, "checksum differs")
    assert results[APFS].volumes[0].layout.facts.volume is None
    text = shown(changed(results[APFS], 0, findings=(lost,)))
    assert "DAMAGED" in text
    assert "no damage" not in text


def test_damage_outside_of_the_volumes_is_said_first(results):
    """A broken partition map is no volume's fault, and no reason to call everything read."""
    text = shown(replace(results[HFSPLUS], findings=(Finding("structure-invalid", "error", "GPT", 512, "broken"),)))
    assert text.startswith("Outside of the volumes: 1 error; structure-invalid at byte 512: GPT: broken")
    assert "no damage" not in text


def test_warnings_are_not_called_damage(results):
    """What is odd is counted as such."""
    text = shown(changed(results[APFS], findings=(Finding("truncated", "warning", "image", 0, "ends early"),)))
    assert "Odd: 1 warning; truncated at byte 0: image: ends early" in text
    assert "DAMAGED" not in text
    assert "no damage" not in text


def test_information_is_not_said(results):
    """Remarks leave a volume sound."""
    assert "no damage seen" in shown(changed(results[APFS], findings=(Finding("truncated", "info", "x", 0, "small"),)))


def test_part_of_the_metadata_is_never_called_all():
    """Half is told as half; where errors say that more is lost than anything counts, how much is unknown."""
    half = layout(nodes=leaves(1), metadata_known_bytes=8192, metadata_read_bytes=4096)
    text = shown(volumes_of(half))
    assert "Read: 50.0 % of what must be there (8.00 KiB of known metadata)" in text
    assert "all 8.00" not in text
    lost = Finding("structure-invalid", "error", "catalog", 0, "broken")
    unknown = layout(nodes=leaves(1), findings=_table(lost))
    text = shown(volumes_of(unknown, findings=(lost,)))
    assert "how much is unknown" in text
    assert "%" not in text.partition("Read:")[2]


def _table(finding):
    from layoutscope.tables import findings_table

    frame = findings_table([finding]).frame
    return {name: frame[name].to_list() for name in frame.columns if name != "row"}


def volumes_of(*layouts, findings=(), verdict=None):
    volumes = tuple(VolumeScan(made, (), (), (), None, (), findings, verdict) for made in layouts)
    return ScanResult(ImageFacts("disk.img", 256 * NODE, 512), volumes, ())


def test_what_cannot_be_listed_has_no_time():
    """Of a volume whose tree is lost no time is told, and it is not called quick."""
    text = shown(volumes_of(layout()))
    assert "Nothing can be listed" in text
    assert "Under a second" not in text
    assert " s " not in text


def test_a_locked_volume_says_how_it_opens(results):
    """That it is locked stands before everything, with the option; keys that no password gives are not asked for."""
    volume = results[APFS].volumes[-1]
    facts = replace(volume.layout.facts, details={"locked": True})
    why = Finding("volume-locked", "warning", "volume", 0, "the volume is encrypted")
    made = changed(results[APFS], layout=volume.layout.changed(facts=facts), findings=(why,), walk=None, verdict=None)
    text = shown(made)
    assert text.index("LOCKED: the volume is encrypted (volume-locked)") < text.index("Nothing can be listed")
    assert "--password-file FILE" in text
    assert "DAMAGED" not in text
    hard = replace(why, code="volume-hardware-locked")
    assert "--password-file" not in shown(changed(made, findings=(hard,)))
    assert "LOCKED" not in shown(results[APFS])


def test_of_several_volumes_the_worst_comes_first():
    """Damaged, locked, then the slow ones; what does not fit is counted and named, never left out in silence."""
    slow, quick = (Verdict("generic-7200", seconds, 1.0, 1.0, (), (), None) for seconds in (90.0, 3.0))
    names = ["quick", "slow", "locked", "damaged", "more"]
    made = [layout(nodes=leaves(1, 2), name=name, volume=number) for number, name in enumerate(names)]
    made[2] = made[2].changed(facts=replace(made[2].facts, details={"locked": True}))
    result = volumes_of(*made)
    error = (Finding("structure-invalid", "error", "catalog", 0, "broken"),)
    for number, changes in enumerate(({"verdict": quick}, {"verdict": slow}, {}, {"findings": error}, {})):
        result = changed(result, number, **changes)
    text = shown(result)
    assert text.index('"damaged"') < text.index('"locked"') < text.index('"slow"') < text.index('"quick"')
    assert "5 volumes" in text
    assert all(f'"{name}"' in text for name in names)
    many = shown(volumes_of(*(layout(nodes=leaves(1), volume=number) for number in range(30))))
    assert "Not shown here, but in --details" in many
    assert "more" in many


@pytest.mark.parametrize("details", [{}, {"bytes of device 0": 10**12, "bytes of device 1": 10**13}])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_longest_screen_fits(results, is_damaged, details):
    """With every section at its longest there are 24 lines of 80 columns."""
    volume = results[APFS].volumes[-1]
    causes = tuple(Cause(name, 10.0, 0.9) for name in Why)
    remedies = tuple(Remedy("z", 10.0, share, "z" * 90) for _ in range(2) for share in (0.9, 0.5, 0.04))
    verdict = Verdict("x" * 60, 100.0, 50.0, 1.0, causes, remedies, Placement(10**15, 0.123, 0.0123, 0.5))
    verdict = replace(verdict, yardsticks=(Yardstick("HFS+", 50.0, 40.0, 60.0),))
    drives = tuple(replace(volume.predictions[0], drive="y" * 60) for _ in range(9))
    findings = (Finding("structure-invalid", "error", "z" * 200, 0, "w " * 200),) * (99 if is_damaged else 0)
    facts = replace(
        volume.layout.facts, num_missing_entries=7 if is_damaged else 0, name="\u5bbd" * 60, details=details
    )
    made = changed(
        results[APFS],
        layout=volume.layout.changed(facts=facts),
        verdict=verdict,
        predictions=drives,
        findings=findings,
    )
    made = replace(made, findings=findings, image=replace(made.image, name="a" * 300))
    assert "More:" in shown(made)


def test_the_strip_shows_where_nodes_lie():
    """Nodes in the first and the last of 56 pieces: these are marked, the piece with more of them higher."""
    made = layout(nodes=leaves(0, 1, 2, 55 * 4), size_bytes=56 * 4 * NODE)
    assert list(strips(volumes_of(made).volumes[0], ".123")) == ["Nodes 0 3" + "." * 54 + "1 896 KiB"]


def test_a_set_has_a_strip_for_each_image():
    """Device 0 has nodes in the first and last of 56 pieces of 4 nodes; block 4 of device 1 is in its third, of 2."""
    nodes = leaves(0, 1, 2, 55 * 4, 4, device=[0, 0, 0, 0, 1])
    details = {"bytes of device 0": 56 * 4 * NODE, "bytes of device 1": 56 * 2 * NODE}
    made = layout(nodes=nodes, size_bytes=56 * 6 * NODE)
    made = made.changed(facts=replace(made.facts, details=details))
    assert list(strips(volumes_of(made).volumes[0], ".123")) == [
        "Main   0 3" + "." * 54 + "1 896 KiB",
        "Second 0 ..3" + "." * 53 + " 448 KiB",
    ]


def test_ascii_is_drawn_where_nothing_else_can_be(results):
    """On request there is nothing but ASCII on the screen."""
    assert shown(results[APFS], is_ascii=True).isascii()
    assert not shown(results[APFS]).isascii()
