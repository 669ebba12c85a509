"""A running web server over the test's own database, and a client that browses it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from time import monotonic
from typing import Any, TypeAlias

import httpx
import pytest
from psycopg import sql

from tests.entering import cookies, know
from tests.product.config import Address
from tests.product.web import Entry, LocalKey, WebServer, create_app
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.waiting import until
from tests.web.login_sites import Login
from tests.web.seed import seed
from tests.web.toolkit_provider import ToolkitProvider

FRESH_SECONDS = 60.0
"""How old a believable cluster may be."""

_numbers = itertools.count(1)


@dataclass
class Site:
    """A server and a client whose requests come from its own pages, as a browser's do."""

    url: str
    client: httpx.AsyncClient
    is_shared: bool = False
    """Whether other tests look at it, too."""
    is_patient: bool = False
    """Asks again for a page that was too slow to read: on a busy machine that is no fault."""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        async def answer() -> httpx.Response | None:
            response = await self.client.get(path, headers=headers)
            is_slow = response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            return None if self.is_patient and is_slow else response

        response = await until(f"{path} is read", answer)
        assert response is not None
        return response

    async def post(self, path: str, **fields: str) -> httpx.Response:
        """A form sent by a page of the server; the redirect is not followed."""
        assert not self.is_shared, "take full_site: others look at what this would change"
        origin = {"origin": self.url.rstrip("/")}
        return await self.client.post(path, data=fields, headers=origin)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolkitProvider]:
    """One for all tests of a file: that it starts takes longer than a login."""
    provider = ToolkitProvider(tmp_path_factory.mktemp("toolkit"))
    with provider.running():
        yield provider


Serve: TypeAlias = Callable[[str], AbstractAsyncContextManager[Site]]


@pytest.fixture
def serve() -> Serve:
    """Serves the database of a DSN as long as the context lasts."""

    @asynccontextmanager
    async def serve(dsn: str) -> AsyncIterator[Site]:
        server = serving(dsn)
        running = asyncio.create_task(server.run())
        try:
            async with browsing(server.url) as client:
                yield Site(server.url, client)
        finally:
            server.stop()
            await running

    return serve


def serving(dsn: str, **more: Any) -> WebServer:
    """A server without login, whose key has been used."""
    key = LocalKey()
    app = create_app(dsn, version="9.9", entry=Entry(key=key), **more)
    server = WebServer(app, Address("127.0.0.1", 0))
    know(server.url, key)
    return server


def browsing(url: str) -> httpx.AsyncClient:
    """A client of one server; none has certificates, and reading those takes a while."""
    return httpx.AsyncClient(base_url=url, timeout=20, verify=False, cookies=cookies(url))


@pytest.fixture
async def site(database: str, serve: Serve) -> AsyncIterator[Site]:
    """A server over an empty cluster."""
    async with serve(database) as site:
        yield site


class Seeded:
    """Databases with a believable cluster (`tests.web.seed`)."""

    def __init__(self, server: ThrowAwayServer, template: str) -> None:
        self._server = server
        self._template = template
        self._made: list[str] = []
        self._made_at = 0.0

    def newest(self) -> str:
        """The name of one to copy, so young that its schedules are not late."""
        if not self._made or monotonic() - self._made_at > FRESH_SECONDS:
            name = f"seeded_{len(self._made)}"
            dsn = self._server.create_database(name, self._template)
            with ThreadPoolExecutor(1) as thread:  # an event loop may already belong to this one
                thread.submit(lambda: asyncio.run(_seed(dsn))).result()
            self._server.seal_template(name)
            self._made.append(name)
            self._made_at = monotonic()
        return self._made[-1]


class Shared:
    """A server in a thread of its own, over a believable cluster that nobody can write to."""

    def __init__(self, server: ThrowAwayServer, seeded: Seeded, stack: ExitStack) -> None:
        self._server = server
        self._seeded = seeded
        self._stack = stack
        self._template = ""
        self._url = ""

    def url(self) -> str:
        """Where it is; over another cluster when the last one has grown old."""
        template = self._seeded.newest()
        if template != self._template:
            self._stack.close()
            self._url = self._stack.enter_context(self._serving(template))
            self._template = template
        return self._url

    @contextmanager
    def _serving(self, template: str) -> Iterator[str]:
        name = f"shared_{os.getpid()}_{template}"
        dsn = self._server.create_database(name, template)
        read_only = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        self._server.execute(read_only.format(sql.Identifier(name)))
        begun: Future[tuple[WebServer, asyncio.AbstractEventLoop]] = Future()

        async def serve() -> None:
            server = serving(dsn)
            begun.set_result((server, asyncio.get_running_loop()))
            await server.run()

        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(asyncio.run, serve())
            server, loop = begun.result(60)
            try:
                yield server.url
            finally:
                loop.call_soon_threadsafe(server.stop)
                running.result(60)
        self._server.drop_database(name)


async def _seed(dsn: str) -> None:
    """A cluster whose nodes have their leases for as long as tests copy it."""
    await seed(dsn)
    connection = await own_session(dsn)
    await connection.execute(
        "UPDATE pgcron.node SET lease_until = now() + interval '1 hour' WHERE state <> 'dead'"
    )
    await connection.close()


@pytest.fixture(scope="session")
def seeded(server: ThrowAwayServer, template: str) -> Seeded:
    return Seeded(server, template)


@pytest.fixture(scope="session")
def shared(server: ThrowAwayServer, seeded: Seeded) -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(server, seeded, stack)


@pytest.fixture
def full_database(server: ThrowAwayServer, seeded: Seeded) -> Iterator[str]:
    """The DSN of a believable cluster of this test's own; its nodes have their leases."""
    name = f"full_{os.getpid()}_{next(_numbers)}"
    dsn = server.create_database(name, seeded.newest())
    yield dsn
    server.drop_database(name)


@pytest.fixture
async def full_site(full_database: str, serve: Serve) -> AsyncIterator[Site]:
    """A server over a believable cluster."""
    async with serve(full_database) as site:
        yield replace(site, is_patient=True)


@pytest.fixture
async def read_site(shared: Shared) -> AsyncIterator[Site]:
    """The server over a believable cluster that all tests share which change nothing."""
    url = shared.url()
    async with browsing(url) as client:
        yield Site(url, client, is_shared=True, is_patient=True)


@pytest.fixture
def login(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Login:
    """Pages with login on a database of the test's own."""
    return Login(database, monkeypatch, capsys)


@pytest.fixture
def mortal() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(durable=True) as server:
        yield server
