"""A server whose queue of notifications is full takes everything but the notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest

from tests.db.control import Connection, call, join
from tests.product.db import Link, connect, migrate
from tests.servers import ThrowAwayServer
from tests.waiting import slowness, until

SMALLEST = {"max_notify_queue_pages": "64"}

# Each notifies while a node is idle.
VERBS = (
    "SELECT pgcron.enqueue('py:work')",
    "SELECT pgcron.put_schedule('s', '@hourly', 'py:work')",
    "SELECT pgcron.pause_schedule('s')",
    "SELECT pgcron.resume_schedule('s')",
    "SELECT pgcron.skip_occurrence('s', '2100-01-01T00:00Z')",
    "SELECT pgcron.run_now('s')",
    "SELECT pgcron.pause_cluster()",
    "SELECT pgcron.resume_cluster()",
    "SELECT pgcron.pause_queue('default')",
    "SELECT pgcron.resume_queue('default')",
    "SELECT pgcron.set_queue('default', 3)",
    "SELECT pgcron.set_concurrency('l', 3)",
    "SELECT pgcron.put_calendar('c', 'sat')",
    "SELECT pgcron.set_breaker('py:work', 3)",
    "SELECT pgcron.cordon_node('a', 'why')",
    "SELECT pgcron.await_runs('{1}')",
    "SELECT pgcron.cancel_run(1)",
    "SELECT pgcron.delete_schedule('s')",
)


# A transaction that notifies waits for a lock at its commit.
WAITING_COMMIT = """
CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER zz_wait AFTER INSERT ON pgcron.run DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION public.wait();
"""


@dataclass(frozen=True)
class Notified:
    """A session on a server with a small queue of notifications, which `flooder` can fill up."""

    dsn: str
    session: Connection
    flooder: Connection

    async def fill(self) -> None:
        """Until PostgreSQL refuses."""
        with pytest.raises(asyncpg.PostgresError, match="NOTIFY queue"):
            await self._flood()

    async def _flood(self) -> None:
        while True:
            await self.flooder.execute("SELECT pg_notify('anything', repeat('x', 7900))")


@pytest.fixture
async def notified() -> AsyncIterator[Notified]:
    """Somebody else listens and never reads."""
    with ThrowAwayServer(settings=SMALLEST) as server:
        dsn = server.create_database("full")
        await migrate(dsn)
        session = await asyncpg.connect(dsn)
        await join(session, name="a")
        await session.execute("UPDATE pgcron.node SET is_idle = true")
        elsewhere = server.dsn("postgres")
        listener = await asyncpg.connect(
            elsewhere, server_settings={"application_name": "some listener"}
        )
        await listener.execute("LISTEN anything")
        await listener.execute("BEGIN; SELECT 1")
        flooder = await asyncpg.connect(elsewhere)
        yield Notified(dsn, session, flooder)
        for each in (session, listener, flooder):
            await each.close(timeout=5)


async def test_a_full_queue_of_notifications_stops_nothing(notified: Notified) -> None:
    full = notified.session
    await notified.fill()
    for verb in VERBS:
        await full.execute(verb)
    for statement in ("wake_idle_nodes", "probe_listeners", "probe_end_channel"):
        await call(full, statement)


async def test_a_statement_goes_on_if_the_queue_is_full_only_at_its_commit(
    notified: Notified,
) -> None:
    session, link = notified.session, Link(notified.dsn)
    await session.execute(WAITING_COMMIT)
    await session.execute("SELECT pg_advisory_lock(1)")
    sent = asyncio.create_task(link.rows("enqueue_plain", handler="py:work", args="{}", actor=None))
    await until(
        "it commits",
        lambda: session.fetchval(
            "SELECT true FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ),
    )
    await notified.fill()
    await session.execute("SELECT pg_advisory_unlock(1)")

    [row] = await sent
    assert await session.fetchval("SELECT array_agg(id) FROM pgcron.run") == [row["run_id"]]
    link.drop()


@pytest.mark.parametrize("is_idle_at_commit", [True, False])
async def test_a_transaction_wakes_who_is_idle_when_it_is_committed(
    database: str, connection: Connection, is_idle_at_commit: bool
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await connect(database)
    await listener.add_listener(
        await connection.fetchval("SELECT pgcron.channel()"),
        lambda *reported: heard.put_nowait(reported[-1]),
    )
    await join(connection, name="a")
    await connection.execute("UPDATE pgcron.node SET is_idle = $1", not is_idle_at_commit)
    other = await connect(database)
    async with other.transaction():
        await other.fetchval("SELECT count(*) FROM pgcron.run")
        for _ in range(3):
            await other.execute("SELECT pgcron.enqueue('py:work')")
        await connection.execute("UPDATE pgcron.node SET is_idle = $1", is_idle_at_commit)
    await connection.execute("SELECT pg_notify(pgcron.channel(), 'the end')")

    expected = ["run"] if is_idle_at_commit else []
    async with asyncio.timeout(10 * slowness()):
        assert [await heard.get() for _ in [*expected, "the end"]] == [*expected, "the end"]
    for each in (listener, other):
        await each.close(timeout=5)
