"""``layoutscope trace`` writes the same reads as real drivers, for each traced order."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from layoutscope.cli.application import app

READ = ["--order", "read", "--file", "/large/2.bin"]
CASES = {
    "apfs-20000-c20-stat": [],
    "hfsplus-20000-c20-stat": ["--order", "fts"],
    "apfs-20000-c20-names": ["--order", "names"],
    "hfsplus-20000-c20-names": ["--order", "names"],
    "apfs-20000-c20-paths": ["--order", "paths", "--paths"],
    "hfsplus-20000-c20-paths": ["--order", "paths", "--paths"],
    "apfs-frag-copy": ["--order", "copy"],
    "hfsplus-frag-copy": ["--order", "copy"],
    "apfs-frag-read-seq": READ,
    "hfsplus-frag-read-seq": READ,
    "apfs-frag-read-random": [*READ, "--records", "2000", "--record-size", "16384", "--seed", "1"],
    "hfsplus-frag-read-random": [*READ, "--record-size", "16384", "--offsets"],
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_reads_are_those_of_the_driver(name, reference_image, truth, tmp_path):
    """Offsets and lengths of the CSV equal the block trace, in order."""
    folder, stem = ("driver", "-".join(name.split("-")[:2])) if "frag" in name else ("aged", name.rsplit("-", 1)[0])
    arguments = [*CASES[name]]
    if arguments[-1:] in (["--paths"], ["--offsets"]):
        kind = {"--paths": "list", "--offsets": "offsets.tsv"}[arguments[-1]]
        (tmp_path / "given").write_bytes(truth(f"{name}.{kind}.zst"))
        arguments.append(str(tmp_path / "given"))
    image = reference_image(f"{folder}/{stem}.img")
    result = CliRunner().invoke(app, ["trace", str(image), *arguments])
    assert result.exit_code == 0, result.output
    reads = pl.read_csv(io.BytesIO(result.stdout_bytes)).select("image_offset", "length_bytes").to_numpy()
    real = np.frombuffer(truth(f"{name}.trace.zst"), "<u8").reshape(-1, 2)
    assert reads.tolist() == real.tolist()


def test_a_line_without_an_offset_is_named(reference_image, tmp_path):
    """A list of offsets with a word is refused with the line number."""
    (tmp_path / "offsets").write_text("0 4096\n1 none\n")
    image = reference_image("driver/hfsplus-frag.img")
    result = CliRunner().invoke(app, ["trace", str(image), *READ, "--offsets", str(tmp_path / "offsets")])
    assert result.exit_code == 2
    assert "line 2" in result.stderr


def test_records_larger_than_the_file_are_refused(reference_image):
    """Random records need a file of at least one record."""
    image = reference_image("driver/hfsplus-frag.img")
    arguments = [*READ, "--records", "1", "--record-size", "1GiB"]
    result = CliRunner().invoke(app, ["trace", str(image), *arguments])
    assert result.exit_code == 2
    assert "less than a record" in result.stderr
