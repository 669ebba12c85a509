"""What a retry policy and a handler's own words make of an attempt: all decided in SQL."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pgcron_ha.errors import InvalidInput
from tests.db.control import (
    Connection,
    Node,
    claim,
    cursor_of,
    database_now,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    materialize,
    put_schedule,
    reap,
    run_row,
)
from tests.product.client import retry_text

YEAR = timedelta(days=366)
BOUNDS = {"base": 10, "cap": "25 seconds"}


def policy(**keys: Any) -> str:
    return json.dumps(keys)


async def begin(connection: Connection, node: Node | None = None, **columns: Any) -> Any:
    """One run that executes."""
    [run_id] = await enqueue(connection, **columns)
    claimed = await claim(connection, node or await join(connection))
    [mine] = [run for run in claimed if run["id"] == run_id]
    return mine


async def again(connection: Connection, node: Node) -> Any:
    """The run is due, and claimed once more."""
    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    [run] = await claim(connection, node)
    return run


async def delay_of(connection: Connection, run: Any) -> timedelta:
    """How long from now on it waits; each statement of a test is its own transaction."""
    delay: timedelta = await connection.fetchval(
        "SELECT r.due_at - max(a.ended_at) FROM pgcron.run r JOIN pgcron.attempt a "
        "ON a.run_id = r.id WHERE r.id = $1 GROUP BY r.due_at",
        run["id"],
    )
    return delay


async def attempts_of(connection: Connection, run: Any) -> list[tuple[int, str]]:
    rows = await connection.fetch(
        "SELECT attempt, outcome FROM pgcron.attempt WHERE run_id = $1 ORDER BY 1", run["id"]
    )
    return [(row["attempt"], row["outcome"]) for row in rows]


@pytest.mark.parametrize(
    ("retry", "seconds"),
    [
        (policy(backoff="linear", jitter=False, **BOUNDS), [10, 20, 25, 25]),
        (policy(backoff="fixed", **BOUNDS), [10, 10, 10, 10]),
        (policy(backoff="exponential", jitter=False, **BOUNDS), [10, 20, 25, 25]),
        (policy(backoff=[1, "2 minutes", 0], **BOUNDS), [1, 120, 0, 0]),
        (policy(jitter=False, base="1 s", cap=3), [1, 2, 3, 3]),
    ],
    ids=["linear", "fixed", "exponential", "list", "own bounds"],
)
async def test_a_back_off_has_the_delays_its_policy_says(
    connection: Connection, retry: str, seconds: list[float]
) -> None:
    node = await join(connection)
    run = await begin(connection, node, retry=retry)
    for expected in seconds:
        assert await fail(connection, [run]) == {run["id"]: "retry"}
        assert await delay_of(connection, run) == timedelta(seconds=expected)
        run = await again(connection, node)


async def test_jitter_spreads_a_back_off_over_all_of_it(connection: Connection) -> None:
    spread = await connection.fetchrow(
        "SELECT min(d) AS least, max(d) AS most FROM (SELECT pgcron.policy_delay($1, 2) "
        "AS d FROM generate_series(1, 400)) delays",
        policy(backoff="linear", base=60),
    )

    assert spread is not None
    assert timedelta(0) <= spread["least"] < timedelta(seconds=15)
    assert timedelta(seconds=105) < spread["most"] <= timedelta(seconds=120)


@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed", [1]])
async def test_no_number_of_attempts_makes_a_back_off_overflow(
    connection: Connection, backoff: Any
) -> None:
    delay = await connection.fetchval(
        "SELECT pgcron.policy_delay($1, 2000)", policy(backoff=backoff, base="1 day", cap="30 days")
    )

    assert timedelta(0) <= delay <= timedelta(days=30)


@pytest.mark.parametrize("asked", [1e300, -5.0])
async def test_a_handler_can_not_ask_for_an_instant_that_there_is_not(
    connection: Connection, asked: float
) -> None:
    run = await begin(connection)

    assert await fail(connection, [run], retry_after=asked) == {run["id"]: "retry"}

    delay = await delay_of(connection, run)
    assert delay == (YEAR if asked > 0 else timedelta(0))


async def test_no_retry_begins_after_the_time_that_a_policy_allows(connection: Connection) -> None:
    node = await join(connection)
    run = await begin(
        connection, node, retry=policy(backoff="fixed", base="30 s", retry_for="1 min")
    )
    assert await fail(connection, [run]) == {run["id"]: "retry"}
    # As if the first attempt had begun half a minute ago.
    await connection.execute("UPDATE pgcron.attempt SET claimed_at = claimed_at - interval '31 s'")
    run = await again(connection, node)

    assert await fail(connection, [run]) == {run["id"]: "dead"}

    error = await connection.fetchval("SELECT error FROM pgcron.dead_letter")
    assert error == "it went wrong (not retried: its policy retries for 00:01:00)"


@pytest.mark.parametrize(
    ("retry", "causes", "verdict"),
    [
        (policy(discard_on=["ValueError"]), "ValueError Exception", "dead"),
        (policy(discard_on=["LookupError"]), "KeyError LookupError Exception", "dead"),
        (policy(discard_on=["OSError"]), "ValueError Exception", "retry"),
        (policy(retry_on=["ConnectionError"]), "ConnectionResetError ConnectionError", "retry"),
        (policy(retry_on=["ConnectionError"]), "ValueError Exception", "dead"),
        (policy(retry_on=["exit:75", "exit:111"]), "ExitStatus exit:75", "retry"),
        (policy(retry_on=["exit:75"]), "ExitStatus exit:1", "dead"),
        (policy(retry_on=["http:5xx"]), "HttpStatus http:503 http:5xx", "retry"),
        (policy(discard_on=["failed"]), "ValueError", "dead"),
        (policy(snooze_on={"http:429": 60}), "HttpStatus http:429 http:4xx", "snooze"),
        (policy(retry_on=["OSError"], snooze_on={"exit:75": 60}), "exit:75", "snooze"),
        # What the handler itself asks for goes before the lists.
        (policy(discard_on=["Retry", "Exception"]), "pgcron_ha.Retry Retry Exception", "retry"),
        (policy(retry_on=["OSError"]), "pgcron_ha.Retry Retry Exception", "retry"),
    ],
)
async def test_the_causes_that_a_policy_names_decide(
    connection: Connection, retry: str, causes: str, verdict: str
) -> None:
    run = await begin(connection, retry=retry)

    assert await fail(connection, [run], causes=causes) == {run["id"]: verdict}


async def test_what_can_not_be_helped_is_not_retried_whatever_the_policy_names(
    connection: Connection,
) -> None:
    run = await begin(connection, retry=policy(retry_on=["ValueError"]))

    assert await fail(connection, [run], retryable=False) == {run["id"]: "dead"}


@pytest.mark.parametrize(
    ("retry", "verdict"),
    [
        (policy(retry_on=["OSError"]), "retry"),
        (policy(snooze_on={"lease_lost": 5}), "retry"),
        (policy(discard_on=["lease_lost"]), "dead"),
    ],
)
async def test_a_run_whose_node_died_is_retried_unless_its_policy_discards_that(
    connection: Connection, retry: str, verdict: str
) -> None:
    node = await join(connection)
    run = await begin(connection, node, retry=retry)
    await kill(connection, node)

    assert await reap(connection) == {run["id"]: verdict}
    if verdict == "retry":
        assert await delay_of(connection, run) == timedelta(0)


async def test_a_snoozed_run_comes_back_without_having_used_up_an_attempt(
    connection: Connection,
) -> None:
    node = await join(connection)
    run = await begin(connection, node, max_attempts=2)
    for _ in range(3):
        answer = await fail(connection, [run], kind="snoozed", retry_after=600.0)
        assert answer == {run["id"]: "snooze"}
        assert await delay_of(connection, run) == timedelta(minutes=10)
        run = await again(connection, node)
    assert (run["attempt"], run["max_attempts"]) == (4, 5)

    assert await fail(connection, [run]) == {run["id"]: "retry"}
    # The back-off, too, counts one attempt.
    assert await delay_of(connection, run) <= timedelta(seconds=2)
    run = await again(connection, node)
    assert await fail(connection, [run]) == {run["id"]: "dead"}

    outcomes = [outcome for _, outcome in await attempts_of(connection, run)]
    assert outcomes == ["snoozed"] * 3 + ["failed"] * 2
    ended = await history_row(connection, run["id"])
    assert ended is not None
    assert (ended["attempt"], ended["snoozes"]) == (5, 3)


async def test_a_run_can_not_be_snoozed_for_ever(connection: Connection) -> None:
    node = await join(connection)
    run = await begin(connection, node, retry=policy(snoozes=1))
    assert await fail(connection, [run], kind="snoozed", retry_after=1.0) == {run["id"]: "snooze"}
    run = await again(connection, node)

    assert await fail(connection, [run], kind="snoozed", retry_after=1.0) == {run["id"]: "dead"}

    assert await attempts_of(connection, run) == [(1, "snoozed"), (2, "failed")]
    error = await connection.fetchval("SELECT error FROM pgcron.dead_letter")
    assert error == "it went wrong (not retried: it was snoozed once, which is the most)"


async def test_without_a_policy_too_there_is_a_most_of_snoozes(connection: Connection) -> None:
    run = await begin(connection)
    await connection.execute("UPDATE pgcron.run SET snoozes = 1000, max_attempts = 1005")

    assert await fail(connection, [run], kind="snoozed", retry_after=1.0) == {run["id"]: "dead"}


async def test_a_budget_of_time_ends_snoozing_too(connection: Connection) -> None:
    run = await begin(connection, retry=policy(retry_for="1 min"))

    assert await fail(connection, [run], kind="snoozed", retry_after=90.0) == {run["id"]: "dead"}


async def test_what_may_be_executed_at_most_once_is_dead_when_it_is_snoozed(
    connection: Connection,
) -> None:
    run = await begin(connection, delivery="at_most_once")

    assert await fail(connection, [run], kind="snoozed", retry_after=1.0) == {run["id"]: "dead"}

    assert await attempts_of(connection, run) == [(1, "failed")]


async def test_a_run_that_was_asked_to_stop_is_cancelled_and_not_snoozed(
    connection: Connection,
) -> None:
    run = await begin(connection, retry=policy(backoff="fixed"))
    await connection.execute("SELECT pgcron.cancel_run($1)", run["id"])

    assert await fail(connection, [run], kind="snoozed", retry_after=1.0) == {
        run["id"]: "cancelled"
    }


async def test_a_handler_that_cancels_its_run_says_why(connection: Connection) -> None:
    run = await begin(connection)

    assert await fail(connection, [run], kind="cancelled") == {run["id"]: "cancelled"}

    ended = await history_row(connection, run["id"])
    assert ended is not None
    assert (ended["outcome"], ended["cancel_reason"]) == ("cancelled", "it went wrong")


async def test_a_snoozed_fire_keeps_its_overlap_slot(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    run = await begin(connection, node)
    await connection.execute(
        "UPDATE pgcron.run SET schedule_id = $1, overlap = 'skip', overlap_slot = 1", schedule
    )

    await fail(connection, [run], kind="snoozed", retry_after=60.0)

    assert await connection.fetchval("SELECT overlap_slot FROM pgcron.run") == 1


@pytest.mark.parametrize("how", ["succeeded", "dead", "cancelled"])
async def test_a_policy_is_handed_on_and_snoozes_are_not(connection: Connection, how: str) -> None:
    node = await join(connection)
    retry = '{"backoff": "fixed", "snoozes": 7}'
    run = await begin(connection, node, retry=retry, max_attempts=1)
    await fail(connection, [run], kind="snoozed", retry_after=0.0)
    if how == "cancelled":
        await connection.execute("SELECT pgcron.cancel_run($1)", run["id"])
    else:
        run = await again(connection, node)
        await (finish(connection, [run]) if how == "succeeded" else fail(connection, [run]))
    interfaces = ["retry_run", "redrive"] if how == "dead" else ["retry_run"]

    for interface in interfaces:
        new = await connection.fetchval(f"SELECT pgcron.{interface}($1)", run["id"])
        row = await run_row(connection, new)
        assert row is not None
        assert (row["retry"], row["snoozes"], row["max_attempts"]) == (retry, None, 1)


async def test_the_runs_of_a_schedule_have_its_policy(connection: Connection) -> None:
    retry = '{"backoff": "fixed"}'
    schedule = await put_schedule(connection, retry=retry)
    cursor = await cursor_of(connection, schedule)

    await materialize(connection, cursor, [await database_now(connection)])
    await connection.execute("SELECT pgcron.run_now('job')")

    rows = await connection.fetch("SELECT retry FROM pgcron.run")
    assert [row["retry"] for row in rows] == [retry, retry]


async def test_an_empty_policy_takes_a_schedule_s_away(connection: Connection) -> None:
    await put_schedule(connection, retry='{"backoff": "fixed"}')
    put = "SELECT pgcron.put_schedule('job', '* * * * *', 'py:work', retry => $1)"

    await connection.execute(put, None)
    kept = await connection.fetchval("SELECT retry FROM pgcron.schedule")
    await connection.execute(put, "{}")

    assert kept == '{"backoff": "fixed"}'
    assert await connection.fetchval("SELECT retry FROM pgcron.schedule") is None


async def test_both_ways_of_enqueueing_take_a_policy(connection: Connection) -> None:
    retry = '{"backoff": [1, 5]}'
    await connection.execute("SELECT pgcron.enqueue('py:work', retry => $1)", retry)
    await connection.execute(
        "SELECT pgcron.enqueue_many($1)",
        f'[{{"handler": "py:work", "retry": {retry}}}, {{"handler": "py:work", "retry": null}}]',
    )

    rows = await connection.fetch("SELECT retry FROM pgcron.run ORDER BY id")
    assert [row["retry"] for row in rows] == [retry, retry, None]


GOOD: list[Any] = [
    {},
    {"backoff": "exponential"},
    {"backoff": [0]},
    {"backoff": [1] * 100, "jitter": True},
    {"base": 86400, "cap": 2592000},
    {"base": 0.001, "cap": "30d"},
    {"retry_for": "366d"},
    {"retry_on": ["exit:75", "http:5xx", "a.b.C", "40001"]},
    {"discard_on": [f"E{n}" for n in range(50)]},
    {"snooze_on": {"exit:75": "5m"}, "snoozes": 0},
    {"snoozes": 1000},
]
BAD: list[Any] = [
    [],
    "often",
    5,
    {"backof": "linear"},
    {"backoff": "quadratic"},
    {"backoff": None},
    {"backoff": []},
    {"backoff": [1] * 101},
    {"backoff": [-1]},
    {"backoff": ["soon"]},
    {"backoff": [1e300]},
    {"backoff": {"linear": 1}},
    {"base": 0},
    {"base": "2d"},
    {"base": True},
    {"cap": "31d"},
    {"cap": -1},
    {"jitter": "yes"},
    {"retry_for": 0},
    {"retry_for": "367d"},
    {"retry_on": []},
    {"retry_on": "ValueError"},
    {"retry_on": ["a b"]},
    {"retry_on": [5]},
    {"discard_on": [f"E{n}" for n in range(51)]},
    {"snooze_on": ["exit:75"]},
    {"snooze_on": {}},
    {"snooze_on": {"exit:75": 0}},
    {"snooze_on": {"exit 75": 5}},
    {"snoozes": 1001},
    {"snoozes": -1},
    {"snoozes": 1.5},
    {"retry_on": ["E" * 190 + str(n) for n in range(50)]},
]


@pytest.mark.long
@pytest.mark.parametrize("given", [*GOOD, *BAD], ids=lambda given: json.dumps(given)[:40])
async def test_both_doors_judge_a_policy_alike(connection: Connection, given: Any) -> None:
    text = json.dumps(given)
    if given in GOOD:
        written = retry_text(given)
        assert written is not None
        for each in (text, written):
            assert await connection.fetchval("SELECT pgcron.retry_policy_is_fine($1)", each)
        return
    with pytest.raises(InvalidInput) as refused:
        retry_text(given)
    assert refused.value.detail
    assert refused.value.hint
    for statement in (
        "INSERT INTO pgcron.run (handler, retry) VALUES ('py:work', $1)",
        "SELECT pgcron.put_schedule('job', '* * * * *', 'py:work', retry => $1)",
        "SELECT pgcron.enqueue('py:work', retry => $1)",
    ):
        with pytest.raises(asyncpg.PostgresError) as error:
            await connection.execute(statement, text)
        answer: Any = error.value
        assert answer.sqlstate in ("PC001", "PC004")
        assert all(words and len(words) > 8 for words in (answer.detail, answer.hint))
