"""How deep a scan is: calls of ours around the first byte that is read, and modules that a small scan enters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "images"
MAX_FRAMES = 10
MAX_MODULES = 142

SCRIPT = """
import sys
from pathlib import Path
import layoutscope

root, scan = str(Path(layoutscope.__file__).parent), layoutscope.scan
depth, modules = [], set()

def note(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(root) or code.co_name == "<module>":
        return
    modules.add(code.co_filename)
    if code.co_name in ("_fetch", "_fetch_into") and not depth:
        ours = 0
        while frame is not None:
            ours += frame.f_code.co_filename.startswith(root)
            frame = frame.f_back
        depth.append(ours)

sys.setprofile(note)
scan(sys.argv[1])
sys.setprofile(None)
print(depth[0], len(modules))
"""


@pytest.mark.parametrize("name", ["apfs-scattered.img.zst", "hfsplus-scattered.img.zst"])
def test_a_scan_is_shallow(name):
    """Whoever follows a call meets few functions that only hand it on; imports are not counted."""
    told = subprocess.run([sys.executable, "-c", SCRIPT, FOLDER / name], capture_output=True, text=True, check=True)
    frames, modules = map(int, told.stdout.split())
    assert 0 < frames <= MAX_FRAMES
    assert 0 < modules <= MAX_MODULES
