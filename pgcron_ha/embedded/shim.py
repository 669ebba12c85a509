"""A script, the keeper: it stops the server of a folder after the last process that used it.

``shim.py KEEPER USERS SOCKETS UID GID PROGRAM…`` starts postgres as its child, as that user, and
waits for it.

KEEPER is the inherited descriptor of ``keeper.lock``, which is held as long as this process lives;
USERS is the path of ``users.lock``; SOCKETS is the socket's folder, removed with the server. The
output goes to the server's log. It detaches itself, so that it is nobody's zombie; SIGTERM stops
the server. It runs with ``python -I -S`` and imports nothing of pgcron_ha.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from typing import Any

# What a server that nobody uses gets, and how long it has to react. Fast shutdown writes a
# checkpoint, which a busy disk may take long over; immediate only ends the processes.
_STOP_STEPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))


def main() -> None:
    """Do what the module says, until the server is gone."""
    _keeper_lock, users_lock, sockets, uid, gid, *program = sys.argv[1:]
    if os.fork():
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    other: dict[str, Any] = {}
    if int(uid) != os.geteuid():
        other = {"user": int(uid), "group": int(gid), "extra_groups": ()}
    server = subprocess.Popen(program, stdin=subprocess.DEVNULL, **other)
    for unwanted in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unwanted, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGINT))
    nobody_left = threading.Event()
    arguments = (server, users_lock, nobody_left)
    threading.Thread(target=_stop_after_last_user, args=arguments, daemon=True).start()
    server.wait()
    # Only then no process can be about to start a server that would use the folder.
    if nobody_left.is_set():
        with contextlib.suppress(OSError):  # not empty or not there: somebody else's business
            os.rmdir(sockets)


def _stop_after_last_user(
    server: subprocess.Popen[bytes], users_lock: str, nobody_left: threading.Event
) -> None:
    # Granted when no process holds the shared lock, however they died. Kept until this process
    # ends, so that a process that comes meanwhile waits until the server is down.
    fcntl.flock(os.open(users_lock, os.O_RDWR), fcntl.LOCK_EX)
    nobody_left.set()
    for how, seconds in _STOP_STEPS:
        server.send_signal(how)  # nothing to one that is gone
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(seconds)
            return


if __name__ == "__main__":
    main()
