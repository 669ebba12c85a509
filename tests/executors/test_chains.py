"""The runs of one slot follow each other in one task as long as none of them waits."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pgcron_ha.executors.contract.base import Context, Failed, Interrupted, StopReason, Succeeded
from tests.executors.running import Record, Turn, context
from tests.product.executors import PythonExecutor, PythonHandler
from tests.waiting import wait_for

RUNS = 20


@asynccontextmanager
async def chain(
    function: Callable[..., Any], runs: int = RUNS
) -> AsyncIterator[tuple[PythonExecutor, Record, list[Context]]]:
    """An executor with one slot, and runs of one handler that follow each other in it."""
    record = Record()
    handler = PythonHandler("handler", function)
    running = PythonExecutor({"handler": handler}, record.services())
    contexts = [context(number + 1, "py:handler") for number in range(runs)]
    record.waiting.extend(contexts[1:])
    running.start(contexts[:1])
    try:
        yield running, record, contexts
    finally:
        await running.close(5)


def result(record: Record, run: Context) -> Any:
    outcome = record.outcome(run)
    assert isinstance(outcome, Succeeded), outcome
    return outcome.result


async def test_runs_that_do_not_wait_share_a_task() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def handler() -> None:
        tasks.append(asyncio.current_task())

    async with chain(handler) as (_, record, runs):
        assert [result(record, run) for run in runs] == [None] * RUNS
    # A chain's turn is short: a slow machine may need more than one.
    assert len(set(tasks)) < RUNS
    assert None not in tasks


async def test_a_run_that_waits_has_its_task_for_itself() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def handler() -> None:
        tasks.append(asyncio.current_task())
        await Turn()
        assert asyncio.current_task() is tasks[-1]

    async with chain(handler) as (_, record, runs):
        assert [result(record, run) for run in runs] == [None] * RUNS
    assert len(set(tasks)) == RUNS


async def test_variables_of_a_run_last_over_its_waits_and_not_into_the_next_run() -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)

    async def handler(ctx: Context) -> list[int]:
        before = seen.get()
        seen.set(ctx.run_id)
        if ctx.run_id % 2:
            await asyncio.sleep(0)
            await asyncio.ensure_future(asyncio.sleep(0))
        return [before, seen.get()]

    async with chain(handler) as (_, record, runs):
        assert [result(record, run) for run in runs] == [[0, run.run_id] for run in runs]


async def test_a_handler_that_cancels_its_own_task_and_returns_harms_no_other_run() -> None:
    async def handler(ctx: Context) -> int:
        task = asyncio.current_task()
        if ctx.run_id == 3 and task is not None:
            task.cancel()
            return 0
        if ctx.run_id == 4:
            await Turn()
        return ctx.run_id

    async with chain(handler) as (_, record, runs):
        expected = [0 if run.run_id == 3 else run.run_id for run in runs]
        assert [result(record, run) for run in runs] == expected


async def test_a_timeout_within_a_handler_ends_only_what_it_encloses() -> None:
    async def handler(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
            return "timed out"
        return "waited"

    async with chain(handler, 4) as (_, record, runs):
        assert [result(record, run) for run in runs] == ["timed out"] * 4


async def test_a_stop_reaches_a_run_that_waits_in_the_middle_of_a_chain() -> None:
    async def handler(ctx: Context) -> int:
        if ctx.run_id == 5:
            ctx.log("waits")
            await asyncio.Event().wait()
        return ctx.run_id

    async with chain(handler) as (running, record, runs):
        record.wait_for_line(runs[4], "waits")
        running.stop(runs[4], StopReason.CANCELLED)
        assert record.outcome(runs[4]) == Interrupted(
            StopReason.CANCELLED, f"stopped: {StopReason.CANCELLED}"
        )
        assert result(record, runs[-1]) == RUNS


async def test_runs_that_do_not_wait_let_the_others_of_the_loop_go_on() -> None:
    steps = 0
    is_over = False

    async def handler(ctx: Context) -> None:
        nonlocal steps, is_over
        if ctx.run_id != 1:
            is_over = is_over or ctx.run_id == 20_000
            return
        while not is_over:
            steps += 1
            await asyncio.sleep(0)

    record = Record()
    handlers = {"handler": PythonHandler("handler", handler)}
    running = PythonExecutor(handlers, record.services())
    runs = [context(number + 1, "py:handler") for number in range(20_000)]
    record.waiting.extend(runs[2:])
    running.start(runs[:2])
    try:
        assert result(record, runs[0]) is None
    finally:
        await running.close(5)
    assert steps > 2


async def test_a_traceback_begins_with_the_handler() -> None:
    async def at_once() -> None:
        raise ValueError("at once")

    async def later() -> None:
        await Turn()
        raise ValueError("later")

    for function in (at_once, later):
        async with chain(function, 1) as (_, record, runs):
            outcome = record.outcome(runs[0])
            assert isinstance(outcome, Failed)
            lines = (outcome.traceback or "").splitlines()
            assert lines[0].startswith("Traceback")
            assert f"in {function.__name__}" in lines[1]


async def test_a_handler_that_waits_for_ever_is_closed_with_its_executor() -> None:
    ended: list[str] = []

    async def handler(ctx: Context) -> None:
        try:
            ctx.log("waits")
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    ended.append("ignored a cancel")
        finally:
            ended.append("closed")

    async with chain(handler, 1) as (running, record, runs):
        record.wait_for_line(runs[0], "waits")
        await running.close(0.05)
        wait_for("it is closed", lambda: "closed" in ended)
        assert isinstance(record.outcome(runs[0]), Interrupted)
    assert ended == ["ignored a cancel", "closed"]


async def test_a_stop_during_the_end_of_a_time_limit_of_the_handlers_own_is_not_lost() -> None:
    ending = threading.Event()
    go_on = threading.Event()

    async def tries_again() -> None:
        while True:
            try:
                async with asyncio.timeout(0.01):
                    try:
                        await asyncio.Event().wait()
                    finally:
                        ending.set()
                        while not go_on.is_set():
                            await Turn()
            except TimeoutError:
                continue

    async with chain(tries_again, 1) as (running, record, [run]):
        assert await asyncio.to_thread(ending.wait, 30)
        running.stop(run, StopReason.CANCELLED)
        go_on.set()

        outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.CANCELLED
