"""A standby takes over: nodes whose DSN names both go on there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.db import control
from tests.e2e.nodes import Cluster
from tests.product.db import migrate
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.waiting import until


@pytest.fixture
def primary() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(tcp=True) as server:
        yield server


async def test_a_node_goes_on_where_the_standby_was_promoted(
    primary: ThrowAwayServer, tmp_path: Path
) -> None:
    await migrate(primary.tcp_dsn())
    standby = ThrowAwayServer(tcp=True)
    try:
        standby.follow(primary)
        places = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        with Cluster(f"postgresql://{USER}:{PASSWORD}@{places}/postgres", tmp_path) as cluster:
            node = cluster.start("a")
            before = await asyncpg.connect(primary.dsn())
            await control.enqueue(before, 3, handler="py:work")
            ended = "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
            await until("they succeed", lambda: _is(before, ended, 3))
            await before.close()
            primary.stop("fast")  # sends all that it has to the standby before it goes

            standby.execute("SELECT pg_promote(true, 30)")
            after = await asyncpg.connect(standby.dsn())
            await control.enqueue(after, 3, handler="py:work")
            await until("these succeed there", lambda: _is(after, ended, 6), deadline=30)
            await after.close()

            assert not node.has_ended()
            assert cluster.evidence.count("start") == cluster.evidence.count("end") == 6
    finally:
        standby.close()


async def test_no_number_that_a_lost_commit_gave_out_is_given_again(
    primary: ThrowAwayServer, tmp_path: Path
) -> None:
    await migrate(primary.tcp_dsn())
    standby = ThrowAwayServer(tcp=True)
    numbers = "SELECT h.id, h.fence, r.uuid FROM pgcron.history h JOIN pgcron.runs r USING (id)"
    ended = "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
    try:
        standby.follow(primary)
        places = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        with Cluster(f"postgresql://{USER}:{PASSWORD}@{places}/postgres", tmp_path) as cluster:
            cluster.start("a")
            before = await asyncpg.connect(primary.dsn())
            await control.enqueue(before, 3, handler="py:work")
            await until("they succeed", lambda: _is(before, ended, 3))
            standby.stop("fast")
            lost = await control.enqueue(before, 100, handler="py:work")
            await until("what will be lost succeeds", lambda: _is(before, ended, 103))
            given = await before.fetch(numbers)
            await before.close()
            primary.stop("immediate")

            standby.start()
            standby.execute("SELECT pg_promote(true, 30)")
            after = await asyncpg.connect(standby.dsn())
            skipped = "SELECT count(*) FROM pgcron.run_id_seq WHERE last_value > 1000000000"
            [early] = await control.enqueue(after, 1, handler="py:work")
            await until("a node has noted it", lambda: _is(after, skipped, 1), deadline=30)
            await control.enqueue(after, 50, handler="py:work")
            new = f"{numbers} WHERE h.id > {max(lost)} OR h.id = {early}"
            count = f"SELECT count(*) FROM ({new}) one"
            await until("these succeed", lambda: _is(after, count, 51), deadline=30)
            again = await after.fetch(new)
            await after.close()

            # Only its uuid keeps apart what was enqueued before any node saw the new server.
            assert {row["id"] for row in again} & {*lost} == {early}
            assert not {row["uuid"] for row in again} & {row["uuid"] for row in given}
            assert min(row["fence"] for row in again) > max(row["fence"] for row in given)
    finally:
        standby.close()


@pytest.mark.long
@pytest.mark.parametrize(("is_synchronous", "fewest", "most"), [(True, 0, 8), (False, 10, 40)])
async def test_claims_wait_after_a_promotion_only_if_the_old_server_was_not_synchronous(
    primary: ThrowAwayServer, tmp_path: Path, is_synchronous: bool, fewest: float, most: float
) -> None:
    await migrate(primary.tcp_dsn())
    standby = ThrowAwayServer(tcp=True)
    try:
        standby.follow(primary)
        if is_synchronous:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")
            standby.execute("SELECT 1")
        places = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        with Cluster(f"postgresql://{USER}:{PASSWORD}@{places}/postgres", tmp_path) as cluster:
            cluster.start("a", lease_ttl="15s")
            before = await asyncpg.connect(primary.dsn())
            ended = "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
            known = f"SELECT count(*) FROM pgcron.cluster WHERE is_synchronous = {is_synchronous}"
            await control.enqueue(before, 1, handler="py:work")
            await until("it succeeds", lambda: _is(before, ended, 1))
            await until("a beat has noted it", lambda: _is(before, known, 1))
            await control.enqueue(before, 1, handler="py:work")
            await until("another succeeds", lambda: _is(before, ended, 2))
            before.terminate()
            primary.stop("immediate")
            standby.execute("SELECT pg_promote(true, 30)")
            promoted = time.monotonic()
            after = await asyncpg.connect(standby.dsn())
            await control.enqueue(after, 1, handler="py:work")
            await until("it succeeds there", lambda: _is(after, ended, 3), deadline=most + 5)
            waited = time.monotonic() - promoted
            await after.close()

            assert fewest <= waited < most, waited
    finally:
        standby.close()


async def _is(connection: asyncpg.Connection, query: str, count: int) -> bool:
    return bool(await connection.fetchval(query) == count)
