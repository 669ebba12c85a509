"""The database of an App: where it is, and the connections of each event loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Self

from pgcron_ha.client.waiting import Notifications, Waiting
from pgcron_ha.config.loading import load_obeyed, load_settings
from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.driver.passwords import password_in_use, use_password
from pgcron_ha.db.driver.pool import ClientPool
from pgcron_ha.db.driver.pooling import assume
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, require_plain


class DatabaseOfApp:
    """The part of an `App` that knows its database. What is None is the node's, or the
    configuration's, which is read when it is needed.
    """

    def __init__(self, dsn: str | None, schema: str | None, listen_dsn: str | None) -> None:
        require_plain(schema or DEFAULT_SCHEMA)
        self._dsn = dsn
        """None until it is needed, if it is left out."""
        self._listen_dsn = listen_dsn
        self._schema = schema
        self._pools: dict[asyncio.AbstractEventLoop, ClientPool] = {}
        self._waiting: dict[asyncio.AbstractEventLoop, Waiting] = {}

    @property
    def schema(self) -> str:
        """The schema of its database. Raises ConfigError for an invalid configuration."""
        if self._schema is None:
            self._schema = load_settings().schema
        return self._schema

    def attach(self, dsn: str, schema: str, listen_dsn: str | None = None) -> None:
        """Sets what was left out. A node calls it with its own database for each App it offers."""
        if self._dsn is None:
            self._dsn, self._listen_dsn = dsn, self._listen_dsn or listen_dsn
        self._schema = schema if self._schema is None else self._schema

    def _connection(self, given: Any) -> AbstractAsyncContextManager[Any]:
        """The caller's own, or one of the running loop's."""
        if given is not None:
            return nullcontext(given)
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            for closed in [each for each in list(self._pools) if each.is_closed()]:
                self._pools.pop(closed, None)
                self._waiting.pop(closed, None)
            self._pools[loop] = ClientPool(self._own_dsn())
        return self._pools[loop].connection()

    def _waiting_here(self) -> Waiting:
        """Those who wait for runs in the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._waiting:
            dsn = self._own_dsn()
            link = Link(self._listen_dsn or dsn, self.schema, title="pgcron_ha waiting")
            insists = self._listen_dsn is not None
            channel = Notifications(link, lambda: self._connection(None), self.schema, insists)
            self._waiting[loop] = Waiting(channel)
        return self._waiting[loop]

    @property
    def is_listening(self) -> bool:
        """Whether notifications report the ends of runs that this event loop waits for: not before
        it waits for one, nor through a pooler that passes no notifications.
        """
        waiting = self._waiting.get(asyncio.get_running_loop())
        return waiting is not None and waiting.is_listening

    async def close(self) -> None:
        """Close the connections that were opened in this event loop; its waiters get an error."""
        waiting = self._waiting.pop(asyncio.get_running_loop(), None)
        if waiting is not None:
            await waiting.close()
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _own_dsn(self) -> str:
        if self._dsn is None:
            settings = load_obeyed()
            self._dsn = settings.required_dsn()
            self._listen_dsn = self._listen_dsn or settings.listen_dsn
            if password_in_use() is None:  # a node that runs here may have one
                use_password(settings.password_from)
            assume(self._dsn, settings.pooler)
        return self._dsn
