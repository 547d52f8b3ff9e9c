"""Output for other programs: complete lines, no trailing blanks, no control codes."""

from __future__ import annotations

import os

import pytest

COMMANDS = (
    "scan IMAGE",
    "scan IMAGE --details --explain",
    "predict IMAGE --what-if ssd",
    "predict IMAGE --order all",
    "compare IMAGE IMAGE",
    "series IMAGE IMAGE",
    "check CUT",
    "inspect IMAGE --at 1024",
    "drives",
    "drives generic-7200",
    "explain clump-largest-share",
    "cache",
    "verify IMAGE",
)


@pytest.fixture
def plain() -> dict[str, str]:
    """Return the environment without a terminal width."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


@pytest.mark.full
@pytest.mark.parametrize("words", COMMANDS)
def test_no_line_ends_with_a_blank(shell, image, cut_off, plain, words):
    """Piped output can be compared, cut and pasted."""
    result = shell(*words.replace("IMAGE", str(image)).replace("CUT", str(cut_off)).split(), env=plain)
    assert result.stdout
    assert [line for line in result.stdout.split("\n") if line != line.rstrip()] == []
    assert "\x1b" not in result.stdout


def test_lines_of_a_pipe_are_whole(shell, image, plain):
    """A definition is one line for grep; with a width of 80 columns it is several."""
    words = ("scan", image, "--details", "--explain")
    sentence = "0 in order, 0.5 at random, 1 reversed."
    whole, wrapped = shell(*words, env=plain).stdout, shell(*words, env={**plain, "COLUMNS": "80"}).stdout
    lines = [line for line in whole.splitlines() if sentence in line]
    assert lines
    assert all("Share of pairs of leaves" in line for line in lines)
    assert not [line for line in wrapped.splitlines() if len(line) > 80]
    assert " ".join(sentence.split()) in " ".join(wrapped.split())


def test_the_first_screen_is_as_narrow_in_a_pipe(shell, image, plain):
    """It is made for 80 columns wherever it is shown."""
    assert max(map(len, shell("scan", image, env=plain).stdout.splitlines())) <= 80
