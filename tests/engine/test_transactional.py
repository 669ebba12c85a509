"""Runs whose effects and completion are one transaction: executor, database and completer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from pgcron_ha.errors import Conflict, InvalidInput
from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Committed,
    Context,
    Doubtful,
    ExecutorServices,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
)
from tests.db.control import (
    Connection,
    call,
    claim,
    enqueue,
    history_row,
    join,
    kill,
    reap,
    run_row,
)
from tests.engine.conftest import MakeLink
from tests.engine.proxy import Proxy
from tests.product.db import Isolation, Link, Transactions
from tests.product.engine import Completer, Recorder, Runner
from tests.product.executors import PythonExecutor, PythonHandler
from tests.waiting import until

HANDLER = "py:work"
GATE = 4713
NOTE = "INSERT INTO public.note VALUES ($1)"


class Stage:
    """A runner, a Python executor and a completer; the handler is the test's."""

    def __init__(self, link: Link, connection: Connection) -> None:
        self.connection = connection
        self.link = link
        self.outcomes: dict[int, Outcome] = {}
        self.contexts: dict[int, Context] = {}
        self.recorder = Recorder(link)
        self.runner = Runner(16, lambda: True, lambda batch: self.completer.add(batch))
        self.completer = Completer(link, "a node", self.runner, self.recorder, lambda: None)
        self.executor: PythonExecutor | None = None

    def offer(self, function: Callable[..., Any], dsn: str, most: int = 4) -> None:
        def done(context: Context, outcome: Outcome) -> None:
            self.outcomes[context.run_id] = outcome
            self.runner.done(context, outcome)

        self.executor = PythonExecutor(
            {"work": PythonHandler("work", function)},
            ExecutorServices(
                *(done, self.runner.feed_for("py"), self.recorder, 16),
                flush=self.recorder.flush_from_thread,
            ),
            transactions=Transactions(dsn, most, node="a node"),
        )
        self.runner.use({"py": self.executor})

    async def start(self, count: int = 1, **columns: Any) -> list[int]:
        """So many transactional runs are claimed and begun."""
        await enqueue(self.connection, count, **{"delivery": "transactional", **columns})
        self.node = await join(self.connection)
        rows = await claim(self.connection, self.node, count)
        assert len(rows) == count
        self.runner.accept(rows)
        self.contexts |= {each.run_id: each for each in self.runner.contexts()}
        return sorted(row["id"] for row in rows)

    async def outcome(self, run: int) -> Outcome:
        """What the executor says, before the completer has told it."""
        await until(f"run {run} has ended", lambda: run in self.outcomes)
        return self.outcomes[run]

    async def report(self) -> None:
        """The completer has told everything."""
        await until("the completer heard of it", lambda: self.completer._pending)
        while self.completer._pending:
            await self.completer.run_once()

    async def close(self) -> None:
        if self.executor is not None:
            await self.executor.close(5)


@pytest.fixture
async def stage(make_link: MakeLink, connection: Connection) -> AsyncIterator[Stage]:
    await connection.execute(f"""
        CREATE TABLE public.note (text text);
        CREATE FUNCTION public.be_slow() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.note DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW WHEN (NEW.text LIKE 'slow%') EXECUTE FUNCTION public.be_slow();
    """)
    stage = Stage(make_link(joins_by_hash=True), connection)
    yield stage
    await stage.close()


async def notes(connection: Connection) -> list[str]:
    return [row["text"] for row in await connection.fetch("SELECT text FROM public.note")]


async def notes_of(
    stage: Stage, function: Callable[..., Awaitable[Any]] | Callable[..., Any], dsn: str
) -> tuple[int, Outcome, list[str]]:
    """One run of this handler to its end: its id, its outcome, and what it left."""
    stage.offer(function, dsn)
    [run] = await stage.start()
    outcome = await stage.outcome(run)
    return run, outcome, await notes(stage.connection)


async def test_effects_and_completion_are_committed_at_once(stage: Stage, database: str) -> None:
    loop = asyncio.get_running_loop()

    async def work(context: Context) -> dict[str, int]:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
            seen = asyncio.run_coroutine_threadsafe(notes(stage.connection), loop)
            assert await asyncio.wrap_future(seen) == []
        async with context.connection() as own:
            await own.execute(NOTE, "two")
        return {"rows": 2}

    run, outcome, left = await notes_of(stage, work, database)

    assert outcome == Committed({"rows": 2}, '{"rows":2}')
    assert left == ["one", "two"]
    ended = await history_row(stage.connection, run)  # although nothing told the completer yet
    assert ended is not None
    assert (ended["outcome"], ended["node"], ended["result"]) == (
        "succeeded",
        "a node",
        '{"rows": 2}',
    )
    await stage.report()
    assert len(stage.runner.held()) == 0


async def test_a_plain_function_has_it_too(stage: Stage, database: str) -> None:
    def work(context: Context) -> int:
        with context.connection() as own:
            own.execute(NOTE, "one")
            own.executemany(NOTE, [("two",), ("three",)])
            assert own.fetchrow("SELECT 1 AS one")["one"] == 1
            assert len(own.fetch("SELECT * FROM public.note")) == 3
            return int(own.fetchval("SELECT count(*) FROM public.note"))

    run, outcome, left = await notes_of(stage, work, database)

    assert outcome == Committed(3, "3")
    assert left == ["one", "two", "three"]
    assert await run_row(stage.connection, run) is None


async def test_a_handler_that_fails_leaves_nothing(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
        raise ValueError("too late")

    run, outcome, left = await notes_of(stage, work, database)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("ValueError", True)
    assert left == []
    await stage.report()
    row = await run_row(stage.connection, run)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 1)


async def test_a_result_that_can_not_be_kept_undoes_the_effects(
    stage: Stage, database: str
) -> None:
    async def work(context: Context) -> object:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
        return object()

    _, outcome, left = await notes_of(stage, work, database)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, left) == ("InvalidResult", [])


async def test_a_handler_that_never_asks_is_completed_as_any_other(
    stage: Stage, database: str
) -> None:
    async def work(context: Context) -> None:
        pass

    run, outcome, _ = await notes_of(stage, work, database)

    assert outcome is SUCCEEDED
    await stage.report()
    assert await history_row(stage.connection, run) is not None


async def test_a_zombie_can_not_commit(stage: Stage, database: str) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(context: Context) -> None:
        with context.connection() as own:
            own.execute(NOTE, "of a zombie")
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(10)

    stage.offer(work, database)
    [run] = await stage.start()
    await begun.wait()
    await kill(stage.connection, stage.node)
    assert await reap(stage.connection) == {run: "retry"}
    await claim(stage.connection, await join(stage.connection))
    go_on.set()

    outcome = await stage.outcome(run)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "Fenced"
    await stage.report()
    assert await notes(stage.connection) == []
    row = await run_row(stage.connection, run)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("running", 2)


@pytest.mark.parametrize(("lost", "is_committed"), [("COMMIT", True), ("finish_run", False)])
async def test_a_lost_answer_is_looked_up_and_never_done_twice(
    lost: str, is_committed: bool, stage: Stage, database: str, proxy: Proxy
) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
        proxy.lose_answer_to(lost)

    stage.offer(work, proxy.dsn(database))
    [run] = await stage.start()

    assert isinstance(await stage.outcome(run), Doubtful)
    await stage.report()
    assert proxy.lost_answers == 1
    assert await notes(stage.connection) == (["one"] if is_committed else [])
    row = await run_row(stage.connection, run)
    if is_committed:
        assert row is None
        assert await history_row(stage.connection, run) is not None
        assert await stage.connection.fetchval("SELECT count(*) FROM pgcron.attempt") == 0
    else:
        assert row is not None
        assert (row["state"], row["last_error"] is not None) == ("ready", True)
    assert len(stage.runner.held()) == 0


async def test_a_stop_that_comes_during_the_commit_cancels_nothing(
    stage: Stage, database: str, proxy: Proxy
) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "slow")

    await stage.connection.execute(f"SELECT pg_advisory_lock({GATE})")
    stage.offer(work, proxy.dsn(database))
    [run] = await stage.start()
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    await until("it commits", lambda: stage.connection.fetchval(waiting))
    stage.runner.stop(run, StopReason.CANCELLED)
    await stage.connection.execute(f"SELECT pg_advisory_unlock({GATE})")

    assert type(await stage.outcome(run)) is Committed
    assert proxy.cancel_requests == 0
    assert await notes(stage.connection) == ["slow"]


async def test_a_stop_before_the_end_leaves_nothing(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
            await own.execute("SELECT pg_sleep(30)")

    await assert_stopped(stage, database, work)


async def test_a_plain_function_that_waits_for_the_database_is_stopped(
    stage: Stage, database: str
) -> None:
    def work(context: Context) -> None:
        with context.connection() as own:
            own.execute(NOTE, "one")
            own.execute("SELECT pg_sleep(30)")

    await assert_stopped(stage, database, work)


async def assert_stopped(stage: Stage, database: str, work: Callable[..., Any]) -> None:
    stage.offer(work, database)
    [run] = await stage.start()
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    await until("it sleeps", lambda: stage.connection.fetchval(sleeping))
    stage.runner.stop(run, StopReason.CANCELLED)

    assert type(await stage.outcome(run)) is Interrupted
    assert await notes(stage.connection) == []
    assert await stage.connection.fetchval(sleeping) == 0


async def test_a_failed_block_leaves_nothing_and_earlier_ones_as_they_were(
    stage: Stage, database: str
) -> None:
    async def work(context: Context) -> None:
        for text in ("first fails", "kept", "fails", "kept too"):
            try:
                async with context.connection() as own:
                    await own.execute(NOTE, text)
                    if "fails" in text:
                        await own.execute("SELECT 1/0")
            except asyncpg.DivisionByZeroError:
                pass

    _, outcome, left = await notes_of(stage, work, database)

    assert type(outcome) is Committed
    assert left == ["kept", "kept too"]


async def test_an_error_that_was_swallowed_inside_a_block_fails_the_run(
    stage: Stage, database: str
) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
            try:
                await own.execute("SELECT 1/0")
            except asyncpg.PostgresError:
                pass

    _, outcome, left = await notes_of(stage, work, database)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, left) == ("InFailedSQLTransactionError", [])


@pytest.mark.parametrize("end", ["COMMIT", "COMMIT; BEGIN", "COMMIT AND CHAIN", "ABORT; BEGIN"])
@pytest.mark.parametrize("isolation", ["read_committed", "serializable"])
async def test_a_handler_that_ends_the_transaction_itself_fails_for_good(
    stage: Stage, database: str, end: str, isolation: Isolation
) -> None:
    async def work(context: Context) -> None:
        async with context.connection(isolation) as own:
            await own.execute(NOTE, "one")
            await own.execute(end)

    _, outcome, _ = await notes_of(stage, work, database)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("TransactionEnded", False)


async def test_the_connection_is_used_by_one_block_at_a_time(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            with pytest.raises(Conflict, match="in use"):
                await context.connection().__aenter__()
            await own.execute(NOTE, "one")
        with pytest.raises(InvalidInput, match="isolation 'serializable' after"):
            await context.connection("serializable").__aenter__()
        with pytest.raises(InvalidInput, match="event loop"):
            context.connection().__enter__()
        with pytest.raises(InvalidInput, match="isolation 'none' is not known"):
            context.connection("none")  # type: ignore[arg-type]

    _, outcome, left = await notes_of(stage, work, database)

    assert (type(outcome), left) == (Committed, ["one"])


async def test_only_transactional_runs_have_one(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        context.connection()

    stage.offer(work, database)
    [run] = await stage.start(delivery="at_least_once")

    outcome = await stage.outcome(run)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "InvalidInput"
    assert outcome.message.endswith("its delivery is at_least_once")


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_run_that_lasts_is_marked_as_begun_without_harm(
    isolation: Any, stage: Stage, database: str
) -> None:
    loop = asyncio.get_running_loop()
    begun, go_on = asyncio.Event(), threading.Event()

    def work(context: Context) -> None:
        with context.connection(isolation) as own:
            own.execute(NOTE, "one")
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(10)

    stage.offer(work, database)
    [run] = await stage.start()
    await begun.wait()
    token = stage.contexts[run].token
    await call(
        stage.connection, "mark_started", run_ids=[run], tokens=[token], elapsed_seconds=[1.0]
    )
    go_on.set()

    assert type(await stage.outcome(run)) is Committed


async def test_no_more_connections_than_allowed_are_used(stage: Stage, database: str) -> None:
    most_seen = []

    async def work(context: Context) -> None:
        async with context.connection() as own:
            most_seen.append(
                await own.fetchval(
                    # Not the sessions that look for a pooler, as a node does when it starts.
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name = 'pgcron_ha handler'"
                )
            )

    stage.offer(work, database, most=2)
    for run in await stage.start(16):
        assert type(await stage.outcome(run)) is Committed
    assert max(most_seen) <= 2


async def test_nothing_of_a_session_reaches_the_next_run(stage: Stage, database: str) -> None:
    found = []

    async def work(context: Context) -> None:
        async with context.connection() as own:
            found.append(
                await own.fetchval(
                    "SELECT concat_ws('|', pg_backend_pid(), current_setting('search_path'),"
                    " current_user, to_regclass('pg_temp.mine'),"
                    " current_setting('idle_in_transaction_session_timeout'))"
                )
            )
            await own.execute(
                "SET search_path = nowhere; CREATE TEMP TABLE mine (x int);"
                " SET SESSION AUTHORIZATION pg_monitor"
            )
            await own.execute("RESET SESSION AUTHORIZATION; SET ROLE pg_monitor; RESET ROLE")

    stage.offer(work, database, most=1)
    for run in await stage.start(3):
        assert type(await stage.outcome(run)) is Committed
    assert len(set(found)) == 1
    assert found[0].endswith("|postgres|1min")


async def test_lines_are_written_before_the_run_leaves(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")
        print("the last line", end="")

    run, outcome, _ = await notes_of(stage, work, database)

    assert type(outcome) is Committed
    lines = await stage.connection.fetch("SELECT line FROM pgcron.log WHERE run_id = $1", run)
    assert [row["line"] for row in lines] == ["the last line"]


async def test_a_database_that_is_away_fails_the_attempt(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute(NOTE, "one")

    _, outcome, _ = await notes_of(stage, work, "postgresql://u@127.0.0.1:1/nothing")

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("DatabaseUnavailable", True)
