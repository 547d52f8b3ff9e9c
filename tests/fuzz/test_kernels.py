"""The C kernels under a fuzzer: their corpus and mutations of it, for a moment each."""

from __future__ import annotations

import subprocess

import pytest

from tests.cases import for_each
from tests.fuzz.kernels.targets import SEEDS, Fuzzer, build, prototypes


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory) -> Fuzzer:
    """Return the targets, compiled once."""
    try:
        return build(tmp_path_factory.mktemp("kernels"))
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no compiler with sanitizers: {error}")


def test_every_kernel_has_a_corpus():
    """Every kernel has calls that it accepts: ``python -m tests.fuzz.kernels --record`` adds those of a new one."""
    assert {path.name for path in SEEDS.iterdir()} == set(prototypes())


@pytest.mark.full
@for_each("kernel", sorted(prototypes()))
def test_no_kernel_leaves_its_buffers(kernel, fuzzer):
    """Neither the address sanitizer nor the undefined behavior sanitizer reports anything."""
    assert fuzzer.run(kernel, seconds=0.5, seed=2024) > 100
