"""The demo's folder: its server, its configuration, what its jobs and nodes write; its database,
which `dev` has, too; and its processes: the nodes and the pages.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from string import Template
from typing import Final

from pgcron_ha.db.driver.dsn import without_password
from pgcron_ha.db.schema.uninstall import uninstall
from pgcron_ha.embedded import EmbeddedPostgres, default_data_directory
from pgcron_ha.embedded.binaries import BIN_VARIABLE
from pgcron_ha.embedded.cluster import find_postmaster
from pgcron_ha.errors import ConfigError, Conflict
from pgcron_ha.operating_system import FileLock, how_it_ended

LEASE_TTL: Final = "5s"
"""Short, so that what a killed node left starts elsewhere while one watches."""

# Time for the server to stop, and between two looks.
_DOWN_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05
# After its grace a node gives back what runs, which takes it a moment.
_STOP_SECONDS: Final = 20.0
# Of a node's log, what fits on a screen and has the reason.
_LONGEST_REASON: Final = 1200
_TEMPLATE: Final = Path(__file__).with_name("nodes.toml")


class WorkDatabase:
    """A database with the schema of this version. `dsn` is there after `up`."""

    def __init__(self, given: str | None, folder: Path, schema: str) -> None:
        """`given` is a DSN; without one it is the embedded server of `folder`."""
        self._server = None if given is not None else EmbeddedPostgres(folder)
        self.schema = schema
        self.dsn = given or ""

    @property
    def is_embedded(self) -> bool:
        """Whether it is the embedded server's."""
        return self._server is not None

    async def up(self, *, anew: bool = False) -> None:
        """Start the embedded server and migrate; `anew` removes first what the schema had.

        Raises the errors of `EmbeddedPostgres.up`, `uninstall` and `migrate`.
        """
        # Alembic takes a while to load: it does while the server starts.
        loading = asyncio.to_thread(import_module, "pgcron_ha.db.schema.migrate")
        await asyncio.gather(loading, self.restore())
        if anew:
            await self.clear()
        from pgcron_ha.db.schema.migrate import migrate

        await migrate(self.dsn, self.schema)

    async def restore(self) -> None:
        """Start the embedded server, again if it was killed; nothing for another database."""
        if self._server is not None:
            await asyncio.to_thread(self._server.up)
            self.dsn = self._server.dsn()

    async def clear(self) -> None:
        """Remove all that migrations have made. In a database that was given Conflict is raised
        while nodes are alive.
        """
        await uninstall(self.dsn, self.schema, by_force=self.is_embedded)

    async def down(self) -> None:
        """Stop the embedded server unless others use it; returns when it is gone."""
        if self._server is not None:
            self._server.down()
            await asyncio.to_thread(_wait_until_gone, self._server.directory.pgdata)

    def shown_dsn(self) -> str:
        """The DSN for people: with the password only if it is that of the embedded server."""
        return self.dsn if self.is_embedded else without_password(self.dsn)


def _wait_until_gone(pgdata: Path) -> None:
    """Bounded: a server that somebody else uses stays."""
    end = time.monotonic() + _DOWN_SECONDS
    while find_postmaster(pgdata) and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)


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


class DemoProcess:
    """``pgcron-ha ARGUMENT…``; its group is its own, so that a Ctrl-C reaches the demo alone."""

    def __init__(self, folder: DemoFolder, name: str, *arguments: str) -> None:
        self.name = name
        self.log = folder.logs / f"{name}.log"
        # The folder's file has all the settings.
        kept = (n for n in os.environ if not n.startswith("PGCRON_HA_") or n == BIN_VARIABLE)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgcron_ha", "--config", folder.configuration, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: os.environ[name] for name in kept},
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def ending(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = self._process.poll()
        return None if code is None else how_it_ended(code)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace").strip()[-_LONGEST_REASON:]

    def stop(self) -> None:
        """Ask it to end, wait until it has, and kill it if it does not."""
        self._process.terminate()  # nothing to one that has ended
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def stop_all(processes: Sequence[DemoProcess]) -> None:
    """All at once; returns when they have ended."""
    await asyncio.gather(*(asyncio.to_thread(process.stop) for process in processes))
