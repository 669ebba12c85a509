"""The folder of an embedded server: what is in it, who may use it, and who its server runs as.

PostgreSQL refuses to run as root. A normal user's server runs as that user, root's as ``nobody`` or
as the user who owns the folder.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pgcron_ha.errors import ConfigError

# A socket's address has 104 bytes on macOS and 108 on Linux, with ".s.PGSQL.5432" and a final zero.
_LONGEST_SOCKET_DIRECTORY = 88

# PostgreSQL and drivers read commas, quotes and spaces in such a path as something else.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+=@-]*")


class Identity(NamedTuple):
    """The user of PostgreSQL's programs, and of the files that they make."""

    uid: int
    gid: int

    @property
    def changes_user(self) -> bool:
        """Whether it is another user of the system than the caller."""
        return self.uid != os.geteuid()

    @property
    def options(self) -> dict[str, Any]:
        """The options with which `subprocess` runs a program as this user."""
        if not self.changes_user:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": ()}


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
        own = {path.name for path in vars(self).values() if path != self.path}
        if foreign := sorted(names - own):
            raise self._unusable(f"It holds files of something else, such as '{foreign[0]}'.")

    @property
    def identity(self) -> Identity:
        """Who must run its server. Raises ConfigError for a user without an account."""
        if os.geteuid() != 0:
            return Identity(os.geteuid(), os.getegid())
        user = self.path.stat().st_uid or "nobody"
        try:
            account = pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
        except KeyError:
            raise ConfigError(
                f"The system does not know the user '{user}'",
                "PostgreSQL does not run as root and asks the system for the name of its user.",
                "Start pgcron-ha as a normal user, or set PGCRON_HA_DSN.",
            ) from None
        return Identity(account.pw_uid, account.pw_gid)

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

    def create_socket_directory(self) -> None:
        """Make the socket's folder for the server's user.

        Raises ConfigError if another user made it: everybody may write to /tmp, and a server of
        that user could wait there for the password.
        """
        path, (uid, gid) = self.socket_directory, self.identity
        with suppress(FileExistsError):  # left by an earlier server; looked at now
            path.mkdir(mode=0o700)
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

    def _unusable(self, detail: str) -> ConfigError:
        return ConfigError(
            f"The folder '{self.path}' can't hold the embedded PostgreSQL",
            detail,
            "Choose a folder of your own that is empty or not there yet, or set PGCRON_HA_DSN.",
        )


def default_data_directory() -> Path:
    """Where the embedded server is by default: ``~/.local/state/pgcron_ha/embedded``.

    ``XDG_STATE_HOME`` is followed if it is absolute, as its specification says. Root gets
    ``/var/lib/pgcron_ha/embedded``: the server runs as nobody, who can't enter root's home.
    Nothing is created. Raises ConfigError for a user without a home.
    """
    chosen = os.environ.get("XDG_STATE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen, "pgcron_ha", "embedded")
    if os.geteuid() == 0:
        return Path("/var/lib/pgcron_ha/embedded")
    try:
        return Path.home() / ".local/state/pgcron_ha/embedded"
    except RuntimeError:
        raise ConfigError(
            "There is no home folder for the embedded PostgreSQL",
            "HOME is not set, and the system knows no home for this user.",
            "Set HOME or XDG_STATE_HOME to a folder you may write, or set PGCRON_HA_DSN.",
        ) from None
