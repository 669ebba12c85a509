"""A connection whose settings begin with each transaction, where a pooler keeps no session's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg


class ClientConnection(asyncpg.Connection):
    """Every statement is sent in a transaction that begins with the settings, once it has some.

    A session of a transaction pooler has the settings of its role and database, among them a
    search_path on which others may have put functions and operators of their own.
    """

    __slots__ = ("_settings",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._settings = ""

    def begin_with(self, settings: str) -> None:
        """From now on each transaction begins with these commands, ``SET LOCAL …; …``."""
        self._settings = f"; {settings}"

    @asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        """The transaction that is under way, or one for what is sent inside."""
        if not self._settings or self.is_in_transaction():
            yield
            return
        async with self.transaction(isolation="read_committed"):
            yield

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:
        """As asyncpg's; the driver begins its transactions here."""
        if self._settings and query.startswith("BEGIN"):
            return await super().execute(query.rstrip(";") + self._settings, timeout=timeout)
        async with self.settled():
            return await super().execute(query, *arguments, timeout=timeout)

    async def fetch(self, query: str, *arguments: Any, **options: Any) -> list[Any]:
        """As asyncpg's."""
        async with self.settled():
            found: list[Any] = await super().fetch(query, *arguments, **options)
            return found

    async def fetchrow(self, query: str, *arguments: Any, **options: Any) -> Any:
        """As asyncpg's."""
        async with self.settled():
            return await super().fetchrow(query, *arguments, **options)

    async def fetchval(self, query: str, *arguments: Any, **options: Any) -> Any:
        """As asyncpg's."""
        async with self.settled():
            return await super().fetchval(query, *arguments, **options)
