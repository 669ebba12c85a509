"""A row that can't be claimed, or a setting that breaks its rules, holds up no other run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.db import control
from tests.db.control import Connection
from tests.engine.workshop import Workshop
from tests.product.db import connect, why_run_waits
from tests.product.engine import Janitor
from tests.product.telemetry import Event, RunRefused
from tests.waiting import until

SLOTS = 8
POISON = '{"poison": true}'


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=SLOTS, queues=("default", "other"))
    await workshop.join()
    yield workshop
    await workshop.leave()


async def poison(connection: Connection, table: str, rule: str) -> None:
    """From now on rows of `table` that break `rule` can't be written any more."""
    await connection.execute(
        f"ALTER TABLE pgcron.{table} ADD CONSTRAINT poison CHECK ({rule}) NOT VALID"
    )


async def fires(connection: Connection, overlap: str, count: int, **columns: Any) -> list[int]:
    """Due runs of a schedule, one a minute."""
    name = f"{overlap}-{await connection.fetchval('SELECT count(*) FROM pgcron.schedule')}"
    schedule = await control.put_schedule(connection, name, overlap=overlap)
    rows = await connection.fetch(
        "INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, overlap,"
        " due_at, args)"
        " SELECT 'schedule', $1, $2, now() - n * interval '1 minute', 'py:work', $3,"
        " now() - n * interval '1 minute', $5::jsonb FROM generate_series($4::int, 1, -1) n"
        " RETURNING id",
        schedule,
        name,
        overlap,
        count,
        columns.get("args", "{}"),
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"delivery": "at_most_once"},
        {"concurrency_key": "customer-7"},
        {"requires": ["gpu"]},
        {"priority": 0},
        {"concurrency_key": "*weight 2", "weight": 2},
    ],
    ids=lambda columns: next(iter(columns), "plain"),
)
async def test_a_run_that_cannot_be_claimed_is_a_dead_letter_and_the_others_are_claimed(
    database: str, connection: Connection, columns: dict[str, Any], events: list[Event]
) -> None:
    workshop = Workshop(database, slots=SLOTS)
    await connection.execute("SELECT pgcron.set_concurrency('customer-7', 10)")
    [bad] = await control.enqueue(connection, 1, args=POISON, **columns)
    alike = await control.enqueue(connection, 2, **columns)
    plain = await control.enqueue(connection, 2)
    await poison(connection, "run", "args <> '{\"poison\": true}'")
    await workshop.join()
    await connection.execute('UPDATE pgcron.node SET labels = \'{"gpu": "yes"}\'')

    await workshop.step()
    await workshop.step()

    assert sorted(workshop.executor.executing) == sorted(alike + plain)
    ended = await control.history_row(connection, bad)
    assert ended is not None
    assert ended["outcome"] == "dead"
    assert 'violates check constraint "poison"' in ended["error"]
    assert [event.run for event in events if isinstance(event, RunRefused)] == [bad]
    await workshop.leave()


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
async def test_a_fire_that_cannot_be_claimed_holds_up_no_other_schedule(
    workshop: Workshop, connection: Connection, overlap: str
) -> None:
    [bad] = await fires(connection, overlap, 1, args=POISON)
    good = await fires(connection, overlap, 1)
    plain = await control.enqueue(connection, 1)
    await poison(connection, "run", "args <> '{\"poison\": true}'")

    await workshop.step()
    await workshop.step()

    assert sorted(workshop.executor.executing) == sorted(good + plain)
    ended = await control.history_row(connection, bad)
    assert ended is not None
    assert ended["outcome"] == "dead"


async def test_a_run_that_waits_for_its_schedule_and_cannot_be_changed_holds_up_no_other(
    workshop: Workshop, connection: Connection
) -> None:
    bad = await fires(connection, "queue", 2, args=POISON)
    good = await fires(connection, "queue", 2)
    await workshop.step()
    assert sorted(workshop.executor.executing) == [bad[0], good[0]]
    await poison(connection, "run", "args <> '{\"poison\": true}' OR state = 'running'")

    for run in (bad[0], good[0]):
        context = workshop.executor.executing[run]
        workshop.executor.end(run)
        row = {"id": run, "token": context.token}
        await control.finish(connection, [row])  # type: ignore[list-item]
        workshop.runner.forget([context])
    workshop.dispatcher.settled()
    await workshop.step()
    await workshop.step()

    assert list(workshop.executor.executing) == [good[1]]
    ended = await control.history_row(connection, bad[1])
    assert ended is not None
    assert ended["outcome"] == "dead"


async def test_a_priority_that_no_claim_looks_for_is_found_by_a_refusal_of_others(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    [bad] = await control.enqueue(connection, 1, priority=99)
    [other] = await control.enqueue(connection, 1, args=POISON)
    plain = await control.enqueue(connection, 1)
    await poison(connection, "run", "args <> '{\"poison\": true}'")

    await workshop.step()

    assert list(workshop.executor.executing) == plain
    for run in (bad, other):
        ended = await control.history_row(connection, run)
        assert ended is not None
        assert ended["outcome"] == "dead"


BROKEN = [
    "INSERT INTO pgcron.queue (name, rate, per) VALUES ('other', 0, '0')",
    "INSERT INTO pgcron.queue (name, rate, per) VALUES ('other', -3, '-1 day')",
    "INSERT INTO pgcron.queue (name, rate) VALUES ('other', 5)",
    "INSERT INTO pgcron.queue (name, max_running) VALUES ('other', -2147483648)",
    "INSERT INTO pgcron.concurrency_limit (concurrency_key, rate, per) VALUES ('bad*', 0, '0')",
    "INSERT INTO pgcron.concurrency_limit (concurrency_key, rate, per) VALUES ('bad*', 3, NULL)",
    "INSERT INTO pgcron.concurrency_limit (concurrency_key, slots) VALUES ('bad*', -2147483648)",
]


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_limit_that_breaks_its_rules_alone_waits(
    workshop: Workshop, connection: Connection, broken: str
) -> None:
    for table, rules in (
        (
            "queue",
            ("a_queue_starts_1_to_1000000_runs_in_a_time", "a_queue_runs_1_to_100000_at_once"),
        ),
        (
            "concurrency_limit",
            ("a_key_starts_1_to_1000000_runs_in_a_time", "a_key_has_1_to_10000_slots"),
        ),
    ):
        for rule in rules:
            await connection.execute(f"ALTER TABLE pgcron.{table} DROP CONSTRAINT {rule}")
    await connection.execute(broken)
    await connection.execute("SELECT pgcron.set_concurrency('fine', 2, 5, '1 minute')")
    is_queue = "pgcron.queue" in broken
    waiting = {"queue": "other"} if is_queue else {"concurrency_key": "bad-1"}
    [held_up, _] = await control.enqueue(connection, 2, **waiting)
    fine = await control.enqueue(connection, 2, concurrency_key="fine")
    plain = await control.enqueue(connection, 2)

    await workshop.step()

    assert sorted(workshop.executor.executing) == sorted(fine + plain)
    assert workshop.dispatcher.aside.entries() == []
    shown = await control.call(connection, "broken_settings")
    expected = ("queue", "other") if is_queue else ("key", "bad*")
    why = await why_run_waits(connection, held_up)
    assert why == f"{expected[0]} '{expected[1]}' waits until it is mended: {shown[0]['error']}"
    assert [(row["kind"], row["name"]) for row in shown] == [expected]
    janitor = Janitor(workshop.link, "pgcron")
    await janitor.run_once()
    assert [(each.what, each.error) for each in janitor.aside.entries()] == [
        (f"{expected[0]} {expected[1]!r}", shown[0]["error"])
    ]

    if is_queue:
        await connection.execute("DELETE FROM pgcron.queue")
    else:
        await connection.execute("SELECT pgcron.set_concurrency('bad*', 2)")
    assert await why_run_waits(connection, held_up) is None
    workshop.dispatcher._gated.wake()
    await workshop.step()
    assert len(workshop.executor.executing) == 6
    await janitor.run_once()
    assert janitor.aside.entries() == []


async def test_limits_that_somebody_locks_hold_up_no_plain_run(
    workshop: Workshop, connection: Connection, database: str
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('a', 5, 5, '1 minute')")
    keyed = await control.enqueue(connection, 2, concurrency_key="a")
    plain = await control.enqueue(connection, 2)
    somebody = await connect(database)
    async with somebody.transaction():
        await somebody.execute("LOCK TABLE pgcron.rate_window")

        await workshop.step()

        assert sorted(workshop.executor.executing) == plain
        [entry] = workshop.dispatcher.aside.entries()
        assert entry.what == "limits of queue 'default'"
        assert "lock timeout" in entry.error

    aside = workshop.dispatcher.aside
    await until("its next try", lambda: not aside.next_try())
    workshop.dispatcher._gated.wake()
    await workshop.step()
    assert sorted(workshop.executor.executing) == sorted(keyed + plain)
    assert workshop.dispatcher.aside.entries() == []
    await somebody.close()


async def test_refused_runs_changes_nothing(connection: Connection) -> None:
    node = await control.join(connection)
    run, *_ = await control.enqueue(connection, 3)
    before = await control.run_row(connection, run)

    found = await control.call(
        connection, "refused_runs", incarnation=node.incarnation, queues=["default"], at_most=100
    )

    assert found == []
    assert await control.run_row(connection, run) == before


@pytest.mark.parametrize(
    ("backlog", "other"),
    [
        ({}, {"delivery": "at_most_once"}),
        ({"concurrency_key": "a"}, {"concurrency_key": "b"}),
        ({"requires": ["a"]}, {"requires": ["b"]}),
    ],
    ids=["once", "key", "label"],
)
async def test_a_backlog_of_one_kind_hides_no_refused_run_of_another(
    connection: Connection, backlog: dict[str, Any], other: dict[str, Any]
) -> None:
    node = await control.join(connection)
    await control.enqueue(connection, 40, **backlog)
    [bad] = await control.enqueue(connection, **other)
    await connection.execute(
        f"ALTER TABLE pgcron.run ADD CHECK (id <> {bad} OR state <> 'running')"
    )

    found = await control.call(
        connection, "refused_runs", incarnation=node.incarnation, queues=["default"], at_most=20
    )

    assert [row["run_id"] for row in found] == [bad]


async def test_a_breaker_that_breaks_its_rules_stands_still(
    workshop: Workshop, connection: Connection
) -> None:
    rules = await connection.fetch(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'pgcron.breaker'::regclass"
        " AND contype = 'c'"
    )
    for rule in rules:
        await connection.execute(f"ALTER TABLE pgcron.breaker DROP CONSTRAINT {rule['conname']}")
    await connection.execute(
        "INSERT INTO pgcron.breaker (name, failures, within, open_for, state, open_until)"
        " VALUES ('py:work', -1, '0', '290000 years', 'half_open', 'infinity');"
        "INSERT INTO pgcron.breaker_handler VALUES ('py:work', 'py:work')"
    )
    node = await control.join(connection)
    await control.enqueue(connection, 1, max_attempts=1)
    [run] = await control.claim(connection, node)

    assert await control.fail(connection, [run]) == {run["id"]: "dead"}
    assert await control.call(connection, "look_at_breakers") == []
    shown = await control.call(connection, "broken_settings")
    assert [(row["kind"], row["name"]) for row in shown] == [("breaker", "py:work")]


@pytest.mark.parametrize(
    ("fallback", "is_blocked"), [(None, False), ("other", False), ("other", True)]
)
async def test_a_run_that_cannot_be_parked_or_sent_elsewhere_keeps_no_other_of_its_breaker(
    workshop: Workshop, connection: Connection, fallback: str | None, is_blocked: bool
) -> None:
    runs = await control.enqueue(connection, 5)
    if is_blocked:
        await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = 'breaker'")
    await poison(connection, "run", f"id <> {runs[2]}")
    await connection.execute("SELECT pgcron.set_breaker('py:work', fallback_queue => $1)", fallback)
    await connection.execute(
        "UPDATE pgcron.breaker SET state = 'open', open_until = now() + interval '1 hour',"
        " opened_at = now(), reason = 'failures'"
    )

    await control.call(connection, "block_broken", queues=["default"], look=500)
    first = await control.call(connection, "use_fallbacks", at_most=1000)
    if is_blocked:  # the run at fault has ended; the next call sends the others
        assert first == []
        await control.call(connection, "use_fallbacks", at_most=1000)

    rows = await connection.fetch("SELECT id, gate, queue FROM pgcron.run ORDER BY id")
    assert [row["id"] for row in rows] == runs[:2] + runs[3:]
    where = ("breaker", "default") if fallback is None else (None, "other")
    assert {(row["gate"], row["queue"]) for row in rows} == {where}
    ended = await control.history_row(connection, runs[2])
    assert ended is not None
    assert ended["outcome"] == "dead"


async def test_what_holds_up_one_queue_is_not_said_of_another(
    workshop: Workshop, connection: Connection
) -> None:
    runs = [(await control.enqueue(connection, 1, queue=q))[0] for q in ("default", "other")]
    aside = {"service": "dispatcher", "what": "limits of queue 'other'", "error": "locked"}
    await connection.execute(
        "UPDATE pgcron.node SET health = jsonb_build_object('failing', '[]'::jsonb, 'without',"
        " jsonb_build_array($1::jsonb))",
        json.dumps(aside),
    )

    said = [await why_run_waits(connection, run) for run in runs]

    assert said == [None, "node n1 goes on without limits of queue 'other': locked"]
