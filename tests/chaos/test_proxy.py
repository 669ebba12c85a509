from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.proxy import Proxy
from tests.servers import ThrowAwayServer
from tests.waiting import until

SHORT = 0.3
BROKEN = (ConnectionError, asyncpg.ConnectionDoesNotExistError, asyncpg.InterfaceError)


@pytest.fixture
async def proxy(server: ThrowAwayServer) -> AsyncIterator[Proxy]:
    path = Path(server.folder) / f".s.PGSQL.{server.port}"
    async with Proxy(path) as running:
        yield running


@pytest.fixture
def dsn(proxy: Proxy, database: str) -> str:
    name = database.partition("?")[0].rpartition("/")[2]
    return f"postgresql://postgres:any@127.0.0.1:{proxy.port}/{name}?sslmode=disable"


async def test_what_is_stalled_arrives_when_it_is_healed(proxy: Proxy, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    proxy.stall(questions=False)
    asked = asyncio.create_task(connection.fetchval("SELECT 1"))

    assert not (await asyncio.wait({asked}, timeout=SHORT))[0]
    proxy.heal()
    assert await asked == 1
    connection.terminate()


async def test_a_stalled_answer_was_given_and_a_stalled_question_was_not_asked(
    proxy: Proxy, dsn: str, database: str
) -> None:
    direct, behind = await asyncpg.connect(database), await asyncpg.connect(dsn)
    await direct.execute("CREATE TABLE told (x int)")

    async def count() -> int:
        found: int = await direct.fetchval("SELECT count(*) FROM told")
        return found

    proxy.stall(questions=False)
    asked = asyncio.create_task(behind.execute("INSERT INTO told VALUES (1)"))
    await until("the server has done it", count)
    proxy.heal()
    await asked

    proxy.stall(questions=True)
    asked = asyncio.create_task(behind.execute("INSERT INTO told VALUES (2)"))
    await asyncio.wait({asked}, timeout=SHORT)
    assert await count() == 1
    proxy.heal()
    await asked
    assert await count() == 2
    for connection in (direct, behind):
        connection.terminate()


async def test_a_lost_answer_is_that_of_something_done(
    proxy: Proxy, dsn: str, database: str
) -> None:
    direct, behind = await asyncpg.connect(database), await asyncpg.connect(dsn)
    await direct.execute("CREATE TABLE told (x int)")
    proxy.lose_answers(1)

    with pytest.raises(BROKEN):
        await behind.execute("INSERT INTO told VALUES (1)")

    assert await direct.fetchval("SELECT count(*) FROM told") == 1
    assert proxy.lost_answers == 1
    direct.terminate()


async def test_a_reset_breaks_what_there_is_and_a_refusal_what_comes(
    proxy: Proxy, dsn: str
) -> None:
    connection = await asyncpg.connect(dsn)
    proxy.reset()
    with pytest.raises(BROKEN):
        await connection.fetchval("SELECT 1")

    proxy.is_refusing = True
    with pytest.raises(BROKEN):
        await asyncpg.connect(dsn)
    proxy.heal()
    again = await asyncpg.connect(dsn)
    assert await again.fetchval("SELECT 1") == 1
    again.terminate()


async def test_in_a_partition_new_connections_hear_nothing(proxy: Proxy, dsn: str) -> None:
    proxy.cut()
    with pytest.raises(TimeoutError):
        await asyncpg.connect(dsn, timeout=SHORT)

    proxy.heal()
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT 1") == 1
    connection.terminate()


async def test_a_slow_network_is_slow_in_both_directions(proxy: Proxy, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    proxy.delay = 0.1
    loop = asyncio.get_running_loop()
    began = loop.time()

    await connection.fetchval("SELECT 1", timeout=10)

    assert loop.time() - began > 0.2
    connection.terminate()
