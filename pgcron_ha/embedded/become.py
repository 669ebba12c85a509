"""A script: become another user, then turn into a program, in the same process.

``become.py namespace UID GID PROGRAM…``: a user namespace in which the caller is called UID.
``become.py user UID GID PROGRAM…``: really UID, without any other group; needs root.

It runs with ``python -I -S`` and imports nothing of ours. A script and not a function between fork
and exec, where a process with threads may not do such things.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWUSER = 0x10000000


def main() -> None:
    """Do what the module says; the program's exit code becomes ours."""
    way, uid, gid, *program = sys.argv[1:]
    if way == "namespace":
        _enter_namespace(int(uid), int(gid))
    else:
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.execvp(program[0], program)


def _enter_namespace(uid: int, gid: int) -> None:
    real_uid, real_gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/uid_map").write_text(f"{uid} {real_uid} 1")
    # Groups can be mapped only after this process has given up changing them.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{gid} {real_gid} 1")


if __name__ == "__main__":
    main()
