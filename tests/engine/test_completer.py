from __future__ import annotations

from datetime import timedelta
from time import monotonic

import pytest

from pgcron_ha.errors import DatabaseUnavailable, SchemaError
from pgcron_ha.executors.contract.base import (
    Doubtful,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from tests.chaos.proxy import Proxy as NetworkOfANode
from tests.db import control
from tests.db.control import Connect, Connection, history_row, kill, reap, run_row
from tests.engine.conftest import MakeLink
from tests.engine.ending import Ending, begin
from tests.engine.proxy import Proxy
from tests.product.db import Link
from tests.product.engine import COMPLETER_BATCH as BATCH
from tests.product.engine import REPORTED_SINGLY
from tests.product.executors import outcome_of_error
from tests.product.telemetry import Event, MoreRunsFailed, RunFailed, RunFenced, RunsReleased
from tests.servers import ThrowAwayServer
from tests.waiting import until

STOPPED = Interrupted(StopReason.SHUTDOWN, "the node stops")


@pytest.fixture
async def ending(make_link: MakeLink, connection: Connection) -> Ending:
    return await begin(make_link(joins_by_hash=True), connection)


@pytest.fixture
async def shaky(make_link: MakeLink, proxy: Proxy, database: str, connection: Connection) -> Ending:
    """Its network is the test's."""
    link = make_link(proxy.dsn(database), joins_by_hash=True, answer_seconds=2.0)
    await link.rows("channel")
    return await begin(link, connection)


def of(kind: type[Event], events: list[Event]) -> list[Event]:
    return [event for event in events if type(event) is kind]


async def test_a_success_is_in_history_with_its_result_and_nowhere_else(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    await ending.end([run], Succeeded({"rows": 3}, '{"rows": 3}'))

    assert await ending.completer.run_once() is None

    row = await history_row(connection, run)
    assert row is not None
    assert (row["outcome"], row["node"], row["result"]) == ("succeeded", "a node", '{"rows": 3}')
    assert await run_row(connection, run) is None
    assert not ending.completer._pending
    assert (len(ending.runner.held()), ending.freed) == (0, 1)


async def test_nothing_to_tell_costs_no_statement(ending: Ending) -> None:
    assert await ending.completer.run_once() is None
    assert not ending.link.is_open


async def test_more_than_a_batch_takes_another_pass(ending: Ending, connection: Connection) -> None:
    runs = await ending.claim(BATCH + 1)
    await ending.end(runs)

    assert await ending.completer.run_once() == 0
    assert await ending.completer.run_once() is None

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == BATCH + 1


async def test_a_result_the_database_can_not_take_fails_only_its_own_run(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    runs = await ending.claim(9)
    await ending.end(runs[:4])
    await ending.end(runs[4:5], Succeeded("\x00", '"\\u0000"'))
    await ending.end(runs[5:])

    await ending.report()

    ended = await connection.fetch("SELECT id FROM pgcron.history WHERE outcome = 'succeeded'")
    assert sorted(row["id"] for row in ended) == runs[:4] + runs[5:]
    assert [event.run for event in events if isinstance(event, RunFailed)] == [runs[4]]
    assert of(RunFenced, events) == []
    assert len(ending.runner.held()) == 0


async def test_a_lost_answer_is_sent_again_and_found_by_its_fence(
    shaky: Ending, proxy: Proxy, connection: Connection, events: list[Event]
) -> None:
    runs = await shaky.claim(5)
    await shaky.end(runs)
    proxy.lose_answer_to("DELETE FROM pgcron.run")

    await shaky.report()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 5
    assert of(RunFenced, events) == []
    assert len(shaky.runner.held()) == 0


@pytest.mark.parametrize(
    ("outcome", "words"),
    [(Failed("ValueError", "no"), "pgcron.fail_runs"), (STOPPED, "attempt = r.attempt - 1")],
    ids=["failure", "release"],
)
async def test_a_lost_answer_counts_no_attempt_twice_and_is_told_as_no_fence(
    outcome: Outcome,
    words: str,
    shaky: Ending,
    proxy: Proxy,
    connection: Connection,
    events: list[Event],
) -> None:
    (run,) = await shaky.claim()
    await shaky.end([run], outcome)
    proxy.lose_answer_to(words)

    await shaky.completer.run_once()
    assert proxy.lost_answers == 1
    assert shaky.completer._pending
    await shaky.report()

    row = await run_row(connection, run)
    assert row is not None
    attempts = 1 if isinstance(outcome, Failed) else 0
    assert (row["state"], row["attempt"]) == ("ready", attempts)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.attempt") == attempts
    assert of(RunFenced, events) == []


async def test_an_end_that_was_taken_is_not_reported_as_fenced_when_the_connection_breaks(
    shaky: Ending, proxy: Proxy, connection: Connection, events: list[Event]
) -> None:
    """While it is looked up whether another one of the batch was committed by its handler."""
    failed, committed = await shaky.claim(2)
    token = shaky.executor.executing[committed].token
    await control.finish(connection, [{"id": committed, "token": token}])  # type: ignore[list-item]
    await shaky.end([failed], Failed("ValueError", "no"))
    await shaky.end([committed], Doubtful("AnswerLost", "of a COMMIT"))
    await until("both are to be reported", lambda: len(shaky.completer._pending) == 2)
    proxy.lose_answer_to("h.fence = given.fence")

    await shaky.report()

    assert proxy.lost_answers == 1
    assert of(RunFenced, events) == []
    row = await run_row(connection, failed)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 1)
    assert len(shaky.runner.held()) == 0


async def test_a_statement_that_never_arrived_is_simply_sent_again(
    shaky: Ending, proxy: Proxy, connection: Connection
) -> None:
    (run,) = await shaky.claim()
    await shaky.end([run])
    await connection.execute("BEGIN; LOCK TABLE pgcron.run")
    telling = shaky.completer.run_once()
    proxy.reset()
    await telling
    assert shaky.completer._pending
    await connection.execute("COMMIT")

    await shaky.report()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 1


async def test_what_was_finished_while_the_node_was_cut_off_is_not_done_again(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    runs = await ending.claim(3)
    await kill(connection, ending.node)
    assert set((await reap(connection)).values()) == {"retry"}
    await ending.end(runs, Succeeded({"rows": 3}, '{"rows": 3}'))

    await ending.report()

    for run in runs:
        row = await history_row(connection, run)
        assert row is not None
        assert (row["outcome"], row["attempt"], row["result"]) == ("succeeded", 1, '{"rows": 3}')
        assert (row["owner"], row["node"]) == (ending.node.incarnation, "a node")
        assert await run_row(connection, run) is None
    assert of(RunFenced, events) == []
    assert len(ending.runner.held()) == 0
    outcomes = await connection.fetch("SELECT outcome FROM pgcron.attempt")
    assert [row["outcome"] for row in outcomes] == ["lease_lost"] * 3


async def test_what_failed_while_the_node_was_cut_off_is_done_again(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    (run,) = await ending.claim()
    await kill(connection, ending.node)
    await reap(connection)
    await ending.end([run], Failed("ValueError", "no"))

    await ending.report()

    row = await run_row(connection, run)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 1)
    assert of(RunFenced, events) == [RunFenced(run, 1)]


@pytest.mark.parametrize("since", ["executes", "has failed", "has ended", "is being claimed"])
async def test_the_late_end_of_a_run_that_somebody_has_begun_is_refused_and_told(
    since: str, ending: Ending, connection: Connection, events: list[Event], another: Connect
) -> None:
    (run,) = await ending.claim()
    await kill(connection, ending.node)
    assert await reap(connection) == {run: "retry"}
    other = await another()
    if since == "is being claimed":
        await other.execute("BEGIN")
    [row] = await control.claim(other, await control.join(connection))
    if since == "has failed":
        await control.fail(connection, [row])
    elif since == "has ended":
        await control.finish(connection, [row])
    before = await connection.fetch("SELECT state, attempt FROM pgcron.runs WHERE id = $1", run)
    await ending.end([run])

    await ending.completer.run_once()
    assert await connection.fetch("SELECT state, attempt FROM pgcron.runs WHERE id = $1", run) == (
        before
    )
    if since == "is being claimed":
        await other.execute("COMMIT")
    assert of(RunFenced, events) == [RunFenced(run, 1)]
    assert len(ending.runner.held()) == 0


async def test_the_late_end_of_a_run_that_may_start_once_changes_nothing(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    (run,) = await ending.claim(delivery="at_most_once")
    await kill(connection, ending.node)
    assert await reap(connection) == {run: "lost"}
    await ending.end([run])

    await ending.report()

    row = await history_row(connection, run)
    assert row is not None
    assert row["outcome"] == "lost"
    assert of(RunFenced, events) == [RunFenced(run, 1)]
    assert len(ending.runner.held()) == 0


async def test_a_run_that_was_claimed_anew_stays_held_when_its_last_end_is_told(
    shaky: Ending, proxy: Proxy, connection: Connection
) -> None:
    (run,) = await shaky.claim()
    await shaky.end([run], Failed("ValueError", "again", after=timedelta(0)))
    proxy.lose_answer_to("pgcron.fail_runs")
    await shaky.completer.run_once()
    await shaky.claim_due()

    await shaky.report()

    assert list(shaky.executor.executing) == [run]
    assert not shaky.runner.held()[run].is_ending
    await shaky.end([run])
    await shaky.report()
    row = await history_row(connection, run)
    assert row is not None
    assert (row["outcome"], row["attempt"]) == ("succeeded", 2)


async def test_both_ends_of_a_run_in_one_batch_are_told_apart(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    """The first one was reaped; the same node got the run again and finished it."""
    (run,) = await ending.claim()
    await connection.execute("UPDATE pgcron.run SET owner = gen_random_uuid()")
    await reap(connection)
    first = ending.executor.executing.pop(run)
    await ending.claim_due()
    ending.executor.executing[-run] = first
    await ending.end([-run])
    await ending.end([run])

    await ending.report()

    row = await history_row(connection, run)
    assert row is not None
    assert row["attempt"] == 2
    assert of(RunFenced, events) == [RunFenced(run, 1)]
    assert len(ending.runner.held()) == 0


async def test_without_a_partition_history_takes_the_overflow(
    ending: Ending, connection: Connection
) -> None:
    runs = await ending.claim(3)
    for row in await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits"
        " WHERE inhparent = 'pgcron.history'::regclass"
    ):
        await connection.execute(f"DROP TABLE {row['name']}")
    await ending.end(runs)

    await ending.report()

    kept = await connection.fetch("SELECT outcome FROM pgcron.history_overflow")
    assert [row["outcome"] for row in kept] == ["succeeded"] * 3
    assert len(ending.runner.held()) == 0


async def test_a_release_gives_the_attempt_back(
    ending: Ending, connection: Connection, events: list[Event]
) -> None:
    runs = await ending.claim(3)
    await ending.end(runs, STOPPED)

    await ending.report()

    rows = await connection.fetch("SELECT state, attempt, owner FROM pgcron.run")
    assert {tuple(row) for row in rows} == {("ready", 0, None)}
    assert await connection.fetchval("SELECT count(*) FROM pgcron.attempt") == 0
    assert [event.runs for event in events if isinstance(event, RunsReleased)] == [3]


async def test_a_run_that_may_start_once_is_given_back_only_if_it_did_not(
    ending: Ending, connection: Connection
) -> None:
    begun, fresh = await ending.claim(2, delivery="at_most_once")
    ending.executor.begin(begun, monotonic())
    await ending.end([begun, fresh], STOPPED)

    await ending.report()

    ended = await history_row(connection, begun)
    assert ended is not None
    assert ended["outcome"] == "lost"
    waiting = await run_row(connection, fresh)
    assert waiting is not None
    assert (waiting["state"], waiting["attempt"]) == ("ready", 0)


async def test_a_release_of_a_run_that_is_to_be_cancelled_ends_it(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", run)
    await ending.end([run], STOPPED)

    await ending.report()

    row = await history_row(connection, run)
    assert row is not None
    assert row["outcome"] == "cancelled"


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Failed("ValueError", "no"), "ready"),
        (Failed("Discard", "no", retry=False), "dead"),
        (Interrupted(StopReason.TIMED_OUT, "too long"), "ready"),
        (Interrupted(StopReason.LEASE_LOST, "fenced"), "ready"),
        (Interrupted(StopReason.CANCELLED, "asked"), "cancelled"),
    ],
    ids=lambda value: getattr(value, "error_class", getattr(value, "reason", value)),
)
async def test_what_did_not_succeed_is_retried_or_ends(
    outcome: Outcome, state: str, ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    await ending.end([run], outcome)

    await ending.report()

    assert await connection.fetchval("SELECT state FROM pgcron.runs WHERE id = $1", run) == state
    assert await connection.fetchval("SELECT count(*) FROM pgcron.attempt") == 1
    assert len(ending.runner.held()) == 0


async def test_an_error_text_the_database_can_not_take_is_made_takeable(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    failure = Failed("Bad\x00Error", "half \ud800 of a pair", "x" * 100_000, retry=False)
    await ending.end([run], failure)

    await ending.report()

    row = await connection.fetchrow("SELECT error_class, error, traceback FROM pgcron.attempt")
    assert row is not None
    assert row["error_class"] == "Bad\ufffdError"
    assert row["error"].startswith("half ")
    assert len(row["traceback"]) < 20_000


async def test_a_long_traceback_keeps_its_last_line(ending: Ending, connection: Connection) -> None:
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    try:
        raise ValueError("why")
    except ValueError as error:
        error.add_note("a word " * 10_000)
        error.add_note("the end of it")
        await ending.end([run], outcome_of_error(error, context))

    await ending.report()

    [row] = await connection.fetch("SELECT traceback FROM pgcron.attempt")
    assert row["traceback"].endswith("the end of it\n")


async def test_a_handler_that_asks_for_a_delay_gets_it(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    await ending.end([run], Failed("Retry", "later", after=timedelta(hours=2)))

    await ending.report()

    due = await connection.fetchval("SELECT due_at - now() FROM pgcron.run WHERE id = $1", run)
    assert timedelta(minutes=119) < due <= timedelta(hours=2)


async def test_a_flood_of_failures_is_told_in_few_lines(
    ending: Ending, events: list[Event]
) -> None:
    runs = await ending.claim(REPORTED_SINGLY + 5)
    await ending.end(runs, Failed("ValueError", "no"))

    await ending.report()

    assert len(of(RunFailed, events)) == REPORTED_SINGLY
    assert of(MoreRunsFailed, events) == [MoreRunsFailed(5)]


async def test_lines_are_written_before_the_end_that_would_refuse_them(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    for number in range(3):
        ending.recorder.write(context, "stdout", f"line {number}")
    await ending.end([run])

    await ending.report()

    rows = await connection.fetch(
        "SELECT line FROM pgcron.log WHERE run_id = $1 ORDER BY sequence", run
    )
    assert [row["line"] for row in rows] == ["line 0", "line 1", "line 2"]


async def test_failures_that_can_not_be_written_keep_no_success_from_being_told(
    ending: Ending, connection: Connection
) -> None:
    failed, done = await ending.claim(2)
    await ending.end([failed], Failed("ValueError", "no"))
    await ending.end([done])
    await until("both are heard of", lambda: len(ending.completer._pending) == 2)
    await connection.execute("ALTER TABLE pgcron.attempt RENAME TO somewhere_else")

    with pytest.raises(SchemaError):
        await ending.completer.run_once()

    row = await history_row(connection, done)
    assert row is not None
    assert row["outcome"] == "succeeded"
    assert [context.run_id for context in ending.completer._pending] == [failed]


async def test_a_database_that_is_away_leaves_everything_pending(
    ending: Ending, make_link: MakeLink, connection: Connection
) -> None:
    nowhere: Link = make_link("postgresql://nobody@127.0.0.1:1/nothing?sslmode=disable")
    lost = await begin(nowhere, connection)
    runs = await lost.claim(2)
    await lost.end(runs)

    with pytest.raises(Exception, match="can't be reached"):
        await lost.completer.run_once()

    assert len(lost.runner.held()) == 2
    assert lost.completer._pending


async def test_ten_thousand_ends_are_kept_while_the_database_is_away_and_told_once(
    make_link: MakeLink, server: ThrowAwayServer, database: str, connection: Connection
) -> None:
    count = 10 * BATCH
    async with NetworkOfANode(server.folder / f".s.PGSQL.{server.port}") as network:
        name = database.partition("?")[0].rpartition("/")[2]
        dsn = f"postgresql://postgres:any@127.0.0.1:{network.port}/{name}?sslmode=disable"
        link = make_link(dsn, joins_by_hash=True)
        await link.rows("channel")
        far = await begin(link, connection)
        runs = await far.claim(count)
        network.is_refusing = True
        network.reset()
        await far.end(runs)

        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                await far.completer.run_once()
        assert len(far.runner.held()) == count
        network.heal()
        await far.completer.run_once()
        network.lose_answers(1)
        await far.report()

    ended = await connection.fetch("SELECT id, attempt, outcome FROM pgcron.history ORDER BY id")
    assert [tuple(row) for row in ended] == [(run, 1, "succeeded") for run in runs]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    assert len(far.runner.held()) == 0


@pytest.mark.parametrize("state", ["53100", "53200", "58030", "XX000"])
async def test_a_server_that_can_not_store_an_end_is_waited_for_and_costs_no_run(
    state: str, ending: Ending, connection: Connection, events: list[Event]
) -> None:
    await connection.execute(
        "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE 'no room for it' USING ERRCODE = '{state}'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON pgcron.history"
        " FOR EACH ROW EXECUTE FUNCTION public.full_disk()"
    )
    runs = await ending.claim(3)
    await ending.end(runs)

    with pytest.raises(DatabaseUnavailable, match="no room for it"):
        await ending.completer.run_once()
    assert len(ending.runner.held()) == 3
    await connection.execute("DROP TRIGGER full_disk ON pgcron.history")
    await ending.report()

    outcomes = await connection.fetch("SELECT outcome FROM pgcron.history")
    assert [row["outcome"] for row in outcomes] == ["succeeded"] * 3
    assert of(RunFailed, events) == []
