from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeAlias

import asyncpg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import ConfigError, InvalidInput, PgcronError, TooLarge
from tests.client.drivers import KINDS, Open
from tests.product.client import MOST_RUNS, NewRun

every_driver = pytest.mark.parametrize("open_caller", KINDS.values(), ids=KINDS.keys())
Reader: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

FAR_EAST = timezone(timedelta(hours=9, minutes=30))
REQUESTED: list[NewRun] = [
    {"handler": "report"},
    {"handler": "shell:backup", "args": {"day": "Möndäy 100 % \\ \" '", "n": [1, None, 2.5e-7]}},
    {"handler": "report", "queue": "slow", "priority": 0, "max_attempts": 7},
    {"handler": "report", "due_at": datetime(2031, 2, 3, 4, 5, 6, 7, tzinfo=FAR_EAST)},
    {"handler": "report", "timeout": 0.25, "delivery": "at_most_once"},
    {"handler": "report", "timeout": timedelta(days=30), "idempotency_key": 'a "key" ü\\'},
    {"handler": "report", "idempotency_key": "b", "key_lifetime": timedelta(days=366)},
    {"handler": "report", "idempotency_key": 'a "key" ü\\', "key_lifetime": 0.5},
]


async def stored(reader: Reader) -> list[Any]:
    """Runs and keys as they are in the database, but for what no two runs share."""
    runs = await reader.fetch(
        "SELECT handler, args::text, queue, priority, nullif(due_at, created_at) AS due_at, "
        "max_attempts, timeout::text, delivery, origin, created_by FROM pgcron.run ORDER BY id"
    )
    keys = await reader.fetch(
        "SELECT i.key, i.expires_at - r.created_at AS lifetime, "
        "(SELECT count(*) FROM pgcron.run other WHERE other.id < r.id) AS place "
        "FROM pgcron.idempotency i JOIN pgcron.run r ON r.id = i.run_id ORDER BY i.key"
    )
    return [tuple(row) for row in (*runs, *keys)]


@every_driver
async def test_many_runs_are_what_they_are_one_by_one(
    open_caller: Open, database: str, connection: Reader
) -> None:
    app = App()
    async with open_caller(database) as caller:
        ids = await app.enqueue_many(REQUESTED, conn=caller.connection)
        assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
        await caller.commit()
    at_once = await stored(connection)
    assert ids == [*sorted(set(ids)), ids[5]]

    await connection.execute("TRUNCATE pgcron.run, pgcron.idempotency")
    async with connection.transaction():
        one_by_one = [await app.enqueue(**options, conn=connection) for options in REQUESTED]
    assert await stored(connection) == at_once
    assert one_by_one[7] == one_by_one[5]


@every_driver
async def test_a_refusal_by_the_database_names_the_run_and_leaves_nothing(
    open_caller: Open, database: str, connection: Reader
) -> None:
    from tests.product.db import functions

    async with open_caller(database) as caller:
        with pytest.raises(InvalidInput) as refusal:
            await functions.enqueue_many(
                caller.connection, '[{"handler": "py:a"}, {"handler": "py:b", "priority": 12}]'
            )
        assert refusal.value.message == "run 2 of 2: priority 12 is out of range"
        assert refusal.value.detail
        assert refusal.value.hint
        await caller.rollback()
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"handler": "Ftp:x"}, InvalidInput, "handler 'Ftp:x' is not a handler name"),
        ({}, InvalidInput, "is not a handler name"),
        ({"handler": "x", "priority": 10}, InvalidInput, "priority 10 is out of range"),
        ({"handler": "x", "args": [1]}, InvalidInput, "args is a JSON array"),
        ({"handler": "x", "args": {"text": "x" * 262_144}}, TooLarge, "bytes"),
        ({"handler": "x", "due": 1}, InvalidInput, "enqueue has no argument 'due'"),
        ({"handler": "x", "key_lifetime": 1}, InvalidInput, "without idempotency_key"),
        ({"handler": print}, ConfigError, "print is not a handler of this App"),
        ({"handler": ["x"]}, ConfigError, "['x'] is not a handler of this App"),
        ({"handler": "x", "uniqe": 1}, InvalidInput, "did you mean 'unique'?"),
        ("report", InvalidInput, "run 2 of 3: it is text"),
    ],
)
async def test_a_bad_run_is_refused_by_its_number_before_anything_is_sent(
    options: Any, kind: type[PgcronError], words: str
) -> None:
    with pytest.raises(kind) as refusal:
        await App("postgresql://nowhere.invalid/x", "pgcron").enqueue_many(
            [{"handler": "report"}, options, {"handler": "report"}]
        )
    assert refusal.value.message.startswith("run 2 of 3")
    assert words in refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint


async def test_an_app_asks_for_many_by_its_own_connection(
    database: str, connection: Reader
) -> None:
    async with App(database) as app:

        @app.handler()
        async def report(context: Any) -> None: ...

        assert await app.enqueue_many([]) == []
        ids = await app.enqueue_many({"handler": report, "args": None} for _ in range(MOST_RUNS))

    assert len(set(ids)) == MOST_RUNS
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == MOST_RUNS


async def test_more_than_one_call_takes_is_refused_before_anything_is_sent() -> None:
    app = App("postgresql://nowhere.invalid/x", "pgcron")
    with pytest.raises(TooLarge):
        await app.enqueue_many([{"handler": "report"}] * (MOST_RUNS + 1))

    large: NewRun = {"handler": "report", "args": {"text": "x" * 200_000}}
    with pytest.raises(TooLarge) as refusal:
        await app.enqueue_many([large] * 400, conn=object())
    assert "64 MiB" in str(refusal.value.detail)


async def test_an_instant_at_the_edge_of_time_arrives_as_it_is(
    database: str, connection: Reader
) -> None:
    edges = [datetime(1900, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, tzinfo=FAR_EAST)]
    beyond = [datetime(1899, 12, 31, tzinfo=UTC), datetime(9999, 1, 1, 12, tzinfo=FAR_EAST)]
    async with App(database) as app:
        await app.enqueue_many({"handler": "report", "due_at": edge} for edge in edges)
        for instant in beyond:
            with pytest.raises(InvalidInput):
                await app.enqueue_many([{"handler": "report", "due_at": instant}])

    rows = await connection.fetch("SELECT due_at FROM pgcron.run ORDER BY id")
    assert [row["due_at"] for row in rows] == edges


async def test_runs_that_differ_in_their_args_alone_are_judged_each(
    database: str, connection: Reader
) -> None:
    app = App(database)

    @app.handler("report")
    async def report(context: object, n: int = 0) -> None: ...

    def options(args: Any, priority: Any = 1) -> NewRun:
        return {"handler": report, "args": args, "priority": priority}

    async with app:
        await app.enqueue_many(
            [options({"n": 1}), options({"n": 2}), options('{"n": 3}'), options(None)]
        )
        for bad, words in (
            (options({"n": 5}, True), "priority True is out of range"),
            (options({"n": 5}, 1.0), "priority 1.0 is out of range"),
            (options({"n": 5}, [1]), "priority [1] is out of range"),
            (options("{"), "args '{' is not JSON"),
            (
                options({"n": "x"}),
                "the args don't fit py:report: 'n' is \"x\": Input should be a valid integer",
            ),
            (options("[]"), "args is a JSON array"),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await app.enqueue_many([options({"n": 4}), bad])
            assert refusal.value.message == f"run 2 of 2: {words}"

    rows = await connection.fetch(
        "SELECT args ->> 'n', priority, handler FROM pgcron.run ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [(n, 1, "py:report") for n in ("1", "2", "3", None)]
