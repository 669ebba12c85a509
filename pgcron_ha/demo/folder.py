"""The demo's folder: its server, its configuration, and what its jobs and nodes write."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Final

from pgcron_ha.demo.database import WorkDatabase
from pgcron_ha.embedded import default_data_directory
from pgcron_ha.embedded.locks import FileLock
from pgcron_ha.errors import ConfigError, Conflict

LEASE_TTL: Final = "5s"
"""Short, so that what a killed node left starts elsewhere while one watches."""

_TEMPLATE: Final = Path(__file__).with_name("nodes.toml")


class DemoFolder:
    """One folder is one demo at a time; its files stay until the next one."""

    def __init__(self, path: Path | None) -> None:
        """Without a path it is beside the embedded server's own folder."""
        self.path = Path(os.path.realpath(path or default_data_directory().with_name("demo")))
        self.server = self.path / "server"
        self.configuration = self.path / "pgcron-ha.toml"
        self.logs = self.path / "logs"
        self._nodes = self.path / "nodes"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and hold it; what the last demo's jobs and nodes wrote is removed.

        Raises Conflict while another demo runs in it, and ConfigError for a folder that can't be
        written or holds something else.
        """
        lock = FileLock(self.path / "demo.lock")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not lock.path.exists():
                raise self._unusable("It holds files of something else.")
            is_free = lock.try_acquire()
        except OSError as error:
            raise self._unusable(f"The system says: {error.strerror or error}.") from error
        if not is_free:
            raise Conflict(
                f"another demo runs in '{self.path}'",
                "A demo needs a folder of its own.",
                "Stop the other one, or choose another folder: demo --data DIRECTORY.",
            )
        with lock:
            for folder in (self.path / "dumps", self.logs, self._nodes):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(mode=0o700)
            yield

    def configure(self, database: WorkDatabase, port: int) -> None:
        """Write the nodes' ``pgcron-ha.toml``; it holds the DSN, so only its owner may read it."""
        texts = {
            "dsn": database.dsn,
            "schema": database.schema,
            "lease_ttl": LEASE_TTL,
            "python": sys.executable,
            "folder": str(self.path),
            "state_directory": str(self._nodes),
        }
        text = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
            # JSON's strings are also TOML's.
            {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items()},
            tables=database.schema,
            port=port,
            user='user = "root"' if os.geteuid() == 0 else "",
        )
        descriptor = os.open(self.configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def _unusable(self, detail: str) -> ConfigError:
        return ConfigError(
            f"the folder '{self.path}' can't be used for the demo",
            detail,
            "Choose one that is empty or not there yet: demo --data DIRECTORY.",
        )
