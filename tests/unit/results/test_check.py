"""Results of a check: by rule, compared with an earlier state, in other formats; never cleaner than the truth."""

from __future__ import annotations

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

import layoutscope.api
import layoutscope.filesystems.apfs  # both define the finding codes that are used here
import layoutscope.filesystems.hfsplus  # noqa: F401  (declares its finding codes)
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import Unchecked
from layoutscope.findings import CODES, Finding, FindingLog
from layoutscope.report.json import result_document
from layoutscope.report.sarif import sarif_json
from layoutscope.report.text.check import MAX_ROWS, print_check, print_meanings
from layoutscope.results.check import CheckedVolume, CheckResult

COUNT = Finding("valence-differs", "error", "catalog node 3", 4096, "counts others", "2", "3", field="record 1/x")
NOTE = Finding("not-unmounted", "info", "volume header", 1028, "was not cleanly unmounted")
MAP = Finding("node-map-differs", "warning", "catalog node 0", None, "calls nodes used that it does not have")


def checked(*findings, coverage=1.0, image="disk.img", outside=()):
    return CheckResult(image, (CheckedVolume("hfsplus Fixture", findings, coverage),), outside)


def printed(result, write=print_check):
    target = io.StringIO()
    write(result, Console(file=target, width=200))
    return target.getvalue()


@pytest.mark.parametrize("coverage", [0.99, 0.0, None])
def test_what_was_not_all_looked_at_is_not_clean(coverage):
    """A locked or partly read volume is named, although there is no finding."""
    result = checked(coverage=coverage)
    assert (result.is_clean, result.exit_code, result.unchecked()) == (False, 3, ("hfsplus Fixture",))
    assert "Part of hfsplus Fixture could not be checked." in printed(result)
    assert printed(result).endswith("\nno problems found, but the check was incomplete\n")
    assert result_document(result)["unchecked"] == ["hfsplus Fixture"]
    assert json.loads(sarif_json(result))["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_rules_that_were_skipped_are_counted_and_named():
    """All metadata was read, but two rules could not be checked on all of it: not clean, with the reason."""
    skipped = tuple(Unchecked(rule, "the catalog B-tree cannot be read") for rule in ("threads", "valence"))
    volume = CheckedVolume("hfsplus Fixture", (NOTE,), 1.0, 40, skipped)
    result = CheckResult("disk.img", (volume,), ())
    assert (result.is_clean, result.exit_code, result.unchecked()) == (False, 3, ("hfsplus Fixture",))
    said = printed(result)
    assert "hfsplus Fixture: 2 of 40 rules could be applied only in part." in said
    assert "checked in part: threads, valence, because the catalog B-tree cannot be read" in said
    (told,) = result_document(result)["volumes"]
    assert [item["rule"] for item in told["skipped"]] == ["threads", "valence"]
    (run,) = json.loads(sarif_json(result))["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "threads, valence" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_causes_of_findings():
    """Text lists the cause and counts its consequences."""
    # Text lists only the cause and counts its consequences; other formats have every finding and name the cause.
    follows = [replace(COUNT, image_offset=at, causes=(MAP,)) for at in (1, 2)]
    result = checked(MAP, *follows)
    said = printed(result)
    assert "and 2 consequences (valence-differs)" in said
    assert said.count("valence-differs") == 1
    assert "1 warning and 2 consequences" in said
    told = result_document(result)["volumes"][0]["findings"]
    assert [item["cause"] and item["cause"]["code"] for item in told] == [None, MAP.code, MAP.code]
    assert result.frame["cause"].to_list() == ["", *[f"{MAP.code}: {MAP.structure}"] * 2]
    shown = json.loads(sarif_json(result))["runs"][0]["results"]
    assert [len(item.get("relatedLocations", ())) for item in shown] == [0, 1, 1]
    assert (result_document(result)["num_causes"], result_document(result)["num_findings"]) == (1, 3)
    # If the cause is not among the requested rules, its consequence is listed by itself.
    assert [item.cause for item in result.of_rules(COUNT.code).every()] == [None, None]
    # Either of two broken nodes explains a count: text counts it separately, JSON has the number of causes.
    nodes = [
        Finding("records-invalid", "error", f"catalog node {number}", number * 4096, "broken") for number in (1, 2)
    ]
    result = checked(*nodes, replace(COUNT, causes=tuple(nodes)))
    assert "1 consequence of 2 causes (valence-differs)\n" in printed(result)
    assert "2 errors and 1 consequence" in printed(result)
    *_, told = result_document(result)["volumes"][0]["findings"]
    assert (told["cause"], told["num_causes"]) == (None, 2)
    assert result.frame["cause"].to_list() == ["", "", "one of 2 causes"]
    *_, shown = json.loads(sarif_json(result))["runs"][0]["results"]
    assert len(shown["relatedLocations"]) == 2


def test_notes_and_locked_volumes_are_no_faults():
    """A note leaves an image clean if everything was checked."""
    result = checked(NOTE)
    assert (result.is_clean, result.exit_code) == (True, 0)
    assert printed(result).endswith("1 note\nclean\n")
    # Encrypted data could not be checked: the volume is neither faulty nor clean.
    locked = Finding("volume-locked", "warning", "volume superblock", 4096, "is encrypted and was not unlocked")
    assert printed(checked(locked, coverage=0.5)).endswith("no problems found, but the check was incomplete\n")
    assert printed(checked(locked, COUNT, coverage=0.5)).endswith("not clean\n")


def test_checks_are_narrowed():
    """To rules, and to what came since."""
    # Without the broken rule, the rest is clean, but not the image.
    result = checked(COUNT, NOTE)
    assert printed(result).endswith("not clean\n")
    narrowed = result.of_rules("not-unmounted")
    assert narrowed.is_clean
    assert printed(narrowed).endswith("clean for not-unmounted only\n")
    assert result_document(narrowed)["rules"] == ["not-unmounted"]
    assert result.of_rules("valence-differs").every() == (COUNT,)
    # A misspelt rule would find nothing and call every image clean.
    with pytest.raises(UsageError, match=r"no finding code 'valence-differ' \(did you mean 'valence-differs'\?\)"):
        checked().of_rules("valence-differ")
    # A finding that only moved is not new; a second one of its kind is, and so is one of another volume.
    moved = Finding(COUNT.code, COUNT.level, COUNT.structure, 8192, COUNT.message, COUNT.expected, COUNT.found)
    before = checked(COUNT, MAP, image="monday.img")
    assert checked(moved).since(before).every() == ()
    assert checked(moved, COUNT).since(before).every() == (COUNT,)
    assert checked(outside=(COUNT,)).since(before).every() == (COUNT,)
    assert printed(checked(moved).since(before)).endswith("clean beyond the findings of monday.img\n")
    assert printed(checked(NOTE, COUNT, COUNT).since(before)).endswith("not clean beyond the findings of monday.img\n")


def test_sarif_has_rule_level_place_and_field_of_each_finding():
    """SARIF 2.1.0: byteOffset (3.30.9), note if it is not a fault (3.27.10), no region without a place."""
    run = json.loads(sarif_json(checked(COUNT, NOTE, MAP)))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted({COUNT.code, NOTE.code, MAP.code})
    assert [each["level"] for each in run["results"]] == ["error", "note", "warning"]
    assert [rules[each["ruleIndex"]] for each in run["results"]] == [COUNT.code, NOTE.code, MAP.code]
    places = [each["locations"][0] for each in run["results"]]
    assert places[0]["physicalLocation"]["region"] == {"byteOffset": 4096}
    assert "region" not in places[2]["physicalLocation"]
    assert places[0]["logicalLocations"][0]["fullyQualifiedName"] == "hfsplus Fixture/catalog node 3/record 1/x"
    assert run["results"][0]["properties"] == {"expected": "2", "found": "3", "device": 0}
    # A finding about another structure does not inherit the field path of the first one.
    log = FindingLog().at("catalog node 3", 10).within("record 1/x")
    log.add("valence-differs", "error", "one")
    log.at("volume header", 20).add("valence-differs", "error", "two")
    log.at_byte("volume header", 20).add("valence-differs", "error", "three")
    assert [item.field for item in log.findings] == ["record 1/x", "", ""]


def test_many_findings_of_one_code_are_folded():
    """Twenty rows and one that counts the rest; the document and the sum have all of them."""
    result = checked(*[COUNT] * (MAX_ROWS + 7), MAP)
    text = printed(result)
    assert text.count("valence-differs") == MAX_ROWS + 1
    assert "7 more of this code" in text
    assert f"{MAX_ROWS + 7} errors, 1 warning" in text
    assert len(result_document(result)["volumes"][0]["findings"]) == MAX_ROWS + 8
    text = printed(checked(COUNT, COUNT, MAP), print_meanings)
    assert text.count(CODES["valence-differs"]) == 1
    assert text.count("Let the file system's own check") == 2
