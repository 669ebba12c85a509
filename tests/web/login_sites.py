"""Pages with login, and the command line that makes their users."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.product.cli import main
from tests.product.config import Address, AuthSettings, load_settings, read_sources
from tests.product.web import Entry, WebServer, create_app
from tests.sessions import own_session

PASSWORD = "correct horse battery"


def auth_settings(**given: object) -> AuthSettings:
    """Of the configuration: ``local=True`` is ``auth.local``."""
    flags = {f"auth.{name}": value for name, value in given.items()}
    return load_settings(read_sources(environment={}, flags=flags)).auth


class Login:
    """A database, its users, and servers of its pages."""

    def __init__(
        self, dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.dsn = dsn
        self.answered: list[tuple[str, int]] = []
        """Paths that were asked for, and with which status."""
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("PGCRON_HA_DSN", dsn)

    async def command(self, *arguments: str, typed: str = "") -> list[dict[str, Any]]:
        """``pgcron-ha ARGUMENT… --json``, which succeeds; what it printed."""
        self._capsys.readouterr()
        self._monkeypatch.setattr("sys.stdin", io.StringIO(typed + "\n"))
        code = await asyncio.to_thread(main, [*arguments, "--json"])
        captured = self._capsys.readouterr()
        assert code == 0, captured.err
        return [json.loads(line) for line in captured.out.splitlines()]

    async def add(self, name: str, role: str = "admin") -> None:
        await self.command("users", "add", name, "--role", role, typed=PASSWORD)

    async def token(self, name: str, *options: str) -> dict[str, str]:
        """The header of a new token."""
        [made] = await self.command("tokens", "create", name, *options)
        return {"authorization": f"Bearer {made['token']}"}

    async def execute(self, statement: str, *values: object) -> list[asyncpg.Record]:
        connection = await own_session(self.dsn)
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    async def audited(self) -> list[tuple[str, ...]]:
        """What was recorded, in its order."""
        rows = await self.execute(
            "SELECT actor, verb, coalesce(name, ''), outcome FROM pgcron.audit ORDER BY id"
        )
        return [tuple(row) for row in rows]

    @asynccontextmanager
    async def serve(
        self, entry: Entry | None = None, dsn: str | None = None, **given: object
    ) -> AsyncIterator[str]:
        """A server with these settings of ``auth``, and perhaps a DSN of its own; its address."""
        entry = entry or Entry(auth=auth_settings(**given))
        app = create_app(dsn or self.dsn, entry=entry)

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self.answered.append((scope["path"], message["status"]))
                await send(message)

            await app(scope, receive, send_noted)

        server = WebServer(noted, Address("127.0.0.1", 0))
        running = asyncio.create_task(server.run())
        try:
            yield server.url
        finally:
            server.stop()
            await running


class Visitor:
    """A browser: keeps its cookies, and sends forms as pages of the site do."""

    def __init__(self, url: str, address: str = "127.0.0.1", **headers: str) -> None:
        self.url = url
        transport = httpx.AsyncHTTPTransport(local_address=address, verify=False)
        self.client = httpx.AsyncClient(
            base_url=url, transport=transport, timeout=60, headers=headers
        )

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=headers)

    async def post(self, path: str, **fields: str) -> httpx.Response:
        origin = {"origin": self.url.rstrip("/")}
        return await self.client.post(path, data=fields, headers=origin)

    async def log_in(self, name: str, password: str = PASSWORD, **more: str) -> httpx.Response:
        return await self.post("/login", name=name, password=password, **more)
