from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import Conflict, InvalidInput, InvalidSpec, NotFound, PgcronError
from tests.client.drivers import KINDS, Open

every_driver = pytest.mark.parametrize("open_caller", KINDS.values(), ids=KINDS.keys())
Reader: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def count_runs(reader: Reader) -> int:
    found: int = await reader.fetchval("SELECT count(*) FROM pgcron.run")
    return found


@every_driver
async def test_a_run_exists_when_the_callers_transaction_commits(
    open_caller: Open, database: str, connection: Reader
) -> None:
    due_at = datetime.now(UTC).replace(microsecond=5) + timedelta(hours=1)
    async with open_caller(database) as caller:
        run_id = await App().enqueue(
            "report",
            {"day": "Möndäy", "share": "100 %", "n": [1, None, 2.5]},
            queue="slow",
            priority=2,
            due_at=due_at,
            idempotency_key="once",
            timeout=90,
            max_attempts=3,
            conn=caller.connection,
        )
        assert await count_runs(connection) == 0
        await caller.commit()

    row = await connection.fetchrow(
        'SELECT id, handler, args = \'{"day": "Möndäy", "share": "100 %", "n": [1, null, 2.5]}\' '
        "AS args, queue, priority, due_at, timeout, max_attempts FROM pgcron.run"
    )
    assert row is not None
    assert tuple(row) == (
        *(run_id, "py:report", True, "slow", 2),
        *(due_at, timedelta(seconds=90), 3),
    )


@every_driver
async def test_a_run_never_was_when_the_callers_transaction_is_rolled_back(
    open_caller: Open, database: str, connection: Reader
) -> None:
    app = App()
    async with open_caller(database) as caller:
        run_id = await app.enqueue("report", idempotency_key="once", conn=caller.connection)
        assert (await app.run(run_id, conn=caller.connection)).state == "ready"
        await caller.rollback()

    assert await count_runs(connection) == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.idempotency") == 0


@every_driver
async def test_a_refusal_of_the_database_is_an_error_of_ours_with_its_sentences(
    open_caller: Open, database: str, connection: Reader
) -> None:
    async with open_caller(database) as caller:
        with pytest.raises(NotFound) as refusal:
            await App().cancel_run(404, conn=caller.connection)
        assert refusal.value.message == "run 404 does not exist"
        assert refusal.value.detail
        assert "runs list" in str(refusal.value.hint)

        with pytest.raises(Conflict) as second:
            await App().enqueue("report", conn=caller.connection)
        assert "transaction" in second.value.message
        await caller.rollback()
    assert await count_runs(connection) == 0


@every_driver
async def test_bad_input_is_refused_before_the_callers_transaction_hears_of_it(
    open_caller: Open, database: str, connection: Reader
) -> None:
    async with open_caller(database) as caller:
        with pytest.raises(InvalidInput):
            await App().enqueue("Ftp:x", conn=caller.connection)
        await App().enqueue("report", conn=caller.connection)
        await caller.commit()

    assert await count_runs(connection) == 1


@every_driver
async def test_schedules_of_code_are_put_in_the_callers_transaction(
    open_caller: Open, database: str, connection: Reader
) -> None:
    app = App()
    app.add_schedule("nightly", "0 3 * * *", "shell:backup", timeout=60, args={"db": "100 %"})
    async with open_caller(database) as caller:
        await app.put_schedules(caller.connection)
        await caller.commit()

    row = await connection.fetchrow(
        "SELECT name, spec, handler, timeout, managed_by, args ->> 'db' FROM pgcron.schedule"
    )
    assert row is not None
    assert tuple(row) == (
        *("nightly", "0 3 * * *", "shell:backup"),
        *(timedelta(seconds=60), "code", "100 %"),
    )


async def test_what_is_no_connection_is_refused_by_name(database: str) -> None:
    pool: Any = asyncpg.create_pool(database, min_size=0)
    async with pool:
        for wrong in (object(), pool, "postgresql://"):
            with pytest.raises(InvalidInput) as refusal:
                await App().enqueue("report", conn=wrong)
            assert type(wrong).__name__ in refusal.value.message
            assert refusal.value.hint

    with psycopg.connect(database) as blocking, pytest.raises(InvalidInput) as refusal:
        await App().enqueue("report", conn=blocking)
    assert "psycopg.Connection" in refusal.value.message


async def test_a_closed_connection_is_an_error_of_ours(database: str) -> None:
    closed = await asyncpg.connect(database)
    await closed.close()
    with pytest.raises(PgcronError) as refusal:
        await App().enqueue("report", conn=closed)
    assert refusal.value.hint

    other = await psycopg.AsyncConnection.connect(database)
    await other.close()
    with pytest.raises(PgcronError) as second:
        await App().enqueue("report", conn=other)
    assert second.value.hint


async def test_a_spec_that_only_the_database_refuses_is_told_in_its_words(
    database: str, connection: Reader
) -> None:
    from tests.product.db import functions

    with pytest.raises(InvalidSpec) as refusal:
        await functions.put_schedule(connection, "bad", "", "py:x")
    assert "the spec is empty" in refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule") == 0
