"""Defects of the first screen and the commands that users reported, and the regression test of each."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import read_layouts, trace
from layoutscope.errors import UsageError
from tests.cases import for_each
from tests.cli.conftest import ROOT

DEFECTS = {
    "unit/results/test_verdict.py": {
        "test_what_carries_less_than_a_tenth_is_not_named": "a cause is named that the model all but denies",
        "test_words_of_places_follow_the_rule": "metadata in 0.4 % of a volume is said to lie all over it",
        "test_the_best_remedy_needs_no_other_drive": "what would help is not said",
    },
    "unit/remedies/test_treatments.py": {
        "test_names_alone_need_fewer_reads": "names without stat are a lever that nobody hears of",
    },
    "unit/report/text/test_first_screen.py": {
        "test_sections_come_in_their_order": "the first sentence praises a tree that costs minutes",
        "test_a_locked_volume_says_how_it_opens": "a locked volume says so at its end",
    },
    "cli/test_predict.py": {
        "test_packing_may_take_longer_and_is_no_bound": "packed is called a bound, and its loss is clamped to nothing",
        "test_packed_is_shown_by_its_name": "the what-if packed is not shown by its name",
        "test_a_what_if_that_changes_nothing_says_why": "what-ifs that change nothing take 30.3 instead of 30.3 s",
    },
    "cli/test_predict_orders.py": {
        "test_the_image_is_read_once": "six runs are needed to compare orders",
    },
    "cli/test_drives.py": {
        "test_the_list_says_which_to_take": "which drive is mine is not said",
    },
    "images/test_first_screen.py": {
        "test_every_image_fits_on_one_screen": "what is left on the screen are identifiers",
    },
    "cli/test_scan.py": {
        "test_details_show_all_that_was_measured": "metrics that repeat one another stand on the first screen",
    },
    "cli/test_volumes.py": {
        "test_numbers_count_from_one_everywhere": "JSON counts volumes from 0, options from 1",
        "test_two_volumes_of_one_container_are_compared": "two volumes of one image cannot be compared",
        "test_two_file_systems_of_one_disk_are_compared": "two file systems of one disk cannot be compared",
    },
    "unit/test_session.py": {
        "test_the_volume_is_the_one_that_can_be_walked": "the first of a result's volumes is a container",
    },
    "cli/test_piped.py": {
        "test_lines_of_a_pipe_are_whole": "piped text is wrapped",
        "test_no_line_ends_with_a_blank": "lines end with blanks",
    },
    "cli/test_words.py": {
        "test_misspelt_words_are_suggested": "a drive, verb, option, order or table that is misspelt is not suggested",
        "test_a_misspelt_volume_is_suggested": "a volume that is misspelt is not suggested",
        "test_an_image_alone_is_scanned": "an image without a verb is no command",
        "test_old_spellings_do_the_same_and_say_so": "one word has two meanings",
    },
    "cli/test_defects.py": {
        "test_a_folder_that_takes_no_file_is_told": "a folder that takes no files is called a missing file",
        "test_several_volumes_are_told_alike": "each verb asks in its own words for one volume",
        "test_costs_of_several_volumes_are_not_those_of_the_first": "costs for ncdu are the first volume's, silently",
        "test_a_capture_goes_by_its_own_name": "a capture goes by the name of its image",
        "test_a_missing_trace_is_told_as_other_files_are": "a missing trace is an error number",
        "test_formats_that_were_tried_are_told": "a text is no reads of a format that nobody named",
        "test_check_says_where_codes_are_explained": "check does not say what to do",
        "test_an_error_of_a_file_names_the_file": "a read error is called one of the output",
    },
    "cli/test_errors.py": {
        "test_interrupted_process_ends_with_130": "Ctrl-C while modules are loaded shows a stack",
    },
    "cli/test_encrypted.py": {
        "test_every_verb_says_that_it_is_locked_and_how_to_open_it": "predict says nothing of encryption",
        "test_a_wrong_password_is_an_error": "a wrong password is a warning",
        "test_a_password_is_asked_for_without_echo": "a password must be typed where others see it",
    },
    "cli/test_written.py": {
        "test_formats_follow_the_ending": "CSV is written into a.parquet",
        "test_a_contradiction_is_an_error": "a contradiction of format and ending is not noticed",
        "test_parquet_is_not_written_to_a_terminal": "Parquet goes to a terminal",
        "test_what_was_written_is_said": "nothing is said of what was written",
    },
    "cli/test_help.py": {
        "test_options_that_cannot_matter_are_not_shown": "options that cannot matter are shown",
        "test_help_shows_what_is_typed": "help shows braces and types of the program",
        "test_help_ends_with_two_examples_that_work": "there is no example in any help",
    },
    "cli/test_completion.py": {
        "test_bash_completes_with_the_script": "there is no completion",
    },
    "cli/test_program.py": {
        "test_each_finding_is_explained_with_what_to_do": "codes and metrics are explained in the README alone",
        "test_the_cache_is_used_shown_and_cleared": "an image is decompressed each time",
    },
    "cli/test_watch.py": {
        "": "long work is silent",
    },
}
"""Defects by test, per module below ``tests``. An empty name stands for the whole module."""


@cache
def known_tests(name):
    """List the test functions of a module."""
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    return {item.name for item in tree.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")}


CASES = [(module, test, defect) for module, tests in DEFECTS.items() for test, defect in tests.items()]


@for_each("module, test", [case[:2] for case in CASES])
def test_every_defect_has_its_test(module, test):
    """The named test exists."""
    assert known_tests(module)
    assert not test or test in known_tests(module)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Write a container with three volumes, two of which can be listed."""
    path = tmp_path_factory.mktemp("several") / "macos.img"
    write(SCENARIOS["volumes"], path)
    return path


def test_a_folder_that_takes_no_file_is_told(run, image, monkeypatch, tmp_path):
    """The error names the folder, not the file that was to be created."""

    def refuse(**_given):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    result = run("export", image, "--table", "free", "-o", tmp_path / "a.csv")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path / 'a.csv'}: its folder takes no new file: " in result.stderr


@pytest.mark.parametrize("words", ["trace IMAGE", "compare IMAGE IMAGE", "series IMAGE", "predict IMAGE --ncdu OUT"])
def test_several_volumes_are_told_alike(run, several, tmp_path, words):
    """Commands for one volume list the available ones, and both ways to choose."""
    name, *rest = words.replace("IMAGE", str(several)).replace("OUT", str(tmp_path / "costs")).split()
    result = run(name, *rest)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "volumes can be walked ('System', 'Data'" in result.stderr
    assert "choose one with --volume, or as IMAGE:VOLUME" in result.stderr


def test_costs_of_several_volumes_are_not_those_of_the_first(run, several, tmp_path):
    """Costs are written if a volume is chosen, otherwise nothing is."""
    assert run("predict", several, "--ncdu", tmp_path / "costs").exit_code == 2
    assert not (tmp_path / "costs").exists()
    assert run("predict", f"{several}:Data", "--ncdu", tmp_path / "costs").exit_code == 0
    assert (tmp_path / "costs").exists()


def test_a_volume_that_is_chosen_is_not_asked_for(several):
    """Nor is there a question if the image has only one volume."""
    assert len(trace(several, volume="System"))
    with pytest.raises(UsageError, match="choose one"):
        trace(several)
    assert len(read_layouts(several)) == 4


@pytest.mark.parametrize("words", ["inspect CAPTURE --at 0", "verify CAPTURE", "extract CAPTURE -o OUT"])
def test_a_capture_goes_by_its_own_name(run, image, tmp_path, words):
    """Messages show the typed name, not that of the captured image."""
    kept = tmp_path / "kept.lscope"
    assert run("scan", image, "--save", kept).exit_code == 0
    name, *rest = words.replace("CAPTURE", str(kept)).replace("OUT", str(tmp_path / "a.img")).split()
    result = run(name, *rest)
    assert result.exit_code == 2
    assert result.stderr == f"layoutscope: {kept}: is a capture; this needs the image itself\n"


def test_a_missing_trace_is_told_as_other_files_are(run, tmp_path):
    """In one line, by its name, without an error number."""
    result = run("replay", tmp_path / "nothing.csv")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(f"layoutscope: {tmp_path / 'nothing.csv'}: no such file")
    assert "Errno" not in result.stderr


def test_formats_that_were_tried_are_told(run, tmp_path):
    """Without a given format all are named; with one, only that one."""
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary\n" * 50)
    assert (
        "any format that was tried: csv, fio, blkparse, pairs, fs_usage, iosnoop, biosnoop"
        in run("replay", path).stderr
    )
    assert run("replay", path, "--format", "fio").stderr.count("fio") >= 1
    assert "any format" not in run("replay", path, "--format", "blkparse").stderr


def test_check_says_where_codes_are_explained(run, image, cut_off):
    """Below findings, and nowhere else."""
    assert "layoutscope explain CODE" in run("check", cut_off).stdout
    assert "explain" not in run("check", image).stdout


def test_an_error_of_a_file_names_the_file(run, image, monkeypatch):
    """A system error on an input is not taken for a full disk."""

    def fail(*_args, **_options):
        raise OSError(5, "Input/output error", "/dev/disk4")

    monkeypatch.setattr("layoutscope.api.scan.open_volumes", fail)
    result = run("scan", image)
    assert (result.exit_code, result.stderr) == (1, "layoutscope: /dev/disk4: input/output error\n")
