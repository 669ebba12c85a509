"""Waiting for runs and for their results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import psycopg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import (
    DatabaseUnavailable,
    NotFound,
    PgcronError,
    RunCancelled,
    RunFailed,
    RunNotStarted,
    RunNotSucceeded,
    WaitTimedOut,
)
from tests.db import control
from tests.product.client import Notifications, Waiting
from tests.product.db import Link
from tests.waiting import until, wait_for


async def test_the_result_comes_when_the_run_has_succeeded(
    database: str, connection: control.Connection
) -> None:
    node = await control.join(connection)
    async with App(database) as app:
        run = await app.enqueue(control.HANDLER)
        waiting = [asyncio.ensure_future(run.result(timeout=60)) for _ in range(3)]
        waiting.append(asyncio.ensure_future(app.result(int(run))))
        await control.finish(connection, await control.claim(connection, node, 1))

        assert await asyncio.gather(*waiting) == [{"fine": True}] * 4
        assert await run.result() == {"fine": True}
        assert (await run.wait()).outcome == (await run.status()).outcome == "succeeded"


def test_programs_without_an_event_loop_wait_and_cancel(database: str) -> None:
    app = App(database)

    def in_a_thread(number: int) -> tuple[str, str]:
        run = app.sync(app.enqueue("report"))
        with pytest.raises(WaitTimedOut):
            app.sync(app.result(run, timeout=0.005 * number))
        verdict = app.sync(app.cancel_run(run, "not needed"))
        with pytest.raises(RunCancelled, match="not needed"):
            app.sync(app.result(run, timeout=60))
        return verdict, app.sync(app.run(run)).state

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(in_a_thread, range(12))) == [("cancelled", "cancelled")] * 12
    with psycopg.connect(database) as other:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgcron_ha%'"
        wait_for("its connections are closed", lambda: other.execute(ours).fetchone() == (0,))


async def test_an_enqueued_run_is_the_number_that_it_was(database: str) -> None:
    async with App(database) as app, await psycopg.AsyncConnection.connect(database) as other:
        run = await app.enqueue("report")
        cursor = await other.execute("SELECT id FROM pgcron.run WHERE id = %s", [run])

        assert await cursor.fetchall() == [(run,)]
        assert json.dumps([run]) == f"[{run}]" == str([run])
        assert int(run) in {run}


async def test_who_waited_long_enough_is_told_that_the_run_goes_on(database: str) -> None:
    async with App(database) as app:
        run = await app.enqueue("report")

        with pytest.raises(WaitTimedOut, match=r"not over after 0\.05 s"):
            await run.result(timeout=0.05)
        with pytest.raises(TimeoutError):
            await app.wait(run, timeout=0)
        with pytest.raises(NotFound):
            await app.result(run + 1)


async def test_each_other_end_has_its_error(database: str, connection: control.Connection) -> None:
    outcomes: dict[str, type[RunNotSucceeded]] = {
        "dead": RunFailed,
        "lost": RunFailed,
        "upstream_failed": RunFailed,
        "cancelled": RunCancelled,
        "skipped": RunNotStarted,
        "superseded": RunNotStarted,
        "expired": RunNotStarted,
    }
    await connection.execute(
        "INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, "
        "outcome, attempt, due_at, created_at, created_by, error) SELECT number, gen_random_uuid(),"
        " 'enqueued', 'default', 5, 'py:x', '{}', 'at_least_once', outcome, 1, now(), now(), 'me',"
        " 'no paper' FROM unnest($1::text[]) WITH ORDINALITY ended(outcome, number)",
        list(outcomes),
    )
    async with App(database) as app:
        for number, (outcome, kind) in enumerate(outcomes.items(), 1):
            assert (await app.wait(number)).outcome == outcome
            with pytest.raises(kind) as raised:
                await app.result(number)
            words = outcome.replace("_", " ")
            assert str(raised.value) == f"run {number} ended {words}: no paper"
            assert (raised.value.run_id, raised.value.outcome) == (number, outcome)


async def test_an_app_that_is_closed_lets_nobody_wait(database: str) -> None:
    app = App(database)
    run = await app.enqueue("report")
    waiting = asyncio.ensure_future(app.result(run))
    here = app._waiting_here()
    await until("somebody waits", lambda: int(run) in here._waiters)
    await app.close()

    with pytest.raises(PgcronError, match="closed"):
        await waiting
    await app.close()


class Unheard(Notifications):
    """Nothing is heard; `answer` says which runs are over."""

    def __init__(self, answer: Callable[[list[int]], list[int]]) -> None:
        super().__init__(Link("postgresql://127.0.0.1:1/nobody"), nullcontext, "pgcron")
        self.answer = answer

    async def keep_listening(self) -> None:
        await asyncio.Event().wait()

    async def look(self, run_ids: list[int]) -> tuple[list[int], list[int]]:
        return self.answer(run_ids), run_ids


async def test_a_thousand_wait_by_one_question_that_outlasts_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgcron_ha.client.waiting.LINGER_SECONDS", 0)
    ended: set[int] = set()
    questions: list[int] = []
    is_away = True

    def answer(run_ids: list[int]) -> list[int]:
        questions.append(len(run_ids))
        if is_away:
            raise DatabaseUnavailable("away")
        return [run for run in run_ids if run in ended]

    waiting = Waiting(Unheard(answer))
    waiters = [asyncio.ensure_future(waiting.until_ended(run, 60)) for run in range(1000)]
    await until("it was asked twice", lambda: len(questions) >= 2)
    is_away = False
    ended.update(range(500))
    await asyncio.gather(*waiters[:500])
    assert not any(waiter.done() for waiter in waiters[500:])
    ended.update(range(1000))
    await asyncio.gather(*waiters)

    assert set(questions) <= {1000, 500}
    looks = [each for each in (waiting._task, waiting._listening) if each is not None]
    assert len(looks) == 2
    await until("nobody looks any more", lambda: all(map(asyncio.Task.done, looks)))
