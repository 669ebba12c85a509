"""What is done otherwise through a pooler in transaction mode. Run by the matrix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from pgcron_ha.errors import DatabaseUnavailable
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.engine.proxy import Proxy
from tests.pooler import SESSIONS, Pooler, statements, straight
from tests.product.db import (
    COMMAND,
    HANDLER,
    NEWEST,
    Busy,
    ClientPool,
    HandlerPool,
    Link,
    Pooling,
    ReadPool,
    SqlDatabase,
    check,
    connect,
    migrate,
    pooling_of,
)
from tests.servers import ThrowAwayServer
from tests.waiting import until

# Those of a pooler that keeps track of them are its own: it knows what is there.
LEFT = """
    SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),
           current_setting('enable_seqscan'), current_setting('default_transaction_read_only'),
           current_setting('idle_in_transaction_session_timeout'),
           (SELECT count(*) FROM pg_prepared_statements WHERE name NOT LIKE 'PGBOUNCER%'),
           (SELECT count(*) FROM pg_listening_channels())
"""
GENERIC_PLANS = """
    SELECT coalesce(sum(generic_plans), 0) FROM pg_prepared_statements
    WHERE statement LIKE '%ORDER BY r.expire_at LIMIT%'
"""
IS_IDLE = "SELECT is_idle FROM pgcron.node"
NOTHING = ("0", "0", "on", "off", "0", 0, 0)


@pytest.fixture
def cluster(database: str, tmp_path: Path) -> Iterator[Cluster]:
    """Nodes on a database of the test's own."""
    with Cluster(database, tmp_path) as nodes:
        yield nodes


async def left_to_others(database: str) -> list[tuple[object, ...] | None]:
    """What is set in each session of the pooler."""
    others = [await psycopg.AsyncConnection.connect(database) for _ in range(SESSIONS)]
    # A transaction each, so that these are all sessions there are.
    found = [await (await other.execute(LEFT)).fetchone() for other in others]
    for other in others:
        await other.close()
    return found


@pytest.fixture
async def links(database: str) -> AsyncIterator[list[Link]]:
    """More of them than the pooler has sessions."""
    links = [Link(database, joins_by_hash=True) for _ in range(3 * SESSIONS)]
    yield links
    await asyncio.gather(*(link.close() for link in links))


async def test_a_pooler_is_found_out_and_a_server_is_not_taken_for_one(database: str) -> None:
    for dsn, is_pooled in ((database, True), (straight(database), False)):
        connection = await connect(dsn)
        assert connection.is_pooled is is_pooled
        await connection.close()


async def test_it_is_found_out_whether_it_keeps_track_of_prepared_statements(
    database: str, pooler: Pooler
) -> None:
    await (await connect(database)).close()

    assert pooling_of(database) is (Pooling.PREPARED if statements() else Pooling.TRANSACTION)
    assert pooling_of(straight(database)) is Pooling.SESSION


async def test_statements_are_planned_once_where_it_does(links: list[Link], database: str) -> None:
    for _ in range(20):
        await asyncio.gather(*(link.rows("expired_runs", at_most=5) for link in links))

    shared = await asyncpg.connect(database, statement_cache_size=0)
    plans = await shared.fetchval(GENERIC_PLANS)
    await shared.close()
    assert (plans > 20) is bool(statements())


async def test_links_that_share_sessions_send_what_they_like(
    links: list[Link], connection: Connection
) -> None:
    async def send(link: Link) -> None:
        for _ in range(20):
            assert await link.rows("expired_runs", at_most=5) == []
            assert (await link.value("channel")).startswith("pgcron")

    await asyncio.gather(*map(send, links))

    assert [link.opened for link in links] == [1] * len(links)


async def test_a_statement_has_the_engines_settings_and_a_refused_one_breaks_nothing(
    links: list[Link], connection: Connection
) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.node")
        with pytest.raises(Busy, match="lock timeout"):
            await links[0].rows("forget_nodes", at_most=10)

    assert await links[0].rows("forget_nodes", at_most=10) == []
    assert links[0].opened == 1


async def test_nothing_is_left_to_those_who_get_the_session_next(
    links: list[Link], database: str
) -> None:
    reading, pool = ReadPool(database), ClientPool(database)
    client = await connect(database, COMMAND)
    handlers = HandlerPool(lambda: database, 2, HANDLER._replace(local=("lock_timeout = '7s'",)))
    await asyncio.gather(*(link.rows("expired_runs", at_most=5) for link in links))
    assert not await links[0].listen(lambda _: None)
    await (await connect(database)).close()
    async with reading.transaction() as page, pool.connection() as asking:
        for each in (page, asking, client):
            assert await each.fetchval("SELECT 1") == 1
    handler = await handlers.acquire()
    assert await handler.fetchval("SELECT 1") == 1
    handlers.give_back(handler)
    for each in (reading, pool, client, handlers):
        await each.close()

    assert await left_to_others(database) == [NOTHING] * SESSIONS


async def test_commands_that_report_locks_leave_nothing_either(
    cluster: Cluster, database: str
) -> None:
    for command in ("status", "doctor"):
        answer = await asyncio.to_thread(cluster.command, command)
        assert answer.stdout, answer.stderr

    assert await left_to_others(database) == [NOTHING] * SESSIONS


async def test_a_profile_whose_sessions_would_be_shared_is_refused(database: str) -> None:
    profile = SqlDatabase(lambda: database, 2)

    with pytest.raises(DatabaseUnavailable, match="hands sessions around") as refused:
        await profile.acquire()

    assert refused.value.hint == "Point it at the server itself."


async def test_a_database_is_migrated_through_it(empty_database: str, pooler: Pooler) -> None:
    dsn = pooler.dsn(empty_database)

    await migrate(dsn)

    assert await check(dsn) == NEWEST


async def test_a_node_works_and_says_what_it_lacks(
    cluster: Cluster, connection: Connection
) -> None:
    node = cluster.start("pooled", poll_interval="200ms")
    runs = await enqueue(connection, "py:work", 20)
    rows = await ended(connection, *runs)

    assert {row["outcome"] for row in rows} == {"succeeded"}
    [reported] = node.events("NotificationsAreLost")
    assert "transaction mode" in reported["message"]
    await until("people see it", lambda: connection.fetchval("SELECT is_pooled FROM pgcron.nodes"))
    answer = await asyncio.to_thread(cluster.command, "doctor")
    assert "pooler" in answer.stdout


async def test_a_node_that_listens_past_it_begins_at_once_and_works_on_when_that_is_lost(
    cluster: Cluster, connection: Connection, server: ThrowAwayServer, database: str
) -> None:
    async with Proxy(server.folder / f".s.PGSQL.{server.port}") as past:
        cluster.variables["PGCRON_HA_LISTEN_DSN"] = past.dsn(database)
        node = await asyncio.to_thread(cluster.start, "past", poll_interval="3s")
        await until("it is idle", lambda: connection.fetchval(IS_IDLE))
        waits = []
        for _ in range(5):
            [row] = await ended(connection, *await enqueue(connection, "py:work"))
            waits.append((row["started_at"] - row["created_at"]).total_seconds())
            await until("it is idle", lambda: connection.fetchval(IS_IDLE))
        print("from the enqueue to the start:", [f"{wait * 1000:.0f} ms" for wait in waits])
        assert max(waits) < 1
        assert not await connection.fetchval("SELECT is_pooled FROM pgcron.node")
        answer = await asyncio.to_thread(cluster.command, "doctor")
        assert "ok       pooler" not in answer.stdout
        assert "log say whether notifications arrive" in answer.stdout

        await past.refuse()
        await until("it says so", lambda: connection.fetchval("SELECT is_pooled FROM pgcron.node"))
        await ended(connection, *await enqueue(connection, "py:work"))

        await past.accept()
        await until(
            "it hears again", lambda: connection.fetchval("SELECT NOT is_pooled FROM pgcron.node")
        )
        assert len(node.events("NotificationsAreLost")) == 1
        assert len(node.events("NotificationsArrive")) == 1


async def test_an_isolation_that_no_session_can_change_is_a_problem(
    cluster: Cluster, connection: Connection
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(
        f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
    )
    # The pooler's sessions are as the server began them.
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    answer = await asyncio.to_thread(cluster.command, "doctor")

    assert answer.returncode == 1
    assert "default_transaction_isolation is 'serializable'" in answer.stdout
