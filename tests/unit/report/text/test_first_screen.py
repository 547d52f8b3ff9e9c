"""The first screen: at most 24 lines of 80 columns, and each sentence only if it is true."""

from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace

from layoutscope import scan
from layoutscope.filesystems.registry import filesystem
from layoutscope.findings import Finding
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan, screen_lines, strips
from layoutscope.results.explanation import drive_words
from layoutscope.results.scan import ImageFacts, ScanResult, VolumeScan
from layoutscope.results.verdict import Cause, Placement, Remedy, Verdict, Why, Yardstick
from layoutscope.units import brief_seconds, format_range
from tests.layouts import NODE, entries, layout, leaves

APFS, HFSPLUS = (f"fixtures/images/{name}-scattered.img.zst" for name in ("apfs", "hfsplus"))


@pytest.fixture(scope="module")
def results():
    return {path: scan(path) for path in (APFS, HFSPLUS)}


def shown(result, **how):
    """Return the printed text after checking that it fits."""
    file = io.StringIO()
    print_scan(result, make_console(file, width=80), **how)
    lines = file.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    return "\n".join(lines)


def changed(result, number=-1, **changes):
    """Return a result with changes to the volume of this number."""
    volumes = list(result.parts)
    volumes[number] = replace(volumes[number], **changes)
    return replace(result, parts=tuple(volumes))


def test_sections_are_in_order_and_times_are_those_of_predictions(results):
    """Sections in their order, times with their ranges."""
    # Identity, verdict, times, causes, remedies, metadata places, coverage, next steps.
    text = shown(results[APFS])
    heads = (
        "apfs-scattered",
        "SLOW on hard disks:",
        "to a new HFS+ volume",
        "Listing time",
        "Why (",
        "What helps (",
    )
    heads = (*heads, "Metadata: ", "No damage found. Full check: layoutscope check", "See also: layoutscope map")
    assert [text.index(head) for head in heads] == sorted(text.index(head) for head in heads)
    assert "UUID" not in text
    # The numbers next to each drive are those of its prediction.
    first, *_ = predictions = results[APFS].parts[-1].predictions
    text = shown(results[APFS])
    for item in predictions:
        ends = format_range(item.seconds_low, item.seconds_high)
        assert re.search(
            f"^  {re.escape(drive_words(item.drive))} +{brief_seconds(item.seconds)}   {ends}$", text, re.MULTILINE
        )
    disks = format_range(predictions[1].seconds, first.seconds)
    assert f"SLOW on hard disks: listing all files takes {disks}, on a SATA SSD" in text


def test_bars_are_shares_and_purchases_come_first(results):
    """Bars are shares, and what can be bought comes first."""
    # Thirteen marks are the whole time: half of it has six, a tenth has one.
    causes = (Cause(Why.ORDER, 0.0, 0.999), Cause(Why.STAT, 50.0, 0.5), Cause(Why.FILL, 90.0, 0.1))
    verdict = replace(results[APFS].parts[-1].verdict, causes=causes)
    lines = shown(changed(results[APFS], verdict=verdict)).splitlines()
    bars = [line for line in lines if "█" in line and "%" in line]
    assert [(line.split()[0], line.count("█")) for line in bars] == [("99", 13), ("50", 6), ("10", 1)]
    # Remedies that can be bought come first, however much a program saves; the rest is marked.
    verdict = results[APFS].parts[-1].verdict
    remedies = (Remedy("a", 0.1, 0.98, "A"), Remedy("b", 0.2, 0.95, "B", is_bought=True), Remedy("c", 0.3, 0.9, "C"))
    text = shown(changed(results[APFS], verdict=replace(verdict, remedies=remedies)))
    rows = re.findall(r"^ +0\.\d+ s  (.*)$", text, re.MULTILINE)
    assert rows == ["B", "in software: A", "in software: C"]


def test_a_quick_walk_is_neither_explained_nor_remedied(results):
    """Less than a second on a hard disk shows no reasons and no table; more does."""
    quick, slow = (shown(results[path]) for path in (HFSPLUS, APFS))
    for words in ("Listing time", "Why", "What helps", "plan"):
        assert words not in quick
        assert words in slow
    assert "OK: listing all files takes about" in quick
    assert "OK" not in slow
    # Twelve seconds with causes of at most 49 % are not due to the layout.
    volume = results[APFS].parts[-1]
    verdict = replace(volume.verdict, seconds=12.0, causes=(Cause(Why.FILL, 6.1, 0.49),))
    first = replace(volume.predictions[0], seconds=12.0)
    text = shown(changed(results[APFS], verdict=verdict, predictions=(first, *volume.predictions[1:])))
    assert "OK: listing all files takes about 12 s on a 2.5-inch disk (5400 rpm). No single" in text
    assert "SLOW" not in text
    assert "Why (" in text


@pytest.mark.parametrize(("high", "words"), [(0.9, "Nothing to improve."), (2.0, ", and up to 2.0 s on some of them.")])
def test_a_short_time_is_not_called_short_on_every_drive(results, high, words):
    """The verdict on a quick listing depends on the range."""
    volume = results[HFSPLUS].volumes[-1]
    first = replace(volume.predictions[0], seconds_high=high)
    text = shown(changed(results[HFSPLUS], predictions=(first, *volume.predictions[1:])))
    assert words in " ".join(text.split())


def test_names_and_notes_of_the_volume(results):
    """A long name is cut, and a note comes before the verdict."""
    # The end of a name of 255 characters is cut off; size and counts stay.
    volume = results[APFS].parts[-1]
    facts = replace(volume.layout.facts, name="n" * 255)
    line = shown(changed(results[APFS], layout=volume.layout.changed(facts=facts))).splitlines()[1]
    assert line.endswith('nnn...", 256 MiB, 3,892 files, 304 folders')
    kept = replace(facts, view="snapshot kept")
    text = shown(changed(results[APFS], layout=volume.layout.changed(facts=kept)))
    assert text.splitlines()[1].endswith('nnn..." (snapshot kept), 256 MiB, 3,892 files, 304 folders')
    assert "1 snapshot" not in text
    assert "304 folders, 1 snapshot\n" in shown(results[APFS])
    # An unclean unmount is shown before the verdict.
    volume = results[APFS].parts[-1]
    facts = replace(volume.layout.facts, details={"note": "not cleanly unmounted"})
    text = shown(changed(results[APFS], layout=volume.layout.changed(facts=facts)))
    assert text.index("\nNote: not cleanly unmounted.\n") < text.index("SLOW")
    assert "Note:" not in shown(results[APFS])


def test_files_and_folders_are_counted_by_one_rule():
    """A file with two names is one file, a link is another name; root and private folders and contents are left out."""
    rows = entries(
        (1, 2, "root", "directory", 0), (1, 3, "private-dir", "directory", 0), (2, 20, "a", "file", 0),
        (2, 20, "b", "file", 0), (2, 21, "c", "symlink", 0), (2, 22, "d", "file", 0), (3, 23, "e", "file", 0),
        flags=[0, 4, 1, 1, 0, 0, 4],
    )  # fmt: skip
    made = layout(nodes=leaves(1), entries=rows, num_files=9, num_directories=9)
    text = shown(volumes_of(made))
    assert ", 2 files, 0 folders, 2 links or devices\n" in text
    lost = shown(volumes_of(layout(nodes=leaves(1), entries=rows, num_files=9, metadata_read_bytes=4096)))
    assert ", 9 files, 1 folder, by the volume's count\n" in lost


def test_damage_stands_before_any_time(results):
    """Losses come first; nothing incomplete is called whole, and sound volumes are not called damaged."""
    lost = Finding("checksum-mismatch", "error", "fs tree, node 7", 4096, "checksum differs")
    volume = results[APFS].parts[-1]
    facts = replace(volume.layout.facts, num_missing_entries=3)
    text = shown(changed(results[APFS], layout=volume.layout.changed(facts=facts), findings=(lost,)))
    words = "DAMAGED: fs tree, node 7 at byte 4,096: checksum differs (checksum-mismatch)"
    assert text.index(words) < text.index("Listing what was read takes")
    assert "At least 3 files and folders are missing" in text
    assert "amage found" not in text
    for command in ("check IMAGE", "scan IMAGE --sweep", "inspect IMAGE --states"):
        assert f"  layoutscope {command}  # " in text.replace(APFS, "IMAGE")
    assert "Why" not in text
    assert "What helps" not in text
    sound = shown(results[APFS])
    assert "DAMAGED" not in sound
    assert "missing" not in sound
    assert "No damage found" in sound


def test_the_cause_is_quoted_and_not_what_it_brought_along(results):
    """With a lost leaf, the catalog reports the broken chain of leaves first; of two faults, the first is quoted."""
    broken = Finding("leaf-chain-broken", "error", "catalog node 59", 4096, "the next leaf is another")
    lost = Finding("pointer-invalid", "error", "catalog node 83", 8192, "a pointer leads to no node")

    def told(*findings):
        explained = filesystem("hfsplus").explained(findings)
        return " ".join(shown(changed(results[HFSPLUS], findings=explained)).split())

    of_chain = "catalog node 59 at byte 4,096"
    assert "DAMAGED: 1 error and 1 consequence. First: catalog node 83 at byte 8,192" in told(broken, lost)
    assert f"DAMAGED: {of_chain}" in told(broken)
    assert f"DAMAGED: 2 errors. First: {of_chain}" in told(broken, replace(lost, structure="attributes node 8"))
    assert f"DAMAGED: 1 error, 1 warning. First: {of_chain}" in told(broken, replace(lost, level="warning"))


def test_damage_is_said_by_its_level_and_place(results):
    """Containers, maps, warnings and information."""
    # Shared structures can be damaged alone; then none of the volumes is called sound.
    lost = Finding("checksum-mismatch", "error", "space manager", 4096, "checksum differs")
    assert results[APFS].parts[0].layout.facts.volume is None
    text = shown(changed(results[APFS], 0, findings=(lost,)))
    assert "DAMAGED" in text
    assert "No damage" not in text
    # A broken partition map is not a volume's fault, and prevents the claim that everything was read.
    text = shown(replace(results[HFSPLUS], findings=(Finding("structure-invalid", "error", "GPT", 512, "broken"),)))
    assert text.startswith("Outside of the volumes: GPT at byte 512: broken (structure-invalid)\n")
    assert "No damage" not in text
    # Warnings are counted as such.
    text = shown(changed(results[APFS], findings=(Finding("truncated", "warning", "image", 0, "ends early"),)))
    assert "Warning: image at byte 0: ends early (truncated)" in text
    assert "DAMAGED" not in text
    assert "No damage" not in text
    # Info findings leave a volume sound.
    assert "No damage found" in shown(changed(results[APFS], findings=(Finding("truncated", "info", "x", 0, "small"),)))


def test_part_of_the_metadata_is_never_called_all():
    """Half is shown as half; if errors show more loss than any count, the extent is unknown."""
    half = layout(nodes=leaves(1), metadata_known_bytes=8192, metadata_read_bytes=4096)
    text = shown(volumes_of(half))
    assert "Read: 50.0 % of 8.0 KiB of metadata" in text
    assert "found in 8.0" not in text
    lost = Finding("structure-invalid", "error", "catalog", 0, "broken")
    unknown = layout(nodes=leaves(1), findings=_table(lost))
    text = shown(volumes_of(unknown, findings=(lost,)))
    assert "Coverage unknown: " in text
    assert "%" not in text.partition("Coverage unknown:")[2]
    # A volume with a lost tree has no time and is not called quick.
    text = shown(volumes_of(layout()))
    assert "No listing time: nothing can be listed." in text
    assert "OK" not in text
    assert " s " not in text


def _table(finding):
    from layoutscope.tables import findings_table

    frame = findings_table([finding]).frame
    return {name: frame[name].to_list() for name in frame.columns if name != "row"}


def volumes_of(*layouts, findings=(), verdict=None):
    volumes = tuple(VolumeScan(made, (), (), (), None, (), findings, verdict) for made in layouts)
    return ScanResult(ImageFacts("disk.img", 256 * NODE, 512), volumes, ())


def test_a_locked_volume_says_how_it_opens(results):
    """The lock comes first, with the option to open it; keys that no password gives are not asked for."""
    volume = results[APFS].parts[-1]
    facts = replace(volume.layout.facts, details={"locked": True})
    why = Finding("volume-locked", "warning", "volume", 0, "the volume is encrypted")
    made = changed(results[APFS], layout=volume.layout.changed(facts=facts), findings=(why,), walk=None, verdict=None)
    text = shown(made)
    assert text.index("LOCKED: the volume is encrypted (volume-locked).") < text.index("no listing time can be given")
    assert "--password-file FILE" in text
    assert "map" not in text
    assert "DAMAGED" not in text
    hard = replace(why, code="volume-hardware-locked")
    assert "--password-file" not in shown(changed(made, findings=(hard,)))
    assert "LOCKED" not in shown(results[APFS])


def test_of_several_volumes_the_worst_comes_first():
    """Damaged, locked, then slow volumes; the ones that do not fit are counted and named."""
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
    """With every section at its longest, it has 24 lines of 80 columns."""
    volume = results[APFS].parts[-1]
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
    assert "layoutscope map IMAGE -o map.html" in shown(made)


def test_strips_show_where_nodes_are():
    """Each mark shows a piece of the stretch with nodes."""
    # Nodes are in the first and last of 48 pieces; these are marked, the piece with more nodes higher.
    made = layout(nodes=leaves(0, 1, 2, 47 * 4), size_bytes=48 * 4 * NODE)
    assert list(strips(volumes_of(made).volumes[0], ".123")) == ["0 3" + "." * 46 + "1 768 KiB"]
    # Nodes from block 48 to 95 of 10,000: one in each piece of that stretch, which is named.
    made = layout(nodes=leaves(*range(48, 96)), size_bytes=10_000 * NODE)
    assert list(strips(volumes_of(made).volumes[0], ".123")) == ["192 KiB " + "3" * 48 + " 384 KiB of 39 MiB"]
    # Device 0 has nodes in the first and last of 40 pieces of 4 nodes; device 1 has only block 4.
    nodes = leaves(0, 1, 2, 39 * 4, 4, device=[0, 0, 0, 0, 1])
    details = {"bytes of device 0": 40 * 4 * NODE, "bytes of device 1": 40 * 2 * NODE}
    made = layout(nodes=nodes, size_bytes=40 * 6 * NODE)
    made = made.changed(facts=replace(made.facts, details=details))
    main, second = strips(volumes_of(made).volumes[0], ".123")
    assert main == "Main   0 3" + "." * 38 + "1 640 KiB"
    assert second == "Second 16 KiB 3" + "." * 39 + " 20 KiB of 320 KiB"


def test_screens_keep_to_their_columns(results):
    """In ASCII on request, and within 80 columns."""
    # With that option the screen has only ASCII characters.
    assert shown(results[APFS], is_ascii=True).isascii()
    assert not shown(results[APFS]).isascii()
    # Sentences about locked and damaged volumes are wrapped for their indent.
    locked = Finding("volume-locked", "warning", "volume", 0, "w" * 30 + " a" * 40)
    lost = Finding("fusion-half", "error", "superblock", 0, "w" * 30 + " a" * 40)
    volume = results[APFS].parts[-1]
    facts = replace(volume.layout.facts, details={"locked": True})
    closed = replace(volume, layout=volume.layout.changed(facts=facts), findings=(locked,), walk=None, verdict=None)
    made = replace(results[APFS], parts=(closed, replace(volume, findings=(lost,))))
    lines = [line.plain for line in screen_lines(made)]
    assert {"LOCKED", "INCOMPLETE"} <= {line.split(":")[0].strip() for line in lines}
    assert max(map(len, lines)) <= 80
