"""Progress: a line on standard error if it is a terminal, and nothing anywhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

from layoutscope.cli import running
from layoutscope.progress import Step

IMAGE = "fixtures/images/apfs-scattered.img.zst"

EAGER = """
import sys, time
from layoutscope.cli import app, running
running.DELAY_S, running.REDRAWN_EVERY_S, told = 0.0, 0.005, running.Watch.__call__
def drawn(bar):
    return [(task.description, task.completed) for task in bar.tasks] if bar else []
def wait(self, step):
    while step.phase and (step.phase, step.done) not in drawn(self._bar):
        time.sleep(0.001)
    told(self, step)
running.Watch.__call__ = wait
app(sys.argv[1:])
"""
"""The command, with lines at once instead of after two seconds, and no step before the last one is drawn."""

PATIENT = """
import sys
from layoutscope.cli import app, running
running.DELAY_S = 60.0
app(sys.argv[1:], standalone_mode=False)
print("rich.progress" in sys.modules)
"""


def _errors_of(arguments, *, program=EAGER, is_terminal=True, **environment):
    """Run a command; return its output on standard error (a terminal or a pipe) and on standard output."""
    outer, inner = pty.openpty() if is_terminal else os.pipe()
    command = [sys.executable, "-c", program, *arguments]
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=inner if is_terminal else subprocess.PIPE, env=variables
    ) as child:
        os.close(inner)
        if not is_terminal:
            os.close(outer)
            output, errors = child.communicate()
            return errors.decode(), output.decode()
        errors = b""
        try:
            while piece := os.read(outer, 65_536):
                errors += piece
        except OSError:  # how a terminal ends on Linux
            pass
        output, _ = child.communicate()
        os.close(outer)
        assert child.returncode == 0
    return errors.decode(), output.decode()


def test_a_terminal_shows_phases_with_their_share_and_bytes():
    """The phase, its share and the bytes; the last output clears the line."""
    errors, output = _errors_of(["scan", IMAGE])
    assert "reading" in errors
    assert "MiB" in errors
    assert errors.rstrip().endswith("\x1b[2K") or errors.rstrip().endswith("\x1b[?25h")
    assert "Scattered" in output


def test_a_pipe_gets_nothing():
    """Scripts and logs get no progress lines."""
    assert _errors_of(["scan", IMAGE], is_terminal=False)[0] == ""


def test_quiet_and_dumb_terminals_get_nothing():
    """Nothing is shown if it is disabled or the terminal cannot show it."""
    assert _errors_of(["scan", "--quiet", IMAGE])[0] == ""
    assert _errors_of(["scan", IMAGE], TERM="dumb")[0] == ""


def test_colours_are_left_out_where_nobody_wants_them():
    """With NO_COLOR there is a line without color."""
    errors, _ = _errors_of(["scan", IMAGE], NO_COLOR="1")
    assert "reading" in errors
    assert "\x1b[3" not in errors


def test_what_is_quick_shows_nothing():
    """Work that ends before the delay shows no line, and the drawing library is not even loaded."""
    errors, output = _errors_of(["scan", IMAGE, "--json"], program=PATIENT)
    assert errors == ""
    assert output.endswith("False\n")


def test_a_share_is_told_where_it_is_known():
    """Decompression has a share; the amount of reading is unknown beforehand."""
    bar = running._new_bar(io.StringIO())
    shown = []
    for step in (Step("decompressing", 512, 1024), Step("reading", 2048)):
        running.draw(bar, step)
        shown.append([(task.description, task.percentage if task.total else None, task.fields) for task in bar.tasks])
    assert shown == [
        [("decompressing", 50.0, {"counted": "512 B of 1.00 KiB", "left": ""})],
        [("reading", None, {"counted": "2.00 KiB", "left": ""})],
    ]


def test_the_time_left_follows_the_pace():
    """A quarter in ten seconds, counted from the second update: half takes twenty, the last hundredth nothing."""
    bar = running._new_bar(io.StringIO())
    clock = [0.0]
    bar.get_time = lambda: clock[0]
    shown = []
    for seconds, done in ((0, 0), (10, 256), (20, 512), (39.6, 1014)):
        clock[0] = float(seconds)
        running.draw(bar, Step("reading disk.img", done, 1024))
        shown.append(bar.tasks[0].fields["left"])
    assert shown == ["", "", "20 s left", ""]
