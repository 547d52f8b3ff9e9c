"""The process that makes processes: it has loaded what reading takes, and forks one for each that is asked for.

Started by :mod:`layoutscope.fleet.readers` with a socket as standard input. A byte there comes with three files: a
socket with the jobs of a new process, one by which its end is told and asked for, and what takes what it says. Whoever
asks and goes away, in whatever way, takes all of them along.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import selectors
import signal
import socket
import sys
import warnings
from contextlib import suppress
from typing import Final

import layoutscope
from layoutscope import bounded
from layoutscope.fleet.readers import serve_jobs

FILES: Final = 3
"""So many come with each byte."""

FOREIGN: Final = ("nanoarrow", "numpy.ma", "polars", "zstandard")
"""What reading takes of others, where it is installed; nothing of it starts to work before there is work."""

NOT_READING: Final = ("__main__", "aging", "cli", "fleet", "remedies", "report")
"""What reading takes nothing of."""


def load_modules() -> None:
    """Load what a process would else load for each source.

    Apple's libraries must not have been loaded where a process forks, so there each loads them itself.
    """
    if sys.platform == "darwin":
        return
    inside = (item.name for item in pkgutil.walk_packages(layoutscope.__path__, "layoutscope."))
    for name in (*FOREIGN, *(each for each in inside if each.split(".")[1] not in NOT_READING)):
        # An extra that is missing, or a kernel that is no module.
        with suppress(ImportError):
            importlib.import_module(name)


class Nursery:
    """Forks processes, tells of their ends, and ends them."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._watched: dict[int, socket.socket] = {}
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Work until nobody asks any more."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno())
        for each in (self._control, self._wake):
            self._selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake:
                    self._wake.recv(4096)
                    self._reap()
                elif key.fileobj is not self._control:
                    self._end(key.data)
                elif not self._begin():
                    # Nobody is told of their ends any more.
                    signal.set_wakeup_fd(-1)
                    for pid in tuple(self._watched):
                        self._end(pid)
                    return

    def _begin(self) -> bool:
        """Fork a process if one is asked for; False where nobody will ask any more."""
        word, files, _, _ = socket.recv_fds(self._control, 1, FILES)
        if not word or len(files) != FILES:
            return False
        jobs, said = socket.socket(fileno=files[0]), files[2]
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python counts threads of libraries, which have none of its locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            self._live(jobs, said, parent)
        self._watched[pid] = socket.socket(fileno=files[1])
        self._selector.register(self._watched[pid], selectors.EVENT_READ, pid)
        jobs.close()
        os.close(said)
        return True

    def _live(self, jobs: socket.socket, said: int, parent: int) -> None:
        """Be the new process."""
        code = 1
        try:
            os.setsid()
            bounded.end_with(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for each in (self._control, self._wake, self._waker, *self._watched.values()):
                each.close()
            for number in (1, 2):
                os.dup2(said, number)
            serve_jobs(jobs)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException as error:  # noqa: BLE001  (a copy of the nursery must not go on, whatever happened)
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="backslashreplace"))
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Tell of the ends of processes."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            watch = self._watched.pop(pid)
            self._selector.unregister(watch)
            with suppress(OSError):
                watch.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            watch.close()

    def _end(self, pid: int) -> None:
        """End a process and those that it started; it is told of when it is over."""
        if pid in self._watched:
            _kill(pid)
            with suppress(OSError):
                # What was asked for once need not be seen again.
                self._watched[pid].setblocking(False)
                if not self._watched[pid].recv(16):
                    self._selector.modify(self._watched[pid], 0)


def _kill(pid: int) -> None:
    """End a process that was forked here, and its group: it leads one as soon as it has begun."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def serve_asker() -> None:
    """Serve the socket that is standard input."""
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    gc.set_threshold(bounded.GARBAGE_AFTER_OBJECTS)
    load_modules()
    gc.collect()
    gc.freeze()
    Nursery(control).serve()
    os._exit(0)


if __name__ == "__main__":
    serve_asker()
