"""The folder of an embedded server: what is in it, who may use it, and who its server runs as.

PostgreSQL refuses to run as root. A normal user's server is simply the user's. Root's server runs
in a user namespace where root is called ``nobody``: PostgreSQL is content, and the files stay
root's, in any folder root can reach. Where that is forbidden (the default of many containers), or
where the folder belongs to somebody, it runs as ``nobody`` or as that somebody.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgcron_ha.errors import ConfigError

# A socket's address has 104 bytes on macOS and 108 on Linux, with ".s.PGSQL.5432" and a final zero.
_LONGEST_SOCKET_DIRECTORY = 88

# PostgreSQL and drivers read commas, quotes and spaces in such a path as something else.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+=@-]*")
_BECOME = str(Path(__file__).with_name("become.py"))
_UNPRIVILEGED = "nobody"

# Starting `true` takes milliseconds.
_PROBE_TIMEOUT_SECONDS = 10.0


class DataDirectory:
    """The files of one embedded server, and nobody else's."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # One folder must have one name: processes compare it with the server's command line.
        self.path = Path(os.path.realpath(path))
        self.pgdata = self.path / "pgdata"
        self.unfinished_pgdata = self.path / "pgdata.new"
        self.password_file = self.path / "password"
        self.log = self.path / "postgres.log"
        self.older_log = self.path / "postgres.log.1"
        self.users_lock = self.path / "users.lock"
        self.keeper_lock = self.path / "keeper.lock"
        self.start_lock = self.path / "start.lock"
        self.binaries = self.path / "binaries"
        self._own_socket_directory = self.path / "run"

    def create(self) -> None:
        """Make the folder, with mode 0700, if it is not there.

        Raises ConfigError if it can't be made, belongs to another user or holds other files.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            owner = self.path.stat().st_uid
            names = set(os.listdir(self.path))
        except OSError as error:
            raise self._unusable(f"The system says: {error.strerror or error}.") from error
        if os.geteuid() not in (0, owner):
            raise self._unusable(f"It belongs to the user with the id {owner}.")
        if foreign := sorted(names - self._own_names()):
            raise self._unusable(f"It holds files of something else, such as '{foreign[0]}'.")

    @property
    def is_initialised(self) -> bool:
        """Whether there is a cluster; it gets its name only when it is complete."""
        return self.pgdata.exists()

    @property
    def socket_directory(self) -> Path:
        """Where the server's socket goes: beside pgdata (pg_rewind trips over sockets in it).

        For a path that an address can't hold, a folder of /tmp that only depends on the path:
        TMPDIR may differ between the processes that share the server.
        """
        plain = str(self._own_socket_directory)
        if len(plain) <= _LONGEST_SOCKET_DIRECTORY and _PLAIN_PATH.fullmatch(plain):
            return self._own_socket_directory
        return Path("/tmp") / f"pgcron-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    @property
    def temporary_socket_directory(self) -> Path | None:
        """The socket's folder if it is outside this folder: to be removed with the server."""
        chosen = self.socket_directory
        return None if chosen == self._own_socket_directory else chosen

    def create_socket_directory(self, uid: int, gid: int) -> None:
        """Make the socket's folder for a server of this user.

        Raises ConfigError if somebody else made it: /tmp is everybody's, and a server of theirs
        could wait there for our password.
        """
        path = self.socket_directory
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass  # left by an earlier server; looked at now
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), uid):
            raise ConfigError(
                f"The socket folder '{path}' belongs to somebody else",
                "The server's socket must be in a folder that only its own user can write.",
                "Remove that folder, or choose a shorter path for the data folder.",
            )
        path.chmod(0o700)
        if found.st_uid != uid:
            os.chown(path, uid, gid)

    def files_at_rest(self) -> list[Path]:
        """The folder and its small files that exist now: what changes hands with it."""
        own = (self.password_file, self.users_lock, self.keeper_lock, self.start_lock, self.log)
        return [self.path, *(path for path in own if path.exists())]

    def _own_names(self) -> set[str]:
        return {path.name for path in vars(self).values() if path != self.path}

    def _unusable(self, detail: str) -> ConfigError:
        return ConfigError(
            f"The folder '{self.path}' can't hold the embedded PostgreSQL",
            detail,
            "Choose a folder of your own that is empty or not there yet, or set PGCRON_HA_DSN.",
        )


def default_data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the embedded server is when nobody says: ``~/.local/state/pgcron_ha/embedded``.

    ``XDG_STATE_HOME`` is followed if it is absolute, as its specification says. Root without user
    namespaces gets ``/var/lib/pgcron_ha/embedded``: the server runs as nobody then, who can't
    enter root's home. Nothing is created. Raises ConfigError for a user without a home.
    """
    chosen = environment.get("XDG_STATE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen, "pgcron_ha", "embedded")
    if os.geteuid() == 0 and not user_namespaces_work():
        return Path("/var/lib/pgcron_ha/embedded")
    return Path(_home(environment), ".local", "state", "pgcron_ha", "embedded")


def _home(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "")
    if not home:
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = ""
    if not home.startswith("/"):
        raise ConfigError(
            "There is no home folder for the embedded PostgreSQL",
            "HOME is not set, and the system knows no home for this user.",
            "Set HOME or XDG_STATE_HOME to a folder you may write, or set PGCRON_HA_DSN.",
        )
    return home


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
