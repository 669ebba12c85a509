"""A script, the keeper: it stops the server of a folder after the last process that used it.

``shim.py KEEPER USERS SOCKETS start UID GID PROGRAM…`` starts postgres as its child, as that user,
and waits for it.
``shim.py KEEPER USERS SOCKETS adopt PID`` keeps a server whose own keeper was killed.

KEEPER is the inherited descriptor of ``keeper.lock``, which is held as long as this process lives;
USERS is the path of ``users.lock``; SOCKETS is a folder to remove with the server, or empty. The
output goes to the server's log. It detaches itself, so that it is nobody's zombie; SIGTERM stops
the server. It runs with ``python -I -S`` and imports nothing of pgcron_ha.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# What a server that nobody uses gets, and how long it has to react. Fast shutdown writes a
# checkpoint, which a busy disk may take long over; immediate only ends the processes.
_STOP_STEPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))

# Only where the system can't tell us about the end of a process that is not our child.
_LOOK_AGAIN_SECONDS = 0.2


def main() -> None:
    """Do what the module says, until the server is gone."""
    _keeper_lock, users_lock, sockets, task, *rest = sys.argv[1:]
    if os.fork():
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    if task == "start":
        uid, gid, *program = rest
        other: dict[str, Any] = {}
        if int(uid) != os.geteuid():
            other = {"user": int(uid), "group": int(gid), "extra_groups": ()}
        server = subprocess.Popen(program, stdin=subprocess.DEVNULL, **other)
        keep(server.pid, server.wait, users_lock, sockets)
    else:
        pid = int(rest[0])
        keep(pid, _waiting_for(pid), users_lock, sockets)


def keep(pid: int, wait: Callable[[], object], users_lock: str, sockets: str) -> None:
    """Stop the server after its last user; return when it is gone for whatever reason."""
    for unwanted in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unwanted, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _send(pid, signal.SIGINT))
    gone, nobody_left = threading.Event(), threading.Event()
    arguments = (pid, users_lock, gone, nobody_left)
    threading.Thread(target=_stop_after_last_user, args=arguments, daemon=True).start()
    wait()
    gone.set()
    # Only then no process can be about to start a server that would use the folder.
    if nobody_left.is_set() and sockets:
        try:
            os.rmdir(sockets)
        except OSError:
            pass  # not empty or not there: somebody else's business


def _stop_after_last_user(
    pid: int, users_lock: str, gone: threading.Event, nobody_left: threading.Event
) -> None:
    # Granted when no process holds the shared lock, however they died. Kept until this process
    # ends, so that whoever comes meanwhile waits until the server is down.
    fcntl.flock(os.open(users_lock, os.O_RDWR), fcntl.LOCK_EX)
    nobody_left.set()
    for how, seconds in _STOP_STEPS:
        if not gone.is_set():
            _send(pid, how)
        if gone.wait(seconds):
            return


def _send(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass  # it is gone, which is what was wanted


def _waiting_for(pid: int) -> Callable[[], object]:
    """A function that returns when a process that is not our child has ended, reaped or not."""
    if not hasattr(os, "pidfd_open"):
        return lambda: _poll(pid)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: None
    except OSError:
        return lambda: _poll(pid)
    return lambda: select.select([descriptor], [], [])


def _poll(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(_LOOK_AGAIN_SECONDS)


if __name__ == "__main__":
    main()
