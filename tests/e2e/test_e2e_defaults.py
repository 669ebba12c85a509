"""What a database sets for everybody does not reach what the product does in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from pgcron_ha import App
from tests.e2e.attacker import stand_before_everything
from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.entering import cookies, entered
from tests.product.db import MIGRATION_KEY, NEWEST, as_sql, check, migrate, uninstall
from tests.waiting import until

# Of a database that is careful with its sessions; a hundredth of what is usual.
_SHORT = {
    "idle_session_timeout": "400ms",
    "idle_in_transaction_session_timeout": "400ms",
    "default_transaction_isolation": "serializable",
}
_SUCCEEDED = "SELECT pg_catalog.count(*) >= $1 FROM pgcron.history WHERE outcome = 'succeeded'"


@pytest.fixture
def cluster(empty_database: str, tmp_path: Path) -> Iterator[Cluster]:
    """Nodes on a database with nothing in it."""
    with Cluster(empty_database, tmp_path) as nodes:
        yield nodes


@pytest.fixture
async def dba(empty_database: str) -> AsyncIterator[Connection]:
    """A session to which nothing of it applies."""
    own = {"search_path": "pg_catalog", "default_transaction_read_only": "off"}
    usual = {name: "0" for name in _SHORT if name.endswith("timeout")}
    connection = await asyncpg.connect(empty_database, server_settings=own | usual)
    yield connection
    await connection.close(timeout=5)


async def give(dba: Connection, **defaults: str) -> None:
    """Defaults of all sessions that begin from now on."""
    name = await dba.fetchval("SELECT current_database()")
    for setting, value in defaults.items():
        await dba.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")


def succeeds(cluster: Cluster, *arguments: str) -> str:
    answer = cluster.command(*arguments)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    return answer.stdout


@pytest.mark.long
async def test_nothing_of_ours_is_looked_up_on_the_path_of_a_session(
    cluster: Cluster, dba: Connection, empty_database: str
) -> None:
    assert await stand_before_everything(empty_database) > 500
    session = await asyncpg.connect(empty_database)
    with pytest.raises(asyncpg.RaiseError, match="trapped"):
        await session.fetchval("SELECT now()")
    await session.close()

    await migrate(empty_database)
    assert await check(empty_database) == NEWEST
    node = cluster.start("a")
    succeeds(cluster, "schedules", "put", "tick", "* * * * * *", "py:work")
    async with App(empty_database) as app:
        await app.enqueue("py:work")
    succeeds(cluster, "doctor")
    await until("both work", lambda: dba.fetchval(_SUCCEEDED, 4))
    web = cluster.serve_web()
    url = await until("it serves", lambda: entered(web.output()), deadline=60)
    assert url is not None
    async with httpx.AsyncClient(base_url=url, timeout=20, cookies=cookies(url)) as client:
        for page in ("/", "/runs", "/schedules", "/schedules/tick", "/nodes", "/queues", "/dead"):
            assert (await client.get(page)).status_code == 200, page
    node.stop()
    assert node.exit_code() == 0
    assert "trapped" not in node.output()
    web.stop()
    assert await uninstall(empty_database, by_force=True)


async def test_who_waits_for_another_migration_waits_as_long_as_it_takes_and_sees_what_it_did(
    dba: Connection, empty_database: str
) -> None:
    await give(dba, **_SHORT, lock_timeout="1ms", statement_timeout="300ms")
    transaction = dba.transaction()
    await transaction.start()
    await dba.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_KEY})")

    others = as_sql().replace("BEGIN;", "").replace("COMMIT;", "")
    migrating = asyncio.create_task(migrate(empty_database))
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
    await until("it waits", lambda: dba.fetchval(waits))
    await dba.execute(others)
    await transaction.commit()
    await migrating

    assert await check(empty_database) == NEWEST


async def test_sessions_that_wait_are_not_ended_by_the_databases_patience(
    cluster: Cluster, dba: Connection, empty_database: str
) -> None:
    await give(dba, **_SHORT)
    await migrate(empty_database)
    node = cluster.start("a", poll_interval="30s", lease_ttl="30s")
    ears = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND now() - backend_start >"
    ear = await until("it has listened for long", lambda: dba.fetchval(f"{ears} '1.5 seconds'"))

    await dba.execute("SELECT pgcron.enqueue('py:work')")
    await until("it is heard", lambda: dba.fetchval(_SUCCEEDED, 1), deadline=10)

    assert await dba.fetchval(f"{ears} '1.5 seconds'") == ear
    assert node.events("NotificationsAreLost") == []


@pytest.mark.long
async def test_a_database_that_is_read_only_for_now_is_told_and_left_so(
    cluster: Cluster, dba: Connection, empty_database: str
) -> None:
    await migrate(empty_database)
    await give(dba, default_transaction_read_only="on")

    refused = cluster.command("enqueue", "py:work")
    node = cluster.spawn("a")
    reported = "the database takes no writes (a standby, or default_transaction_read_only is on)"
    await until("it says so", lambda: reported in node.output())
    examined = cluster.command("doctor")
    await give(dba, default_transaction_read_only="off")
    await until("it joins", node.has_joined)

    assert (refused.returncode, examined.returncode) == (1, 1)
    assert "default_transaction_read_only" in refused.stderr
    assert "default_transaction_read_only is on" in examined.stdout
