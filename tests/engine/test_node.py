from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pgcron_ha import App, Retry
from pgcron_ha.errors import ConfigError, PgcronError
from pgcron_ha.executors.contract.base import Context
from tests.db import control
from tests.db.control import Connection
from tests.engine.proxy import Proxy
from tests.product.config import AuditSettings, Settings, load_settings, read_sources
from tests.product.db import connect, why_run_waits
from tests.product.engine import Node
from tests.product.engine import admission as admissions
from tests.product.telemetry import Event, NodeLeft, RunsReleased
from tests.waiting import slowness, until

# About 1.6 over a minute; passes of several services may fall into the window together.
IDLE_STATEMENTS_A_SECOND = 2.5
IDLE_WINDOW_SECONDS = 20.0
"""Long enough that one pass of upkeep more or less (nine statements) does not matter."""
LOST_ANSWERS = 10
# Two on a machine that has room.
GOES_ON_SECONDS = 5.0

Start = Callable[..., Any]


class Handlers:
    """An App, and what its handlers have seen."""

    def __init__(self) -> None:
        self.app = App()
        self.calls: Counter[int] = Counter()
        self.threads: set[str] = set()
        self.go_on = threading.Event()
        self.batches: list[int] = []
        self.app.handler("fine")(self.fine)
        self.app.handler("many", batch=100)(self.many)
        self.app.handler("plain")(self.plain)
        self.app.handler("waits")(self.waits)
        self.app.handler("endless")(self.endless)

    async def fine(self, ctx: Context, number: int = 0) -> dict[str, int]:
        self._saw(ctx)
        print(f"number {number}")
        return {"doubled": 2 * number}

    async def many(self, batch: list[Context]) -> list[Any]:
        self.batches.append(len(batch))
        for run in batch:
            self._saw(run)
        return [
            Retry(0.1, "odd") if run.args["number"] == 7 and run.attempt == 1 else str(run.args)
            for run in batch
        ]

    def plain(self, ctx: Context, number: int = 0) -> int:
        self._saw(ctx)
        return number

    def waits(self, ctx: Context) -> None:
        self._saw(ctx)
        self.go_on.wait(30)

    async def endless(self, ctx: Context) -> None:
        self._saw(ctx)
        await asyncio.Event().wait()

    def _saw(self, ctx: Context) -> None:
        self.calls[ctx.run_id] += 1
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Callable[..., Settings]:
    def make(dsn: str = database, **flags: Any) -> Settings:
        given = {f"node.{key}": value for key, value in flags.items()}
        given |= {"dsn": dsn, "node.name": "n1", "node.state_directory": str(tmp_path)}
        return load_settings(read_sources(environment={}, flags=given))

    return make


@asynccontextmanager
async def living(settings: Settings, handlers: Handlers) -> AsyncIterator[Node]:
    """A node in this process, stopped in order at the end."""
    node = Node(settings, [handlers.app], "0")
    task = asyncio.create_task(node.run())
    try:
        await until("the node may claim", lambda: task.done() or _may_claim(node))
        yield node
    finally:
        node.stop()
        handlers.go_on.set()
        await asyncio.wait_for(task, 30)


def _may_claim(node: Node) -> bool:
    return hasattr(node, "session") and node.session.may_claim()


async def state_of(connection: Connection, run: int) -> str | None:
    found: str | None = await connection.fetchval(
        "SELECT state FROM pgcron.runs WHERE id = $1", run
    )
    return found


def is_in(connection: Connection, run: int, state: str) -> Callable[[], Awaitable[bool]]:
    """A condition to wait for."""

    async def ask() -> bool:
        return await state_of(connection, run) == state

    return ask


async def test_async_and_plain_handlers_run_and_their_results_and_lines_are_kept(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(), handlers):
        (fine,) = await control.enqueue(connection, handler="py:fine", args='{"number": 21}')
        (plain,) = await control.enqueue(connection, handler="py:plain", args='{"number": 7}')
        await until("both succeed", is_in(connection, fine, "succeeded"))
        await until("both succeed", is_in(connection, plain, "succeeded"))

    rows = {row["id"]: row["result"] for row in await connection.fetch("TABLE pgcron.history")}
    assert rows == {fine: '{"doubled": 42}', plain: "7"}
    assert await connection.fetchval("SELECT line FROM pgcron.log") == "number 21"
    assert handlers.calls == {fine: 1, plain: 1}
    assert threading.current_thread().name not in handlers.threads


async def test_a_burst_ends_completely_and_each_run_once(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    runs = await control.enqueue(connection, 3000, handler="py:fine")
    async with living(settings(), handlers):
        await until("all have ended", partial(_count_history, connection, 3000))

    assert handlers.calls == dict.fromkeys(runs, 1)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    assert await connection.fetchval("SELECT max(attempt) FROM pgcron.history") == 1
    assert await connection.fetchval("SELECT count(*) FROM pgcron.log") == 3000


async def test_a_schedule_fires_without_anybody_asking(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(), handlers):
        await control.put_schedule(connection, spec="* * * * * *", handler="py:fine")
        await until("three fires have run", partial(_count_history, connection, 3))

    delay = await connection.fetchval(
        "SELECT max(extract(epoch FROM started_at - scheduled_for)) FROM pgcron.history"
    )
    assert delay >= 0


async def test_a_node_that_is_stopped_lets_its_runs_end_and_gives_the_others_back(
    settings: Start, handlers: Handlers, connection: Connection, events: list[Event]
) -> None:
    async with living(settings(slots=2), handlers) as node:
        runs = await control.enqueue(connection, 2, handler="py:waits")
        await until("both execute", lambda: len(handlers.calls) == 2)
        (late,) = await control.enqueue(connection, handler="py:fine")
        node.stop()
        await until("it drains", lambda: node.session.is_draining)
        handlers.go_on.set()

    for run in runs:
        assert await state_of(connection, run) == "succeeded"
    row = await control.run_row(connection, late)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 0)
    left = await connection.fetchrow("SELECT state, ended_because FROM pgcron.node")
    assert left is not None
    assert tuple(left) == ("dead", "stopped in order")
    assert events[-1] == NodeLeft("n1", "stopped")


async def test_what_outlasts_the_grace_is_given_back_with_its_attempt(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(grace="100ms"), handlers):
        (run,) = await control.enqueue(connection, handler="py:endless")
        await until("it executes", lambda: handlers.calls[run] == 1)

    row = await control.run_row(connection, run)
    assert row is not None
    assert (row["state"], row["attempt"], row["owner"]) == ("ready", 0, None)


async def test_a_running_run_is_cancelled(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(), handlers):
        (run,) = await control.enqueue(connection, handler="py:endless")
        await until("it executes", lambda: handlers.calls[run] == 1)
        await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", run)

        await until("it is cancelled", is_in(connection, run, "cancelled"))


def given_back(events: list[Event]) -> bool:
    reasons = [event.reason for event in events if isinstance(event, RunsReleased)]
    return "the answer to their claim never came" in reasons


async def test_a_claim_whose_answer_got_lost_is_given_back_and_runs_once(
    settings: Start,
    handlers: Handlers,
    connection: Connection,
    proxy: Proxy,
    database: str,
    events: list[Event],
) -> None:
    async with living(settings(proxy.dsn(database), lease_ttl="3s"), handlers):
        # A poll between the two lines loses an answer that gave nothing; the next one is tried.
        for _ in range(LOST_ANSWERS):
            proxy.lose_answer_to("pgcron.claim(")
            (run,) = await control.enqueue(connection, handler="py:fine")
            await until("it succeeds", is_in(connection, run, "succeeded"))
            assert handlers.calls[run] == 1
            if given_back(events):
                break

    row = await control.history_row(connection, run)
    assert row is not None
    assert row["attempt"] == 1
    assert given_back(events)


async def test_a_claim_whose_answer_got_lost_can_be_cancelled(
    settings: Start, handlers: Handlers, connection: Connection, proxy: Proxy, database: str
) -> None:
    """A run with a cancel request is not given back; without a holder nobody else would end it."""
    async with living(settings(proxy.dsn(database), lease_ttl="3s"), handlers):
        for _ in range(LOST_ANSWERS):  # the answer that gets lost may be of a claim that had no run
            proxy.lose_answer_to("pgcron.claim(")
            (run,) = await control.enqueue(connection, handler="py:endless")
            await until("it is claimed", is_in(connection, run, "running"))
            assert await connection.fetchval("SELECT pgcron.cancel_run($1)", run) == "requested"
            await until("it is cancelled", is_in(connection, run, "cancelled"))
            if not handlers.calls[run]:
                break

    assert handlers.calls[run] == 0


async def test_after_a_failover_nothing_is_claimed_for_a_lease_although_the_node_lives_on(
    settings: Start, handlers: Handlers, connection: Connection, proxy: Proxy, database: str
) -> None:
    """The promoted server may lack claims that some node still executes. No node joins it anew, as
    all were quick enough to keep their lease.
    """
    async with living(settings(proxy.dsn(database), lease_ttl="2s"), handlers) as node:
        incarnation = node.session.incarnation
        await connection.execute("UPDATE pgcron.cluster SET timeline = timeline + 1")
        proxy.reset()
        (run,) = await control.enqueue(connection, handler="py:fine")
        await until("it succeeds", is_in(connection, run, "succeeded"))

        assert node.session.incarnation == incarnation
    row = await control.history_row(connection, run)
    quarantine = await connection.fetchval("SELECT quarantine_until FROM pgcron.cluster")
    assert row is not None
    assert row["claimed_at"] >= quarantine > row["created_at"]


async def test_a_node_outlives_breaks_of_all_its_connections(
    settings: Start, handlers: Handlers, connection: Connection, proxy: Proxy, database: str
) -> None:
    async with living(settings(proxy.dsn(database)), handlers) as node:
        incarnation = node.session.incarnation
        for _ in range(5):
            (run,) = await control.enqueue(connection, handler="py:fine")
            proxy.reset()
            await until("it succeeds", is_in(connection, run, "succeeded"))

        assert node.session.incarnation == incarnation
    assert set(handlers.calls.values()) == {1}


@pytest.mark.long
async def test_an_idle_node_sends_few_statements(
    settings: Start,
    handlers: Handlers,
    connection: Connection,
    proxy: Proxy,
    database: str,
    record_property: Callable[[str, object], None],
) -> None:
    async with living(settings(proxy.dsn(database)), handlers):
        await until("it is idle", partial(_is_idle, connection))
        await until(
            "it has swept",
            lambda: any("pgcron.history_overflow" in each for each in proxy.commands),
        )
        began = time.monotonic()
        before = len(proxy.commands)
        await until("the window is over", lambda: time.monotonic() - began > IDLE_WINDOW_SECONDS)
        sent = proxy.commands[before:]

    rate = len(sent) / IDLE_WINDOW_SECONDS
    record_property("idle_statements_a_second", rate)
    assert rate <= IDLE_STATEMENTS_A_SECOND, Counter(each[:60] for each in sent)


async def test_a_database_without_the_schema_is_one_clear_error(
    settings: Start, handlers: Handlers, empty_database: str
) -> None:
    node = Node(settings(empty_database), [handlers.app])

    with pytest.raises(PgcronError, match="not in this database"):
        await node.run()


@pytest.mark.parametrize("wrong", ["a weight", "a breaker", "the webhook of the audit"])
async def test_a_node_that_can_not_be_built_leaves_no_executor_at_work(
    wrong: str, settings: Start, handlers: Handlers, connection: Connection
) -> None:
    given = settings(slots=2)
    if wrong == "a weight":
        handlers.app.handler("heavy", weight=3)(handlers.fine)
    elif wrong == "a breaker":
        handlers.app.handler("guarded", breaker="py:fine")(handlers.fine)
    else:
        given = replace(given, audit=AuditSettings("http://192.0.2.1/audit", None, False))
    before = set(threading.enumerate())

    with pytest.raises(ConfigError):
        await Node(given, [handlers.app]).run()

    left = set(threading.enumerate()) - before
    assert [each.name for each in left if each.name.startswith("pgcron")] == []


async def _count_history(connection: Connection, count: int) -> bool:
    found: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
    )
    return found >= count


async def _is_idle(connection: Connection) -> bool:
    return bool(await connection.fetchval("SELECT bool_and(is_idle) FROM pgcron.node"))


async def test_a_cordoned_node_ends_what_it_runs_and_gives_the_rest_back(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(slots=1), handlers) as node:
        runs = await control.enqueue(connection, 2, handler="py:waits")
        await until("one runs", lambda: len(handlers.calls) == 1)
        await connection.execute("SELECT pgcron.cordon_node('n1', 'a new disk', 'ann')")
        await until("the node knows", lambda: node.session.is_cordoned)
        later = await control.enqueue(connection, handler="py:fine")
        await until("it waits for others", is_in(connection, runs[1], "ready"))
        assert not node.session.may_claim()
        assert node.look().is_cordoned
        assert node.look().not_ready_because is None

        handlers.go_on.set()
        await until("what ran ends", is_in(connection, runs[0], "succeeded"))
        assert [run for run in runs + later if run in handlers.calls] == runs[:1]

        await connection.execute("SELECT pgcron.uncordon_node('n1', 'ann')")
        for run in (runs[1], *later):
            await until("the others run", is_in(connection, run, "succeeded"))


async def test_what_was_blocked_for_want_of_a_node_goes_on_when_that_is_uncordoned(
    settings: Start, handlers: Handlers, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: no sweep has to come."""
    monkeypatch.setattr(admissions, "SWEEP_SECONDS", 3600.0)
    async with living(settings(), handlers) as node:
        await connection.execute("SELECT pgcron.cordon_node('n1')")
        await until("the node knows", lambda: node.session.is_cordoned)
        [run] = await control.enqueue(
            connection, handler="py:fine", state="blocked", gate="no_node"
        )

        await connection.execute("SELECT pgcron.uncordon_node('n1')")

        await until("it runs", is_in(connection, run, "succeeded"))


async def test_only_a_node_with_the_labels_runs_what_requires_them(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    async with living(settings(), handlers):
        run = await handlers.app.enqueue("fine", requires={"gpu": "a100"}, conn=connection)
        blocked = "SELECT gate FROM pgcron.run WHERE id = $1"

        async def is_blocked() -> bool:
            return bool(await connection.fetchval(blocked, run) == "no_node")

        await until("nobody has them", is_blocked)
        said = await why_run_waits(connection, run)
        assert said is not None
        assert said.startswith("needs gpu=a100: no live node that offers 'py:fine'")

    async with living(settings(labels=["gpu=a100"]), handlers):
        await until("somebody has them", is_in(connection, run, "succeeded"))


async def test_a_node_whose_executor_serves_nobody_any_more_ends(
    settings: Start, handlers: Handlers
) -> None:
    node = Node(settings(), [handlers.app], "0")
    task = asyncio.create_task(node.run())
    await until("the node may claim", lambda: task.done() or _may_claim(node))
    node.runner.executor_failed(RecursionError("too deep"))
    with pytest.raises(PgcronError, match="a thread that executes runs has ended") as ended:
        await asyncio.wait_for(task, 30)
    assert ended.value.detail == "RecursionError: too deep"


@pytest.mark.parametrize("table", ["run", "history", "node"])
async def test_a_locked_table_ends_no_node_and_all_goes_on_after_it(
    settings: Start, handlers: Handlers, connection: Connection, table: str
) -> None:
    async with living(settings(), handlers) as node:
        [held] = await control.enqueue(connection, handler="py:waits")
        await until("it runs", is_in(connection, held, "running"))
        holder = await connect(settings().required_dsn())
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute(f"LOCK TABLE pgcron.{table} IN SHARE ROW EXCLUSIVE MODE")
        handlers.go_on.set()
        pid = await holder.fetchval("SELECT pg_backend_pid()")
        if table != "node":
            await until("its holder is named", lambda: f"session {pid}" in (_health(node) or ""))
            await until("it was tried again", lambda: '"tries": 3' in (_health(node) or ""))
        await transaction.rollback()
        released = time.monotonic()
        await holder.close()
        await until("it ends", is_in(connection, held, "succeeded"))
        assert table == "node" or time.monotonic() - released < GOES_ON_SECONDS * slowness()


def _health(node: Node) -> str | None:
    return node._health.text


async def test_a_backlog_is_taken_in_few_calls_and_each_run_has_its_own_outcome(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    queued = {}
    for number in range(1, 41):
        args = f'{{"number": {number}}}'
        (queued[number],) = await control.enqueue(connection, handler="py:many", args=args)

    async with living(settings(), handlers):
        for run in queued.values():
            await until("it succeeds", is_in(connection, run, "succeeded"))

    odd = queued.pop(7)
    assert handlers.calls[odd] == 2
    assert {handlers.calls[run] for run in queued.values()} == {1}
    assert sum(handlers.batches) == 41
    assert len(handlers.batches) <= 10
    row = await control.history_row(connection, queued[40])
    assert row is not None
    assert "40" in row["result"]


async def test_history_keeps_of_a_success_what_its_handler_says(
    settings: Start, handlers: Handlers, connection: Connection
) -> None:
    keep: dict[str, Any] = {"keep_args": False, "keep_result": False}
    app = handlers.app
    app.handler("secret", **keep)(lambda pin: pin)
    app.handler("secrets", batch=10, **keep)(lambda batch: [run.args["pin"] for run in batch])

    @app.handler("secret_once", **keep)
    async def secret_once(ctx: Context, pin: int) -> int:
        async with ctx.connection() as ours:
            await ours.execute("SELECT 1")
        return pin

    @app.handler("broken", max_attempts=1, **keep)
    async def broken(pin: int) -> None:
        raise ValueError("no")

    names = ("fine", "secret", "secrets", "secret_once", "broken")
    async with living(settings(), handlers):
        runs = {
            name: await connection.fetchval(
                "SELECT pgcron.enqueue($1, $2, delivery => $3, max_attempts => 1)",
                f"py:{name}",
                '{"number": 1}' if name == "fine" else '{"pin": 1234}',
                "transactional" if name == "secret_once" else "at_least_once",
            )
            for name in names
        }
        for name, run in runs.items():
            state = "dead" if name == "broken" else "succeeded"
            await until(f"{name} has ended", is_in(connection, run, state))
        kept = {name: tuple(await connection.fetchrow(_KEPT, runs[name]) or ()) for name in names}
        with pytest.raises(asyncpg.PostgresError, match="can't be run again") as refused:
            await connection.execute("SELECT pgcron.retry_run($1)", runs["secret"])
        again = await connection.fetchval("SELECT pgcron.redrive($1)", runs["broken"])

    assert kept == {
        "fine": ("succeeded", '{"number": 1}', '{"doubled": 2}'),
        "secret": ("succeeded", None, None),
        "secrets": ("succeeded", None, None),
        "secret_once": ("succeeded", None, None),
        "broken": ("dead", '{"pin": 1234}', None),
    }
    assert refused.value.sqlstate == "PC011"
    assert again > runs["broken"]


_KEPT = "SELECT state, args, result FROM pgcron.runs WHERE id = $1"
