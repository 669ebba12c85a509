"""Unique runs: who has a key, and what becomes of those who meet it."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    claim,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    release,
    run_row,
    waits_for_lock,
)

KEY = "customer-7"
ENQUEUERS = 16
ENDS = 8


async def ask(connection: Connection, **given: Any) -> int:
    """`pgcron.enqueue` of py:work with the key."""
    given = {"handler": "py:work", "unique_key": KEY, **given}
    if "args" in given:
        given["args"] = json.dumps(given["args"])
    casts = {"args": "::jsonb"}
    places = ", ".join(f"{n} => ${i}{casts.get(n, '')}" for i, n in enumerate(given, 1))
    made: int = await connection.fetchval(f"SELECT pgcron.enqueue({places})", *given.values())
    return made


async def only(connection: Connection) -> Row:
    """The one live run."""
    (row,) = await connection.fetch("SELECT * FROM pgcron.run")
    return row


async def count(connection: Connection, table: str = "run") -> int:
    found: int = await connection.fetchval(f"SELECT count(*) FROM pgcron.{table}")
    return found


async def test_a_run_has_its_key_until_it_has_ended(connection: Connection) -> None:
    first = await ask(connection)
    assert await ask(connection, args={"day": 2}) == first
    runs = await claim(connection, await join(connection))
    assert await ask(connection) == first
    await fail(connection, runs, retry_after=0)
    assert await ask(connection) == first
    runs = await claim(connection, await join(connection))
    await finish(connection, runs)

    second = await ask(connection)

    assert second > first
    assert (await only(connection))["id"] == second


async def test_a_run_that_waits_has_its_key_until_a_node_takes_it(connection: Connection) -> None:
    first = await ask(connection, unique_scope="waiting")
    assert await ask(connection, unique_scope="waiting") == first
    runs = await claim(connection, await join(connection))

    second = await ask(connection, unique_scope="waiting")

    assert second != first
    # Between its attempts it waits no more, and is in nobody's way.
    await fail(connection, runs, retry_after=0)
    assert await ask(connection, unique_scope="waiting") == second


async def test_a_run_that_is_given_back_does_not_get_its_key_back(connection: Connection) -> None:
    first = await ask(connection, unique_scope="waiting")
    taken = await claim(connection, await join(connection))
    second = await ask(connection, unique_scope="waiting")

    assert await release(connection, taken) == [first]

    assert await ask(connection, unique_scope="waiting") == second
    row = await run_row(connection, first)
    assert row is not None
    assert (row["attempt"], row["unique_key"], row["unique_scope"]) == (0, KEY, "taken")


async def test_handlers_do_not_share_their_keys(connection: Connection) -> None:
    assert await ask(connection) != await ask(connection, handler="py:other")
    assert await ask(connection, unique_for=timedelta(hours=1)) != await ask(
        connection, unique_for=timedelta(hours=1), handler="py:other"
    )


async def test_replacing_gives_the_waiting_run_what_is_new(connection: Connection) -> None:
    first = await ask(connection, on_conflict="replace", args={"day": 1}, queue="a", priority=3)
    due = await connection.fetchval("SELECT now() + interval '1 hour'")

    met = await ask(connection, on_conflict="replace", args={"day": 2}, priority=7, due_at=due)

    assert met == first
    row = await only(connection)
    assert (row["args"], row["priority"], row["due_at"]) == ('{"day": 2}', 7, due)
    assert (row["queue"], row["unique_scope"]) == ("a", "waiting")
    await ask(connection, on_conflict="replace")
    assert (await only(connection))["due_at"] < due
    due = (await only(connection))["due_at"]
    await ask(connection, on_conflict="replace")
    assert (await only(connection))["due_at"] == due  # it keeps its place among the due ones


async def test_replacing_leaves_a_run_that_a_node_has_taken_as_it_is(
    connection: Connection,
) -> None:
    first = await ask(connection, on_conflict="replace", args={"day": 1})
    await claim(connection, await join(connection))
    second = await ask(connection, on_conflict="replace", args={"day": 2})
    assert second != first  # it waits behind the one that executes
    assert await ask(connection, on_conflict="replace", args={"day": 3}) == second

    await connection.execute("DELETE FROM pgcron.run")
    first = await ask(connection, unique_scope="open", on_conflict="replace", args={"day": 1})
    await claim(connection, await join(connection))
    assert await ask(connection, unique_scope="open", on_conflict="replace") == first
    assert await ask(connection, on_conflict="replace", args={"day": 3}) == first
    assert (await only(connection))["args"] == '{"day": 1}'


async def test_refusing_names_the_run_that_has_the_key(connection: Connection) -> None:
    first = await ask(connection, on_conflict="refuse")

    with pytest.raises(asyncpg.PostgresError) as refusal:
        await ask(connection, on_conflict="refuse")

    assert refusal.value.sqlstate == "PC011"
    assert f"run {first} has the unique key '{KEY}'" in str(refusal.value)
    assert refusal.value.detail is not None
    assert refusal.value.hint is not None
    await connection.execute("SELECT pgcron.cancel_run($1)", first)
    assert await ask(connection, on_conflict="refuse") > first


async def test_for_a_time_there_is_one_run_whatever_becomes_of_it(connection: Connection) -> None:
    hour = timedelta(hours=1)
    first = await ask(connection, unique_for=hour)
    await finish(connection, await claim(connection, await join(connection)))
    assert await ask(connection, unique_for=hour) == first
    with pytest.raises(asyncpg.PostgresError, match=f"run {first} has the unique key"):
        await ask(connection, unique_for=hour, on_conflict="refuse")
    assert await count(connection) == 0

    await connection.execute("UPDATE pgcron.unique_period SET until = now()")

    second = await ask(connection, unique_for=hour)
    assert second > first
    until = await connection.fetchval("SELECT until - now() FROM pgcron.unique_period")
    assert timedelta(minutes=59) < until <= hour


async def test_what_comes_too_early_is_one_run_at_the_end_of_the_time(
    connection: Connection,
) -> None:
    throttle: dict[str, Any] = {"unique_for": timedelta(hours=1), "on_conflict": "replace"}
    first = await ask(connection, **throttle, args={"n": 1})
    assert await ask(connection, **throttle, args={"n": 2}) == first
    (taken,) = await claim(connection, await join(connection))
    assert json.loads(taken["args"]) == {"n": 2}
    end = await connection.fetchval("SELECT until FROM pgcron.unique_period")

    second = await ask(connection, **throttle, args={"n": 3})
    assert await ask(connection, **throttle, args={"n": 4}) == second

    row = await run_row(connection, second)
    assert row is not None
    assert (row["due_at"], row["args"], row["state"]) == (end, '{"n": 4}', "ready")
    next_end = await connection.fetchval("SELECT until FROM pgcron.unique_period")
    assert next_end == end + timedelta(hours=1)


async def test_the_janitor_forgets_times_that_are_over(connection: Connection) -> None:
    await ask(connection, unique_for=timedelta(hours=1))
    await ask(connection, unique_for=timedelta(hours=1), unique_key="other")
    await connection.execute("UPDATE pgcron.unique_period SET until = now() WHERE key = 'other'")

    await call(connection, "forget_periods", at_most=10)

    assert await connection.fetchval("SELECT string_agg(key, ',') FROM pgcron.unique_period") == KEY


async def test_a_debounced_run_is_pushed_on_and_has_the_newest_args(connection: Connection) -> None:
    minute = timedelta(minutes=1)
    first = await ask(connection, debounce=minute, args={"n": 1})
    row = await only(connection)
    assert row["due_at"] == row["created_at"] + minute

    assert await ask(connection, debounce=minute, args={"n": 2}) == first

    pushed = await only(connection)
    assert pushed["due_at"] > row["due_at"]
    assert pushed["args"] == '{"n": 2}'
    most = 2 * minute
    await connection.execute("UPDATE pgcron.run SET created_at = now() - interval '90 seconds'")
    assert await ask(connection, debounce=minute, debounce_max=most, args={"n": 3}) == first
    last = await only(connection)
    assert last["due_at"] == last["created_at"] + most

    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    await claim(connection, await join(connection))
    assert await ask(connection, debounce=minute) != first


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
async def test_the_deadlines_of_a_run_move_with_its_due_time(
    connection: Connection, zone: str
) -> None:
    await connection.execute(f"SET timezone = '{zone}'")
    given = {
        "on_conflict": "replace",
        "start_within": timedelta(minutes=1),
        "give_up_after": timedelta(hours=1),
        "silence_timeout": timedelta(minutes=5),
    }
    first = await ask(connection, **given)

    # In Berlin a clock is set back or on between some of these instants.
    for days in (100, 300, 0.001):
        due = await connection.fetchval("SELECT now() + $1::interval", timedelta(days=days))
        assert await ask(connection, **given, due_at=due) == first
        row = await only(connection)
        limits = json.loads(row["time_limits"])
        assert row["due_at"] == due
        assert row["expire_at"] == due + timedelta(minutes=1)
        assert datetime.fromisoformat(limits["give_up_at"]) == due + timedelta(hours=1)
        assert limits["silence_timeout"] == 300


async def test_a_run_without_deadlines_has_none_when_it_is_pushed_on(
    connection: Connection,
) -> None:
    given = {"debounce": timedelta(minutes=1), "silence_timeout": timedelta(minutes=5)}
    assert await ask(connection, **given) == await ask(connection, **given)

    row = await only(connection)
    assert (row["expire_at"], row["time_limits"]) == (None, '{"silence_timeout": 300}')


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"unique_key": None, "unique_scope": "open"}, "unique_scope is given without unique_key"),
        ({"unique_key": None, "debounce": timedelta(1)}, "debounce is given without unique_key"),
        ({"unique_key": None, "on_conflict": "return"}, "on_conflict is given without unique_key"),
        ({"unique_key": ""}, "the unique key has 0 characters"),
        ({"unique_key": "k" * 501}, "the unique key has 501 characters"),
        ({"unique_key": " "}, "the unique key has 1 characters"),
        ({"unique_scope": "ever"}, "unique_scope 'ever' is not known"),
        ({"unique_scope": "period"}, "unique_scope 'period' is not known"),
        ({"on_conflict": "merge"}, "on_conflict 'merge' is not known"),
        ({"unique_for": timedelta(0)}, "unique_for 00:00:00 is out of range"),
        ({"unique_for": timedelta(367)}, "unique_for 367 days is out of range"),
        ({"debounce": timedelta(31)}, "debounce 31 days is out of range"),
        ({"debounce_max": timedelta(1)}, "debounce_max is given without debounce"),
        (
            {"debounce": timedelta(2), "debounce_max": timedelta(1)},
            "debounce_max 1 day is out of range",
        ),
        (
            {"unique_for": timedelta(1), "unique_scope": "open"},
            "unique_for is given with unique_scope",
        ),
        (
            {"debounce": timedelta(1), "unique_for": timedelta(1)},
            "debounce is given with unique_for",
        ),
        ({"debounce": timedelta(1), "on_conflict": "return"}, "debounce is given with on_conflict"),
        ({"idempotency_key": "k"}, "idempotency_key is given with unique_key"),
        ({"handler": "work"}, "handler 'work' is not a handler name"),
        ({"handler": "x" * 9000, "unique_for": timedelta(1)}, "is not a handler name"),
        ({"priority": 10}, "priority 10 is out of range"),
    ],
)
async def test_what_does_not_go_together_is_refused_with_the_reason(
    given: dict[str, Any], says: str, connection: Connection
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await ask(connection, **given)

    assert refusal.value.sqlstate == "PC001"
    assert says in str(refusal.value)
    assert refusal.value.detail
    assert refusal.value.hint
    assert await count(connection) == await count(connection, "unique_period") == 0


async def test_an_instant_that_uniqueness_decides_is_not_given(connection: Connection) -> None:
    due = await connection.fetchval("SELECT now()")
    for given in (
        {"debounce": timedelta(1)},
        {"unique_for": timedelta(1), "on_conflict": "replace"},
    ):
        with pytest.raises(asyncpg.PostgresError, match="due_at is given with"):
            await ask(connection, due_at=due, **given)


async def test_an_insert_by_hand_is_judged_by_the_same_index(connection: Connection) -> None:
    await enqueue(connection, unique_key=KEY)
    with pytest.raises(asyncpg.UniqueViolationError, match="run_unique_key"):
        await enqueue(connection, unique_key=KEY)
    again = "INSERT INTO pgcron.run (handler, unique_key) VALUES ('py:work', $1)"
    await connection.execute(f"{again} ON CONFLICT DO NOTHING", KEY)
    assert await count(connection) == 1
    assert await ask(connection) == (await only(connection))["id"]

    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"unique_scope": "open"}, "unique_scope is given without unique_key"),
        ({"unique_key": ""}, "the unique key has 0 characters"),
        ({"unique_key": "k", "unique_scope": "ever"}, "unique_scope 'ever' is not known"),
    )
    for columns, says in wrong:
        with pytest.raises(asyncpg.PostgresError, match=says) as refusal:
            await enqueue(connection, **columns)
        assert refusal.value.sqlstate == "PC001"


async def test_a_rerun_keeps_its_key_and_is_refused_while_another_has_it(
    connection: Connection,
) -> None:
    first = await ask(connection)
    await finish(connection, await claim(connection, await join(connection)))
    ended = await history_row(connection, first)
    assert ended is not None
    assert ended["unique_key"] == KEY
    second = await ask(connection)

    with pytest.raises(asyncpg.PostgresError) as refusal:
        await connection.execute("SELECT pgcron.retry_run($1)", first)

    assert refusal.value.sqlstate == "PC011"
    assert f"run {first} can't be run again: run {second} has" in str(refusal.value)
    await connection.execute("SELECT pgcron.cancel_run($1)", second)
    again = await connection.fetchval("SELECT pgcron.retry_run($1)", first)
    assert await ask(connection) == again


async def die(connection: Connection, **given: Any) -> int:
    """A dead letter with the key."""
    run_id = await ask(connection, max_attempts=1, **given)
    await fail(connection, await claim(connection, await join(connection)), fingerprint="aa")
    return run_id


async def letters(connection: Connection, redrive: str) -> list[int]:
    return [row["dead_letter"] for row in await connection.fetch(redrive)]


async def test_a_letter_is_not_redriven_while_another_run_has_its_key(
    connection: Connection,
) -> None:
    letter = await die(connection)
    other = await ask(connection)

    with pytest.raises(asyncpg.PostgresError) as refusal:
        await connection.execute("SELECT pgcron.redrive($1)", letter)
    assert f"dead letter {letter} can't be redriven: run {other} has" in str(refusal.value)
    redrive = "SELECT dead_letter FROM pgcron.redrive_many(fingerprint => 'aa')"
    assert await letters(connection, redrive) == []

    await connection.execute("SELECT pgcron.cancel_run($1)", other)
    assert await letters(connection, redrive) == [letter]
    assert (await only(connection))["unique_key"] == KEY


async def test_of_letters_with_one_key_one_is_redriven_and_the_others_stay(
    connection: Connection,
) -> None:
    same = [await die(connection, unique_scope="waiting") for _ in range(3)]
    others = [await die(connection, unique_key=f"other {n}") for n in range(2)]
    redrive = "SELECT dead_letter FROM pgcron.redrive_many(fingerprint => 'aa', at_most => 2)"

    assert await letters(connection, redrive) == [same[0], others[0]]
    assert await letters(connection, redrive) == [others[1]]
    assert await letters(connection, redrive) == []


async def test_many_are_asked_for_as_each_by_itself(connection: Connection) -> None:
    held = await ask(connection, unique_key="held")
    requested: list[dict[str, Any]] = [
        {"handler": "py:work", "unique_key": "b"},
        {"handler": "py:work"},
        {"handler": "py:work", "unique_key": "held", "on_conflict": "return"},
        {"handler": "py:work", "unique_key": "a", "on_conflict": "replace", "args": {"n": 1}},
        {"handler": "py:work", "unique_key": "a", "on_conflict": "replace", "args": {"n": 2}},
        {"handler": "py:work", "unique_key": "c", "unique_for": "1 hour", "queue": "q"},
        {"handler": "py:work", "unique_key": "d", "debounce": "5 s", "debounce_max": "1 min"},
        {"handler": "py:work", "idempotency_key": "k", "unique_key": None},
    ]

    ids = await connection.fetchval("SELECT pgcron.enqueue_many($1)", json.dumps(requested))

    assert ids[2] == held
    assert ids[3] == ids[4]
    assert len(set(ids)) == len(ids) - 1
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM pgcron.run")}
    assert set(rows) == set(ids)
    assert [rows[id]["unique_key"] for id in ids] == ["b", None, "held", "a", "a", "c", "d", None]
    assert rows[ids[3]]["args"] == '{"n": 2}'
    assert rows[ids[5]]["queue"] == "q"

    requested[0]["on_conflict"] = "refuse"
    with pytest.raises(asyncpg.PostgresError, match="run 1 of 8: the run was not made: run"):
        await connection.execute("SELECT pgcron.enqueue_many($1)", json.dumps(requested))


async def test_a_second_asker_waits_for_the_first_and_is_given_its_run(
    connection: Connection, another: Connect
) -> None:
    for given in ({}, {"unique_for": timedelta(hours=1)}):
        await connection.execute("TRUNCATE pgcron.run, pgcron.unique_period")
        first, second = await another(), await another()
        async with first.transaction():
            made = await ask(first, **given)
            waiting = asyncio.create_task(ask(second, **given))
            await waits_for_lock(connection, second)
        assert await waiting == made

        transaction = first.transaction()
        await connection.execute("TRUNCATE pgcron.run, pgcron.unique_period")
        await transaction.start()
        lost = await ask(first, **given)
        waiting = asyncio.create_task(ask(second, **given))
        await waits_for_lock(connection, second)
        await transaction.rollback()
        made = await waiting
        assert made != lost
        assert (await only(connection))["id"] == made


async def test_a_second_asker_waits_no_longer_than_its_lock_timeout(
    connection: Connection, another: Connect
) -> None:
    first, second = await another(), await another()
    await second.execute("SET lock_timeout = '50ms'")
    async with first.transaction():
        await ask(first)
        with pytest.raises(asyncpg.LockNotAvailableError):
            await ask(second)

    await second.execute("SET lock_timeout = 0")
    async with second.transaction():
        await ask(second, unique_key="other")
        assert await second.fetchval("SHOW lock_timeout") == "0"


async def test_sixteen_askers_never_have_two_open_runs_of_a_key(
    connection: Connection, another: Connect
) -> None:
    """Askers of every kind, some of whom roll back, while a node takes runs and ends them."""
    node = await join(connection)
    executing: list[Row] = []
    ended: set[int] = set()
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"on_conflict": "replace", "unique_scope": "open"},
        {"on_conflict": "refuse"},
    )

    async def asks(chance: random.Random) -> set[int]:
        own, seen = await another(), set()
        # On a busy machine sixteen take turns for longer than `enqueue` waits by itself.
        await own.execute("SET lock_timeout = '100s'")
        while len(ended) < ENDS:
            transaction = own.transaction()
            await transaction.start()
            (asked,) = await asyncio.gather(ask(own, **chance.choice(ways)), return_exceptions=True)
            if isinstance(asked, BaseException):
                assert getattr(asked, "sqlstate", None) == "PC011"
                await transaction.rollback()
            elif chance.random() < 0.3:
                await transaction.rollback()
            else:
                await transaction.commit()
                seen.add(asked)
        return seen

    async def works(chance: random.Random) -> None:
        own = await another()
        while not askers.done():
            runs = await claim(own, node)
            executing.extend(runs)
            assert await count(own) <= 1
            assert len(executing) <= 1
            executing[:] = executing[len(runs) :]
            if runs and chance.random() < 0.3:
                await release(own, runs)
            elif runs and chance.random() < 0.3:
                await fail(own, runs, retry_after=0)
            else:
                ended.update(await finish(own, runs))

    askers = asyncio.gather(*(asks(random.Random(seed)) for seed in range(ENQUEUERS)))
    await asyncio.gather(*(works(random.Random(seed)) for seed in range(2)))
    seen = set[int]().union(*await askers)

    open_now = {row["id"] for row in await connection.fetch("SELECT id FROM pgcron.run")}
    known = {row["id"] for row in await connection.fetch("SELECT id FROM pgcron.history")}
    assert len(open_now) <= 1
    assert ended <= known
    assert seen <= open_now | known


async def test_of_askers_that_are_killed_nothing_is_left(
    connection: Connection, another: Connect
) -> None:
    victim, second = await another(), await another()
    await victim.execute("BEGIN")
    await ask(victim)
    await ask(victim, unique_key="timed", unique_for=timedelta(hours=1))
    waiting = asyncio.create_task(ask(second))
    await waits_for_lock(connection, second)

    await connection.execute("SELECT pg_terminate_backend($1)", victim.get_server_pid())

    asked = await waiting
    assert (await only(connection))["id"] == asked
    assert await count(connection, "unique_period") == 0


async def test_what_uniqueness_adds_to_an_enqueue_is_all_it_adds(connection: Connection) -> None:
    """Every other argument means the same with a key as without one."""
    names = await connection.fetchval(
        "SELECT proargnames FROM pg_proc"
        " WHERE proname = 'enqueue' AND pronamespace = 'pgcron'::regnamespace"
    )
    unique = ("unique_key", "unique_scope", "unique_for", "on_conflict", "debounce", "debounce_max")
    taken = await connection.fetchval(
        "SELECT array_agg(attname) FROM pg_attribute"
        " WHERE attrelid = 'pgcron.run_request'::regclass"
    )
    assert set(taken) == set(names) - {"actor"}
    assert set(unique) <= set(names)
    due = await connection.fetchval("SELECT now() + interval '1 minute'")
    given = {
        "queue": "q",
        "priority": 2,
        "due_at": due,
        "timeout": timedelta(seconds=9),
        "max_attempts": 7,
        "delivery": "transactional",
        "retry": '{"jitter": false}',
        "actor": "she",
        "concurrency_key": "l",
        "requires": ["gpu=a100"],
        "tags": ["nightly"],
    }
    plain = dict(await run_row(connection, await ask(connection, unique_key=None, **given)) or {})
    keyed = dict(await run_row(connection, await ask(connection, **given)) or {})
    for each in (plain, keyed):
        for column in ("id", "uuid", "created_at", "unique_key", "unique_scope"):
            del each[column]
    assert plain == keyed
