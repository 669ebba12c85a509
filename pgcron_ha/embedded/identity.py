"""Who the embedded server runs as.

PostgreSQL refuses to run as root. A normal user's server is simply the user's. Root's server runs
in a user namespace where root is called ``nobody``: PostgreSQL is content, and the files stay
root's, in any folder root can reach. Where that is forbidden (the default of many containers), or
where the folder belongs to somebody, it runs as ``nobody`` or as that somebody.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgcron_ha.errors import ConfigError

_BECOME = str(Path(__file__).with_name("become.py"))
_UNPRIVILEGED = "nobody"

# Starting `true` takes milliseconds.
_PROBE_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Identity:
    """A user for PostgreSQL's programs.

    `uid` and `gid` are those of the files it makes, `prefix` is what to put before a command.
    """

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()

    @property
    def changes_user(self) -> bool:
        """Whether it is another user of the system than the caller."""
        return self.uid != os.geteuid()

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs `arguments` as this user, in the same process."""
        return [*self.prefix, *map(str, arguments)]


def identity_for(folder: Path, *, has_data: bool) -> Identity:
    """Who must run the server of this folder; `has_data` says that there is a cluster in it.

    Raises ConfigError when root can't become a fitting user.
    """
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid())
    owner = folder.stat().st_uid
    if owner != 0:
        return _user(_account(owner))
    if user_namespaces_work():
        nobody = _account(_UNPRIVILEGED)
        return Identity(0, os.getegid(), _prefix("namespace", nobody))
    if has_data:
        raise ConfigError(
            f"The embedded PostgreSQL in '{folder}' can't be started by root here",
            "Its files belong to root, and this system forbids the user namespace it ran in.",
            "Start it where user namespaces are allowed, choose another folder or set "
            "PGCRON_HA_DSN.",
        )
    return _user(_account(_UNPRIVILEGED))


@cache
def user_namespaces_work() -> bool:
    """Whether root can make a user namespace here; False for everybody but root on Linux."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return False
    try:
        probe = subprocess.run(
            [*_prefix("namespace", _account(_UNPRIVILEGED)), "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_PROBE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired, ConfigError):
        return False
    return probe.returncode == 0


def _user(account: pwd.struct_passwd) -> Identity:
    return Identity(account.pw_uid, account.pw_gid, _prefix("user", account))


def _prefix(way: str, account: pwd.struct_passwd) -> tuple[str, ...]:
    # Isolated and without site-packages: 20 ms, and nothing of the caller's environment matters.
    script = (sys.executable, "-I", "-S", _BECOME)
    return (*script, way, str(account.pw_uid), str(account.pw_gid))


def _account(user: int | str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(
            f"The system does not know the user '{user}'",
            "PostgreSQL does not run as root and asks the system for the name of its user.",
            "Start pgcron-ha as a normal user, or set PGCRON_HA_DSN.",
        ) from None
