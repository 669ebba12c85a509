"""The listener of probes and metrics, by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.db.control import Connection
from tests.product.config import Address
from tests.product.web import OPS_BOUNDS, Services, ops_listener
from tests.waiting import until
from tests.web.conftest import Site, browsing
from tests.web.test_connections import is_answered, opened
from tests.web.test_probes import all_refused, is_ready


@pytest.fixture
async def ops(database: str) -> AsyncIterator[Site]:
    listen = Address("0.0.0.0", 0)
    server = ops_listener(Services(database), listen, is_alone=True)
    assert isinstance(server.address, Address)
    running = asyncio.create_task(server.run())
    try:
        async with browsing(f"http://127.0.0.1:{server.address.port}/") as client:
            yield Site(str(client.base_url), client)
    finally:
        server.stop()
        await running


async def test_silent_connections_keep_no_probe_out(ops: Site) -> None:
    address = Address("127.0.0.1", int(ops.client.base_url.port or 0))
    whole = b"GET /livez HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"
    async with AsyncExitStack() as stack:
        silent = [await opened(stack, address, b"") for _ in range(OPS_BOUNDS.most + 50)]

        assert await is_answered(await opened(stack, address, whole))
        assert await asyncio.wait_for(silent[0].read(), 30) == b""


async def test_a_frozen_server_is_not_ready_within_a_second(
    ops: Site, connection: Connection
) -> None:
    assert (await ops.get("/readyz")).status_code == 200
    pid = await connection.fetchval(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgcron_ha web%'"
        " AND datname = current_database()"
    )
    os.kill(pid, signal.SIGSTOP)
    try:
        assert await until("it is not ready", lambda: all_refused(ops), pause=0.2)
        assert (await ops.get("/livez")).status_code == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    await until("it is ready again", lambda: is_ready(ops))


async def test_an_answer_says_nothing_of_the_server(ops: Site) -> None:
    for path in ("/livez", "/nowhere"):
        answer = await ops.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
