"""The demo's folder: its database, its configuration, and what its jobs and nodes write."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from pathlib import Path
from typing import Final

from pgcron_ha.embedded import default_data_directory
from pgcron_ha.embedded.locks import FileLock
from pgcron_ha.errors import ConfigError, Conflict

LEASE_TTL: Final = "5s"
"""Short, so that what a killed node left starts elsewhere while one watches."""

SLOTS: Final = 8
GRACE_SECONDS: Final = 5
_KEPT_DUMPS: Final = 3


class DemoFolder:
    """One folder is one demo; `lock` sees to it."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.server = self.path / "server"
        self.configuration = self.path / "pgcron-ha.toml"
        self.dumps = self.path / "dumps"
        self.logs = self.path / "logs"
        self._nodes = self.path / "nodes"
        self._lock = FileLock(self.path / "demo.lock")

    def lock(self) -> None:
        """Make the folder and hold it until the end of this process or `unlock`.

        Raises Conflict while another demo runs in it, and ConfigError for a folder that can't be
        written or holds something else.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not self._lock.path.exists():
                raise self._unusable("It holds files of something else.")
            is_free = self._lock.try_acquire()
        except OSError as error:
            raise self._unusable(f"The system says: {error.strerror or error}.") from error
        if not is_free:
            raise Conflict(
                f"another demo runs in '{self.path}'",
                "A demo needs a folder of its own.",
                "Stop the other one, or choose another folder: demo --data DIRECTORY.",
            )

    def unlock(self) -> None:
        """Let the next demo use the folder; its files stay."""
        self._lock.release()

    def prepare(self, *, keep: bool) -> None:
        """Make the folders of jobs and nodes; empty, unless `keep`."""
        for folder in (self.dumps, self.logs, self._nodes):
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        if not keep:
            for name in ("report.txt", "report.json", "trend.csv"):
                (self.path / name).unlink(missing_ok=True)

    def configure(self, dsn: str, schema: str) -> None:
        """Write the nodes' ``pgcron-ha.toml``; it holds the DSN, so only its owner may read it."""
        descriptor = os.open(self.configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(self._toml(dsn, schema))

    def _toml(self, dsn: str, schema: str) -> str:
        backup = [sys.executable, "-m", "pgcron_ha.demo.backup", str(self.dumps), str(_KEPT_DUMPS)]
        user = _user_name()
        passed = ["PYTHONPATH", "PGPASSWORD", "PGCRON_DEMO_DATABASE", "PGCRON_DEMO_ONLY_SCHEMA"]
        return "\n".join(
            [
                "# Written by `pgcron-ha demo`, at each start.",
                f"dsn = {_text(dsn)}",
                f"schema = {_text(schema)}",
                "",
                "[node]",
                f"slots = {SLOTS}",
                f"lease_ttl = {_text(LEASE_TTL)}",
                f'grace = "{GRACE_SECONDS}s"',
                'apps = ["pgcron_ha.demo.app:app"]',
                f"state_directory = {_text(str(self._nodes))}",
                "",
                "[shell.backup]",
                f"argv = {_text(backup)}",
                f"environment = {_text([*passed, 'PGCRON_HA_PG_BIN'])}",
                f"working_directory = {_text(str(self.path))}",
                'timeout = "1m"',
                *([f"user = {_text(user)}"] if user else []),
                "",
            ]
        )

    def _unusable(self, detail: str) -> ConfigError:
        return ConfigError(
            f"the folder '{self.path}' can't be used for the demo",
            detail,
            "Choose one that is empty or not there yet: demo --data DIRECTORY.",
        )


def default_folder() -> Path:
    """Beside the embedded server's own folder, as ``~/.local/state/pgcron_ha/demo``."""
    return default_data_directory().with_name("demo")


def _text(value: str | list[str]) -> str:
    # JSON's strings and lists of them are also TOML's.
    return json.dumps(value, ensure_ascii=False)


def _user_name() -> str | None:
    """The current user, whom a node that runs as root must be told; None if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
