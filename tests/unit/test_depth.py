"""Depth of a scan: our calls around the first byte read, and modules that a small scan enters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "images"
MAX_FRAMES = 10
MAX_COMMAND_FRAMES = 11
MAX_MODULES = 120

SCRIPT = """
import inspect, sys
from pathlib import Path
import layoutscope
from layoutscope.__main__ import main

root, depth, modules = str(Path(layoutscope.__file__).parent), [], set()
scan = layoutscope.scan

def callers(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back

def is_imported(frame):
    # The body of a class runs while its module is imported, and so do functions that a module calls to build itself.
    is_class = not frame.f_code.co_flags & inspect.CO_OPTIMIZED
    return is_class or any(each.f_code.co_name == "<module>" for each in callers(frame) if is_ours(each))

def is_ours(frame):
    return frame.f_code.co_filename.startswith(root)

def note(frame, event, _):
    if event != "call" or not is_ours(frame) or is_imported(frame):
        return
    modules.add(frame.f_code.co_filename)
    if frame.f_code.co_name == "_fetch_into" and not depth:
        depth.append(sum(map(is_ours, callers(frame))))

sys.setprofile(note)
try:
    main() if sys.argv[1] == "scan" else scan(sys.argv[1])
except SystemExit as ended:
    assert ended.code == 0, ended.code
sys.setprofile(None)
print()
print(depth[0], len(modules))
"""


def count(*words):
    """Return the depth of the first read and the number of entered modules."""
    told = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    return tuple(map(int, told.stdout.splitlines()[-1].split()))


@pytest.mark.parametrize("name", ["apfs-scattered.img.zst", "hfsplus-scattered.img.zst"])
def test_a_scan_is_shallow(name):
    """Few functions on the way only pass the call on; imports are not counted."""
    frames, modules = count(FOLDER / name)
    assert 0 < frames <= MAX_FRAMES
    assert 0 < modules <= MAX_MODULES
    # Counted from the program's start to the first byte, without frames of typer and the standard library.
    frames, _ = count("scan", FOLDER / name)
    assert 0 < frames <= MAX_COMMAND_FRAMES
