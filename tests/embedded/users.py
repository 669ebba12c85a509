"""Other users to run a process as, with what they can read."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgcron_ha.embedded import find_binaries
from tests.embedded.processes import CHECKOUT, PROGRAM

# Root's own interpreter is often in a home that nobody else can enter.
_PYTHONS = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"


@dataclass(frozen=True)
class User:
    """A user of the system, and what makes an `Owner` run as that user."""

    uid: int
    how: Mapping[str, Any] = field(default_factory=dict)


def normal_user(place: Path) -> User:
    """Ourselves, if we are not root; else nobody, who gets `place` and copies of what it needs."""
    if os.geteuid() != 0:
        return User(os.geteuid())
    nobody = pwd.getpwnam("nobody")
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}
    code = _copy_of_the_launcher(place)
    environment = {
        "PYTHONPATH": str(code),
        "PGCRON_HA_PG_BIN": str(_copy_of_the_binaries(place)),
        "HOME": "/nonexistent",
    }
    python = (_python_for(identity), str(code / PROGRAM.name))
    return User(nobody.pw_uid, {"python": python, "environment": environment, **identity})


def _copy_of_the_launcher(place: Path) -> Path:
    code = place / "code"
    if not code.exists():
        package = code / "pgcron_ha"
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / "pgcron_ha" / "embedded", package / "embedded", ignore=unwanted)
        for name in ("errors.py", "operating_system.py"):
            shutil.copy(CHECKOUT / "pgcron_ha" / name, package)
        shutil.copy(PROGRAM, code)
    return code


def _copy_of_the_binaries(place: Path) -> Path:
    return find_binaries().copied_to(place / "postgresql").directory


def _python_for(identity: Mapping[str, Any]) -> str:
    for candidate in _PYTHONS:
        try:
            subprocess.run([candidate, "-c", _NEW_ENOUGH], check=True, **identity)
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    raise AssertionError("no Python 3.11 or newer on this machine that every user can run")
