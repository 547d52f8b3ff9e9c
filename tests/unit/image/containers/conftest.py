"""Fixtures of the tests of containers."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def convert(peer):
    """Return a function that writes a disk in another form with QEMU's own program."""

    def run(disk, target, form, *options):
        subprocess.run([peer("qemu-img"), "convert", "-f", "raw", "-O", form, *options, disk, target], check=True)
        return target

    return run
