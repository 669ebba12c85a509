from __future__ import annotations

import asyncio

import pytest

from pgcron_ha.errors import DatabaseUnavailable, InvalidInput, PgcronError
from tests.db.control import Connection, claim, enqueue, join
from tests.engine.conftest import MakeLink
from tests.engine.proxy import Proxy
from tests.product.db import Busy, Link, NoPartition, TableBusy, Unanswered, assume
from tests.waiting import slowness, until


async def test_a_statement_gives_its_rows_and_opens_the_connection_itself(link: Link) -> None:
    assert not link.is_open

    assert await link.rows("expired_runs", at_most=5) == []
    assert await link.value("channel") is not None

    assert link.is_open


async def test_a_lost_answer_is_unanswered_and_the_statement_has_happened(
    proxied: Link, proxy: Proxy, connection: Connection
) -> None:
    node = await join(connection)
    await proxied.rows("channel")
    proxy.lose_answer_to("UPDATE pgcron.node")

    with pytest.raises(Unanswered):
        await proxied.rows("leave", incarnation=node.incarnation, reason="its answer is lost")

    assert proxy.lost_answers == 1
    assert (
        await connection.fetchval("SELECT ended_because FROM pgcron.node") == "its answer is lost"
    )
    assert not proxied.is_open
    assert await proxied.rows("expired_runs", at_most=1) == []


async def test_a_reset_while_a_statement_is_under_way_is_unanswered(
    proxied: Link, proxy: Proxy, connection: Connection
) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.node")
        waiting = asyncio.create_task(proxied.rows("forget_nodes", at_most=10))
        await until("the statement waits", lambda: _waits(connection))
        proxy.reset()

        with pytest.raises(Unanswered):
            await waiting

    assert isinstance(Unanswered("x"), DatabaseUnavailable)


async def test_a_silent_server_is_unanswered_after_its_time_and_never_asked_to_cancel(
    proxied: Link, proxy: Proxy
) -> None:
    await proxied.rows("channel")
    proxy.stall()

    with pytest.raises(Unanswered, match="did not answer in time"):
        await proxied.rows("channel")
    proxy.resume()
    await proxied.rows("channel")

    assert proxy.cancel_requests == 0
    assert proxy.connections == 2


async def test_a_cancelled_caller_drops_the_connection_and_sends_no_cancel_request(
    proxied: Link, proxy: Proxy
) -> None:
    await proxied.rows("channel")
    proxy.stall()
    asking = asyncio.create_task(proxied.rows("channel"))
    await asyncio.sleep(0)
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    proxy.resume()
    await proxied.rows("channel")

    assert proxy.cancel_requests == 0
    assert proxy.connections == 2


async def test_a_server_that_falls_silent_while_connecting_is_unavailable(
    proxied: Link, proxy: Proxy
) -> None:
    proxy.stall()

    with pytest.raises(DatabaseUnavailable):
        async with asyncio.timeout(10 * slowness()):
            await proxied.rows("channel")


async def test_a_connection_that_breaks_during_its_settings_is_unavailable(
    make_link: MakeLink, proxy: Proxy, database: str
) -> None:
    for command in ("SET default_transaction_isolation", "SET enable_nestloop"):
        link = make_link(proxy.dsn(database), joins_by_hash=True)
        proxy.lose_answer_to(command)

        with pytest.raises(DatabaseUnavailable):
            await link.rows("channel")
        assert not link.is_open

        assert await link.value("channel") is not None


async def test_a_link_that_joins_by_hash_keeps_that_over_a_broken_connection(
    make_link: MakeLink, proxy: Proxy, database: str
) -> None:
    link = make_link(proxy.dsn(database), joins_by_hash=True)
    await link.rows("channel")
    proxy.reset()
    await link.wait_closed()

    settings: list[str] = []
    await link.check(lambda connection: _read_setting(connection, "enable_nestloop", settings))

    assert settings == ["off"]


async def test_a_lock_that_can_not_be_had_is_busy_and_nothing_happened(
    link: Link, connection: Connection
) -> None:
    await link.execute("SET lock_timeout = 50")
    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.node")

        with pytest.raises(Busy):
            await link.rows("forget_nodes", at_most=10)

    assert link.is_open
    await link.rows("forget_nodes", at_most=10)


@pytest.mark.parametrize(
    ("lock", "kind"),
    [
        ("LOCK TABLE pgcron.node IN SHARE MODE", TableBusy),
        ("SELECT FROM pgcron.node FOR UPDATE", Busy),
    ],
)
async def test_whom_a_statement_waited_for_is_named_and_whether_for_a_table(
    link: Link, make_link: MakeLink, connection: Connection, lock: str, kind: type[Busy]
) -> None:
    node = await join(connection)
    link.witness = make_link().rows
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    async with connection.transaction():
        await connection.execute("SET LOCAL application_name = 'a_colleague'")
        await connection.execute(lock)
        with pytest.raises(Busy) as busy:
            await link.rows("leave", incarnation=node.incarnation, reason="a test")

    assert type(busy.value) is kind
    named = f"it waited for session {pid}, user postgres, application a_colleague"
    assert named in busy.value.message


async def test_behind_a_pooler_too_is_named_whom_a_statement_waited_for(
    make_link: MakeLink, connection: Connection, database: str
) -> None:
    node = await join(connection)
    assume(database, "transaction")
    link = make_link(title="pgcron_ha claims n1")
    link.witness = make_link().rows
    async with connection.transaction():
        await connection.execute("SET LOCAL application_name = 'a_colleague'")
        await connection.execute("SELECT FROM pgcron.node FOR UPDATE")
        with pytest.raises(Busy, match="user postgres, application a_colleague"):
            await link.rows("leave", incarnation=node.incarnation, reason="a test")
    assert link.is_pooled


async def test_a_row_without_a_partition_is_told_apart(link: Link, connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection)
    run = (await claim(connection, node))[0]
    await _drop_partitions(connection, "history")

    with pytest.raises(NoPartition):
        await link.rows(
            "finish_runs",
            run_ids=[run["id"]],
            tokens=[run["token"]],
            elapsed_seconds=[0.0],
            results=[None],
            without_args=None,
            node="n",
        )
    assert link.is_open


async def test_what_the_database_refuses_is_the_error_of_ours(link: Link) -> None:
    with pytest.raises(InvalidInput) as refused:
        await link.execute("INSERT INTO pgcron.run (handler) VALUES ('no kind')")

    assert refused.value.hint


async def test_statements_of_one_link_wait_for_each_other(link: Link) -> None:
    await asyncio.gather(*(link.rows("channel") for _ in range(20)))

    assert link.is_open


async def test_a_link_hears_notifications_until_its_connection_breaks(
    proxied: Link, proxy: Proxy, connection: Connection
) -> None:
    heard: list[str] = []
    await proxied.listen(heard.append)

    await connection.execute("SELECT pg_notify(pgcron.channel(), 'run')")
    await until("it is heard", lambda: heard == ["run"])
    closing = asyncio.create_task(proxied.wait_closed())
    proxy.reset()

    await asyncio.wait_for(closing, 10)


async def test_no_server_is_unavailable_with_a_hint(make_link: MakeLink) -> None:
    link = make_link("postgresql://nobody@127.0.0.1:1/nothing?sslmode=disable")

    with pytest.raises(DatabaseUnavailable) as refused:
        await link.rows("channel")

    assert refused.value.hint


async def test_a_statement_needs_each_of_its_parameters(link: Link) -> None:
    with pytest.raises(KeyError):
        await link.rows("expired_runs")


async def test_a_value_the_driver_can_not_encode_is_no_broken_connection(link: Link) -> None:
    with pytest.raises(PgcronError) as refused:
        await link.rows("expired_runs", at_most="many")

    assert not isinstance(refused.value, DatabaseUnavailable)
    assert link.is_open


async def _waits(connection: Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))


async def _read_setting(connection: Connection, name: str, into: list[str]) -> None:
    into.append(await connection.fetchval("SELECT current_setting($1)", name))


async def _drop_partitions(connection: Connection, table: str) -> None:
    for row in await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass",
        f"pgcron.{table}",
    ):
        await connection.execute(f"DROP TABLE {row['name']}")


async def test_a_link_whose_prepared_statements_are_gone_does_without(link: Link) -> None:
    """As through a pooler that hands sessions around and was not found out."""
    assert await link.rows("expired_runs", at_most=5) == []
    was_pooled = link.is_pooled
    await link.execute("DEALLOCATE ALL")

    with pytest.raises(Busy, match="does not exist"):
        await link.rows("expired_runs", at_most=5)

    assert await link.rows("expired_runs", at_most=5) == []
    assert (was_pooled, link.is_pooled) == (False, True)
    await link.execute("DEALLOCATE ALL")
    assert await link.rows("expired_runs", at_most=5) == []
    assert link.opened == 2


async def test_a_link_says_whose_it_is(make_link: MakeLink, connection: Connection) -> None:
    await make_link(title="pgcron_ha claims it's " + 80 * "x").rows("expired_runs", at_most=5)

    found = await connection.fetchval(
        "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE '%claims%'"
    )
    assert found == ("pgcron_ha claims it's " + 80 * "x")[:63]
