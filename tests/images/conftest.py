"""Real drivers on demand, for tests whose images are made at run time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def lab(shared, tmp_path_factory):
    """Return a function that runs the lab; skips where the lab is not set up."""
    program = shared / "lab" / "lab"
    home = Path(os.environ.get("LAB_HOME", Path.home() / ".cache" / "layoutscope-lab"))
    if not (home / "tools" / "linux").exists():
        pytest.skip("the lab was not set up")
    scratch = tmp_path_factory.mktemp("lab")
    environment = dict(os.environ, LAB_TMP=str(scratch))

    def run(*arguments: str) -> None:
        subprocess.run([program, *arguments], check=True, capture_output=True, env=environment, cwd=scratch)

    return run
