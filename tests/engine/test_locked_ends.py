"""Ends of runs that are locked, too large or refused, beside those of others."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

import pytest

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from tests.db.control import Connect, Connection, history_row, run_row
from tests.engine.conftest import MakeLink
from tests.engine.ending import SLOTS, Ending, begin
from tests.product.engine import BATCH_CHARACTERS, MOST_PENDING, MOST_PENDING_CHARACTERS
from tests.product.telemetry import Event, RunFailed, RunFenced
from tests.waiting import slowness, until

OUTCOMES = [SUCCEEDED, Failed("ValueError", "no"), Interrupted(StopReason.SHUTDOWN, "it stops")]


@pytest.fixture
async def ending(make_link: MakeLink, connection: Connection) -> Ending:
    return await begin(make_link(joins_by_hash=True), connection)


async def executed(connection: Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'running'"))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=["success", "failure", "release"])
async def test_a_locked_run_keeps_no_other_from_ending(
    outcome: Outcome, ending: Ending, connection: Connection, another: Connect, events: list[Event]
) -> None:
    runs = await ending.claim(50)
    other = await another()
    await other.execute("BEGIN")
    await other.execute("SELECT pgcron.cancel_run($1)", runs[20])
    await ending.end(runs, outcome)

    wait = await ending.completer.run_once()

    assert await executed(connection) == 1
    assert wait is not None
    assert 0 < wait <= slowness()
    assert [each.what for each in ending.completer.aside.entries()] == [
        f"the end of run {runs[20]}"
    ]
    assert len(ending.runner.held()) == 1
    await other.execute("ROLLBACK")
    await ending.report()
    assert await executed(connection) == 0
    assert len(ending.completer.aside) == 0
    assert [event for event in events if isinstance(event, RunFenced)] == []


async def test_hundreds_of_locked_runs_cost_the_others_seconds_and_no_more(
    ending: Ending, connection: Connection, another: Connect
) -> None:
    runs = await ending.claim(600)
    other = await another()
    await other.execute("BEGIN; SELECT pgcron.cancel_run(id) FROM pgcron.run WHERE id % 2 = 0")
    await ending.end(runs)
    began = monotonic()

    await ending.completer.run_once()
    later = await ending.claim(5)
    await ending.end(later)
    before = await executed(connection)
    await ending.completer.run_once()

    assert monotonic() - began < 5 * slowness()
    assert before - await executed(connection) == 5
    await other.execute("ROLLBACK")
    await ending.report()
    assert await executed(connection) == 0


async def test_a_locked_breaker_keeps_no_run_from_ending(
    ending: Ending, connection: Connection, another: Connect
) -> None:
    await connection.execute("SELECT pgcron.set_breaker('py:work')")
    runs = await ending.claim(30)
    other = await another()
    await other.execute("BEGIN; SELECT pgcron.reset_breaker('py:work')")
    await other.execute("SELECT FROM pgcron.breaker FOR UPDATE")
    await ending.end(runs, Failed("ValueError", "no"))

    await ending.completer.run_once()

    assert await executed(connection) == 0
    assert not ending.completer._pending
    await other.execute("ROLLBACK")


async def test_large_results_are_sent_a_few_at_a_time(
    ending: Ending, connection: Connection
) -> None:
    text = "[" + ",".join(["12345"] * 40_000) + "]"
    runs = await ending.claim(12)
    await ending.end(runs, Succeeded([], text))

    assert await ending.completer.run_once() == 0

    assert 12 - len(ending.runner.held()) == BATCH_CHARACTERS // len(text)
    await ending.report()
    assert await connection.fetchval("SELECT count(result) FROM pgcron.history") == 12


@pytest.mark.long
async def test_completions_that_are_too_slow_together_are_sent_in_parts(
    ending: Ending, connection: Connection
) -> None:
    """As where a link is slow: eight of them take longer than a statement may."""
    await connection.execute(
        "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.7); RETURN NEW; END $$;"
        "CREATE TRIGGER slow BEFORE INSERT ON pgcron.history"
        " FOR EACH ROW EXECUTE FUNCTION public.slow()"
    )
    runs = await ending.claim(8)
    await ending.end(runs)

    await ending.report()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 8


async def test_a_node_whose_ends_are_not_taken_claims_nothing(
    make_link: MakeLink, connection: Connection
) -> None:
    nowhere = make_link("postgresql://nobody@127.0.0.1:1/nothing?sslmode=disable")
    lost = await begin(nowhere, connection)
    for _ in range(2):
        await lost.end(await lost.claim(SLOTS))
    most = SLOTS - (2 * SLOTS - MOST_PENDING)
    await until("nothing more is claimed", lambda: lost.runner.free_slots <= most)


async def test_a_node_whose_large_results_are_not_taken_claims_nothing(
    ending: Ending, connection: Connection
) -> None:
    [run, other] = await ending.claim(2)
    await ending.end([run], Succeeded("", '"' + "x" * MOST_PENDING_CHARACTERS + '"'))
    assert ending.runner.free_slots < 0
    await ending.end([other])
    await ending.report()
    assert ending.runner.free_slots == SLOTS


async def test_a_run_whose_row_breaks_a_rule_ends_dead_and_the_others_as_they_should(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    runs = await ending.claim(9)
    await connection.execute(
        f"ALTER TABLE pgcron.run ADD CONSTRAINT newer_rule CHECK (id <> {runs[4]}) NOT VALID"
    )
    await ending.end(runs, Failed("ValueError", "no"))

    await ending.report()

    ended = await history_row(connection, runs[4])
    assert ended is not None
    assert ended["outcome"] == "dead"
    assert "newer_rule" in ended["error"]
    others = [run for run in runs if run != runs[4]]
    for run in others:
        row = await run_row(connection, run)
        assert row is not None
        assert (row["state"], row["attempt"]) == ("ready", 1)
    dead = [event for event in events if isinstance(event, RunFailed) and event.verdict == "dead"]
    assert [event.run for event in dead] == [runs[4]]


async def test_a_lock_on_the_table_of_lines_delays_no_end_and_loses_no_line(
    ending: Ending, connection: Connection, another: Connect
) -> None:
    runs = await ending.claim(20)
    other = await another()
    await other.execute("BEGIN; LOCK TABLE pgcron.log IN SHARE MODE")
    for run in runs:
        context = ending.executor.executing[run]
        ending.recorder.write(context, "stdout", f"line of {run}")
    failing = runs[10:]
    await ending.end(runs[:10])
    await ending.end(failing, Failed("ValueError", "no", after=timedelta(hours=1)))
    began = monotonic()

    await ending.report()

    assert monotonic() - began < 4 * slowness()
    assert await executed(connection) == 0
    # Nor those that end next.
    more = await ending.claim(5)
    for run in more:
        ending.recorder.write(ending.executor.executing[run], "stdout", f"line of {run}")
    await ending.end(more)
    began = monotonic()
    await ending.completer.run_once()
    assert monotonic() - began < 1.5 * slowness()
    await other.execute("ROLLBACK")
    await ending.recorder.run_once()
    rows = await connection.fetch("SELECT run_id, line, attempt FROM pgcron.log ORDER BY run_id")
    assert [tuple(row) for row in rows] == [(run, f"line of {run}", 1) for run in [*runs, *more]]
    assert ending.recorder.dropped == 0
