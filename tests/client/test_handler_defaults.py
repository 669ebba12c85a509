"""What a handler says of its runs and schedules, and who may say otherwise."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput
from tests.db.control import Connection
from tests.product.client import NewRun

COLUMNS = "max_attempts, retry, queue, priority, concurrency_key, delivery"
PATIENT: Any = {"backoff": "fixed", "base": "10s"}
DECLARED = (3, {"backoff": "fixed", "base": 10.0}, "mail", 2, "smtp", "at_least_once")


@pytest.fixture
async def app(database: str) -> AsyncIterator[App]:
    async with App(database) as app:

        @app.handler(
            max_attempts=3, retry=PATIENT, queue="mail", priority=2, concurrency_key="smtp"
        )
        async def send() -> None: ...

        @app.handler(delivery="at_most_once")
        async def pay() -> None: ...

        yield app


async def options(connection: Connection, table: str, name: int | str) -> tuple[Any, ...]:
    key = "id" if table == "run" else "name"
    row = await connection.fetchrow(f"SELECT {COLUMNS} FROM pgcron.{table} WHERE {key} = $1", name)
    assert row is not None
    return tuple(json.loads(value) if name == "retry" else value for name, value in row.items())


async def test_a_run_has_what_its_handler_says(app: App, connection: Connection) -> None:
    requested: list[NewRun] = [{"handler": "send"}]
    statement = app.enqueue_statement("send", style="numeric_dollar")
    made = [
        await app.enqueue("send"),
        *await app.enqueue_many(requested),
        await connection.fetchval(statement.sql, *statement.parameters),
    ]
    for run_id in made:
        assert await options(connection, "run", run_id) == DECLARED


async def test_a_schedule_has_what_its_handler_says(app: App, connection: Connection) -> None:
    app.add_schedule("declared", "@daily", "send")
    app.add_schedule("own", "@daily", "send", max_attempts=9, queue="slow", concurrency_key=None)
    await app.put_schedules()
    assert await options(connection, "schedule", "declared") == DECLARED
    own = (9, DECLARED[1], "slow", 2, None, "at_least_once")
    assert await options(connection, "schedule", "own") == own


async def test_who_asks_for_a_run_goes_before_its_handler(app: App, connection: Connection) -> None:
    run_id = await app.enqueue("send", max_attempts=9, queue="slow", priority=0)
    assert await options(connection, "run", run_id) == (9, DECLARED[1], "slow", 0, *DECLARED[4:])


async def test_more_attempts_by_default_give_way_to_at_most_one(
    app: App, connection: Connection
) -> None:
    run_id = await app.enqueue("send", delivery="at_most_once", retry={})
    assert (await options(connection, "run", run_id))[::5] == (None, "at_most_once")
    app.add_schedule("once", "@daily", "send", delivery="at_most_once")
    assert app.schedules["once"].max_attempts is None
    with pytest.raises(InvalidInput, match="max_attempts 2 with at_most_once"):
        await app.enqueue("pay", max_attempts=2)


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"max_attempts": 0}, "max_attempts 0 is out of range"),
        ({"max_attempts": 2, "delivery": "at_most_once"}, "max_attempts 2 with at_most_once"),
        ({"retry": {"bse": "1s"}}, "retry: a policy has no key 'bse'"),
        ({"queue": "a b"}, "queue 'a b' is not a queue name"),
        ({"priority": 12}, "priority 12 is out of range"),
        ({"concurrency_key": "*"}, r"'\*' is not a concurrency key"),
        ({"weight": 0}, "weight 0 is out of range"),
        ({"max_attempt": 3}, "a handler has no default 'max_attempt'; did you mean 'max_attempts'"),
        ({"due_at": None}, "a handler has no default 'due_at'"),
    ],
    ids=str,
)
def test_a_wrong_default_is_refused_where_it_is_written(wrong: dict[str, Any], fact: str) -> None:
    with pytest.raises(InvalidInput, match=fact) as refusal:
        App("postgresql://nobody@localhost/none", "pgcron").handler("a", **wrong)(print)
    assert refusal.value.detail
    assert refusal.value.hint
