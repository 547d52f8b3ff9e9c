"""Fixtures that run the command line, and images for it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from layoutscope.cli import app

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "fixtures" / "images"
HFS, APFS = IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"


@pytest.fixture
def run():
    """Return a function that runs a command line in this process; its result has exit_code, stdout and stderr."""
    runner = CliRunner()

    def call(*words: object):
        return runner.invoke(app, [str(word) for word in words], catch_exceptions=False)

    return call


@pytest.fixture
def shell():
    """Return a function that runs a command line as users do, with a pipe as its output."""

    def call(*words: object, **options: object):
        command = [sys.executable, "-m", "layoutscope", *(str(word) for word in words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT, **options)

    return call


@pytest.fixture(scope="session")
def image(tmp_path_factory) -> Path:
    """Return the committed HFS+ image, decompressed."""
    return decompressed("hfsplus-scattered", tmp_path_factory.mktemp("image") / "scattered.img")


@pytest.fixture(scope="session")
def apfs_image(tmp_path_factory) -> Path:
    """Return the committed APFS image, decompressed."""
    return decompressed("apfs-scattered", tmp_path_factory.mktemp("apfs") / "apfs.img")


def decompressed(name: str, target: Path) -> Path:
    """Write a committed image to a sparse file."""
    from layoutscope.image import open_image

    with open_image(IMAGES / f"{name}.img.zst") as source, target.open("wb") as file:
        file.truncate(source.size_bytes)
        chunk = 1 << 20
        for start in range(0, source.size_bytes, chunk):
            data = source.read(start, min(chunk, source.size_bytes - start))
            if data.count(0) != len(data):
                file.seek(start)
                file.write(data)
    return target


@pytest.fixture(scope="session")
def cut_off(image, tmp_path_factory) -> Path:
    """Return the first 20 MiB of the image; most of its catalog is after them."""
    target = tmp_path_factory.mktemp("cut") / "cut.img"
    with image.open("rb") as file:
        target.write_bytes(file.read(20 << 20))
    return target


def ends(process: int) -> bool:
    """Wait, by an ``os.pidfd_open`` file, for the end of a process that another process started; close the file."""
    try:
        return bool(select.select([process], [], [], 120)[0])
    finally:
        os.close(process)


def files_of(folder):
    """Return the files of a folder and its subfolders, by relative path."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
