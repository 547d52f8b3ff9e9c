"""Text inputs longer than a limit are refused before they are parsed."""

from __future__ import annotations

import pytest

from layoutscope import inputs
from layoutscope.drive.calibration.plan import MAX_LOG_BYTES
from layoutscope.image.failing import _MAX_MAP_BYTES

LONGEST = {
    ("drives", "fit", "mine", "--fio", "FILE"): inputs.MAX_PARSED_BYTES,
    ("drives", "fit", "mine", "--reads", "FILE"): MAX_LOG_BYTES,
    ("drives", "FILE.toml"): inputs.MAX_PARSED_BYTES,
    ("scan", "IMAGE", "--password-file", "FILE"): inputs.MAX_SECRET_BYTES,
    ("scan", "IMAGE", "--ddrescue-map", "FILE"): _MAX_MAP_BYTES,
}


@pytest.mark.parametrize("words", LONGEST, ids=" ".join)
def test_texts_longer_than_any_are_refused(run, image, tmp_path, words):
    """One byte more than the limit gives that error; a file at the limit fails for other reasons."""
    for more in (0, 1):
        name = f"{more}.toml"
        with (tmp_path / name).open("wb") as file:
            file.truncate(LONGEST[words] + more)
        places = {"FILE": tmp_path / name, "FILE.toml": tmp_path / name, "IMAGE": image}
        result = run(*(str(places.get(word, word)) for word in words))
        assert "Traceback" not in result.stderr
        assert ("longer than" in result.stderr or "too large" in result.stderr) == bool(more)
        if more:
            assert result.exit_code in (1, 2)
            assert result.stderr.count("\n") == 1
