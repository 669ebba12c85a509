"""A program without an event loop enqueues by its own cursor, in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest

from pgcron_ha import App, Debounce, Unique
from pgcron_ha.errors import Conflict, InvalidInput, PgcronError
from tests.client.own_cursors import KINDS, Open
from tests.product.client import RetryPolicy
from tests.product.db import explain_answer
from tests.sessions import USUAL

Value: TypeAlias = Callable[..., Any]
every_cursor = pytest.mark.parametrize("open_cursor", KINDS.values(), ids=KINDS.keys())


@pytest.fixture
def value(database: str) -> Iterator[Callable[..., Any]]:
    """The one value of a query that others' transactions have committed for."""
    with psycopg.connect(database, autocommit=True) as reader:
        reader.execute(USUAL)

        def ask(query: str, *parameters: Any) -> Any:
            row = reader.execute(query.encode(), parameters).fetchone()
            return None if row is None else row[0]

        yield ask


EVERYTHING: dict[str, Any] = {
    "queue": "slow",
    "priority": 2,
    "due_at": datetime(2031, 2, 3, 4, 5, 6, 7, UTC),
    "idempotency_key": "50 % :off $1",
    "key_lifetime": 90.5,
    "timeout": timedelta(minutes=2),
    "max_attempts": 3,
    "delivery": "at_least_once",
    "retry": RetryPolicy(base=5),
    "concurrency_key": "customer-7",
    "requires": {"gpu": "a100", "ssd": True},
    "start_within": "2h",
    "give_up_after": "1d",
    "silence_timeout": 30,
    "weight": 2,
    "tags": ["nightly", "team:billing"],
}
ROW = (
    "SELECT to_jsonb(r) - '{id,uuid,created_at,group_keys,time_limits}'::text[],"
    " r.time_limits - 'give_up_at', pgcron.give_up_at(r.time_limits) FROM pgcron.run r"
    " WHERE id = %s"
)


@every_cursor
def test_the_run_is_what_the_client_would_have_asked_for(
    open_cursor: Open, database: str, value: Value
) -> None:
    args = {"day": "Möndäy", "share": "100 % :day $1 %s", "n": [1, None, 2.5]}
    app = App(database)
    with open_cursor(database) as cursor:
        statement = app.enqueue_statement("report", args, style=cursor.style, **EVERYTHING)
        mine = cursor.execute(statement)
        assert value("SELECT count(*) FROM pgcron.run") == 0
        cursor.commit()

    async def enqueue(key: str) -> int:
        async with app:
            return await app.enqueue("report", args, **{**EVERYTHING, "idempotency_key": key})

    assert asyncio.run(enqueue(EVERYTHING["idempotency_key"])) == mine, "the key names the run"
    again = asyncio.run(enqueue("another"))

    assert value(ROW, mine) == value(ROW, again)


@every_cursor
def test_a_transaction_that_is_rolled_back_leaves_nothing(
    open_cursor: Open, database: str, value: Value
) -> None:
    with open_cursor(database) as cursor:
        for options in (
            {"idempotency_key": "k"},
            {"unique": Unique("u")},
            {"unique": Debounce("d", "5s")},
        ):
            statement = App().enqueue_statement("report", style=cursor.style, **options)
            assert cursor.execute(statement) > 0
        cursor.rollback()

    for table in ("run", "idempotency", "unique_period"):
        assert value(f"SELECT count(*) FROM pgcron.{table}") == 0


@every_cursor
def test_a_key_or_a_unique_key_gives_the_run_that_is_there(
    open_cursor: Open, database: str, value: Value
) -> None:
    app = App()
    with open_cursor(database) as cursor:
        for options in ({"idempotency_key": "k"}, {"unique": Unique("customer-7")}):
            statement = app.enqueue_statement("report", style=cursor.style, **options)
            assert cursor.execute(statement) == cursor.execute(statement)
        cursor.commit()
        refusing = Unique("customer-7", on_conflict="refuse")
        with pytest.raises(Exception, match="customer-7") as refusal:
            cursor.execute(app.enqueue_statement("report", style=cursor.style, unique=refusing))
        cursor.rollback()

    assert isinstance(explain_answer(refusal.value), Conflict)
    assert value("SELECT count(*) FROM pgcron.run") == 2


async def test_asyncpg_takes_the_numbered_style(database: str) -> None:
    statement = App().enqueue_statement(
        "report", {"day": 1}, style="numeric_dollar", timeout=90, requires=["ssd"]
    )
    assert isinstance(statement.parameters, list)
    connection = await asyncpg.connect(database)
    run_id = await connection.fetchval(statement.sql, *statement.parameters)

    row = await connection.fetchrow(
        "SELECT timeout, requires FROM pgcron.run WHERE id = $1", run_id
    )
    await connection.close()
    assert row is not None
    assert tuple(row) == (timedelta(seconds=90), ["ssd"])


def test_what_enqueue_refuses_is_refused_before_there_is_a_statement() -> None:
    app = App()

    @app.handler(timeout="5m", weight=4, requires=["gpu"])
    def count(context: Any, upto: int) -> None: ...

    wrong: tuple[dict[str, Any], ...] = (
        {"handler": "Ftp:x"},
        {"handler": "count", "args": {"upto": "many"}},
        {"handler": "count", "args": {"upto": 1}, "priority": 10},
        {"handler": "count", "args": {"upto": 1}, "due_at": datetime(2026, 1, 1)},
        {"handler": "count", "args": {"upto": 1}, "style": "qmark"},
    )
    for options in wrong:
        with pytest.raises(PgcronError) as refusal:
            app.enqueue_statement(**options)
        assert refusal.value.hint

    sql, parameters = app.enqueue_statement(count, {"upto": 1}, style="named")
    assert isinstance(parameters, dict)
    assert (parameters["timeout"], parameters["weight"]) == (300.0, 4)
    assert parameters["requires"] == ["gpu"]
    assert "::" not in sql, "SQLAlchemy's text() takes the colons for a name's"


def test_the_schema_of_the_app_is_that_of_the_statement() -> None:
    sql, _ = App(schema="jobs").enqueue_statement("report")

    assert "jobs.enqueue(" in sql
    assert "pgcron." not in sql


async def test_a_connection_without_an_event_loop_is_told_of_the_statement(database: str) -> None:
    with psycopg.connect(database) as blocking, pytest.raises(InvalidInput) as refusal:
        await App().enqueue("report", conn=blocking)
    assert "enqueue_statement" in str(refusal.value.hint)
