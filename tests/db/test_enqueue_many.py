"""One call for many runs does what a call for each would do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.db.control import Connect, Connection
from tests.servers import ThrowAwayServer
from tests.sessions import USUAL
from tests.waiting import until

CASTS = {
    "handler": "text",
    "args": "jsonb",
    "queue": "text",
    "priority": "int",
    "due_at": "timestamptz",
    "idempotency_key": "text",
    "key_lifetime": "interval",
    "timeout": "interval",
    "max_attempts": "int",
    "delivery": "text",
}
GOOD = st.fixed_dictionaries(
    {"handler": st.sampled_from(["py:work", "shell:backup"])},
    optional={
        "args": st.sampled_from([None, {}, {"day": "Möndäy", "n": [1, None, 2.5]}]),
        "queue": st.sampled_from([None, "default", "slow"]),
        "priority": st.sampled_from([None, 0, 9, "3"]),
        "due_at": st.sampled_from([None, "2031-02-03T04:05:06Z", "2031-02-03T04:05:06+02:00"]),
        "idempotency_key": st.sampled_from([None, "a", "b", "living", "ended"]),
        "key_lifetime": st.sampled_from([None, "1 hour", 90]),
        "timeout": st.sampled_from([None, "90 s", 90, "PT1H"]),
        "max_attempts": st.sampled_from([None, 1]),
        "delivery": st.sampled_from([None, "at_least_once", "at_most_once"]),
    },
)
BAD: st.SearchStrategy[tuple[str, Any]] = st.sampled_from(
    [
        ("handler", None),
        ("handler", "work"),
        ("args", []),
        ("args", "text"),
        ("queue", "a b"),
        ("priority", 10),
        ("priority", "first"),
        ("priority", 70_000),
        ("due_at", "some day"),
        ("idempotency_key", ""),
        ("key_lifetime", "-1 day"),
        ("key_lifetime", "long"),
        ("timeout", 0),
        ("max_attempts", 0),
        ("delivery", "exactly_once"),
    ]
)
REQUESTED = st.lists(GOOD, max_size=8)


class Done(NamedTuple):
    """What the asker was told, and every run and key there is afterwards."""

    ids: list[int]
    runs: list[Any]
    keys: list[Any]


class Refusal(NamedTuple):
    sqlstate: str
    message: str


@pytest.fixture(scope="module")
def asker(server: ThrowAwayServer, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database in which two keys are known: one lives, one has expired."""
    dsn = server.create_database("askers", template)
    with psycopg.connect(dsn) as connection:
        connection.execute(USUAL)
        connection.execute("SELECT pgcron.enqueue('py:old', idempotency_key => 'living')")
        connection.execute("SELECT pgcron.enqueue('py:old', idempotency_key => 'ended')")
        connection.execute(
            "UPDATE pgcron.idempotency "
            "SET expires_at = CASE key WHEN 'ended' THEN '2000-01-01' ELSE '2100-01-01' END::date"
        )
        connection.commit()
        yield connection
    server.drop_database("askers")


def after(asker: psycopg.Connection[Any], ask: Any) -> Done | Refusal:
    """Ask, look, and undo it; ids as their place among all runs."""
    try:
        ids = ask()
        known = [row[0] for row in asker.execute("SELECT id FROM pgcron.run ORDER BY id")]
        runs = asker.execute(
            "SELECT handler, args, queue, priority, due_at, timeout, max_attempts, delivery, "
            "origin, state, created_by FROM pgcron.run ORDER BY id"
        ).fetchall()
        keys = asker.execute(
            "SELECT key, run_id, CASE WHEN extract(year FROM expires_at) IN (2000, 2100) "
            "THEN 'as it was' ELSE (expires_at - now())::text END "
            "FROM pgcron.idempotency ORDER BY key"
        ).fetchall()
        due_now = asker.execute("SELECT now()").fetchone()
        assert due_now is not None
        return Done(
            [known.index(each) for each in ids],
            [tuple("now" if value == due_now[0] else value for value in row) for row in runs],
            [(key, known.index(run), lifetime) for key, run, lifetime in keys],
        )
    except psycopg.Error as error:
        return Refusal(str(error.sqlstate), str(error.diag.message_primary))
    finally:
        asker.rollback()


def ask_at_once(asker: psycopg.Connection[Any], requested: list[dict[str, Any]]) -> list[int]:
    row = asker.execute("SELECT pgcron.enqueue_many(%s::jsonb)", [json.dumps(requested)]).fetchone()
    assert row is not None
    found: list[int] = row[0]
    return found


def ask_one_by_one(asker: psycopg.Connection[Any], requested: list[dict[str, Any]]) -> list[int]:
    ids = []
    for options in requested:
        given = {key: value for key, value in options.items() if value is not None}
        named = ", ".join(f"{key} => %s::text::{CASTS[key]}" for key in given)
        values = [
            json.dumps(value) if key == "args" else str(value) for key, value in given.items()
        ]
        row = asker.execute(f"SELECT pgcron.enqueue({named})", values).fetchone()
        assert row is not None
        ids.append(row[0])
    return ids


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requested=REQUESTED)
@example(requested=[{"handler": "py:a", "idempotency_key": "a"}] * 2)
def test_many_at_once_are_what_they_are_one_by_one(
    asker: psycopg.Connection[Any], requested: list[dict[str, Any]]
) -> None:
    one_by_one = after(asker, lambda: ask_one_by_one(asker, requested))

    assert after(asker, lambda: ask_at_once(asker, requested)) == one_by_one


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requested=st.lists(GOOD, min_size=1, max_size=5), bad=BAD, data=st.data())
def test_a_refusal_says_which_and_then_what_one_call_would_say(
    asker: psycopg.Connection[Any],
    requested: list[dict[str, Any]],
    bad: tuple[str, Any],
    data: st.DataObject,
) -> None:
    place = data.draw(st.integers(0, len(requested) - 1))
    requested[place] = {"handler": "py:a", "idempotency_key": f"new {place}", bad[0]: bad[1]}

    at_once = after(asker, lambda: ask_at_once(asker, requested))

    requested[place]["handler"] = requested[place]["handler"] or ""
    alone = after(asker, lambda: ask_one_by_one(asker, requested[place : place + 1]))
    assert isinstance(at_once, Refusal)
    assert isinstance(alone, Refusal)
    assert at_once.sqlstate == (alone.sqlstate if alone.sqlstate[:2] == "PC" else "PC001")
    assert at_once.message == f"run {place + 1} of {len(requested)}: {alone.message}"


async def refusal(connection: Connection, runs: str | None) -> Any:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.fetchval("SELECT pgcron.enqueue_many($1)", runs)
    assert refused.value.detail
    assert refused.value.hint
    return refused.value


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (None, "runs is NULL"),
        ("{}", "runs is a JSON object"),
        ('"py:work"', "runs is a JSON string"),
        ('[{"handler": "py:work"}, "py:work"]', "run 2 of 2: it is a JSON string"),
        ('[{"handler": "py:work"}, null]', "run 2 of 2: it is a JSON null"),
        ('[{"handler": "py:work", "due": 1}]', "run 1 of 1: enqueue has no argument 'due'"),
        ("[{}]", "run 1 of 1: handler '' is not a handler name"),
    ],
)
async def test_what_is_no_list_of_runs_is_refused_and_explained(
    connection: Connection, runs: str | None, message: str
) -> None:
    error = await refusal(connection, runs)

    assert (error.sqlstate, error.message) == ("PC001", message)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0


async def test_one_call_takes_ten_thousand_runs_and_not_one_more(connection: Connection) -> None:
    options = '{"handler": "py:work"}'
    error = await refusal(connection, f"[{', '.join([options] * 10_001)}]")
    assert error.sqlstate == "PC004"

    ids = await connection.fetchval(
        "SELECT pgcron.enqueue_many($1)", f"[{', '.join([options] * 10_000)}]"
    )
    assert len(set(ids)) == await connection.fetchval("SELECT count(*) FROM pgcron.run") == 10_000
    assert ids == sorted(ids)


async def test_two_callers_with_the_same_keys_get_the_same_runs(
    connection: Connection, another: Connect
) -> None:
    there = [{"handler": "py:work", "idempotency_key": key} for key in "abc"]
    back = there[::-1]
    other = await another()
    async with connection.transaction():
        first = await connection.fetchval("SELECT pgcron.enqueue_many($1)", json.dumps(there))
        second = asyncio.create_task(
            other.fetchval("SELECT pgcron.enqueue_many($1)", json.dumps(back))
        )
        await until(
            "the other one waits for the keys",
            lambda: connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
                other.get_server_pid(),
            ),
        )

    assert await second == first[::-1]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 3
