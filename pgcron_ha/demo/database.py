"""The database of `demo` and `dev`: the embedded server's, or the one that was given."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from pgcron_ha.db.driver.dsn import without_password
from pgcron_ha.db.schema.uninstall import uninstall
from pgcron_ha.embedded import EmbeddedPostgres
from pgcron_ha.embedded.cluster import find_postmaster

_STOP_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.05


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
    end = time.monotonic() + _STOP_SECONDS
    while find_postmaster(pgdata) and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
