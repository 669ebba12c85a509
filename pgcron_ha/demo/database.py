"""The database of `demo` and `dev`: the embedded server's, or the one that was given."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pgcron_ha.db import demo
from pgcron_ha.db.clients import connect_client
from pgcron_ha.db.dsn import without_password
from pgcron_ha.embedded import EmbeddedPostgres, find_tool
from pgcron_ha.errors import ConfigError

_STOP_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05

_CHECKOUT: Final = Path(__file__).parents[2]


class WorkDatabase:
    """Where the work is done. `dsn` is there after `up`."""

    def __init__(self, given: str | None, folder: Path, name: str) -> None:
        """`given` is a DSN; without one, the database `name` of the embedded server of `folder`."""
        self._server = None if given is not None else EmbeddedPostgres(folder)
        self._name = name
        self.dsn = given or ""

    @property
    def is_embedded(self) -> bool:
        """Whether the server is ours."""
        return self._server is not None

    async def up(self, *, fresh: bool = False) -> None:
        """Start the embedded server and make its database, a new one if `fresh`; else nothing.

        Raises the errors of `EmbeddedPostgres.up`.
        """
        if self._server is None:
            return
        await asyncio.to_thread(self._server.up)
        self.dsn = self._server.dsn(self._name)
        await _make_database(self._server.dsn(), self._name, fresh)

    async def restore(self) -> None:
        """Have the embedded server again after it was killed; nothing if it runs or is not ours."""
        if self._server is not None:
            await asyncio.to_thread(self._server.up)

    async def down(self) -> None:
        """Stop the embedded server unless others use it; returns when it is gone."""
        if self._server is None or not self.dsn:
            return
        pid = self._server.pid
        self._server.down()
        await asyncio.to_thread(_wait_until_gone, pid)

    def psql(self) -> str:
        """The beginning of a command line for psql that works when it is pasted into a shell.

        The password of a database that was given is left out: psql asks for it.
        """
        try:
            tool = str(find_tool("psql"))
        except ConfigError:  # a server without its clients
            tool = shutil.which("psql") or "psql"
        return f"{shlex.quote(tool)} {shlex.quote(self.shown_dsn())}"

    def shown_dsn(self) -> str:
        """The DSN for people: with the password only if it is that of our own server."""
        return self.dsn if self.is_embedded else without_password(self.dsn)


def process_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Our environment without settings, for a process that is given its own.

    ``PYTHONPATH`` leads to this very pgcron_ha, whether it is installed or not.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PGCRON_HA_") or name == "PGCRON_HA_PG_BIN"
    }
    paths = [str(_CHECKOUT), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **own}


async def _make_database(dsn: str, name: str, fresh: bool) -> None:
    connection = await connect_client(dsn)
    try:
        await demo.make_database(connection, name, fresh=fresh)
    finally:
        await connection.close(timeout=5)


def _wait_until_gone(pid: int) -> None:
    """Bounded: a server that somebody else uses stays."""
    end = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        except PermissionError:
            pass  # another user's process
        time.sleep(_PAUSE_SECONDS)
