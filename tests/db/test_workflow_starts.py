"""A workflow is started with what a run is enqueued with, and its run is the same."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import pytest

from tests.db.control import Connect, Connection, Row, waits_for_lock
from tests.db.workflows import Stage, stage, step

KEY: Final = {"unique_key": "k"}
MINUTE: Final = timedelta(minutes=1)
# By option; what it is given with, which says nothing alone.
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "args": {"args": '{"day": 1}'},
    "queue": {"queue": "slow"},
    "priority": {"priority": 2},
    "due_at": {"due_at": datetime(2031, 5, 1, tzinfo=UTC)},
    "idempotency_key": {"idempotency_key": "k"},
    "key_lifetime": {"key_lifetime": MINUTE, "idempotency_key": "k"},
    "timeout": {"timeout": MINUTE},
    "concurrency_key": {"concurrency_key": "customer-7"},
    "unique_key": KEY,
    "unique_scope": {"unique_scope": "waiting", **KEY},
    "unique_for": {"unique_for": MINUTE, **KEY},
    "on_conflict": {"on_conflict": "replace", "args": '{"day": 2}', **KEY},
    "debounce": {"debounce": MINUTE, **KEY},
    "debounce_max": {"debounce_max": 2 * MINUTE, "debounce": MINUTE, **KEY},
    "start_within": {"start_within": MINUTE},
    "give_up_after": {"give_up_after": MINUTE},
    "tags": {"tags": ["nightly"]},
    "actor": {"actor": "ana"},
}
# What is said of attempts: a step has its own.
OF_STEPS: Final = {"max_attempts", "delivery", "retry", "requires", "silence_timeout", "weight"}
DEFINITION: Final = json.dumps({"steps": [step("a")]})


@pytest.fixture
async def flow(connection: Connection) -> Stage:
    made = await stage(connection)
    await made.put("w", step("a"))
    return made


async def made(connection: Connection, function: str, what: str, **options: Any) -> Row:
    """What two equal calls lead to, all of it at one moment, and taken back: the run, without what
    differs between any two, what is kept of keys, and whether both calls gave one run.
    """
    given = "".join(f", {name} => ${at}" for at, name in enumerate(options, 2))
    kind = "jsonb" if what == DEFINITION else "text"
    call = f"SELECT pgcron.{function}($1::{kind}{given})"
    transaction = connection.transaction()
    await transaction.start()
    first = await connection.fetchval(call, what, *options.values())
    second = await connection.fetchval(call, what, *options.values())
    found = await connection.fetchrow(
        """SELECT to_jsonb(r) - '{id,uuid,handler}'::text[] AS run, $1 = $2::bigint AS is_one,
             (SELECT array_agg(i.expires_at) FROM pgcron.idempotency i) AS lifetimes,
             (SELECT array_agg(u.until) FROM pgcron.unique_period u) AS periods
           FROM pgcron.run r WHERE r.id = $1""",
        first,
        second,
    )
    await transaction.rollback()
    assert found is not None
    return found


async def test_each_option_of_enqueue_is_one_of_a_start_unless_it_is_of_attempts(
    flow: Stage,
) -> None:
    rows = await flow.connection.fetch(
        "SELECT proname, proargnames[2:] AS names FROM pg_proc"
        " WHERE pronamespace = 'pgcron'::regnamespace AND proname IN ('enqueue', 'start_workflow')"
    )
    options = {(row["proname"], frozenset(row["names"])) for row in rows}

    assert options == {
        ("enqueue", frozenset(OPTIONS) | OF_STEPS),
        ("start_workflow", frozenset(OPTIONS)),
    }
    assert len(rows) == 3


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_start_makes_the_run_that_enqueue_makes(flow: Stage, option: str) -> None:
    given = OPTIONS[option]
    async with flow.connection.transaction():
        named = await made(flow.connection, "start_workflow", "w", **given)
        defined = await made(flow.connection, "start_workflow", DEFINITION, **given)

        assert named == await made(flow.connection, "enqueue", "workflow:w", **given)
        assert defined == await made(flow.connection, "enqueue", "workflow:ad_hoc", **given)
    assert named["is_one"] == bool(given.keys() & {"idempotency_key", "unique_key"})


@pytest.mark.parametrize("given", [{"on_conflict": "replace"}, {"debounce": MINUTE}])
async def test_a_start_that_replaces_another_one_replaces_its_definition(
    flow: Stage, given: dict[str, Any]
) -> None:
    name = next(iter(given))
    call = f"SELECT pgcron.start_workflow($1::jsonb, unique_key => 'k', {name} => $2)"
    run = await flow.connection.fetchval(call, DEFINITION, given[name])
    other = json.dumps({"steps": [step("b")]})
    assert await flow.connection.fetchval(call, other, given[name]) == run
    await flow.connection.execute("UPDATE pgcron.run SET due_at = now() WHERE id = $1", run)
    await flow.work()

    assert await flow.states(run) == {"b": "succeeded"}


async def test_a_start_that_meets_another_one_leaves_its_definition_or_is_refused(
    flow: Stage,
) -> None:
    call = "SELECT pgcron.start_workflow($1::jsonb, unique_key => 'k', on_conflict => $2)"
    run = await flow.connection.fetchval(call, DEFINITION, None)
    other = json.dumps({"steps": [step("b")]})
    assert await flow.connection.fetchval(call, other, "return") == run
    with pytest.raises(asyncpg.PostgresError, match=f"run {run} has the unique key"):
        await flow.connection.fetchval(call, other, "refuse")
    await flow.work()

    assert await flow.states(run) == {"a": "succeeded"}


@pytest.mark.parametrize(
    ("given", "second"),
    [({"on_conflict": "replace"}, True), ({"debounce": MINUTE}, True), ({}, False)],
)
async def test_of_two_starts_at_one_moment_the_second_decides_if_it_replaces(
    flow: Stage, another: Connect, given: dict[str, Any], second: bool
) -> None:
    call = "SELECT pgcron.start_workflow($1::jsonb, unique_key => 'k'"
    call += "".join(f", {name} => $2" for name in given) + ")"
    values = list(given.values())
    other = await another()
    async with flow.connection.transaction():
        run = await flow.connection.fetchval(call, DEFINITION, *values)
        definition = json.dumps({"steps": [step("b")]})
        later = asyncio.create_task(other.fetchval(call, definition, *values))
        await waits_for_lock(flow.connection, other)

    assert await later == run
    await flow.connection.execute("UPDATE pgcron.run SET due_at = now() WHERE id = $1", run)
    await flow.work()
    assert await flow.states(run) == {"b" if second else "a": "succeeded"}


async def test_a_start_that_comes_when_the_run_was_just_taken_makes_another_one(
    flow: Stage, another: Connect
) -> None:
    call = "SELECT pgcron.start_workflow($1::jsonb, unique_key => 'k', on_conflict => 'replace')"
    first = await flow.connection.fetchval(call, DEFINITION)
    other = await another()
    async with flow.connection.transaction():
        await flow.turn({})
        definition = json.dumps({"steps": [step("b")]})
        later = asyncio.create_task(other.fetchval(call, definition))
        await waits_for_lock(flow.connection, other)

    second = await later
    await flow.work()
    assert await flow.states(first) == {"a": "succeeded"}
    assert await flow.states(second) == {"b": "succeeded"}
