"""SQL profiles against a real server: parameters, log, result, errors, stops, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Committed,
    Context,
    Doubtful,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from pgcron_ha.operating_system import boottime
from tests.db.control import Connection, claim, enqueue, history_row, join, release
from tests.engine.proxy import Proxy
from tests.executors.running import Record, context
from tests.product.config import SqlProfile, read_tables
from tests.product.db import SqlDatabase
from tests.product.executors import SqlExecutor
from tests.waiting import slowness, until


def profile(statement: str, **keys: Any) -> SqlProfile:
    table = {"dsn": "postgresql://somewhere", "statement": statement, **keys}
    profiles, problems = read_tables("sql", {"t": table}, SqlProfile)
    assert problems == []
    return profiles["t"]


@asynccontextmanager
async def executor(
    dsn: str, profile: SqlProfile, warnings: list[str] | None = None
) -> AsyncIterator[tuple[SqlExecutor, Record]]:
    record, warned = Record(), [] if warnings is None else warnings
    running = SqlExecutor(
        {"t": profile},
        {"t": SqlDatabase(lambda: dsn, profile.connections, node="a node")},
        record.services(16),
        warned.append,
    )
    try:
        yield running, record
    finally:
        await running.close(5)


async def outcome_in(record: Record, run: Context) -> Outcome:
    return await asyncio.to_thread(record.outcome, run)


async def result_of(
    dsn: str, statement: str, args: dict[str, Any] | None = None, **keys: Any
) -> tuple[Outcome, list[str]]:
    """The outcome of one run, and its log."""
    async with executor(dsn, profile(statement, **keys)) as (running, record):
        run = context(1, "sql:t", args or {})
        running.start([run])
        return await outcome_in(record, run), record.lines_of(run)


@pytest.fixture
async def table(connection: Connection) -> None:
    await connection.execute("CREATE TABLE public.note (text text, day date)")


async def notes(connection: Connection) -> list[str]:
    return [row["text"] for row in await connection.fetch("SELECT text FROM public.note")]


async def test_the_number_of_rows_is_a_line_of_the_log(
    database: str, connection: Connection, table: None
) -> None:
    statement = "INSERT INTO public.note (text) SELECT :text FROM generate_series(1, :count)"

    outcome, lines = await result_of(database, statement, {"text": "x'; --", "count": 3})

    assert outcome is SUCCEEDED
    assert lines == ["INSERT 0 3"]
    assert await notes(connection) == ["x'; --"] * 3


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        ("int", 5, 5),
        ("int", "5", 5),
        ("bigint", 2**53 + 1, 2**53 + 1),
        ("numeric", "12345678901234567890.12", "12345678901234567890.12"),
        ("numeric", 1.5, 1.5),
        ("text", "ä", "ä"),
        ("text", 5, "5"),
        ("bool", True, True),
        ("date", "2026-02-28", "2026-02-28"),
        ("timestamptz", "2026-01-01T00:00:00+01:00", "2025-12-31 23:00:00+00"),
        ("interval", "90 minutes", "01:30:00"),
        ("uuid", "c0ffee00-0000-4000-8000-000000000000", "c0ffee00-0000-4000-8000-000000000000"),
        ("jsonb", {"a": [1, None]}, {"a": [1, None]}),
        ("int[]", [1, 2, None], [1, 2, None]),
        ("text[]", ["a", "b"], ["a", "b"]),
        ("bytea", "\\x00ff", "\\x00ff"),
        ("public.mood", "fine", "fine"),
        ("int", None, None),
    ],
)
async def test_parameters_are_typed_by_the_database(
    kind: str, value: Any, back: Any, database: str, connection: Connection
) -> None:
    await connection.execute("CREATE TYPE public.mood AS ENUM ('fine', 'bad')")
    statement = f"SELECT CAST(:x AS {kind}) AS x"

    outcome, lines = await result_of(database, statement, {"x": value}, rows=True)

    assert isinstance(outcome, Succeeded), outcome
    assert outcome.result == {"rows": [{"x": back}], "is_cut": False}
    assert lines == ["1 row"]


async def test_a_parameter_that_is_no_arg_is_the_result_of_a_step(database: str) -> None:
    statement = "SELECT :extract::jsonb -> 'rows' AS rows, :count::int + :more::int AS count"

    async def outcome(args: dict[str, Any]) -> Any:
        async with executor(database, profile(statement, rows=True)) as (running, record):
            run = context(1, "sql:t", args, origin="step")
            run._results = '{"extract": {"rows": [7]}, "count": 3, "unused": null, "more": 9}'
            running.start([run])
            return await outcome_in(record, run)

    found = await outcome({"more": 1})  # an arg goes before a step of its name
    assert found.result["rows"] == [{"rows": [7], "count": 4}]
    assert (await outcome({})).result["rows"] == [{"rows": [7], "count": 12}]
    refused = await outcome({"most": 1})
    assert "the arg 'most' is no parameter" in refused.message


@pytest.mark.parametrize(
    ("statement", "args", "error_class", "retry", "words"),
    [
        ("SELEC 1", {}, "42601", False, "syntax error"),
        ("SELECT * FROM nowhere", {}, "42P01", False, "nowhere"),
        ("SELECT 1/0", {}, "22012", True, "division by zero"),
        ("SELECT CAST(:x AS int)", {"x": "five"}, "22P02", True, "five"),
        ("SELECT CAST(:x AS int[])", {"x": 5}, "InvalidInput", False, "JSON array"),
        ("SELECT :x::text", {}, "InvalidInput", False, "'x' is missing"),
        ("SELECT :x::text", {"x": 1, "y": 2}, "InvalidInput", False, "'y' is no parameter"),
        ("SELECT pgcron.assert_token(1, gen_random_uuid())", {}, "PC012", False, "hint: Roll back"),
        (
            "SELECT 1; SELECT 2; DO $$ BEGIN RAISE 'no' USING ERRCODE='40001', DETAIL='d'; END $$",
            {},
            "40001",
            True,
            "statement 3 of 3: no\ndetail: d",
        ),
    ],
)
async def test_errors_say_the_sqlstate_and_whether_it_can_help_to_try_again(
    statement: str, args: Any, error_class: str, retry: bool, words: str, database: str
) -> None:
    outcome, _ = await result_of(database, statement, args)

    assert isinstance(outcome, Failed), outcome
    assert (outcome.error_class, outcome.retry) == (error_class, retry)
    assert words in outcome.message


async def test_a_script_is_one_transaction(
    database: str, connection: Connection, table: None
) -> None:
    script = "INSERT INTO public.note VALUES ('one'); SELECT 1/0"

    outcome, _ = await result_of(database, script)
    assert isinstance(outcome, Failed)
    assert await notes(connection) == []

    await result_of(database, script, atomic=False)
    assert await notes(connection) == ["one"]


async def test_what_can_not_be_in_a_transaction_can_be_executed(database: str, table: None) -> None:
    outcome, lines = await result_of(database, "VACUUM public.note", atomic=False)

    assert (outcome, lines) == (SUCCEEDED, ["VACUUM"])


async def test_notices_are_told_while_it_runs(database: str) -> None:
    script = "DO $$ BEGIN RAISE NOTICE 'half'; PERFORM pg_sleep(30); END $$"
    async with executor(database, profile(script)) as (running, record):
        run = context(1, "sql:t")
        running.start([run])
        await asyncio.to_thread(record.wait_for_line, run, "NOTICE: half")
        running.stop(run, StopReason.CANCELLED)
        assert isinstance(await outcome_in(record, run), Interrupted)


async def test_rows_that_are_too_many_are_counted_and_not_kept(database: str) -> None:
    statement = "SELECT n, repeat('x', 100) AS x FROM generate_series(1, 20000) n"

    outcome, lines = await result_of(database, statement, rows=True, max_rows=10_000)
    assert isinstance(outcome, Succeeded)
    assert outcome.result["is_cut"]
    assert 1000 < len(outcome.result["rows"]) < 2500
    assert len(outcome.text or "") <= 256 * 1024
    assert lines == ["20000 rows"]

    outcome, _ = await result_of(database, statement, rows=True, max_rows=2)
    assert isinstance(outcome, Succeeded)
    assert [row["n"] for row in outcome.result["rows"]] == [1, 2]


async def test_rows_of_what_changes_data_are_results_too(
    database: str, connection: Connection, table: None
) -> None:
    statement = "INSERT INTO public.note SELECT n FROM generate_series(1, 3) n RETURNING text"

    outcome, lines = await result_of(database, statement, rows=True)

    assert isinstance(outcome, Succeeded)
    assert [row["text"] for row in outcome.result["rows"]] == ["1", "2", "3"]
    assert lines == ["3 rows"]
    assert len(await notes(connection)) == 3


async def test_the_run_is_known_to_the_statement(database: str) -> None:
    statement = """
        SELECT current_setting('pgcron.token') = :pgcron_token AS token,
               current_setting('pgcron.run_id')::bigint = :pgcron_run_id AS run,
               current_setting('pgcron.fence') = :pgcron_fence::text AS fence,
               current_setting('pgcron.idempotency_key') = :pgcron_idempotency_key AS key,
               current_setting('pgcron.origin') = :pgcron_origin AS origin,
               :pgcron_schedule::text IS NULL AND current_setting('pgcron.schedule') = '' AS none
    """

    outcome, _ = await result_of(database, statement, rows=True)

    assert isinstance(outcome, Succeeded), outcome
    assert set(outcome.result["rows"][0].values()) == {True}


async def sessions_that_sleep(connection: Connection) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        " AND datname = current_database()"
    )
    return count


@pytest.mark.parametrize("how", ["stop", "kill", "time limit", "lease", "close"])
async def test_whatever_ends_a_run_ends_its_statement_first(
    how: str, database: str, connection: Connection, table: None
) -> None:
    script = "INSERT INTO public.note VALUES ('one'); SELECT pg_sleep(30)"
    keys = {"timeout": f"{500 * slowness():.0f}ms"} if how == "time limit" else {}
    async with executor(database, profile(script, **keys)) as (running, record):
        run = context(1, "sql:t")
        running.start([run])
        await until("it sleeps", lambda: sessions_that_sleep(connection))
        if how == "stop":
            running.stop(run, StopReason.CANCELLED)
        elif how == "kill":
            assert running.kill(run)
        elif how == "lease":
            running.renew_lease(boottime())
        elif how == "close":
            await running.close(5)
        outcome = await outcome_in(record, run)
        assert await sessions_that_sleep(connection) == 0

    assert isinstance(outcome, Interrupted)
    expected = {
        "time limit": StopReason.TIMED_OUT,
        "lease": StopReason.LEASE_LOST,
        "close": StopReason.SHUTDOWN,
    }
    assert outcome.reason is expected.get(how, StopReason.CANCELLED)
    assert await notes(connection) == []


async def test_a_statement_that_catches_the_cancel_loses_its_session(
    database: str, connection: Connection
) -> None:
    script = """DO $$ BEGIN
        LOOP BEGIN PERFORM pg_sleep(30); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
    END $$"""
    async with executor(database, profile(script, grace="300ms")) as (running, record):
        run = context(1, "sql:t")
        running.start([run])
        await until("it sleeps", lambda: sessions_that_sleep(connection))
        running.stop(run, StopReason.CANCELLED)
        outcome = await outcome_in(record, run)
        assert await sessions_that_sleep(connection) == 0

    assert isinstance(outcome, Interrupted)


async def test_one_session_serves_one_run_at_a_time_and_all_in_turn(
    database: str, connection: Connection
) -> None:
    statement = """
        SELECT pg_backend_pid() AS pid, count(*) AS sessions, pg_sleep(0.01)
        FROM pg_stat_activity WHERE application_name = 'pgcron_ha handler'
        AND datname = current_database()
    """
    async with executor(database, profile(statement, rows=True, connections=2)) as (running, rec):
        runs = [context(number, "sql:t") for number in range(20)]
        rec.waiting.extend(runs[8:])
        running.start(runs[:8])
        outcomes = [await outcome_in(rec, run) for run in runs]

    rows = [each.result["rows"][0] for each in outcomes if isinstance(each, Succeeded)]
    assert len(rows) == 20
    assert len({row["pid"] for row in rows}) <= 2
    assert max(row["sessions"] for row in rows) <= 2


async def test_a_run_that_waits_for_a_session_can_be_stopped(
    database: str, connection: Connection
) -> None:
    keys = {"connections": 1}
    async with executor(database, profile("SELECT pg_sleep(30)", **keys)) as (running, record):
        first, second = context(1, "sql:t"), context(2, "sql:t")
        running.start([first])
        await until("it sleeps", lambda: sessions_that_sleep(connection))
        running.start([second])
        running.stop(second, StopReason.CANCELLED)
        assert isinstance(await outcome_in(record, second), Interrupted)
        running.stop(first, StopReason.CANCELLED)
        assert isinstance(await outcome_in(record, first), Interrupted)


async def test_a_database_that_is_away_is_tried_again(database: str) -> None:
    outcome, _ = await result_of("postgresql://u@127.0.0.1:1/x", "SELECT 1")

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("DatabaseUnavailable", True)


async def test_a_role_that_may_too_much_is_told(database: str) -> None:
    warnings: list[str] = []
    async with executor(database, profile("SELECT 1"), warnings):
        await until("a warning", lambda: warnings)

    assert "a superuser" in warnings[0]


# The product's own database.


@asynccontextmanager
async def claimed(
    connection: Connection, dsn: str, statement: str
) -> AsyncIterator[tuple[SqlExecutor, Record, Context, Any]]:
    await enqueue(connection, handler="sql:t", delivery="transactional")
    node = await join(connection, handlers=["sql:t"])
    [row] = await claim(connection, node)
    run = Context(
        row["id"], row["uuid"], "sql:t", "{}", 1, 5, "default", 5, None, None, row["token"],
        row["fence"], delivery="transactional",
    )  # fmt: skip
    async with executor(dsn, profile(statement, transactional=True, rows=True)) as (running, rec):
        yield running, rec, run, row


async def test_a_transactional_profile_completes_its_run_itself(
    database: str, connection: Connection, table: None
) -> None:
    script = """
        SELECT pgcron.assert_token(:pgcron_run_id, :pgcron_token);
        INSERT INTO public.note VALUES ('one') RETURNING text
    """
    async with claimed(connection, database, script) as (running, record, run, _):
        running.start([run])
        outcome = await outcome_in(record, run)

    assert isinstance(outcome, Committed), outcome
    ended = await history_row(connection, run.run_id)
    assert ended is not None
    assert (ended["outcome"], ended["node"]) == ("succeeded", "a node")
    assert ended["result"] == '{"rows": [{"text": "one"}], "is_cut": false}'
    assert await notes(connection) == ["one"]


async def test_a_run_that_was_taken_away_leaves_nothing(
    database: str, connection: Connection, table: None
) -> None:
    script = "INSERT INTO public.note VALUES ('one')"
    async with claimed(connection, database, script) as (running, record, run, row):
        await release(connection, [row])
        running.start([run])
        outcome = await outcome_in(record, run)

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "PC012"
    assert await notes(connection) == []


async def test_the_lost_answer_of_a_commit_is_a_doubt(
    database: str, connection: Connection, table: None, server: Any
) -> None:
    script = "INSERT INTO public.note VALUES ('one')"
    async with (
        Proxy(server.folder / f".s.PGSQL.{server.port}") as proxy,
        claimed(connection, proxy.dsn(database), script) as (running, record, run, _),
    ):
        proxy.lose_answer_to("COMMIT")
        running.start([run])
        outcome = await outcome_in(record, run)

    assert isinstance(outcome, Doubtful)
    assert await notes(connection) == ["one"]
    assert await history_row(connection, run.run_id) is not None


async def test_a_transactional_profile_that_ends_its_transaction_fails_for_good(
    database: str, connection: Connection, table: None
) -> None:
    script = "INSERT INTO public.note VALUES ('one'); ROLLBACK AND CHAIN"
    async with claimed(connection, database, script) as (running, record, run, _):
        running.start([run])
        outcome = await outcome_in(record, run)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("TransactionEnded", False)
    assert await history_row(connection, run.run_id) is None
    assert await notes(connection) == []


async def test_a_transactional_run_needs_a_transactional_profile(database: str) -> None:
    async with executor(database, profile("SELECT 1")) as (running, record):
        run = context(1, "sql:t")
        run.delivery = "transactional"
        running.start([run])
        outcome = await outcome_in(record, run)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)


async def test_a_role_of_its_own_needs_no_right_on_the_products_tables(
    database: str, connection: Connection, table: None
) -> None:
    name = f"profile_{database.partition('?')[0].rpartition('/')[2]}"
    await connection.execute(f"""
        CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA pgcron TO {name};
        GRANT EXECUTE ON FUNCTION pgcron.assert_token, pgcron.finish_run TO {name};
        GRANT INSERT ON public.note TO {name};
    """)
    place = database.partition("@")[2]
    try:
        script = "INSERT INTO public.note VALUES ('one')"
        dsn = f"postgresql://{name}@{place}"
        async with claimed(connection, dsn, script) as (running, record, run, _):
            running.start([run])
            outcome = await outcome_in(record, run)
        assert isinstance(outcome, Committed), outcome
    finally:
        await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
