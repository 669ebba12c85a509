"""What a `TaskExecutor` survives of the code that is built on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    ExecutorServices,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from pgcron_ha.executors.contract.failures import MAX_MESSAGE_CHARACTERS, MAX_TRACEBACK_CHARACTERS
from pgcron_ha.executors.contract.tasks import TaskExecutor
from tests.executors.running import Record, context
from tests.product.executors import tasks
from tests.waiting import until

Work = Callable[[Context], Awaitable[Any]]


class Worker(TaskExecutor):
    """Does what the handler of its name does; shutting it fails."""

    def __init__(self, works: dict[str, Work], executor_services: ExecutorServices) -> None:
        self.works = works
        super().__init__("x", [f"x:{name}" for name in works], executor_services)

    async def execute(self, context: Context) -> Outcome:
        outcome: Outcome = await self.works[context.handler.removeprefix("x:")](context)
        return outcome

    async def shut(self) -> None:
        raise RuntimeError("a client that does not close")


@asynccontextmanager
async def executor(**works: Work) -> AsyncIterator[tuple[Worker, Record]]:
    async def good(run: Context) -> Outcome:
        return SUCCEEDED

    record = Record()
    place = record.services(16)
    running = Worker({"good": good, **works}, place)
    try:
        yield running, record
        run = context(999, "x:good")  # whatever has happened, it goes on
        running.start([run])
        assert await asyncio.to_thread(record.outcome, run) is SUCCEEDED
    finally:
        await running.close(5)


async def outcome_of(work: Work) -> Any:
    async with executor(work=work) as (running, record):
        run = context(1, "x:work")
        running.start([run])
        return await asyncio.to_thread(record.outcome, run)


@pytest.mark.parametrize(
    "error", [ValueError("a"), SystemExit(1), KeyboardInterrupt(), BaseException("b")]
)
async def test_whatever_is_raised_is_a_failure(error: BaseException) -> None:
    async def work(run: Context) -> Any:
        raise error

    outcome = await outcome_of(work)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == type(error).__name__


async def test_invalid_input_is_refused_for_good_with_all_its_sentences() -> None:
    async def work(run: Context) -> Any:
        raise InvalidInput("the arg 'a' is 5", "It is a text.", "Write '5'.")

    refused = Failed("InvalidInput", "the arg 'a' is 5", "It is a text.\nhint: Write '5'.", False)
    assert await outcome_of(work) == refused


async def test_a_task_that_is_left_behind_ends_nothing_but_itself() -> None:
    async def exits() -> None:
        raise SystemExit(3)

    left: list[asyncio.Task[None]] = []

    async def work(run: Context) -> Outcome:
        left.append(asyncio.create_task(exits()))
        return SUCCEEDED

    assert await outcome_of(work) is SUCCEEDED
    assert isinstance(left[0].exception(), SystemExit)


@pytest.mark.parametrize("returned", [None, "done", 5, {"a": 1}])
async def test_what_is_no_outcome_is_a_failure(returned: Any) -> None:
    async def work(run: Context) -> Any:
        return returned

    outcome = await outcome_of(work)
    assert isinstance(outcome, Failed)
    assert outcome.message.endswith("which is no outcome")


async def test_a_result_is_written_as_it_is_whatever_its_text_says() -> None:
    async def work(run: Context) -> Outcome:
        return Succeeded({"a": 1}, '{"another": "text"}')

    assert await outcome_of(work) == Succeeded({"a": 1}, '{"a":1}')


@pytest.mark.parametrize("result", ["x" * 300_000, object(), float("nan"), "nul \0"])
async def test_a_result_that_can_not_be_kept_is_a_failure_for_good(result: Any) -> None:
    async def work(run: Context) -> Outcome:
        return Succeeded(result, "{}")

    outcome = await outcome_of(work)
    assert isinstance(outcome, Failed)
    assert not outcome.retry


async def test_an_error_is_cut_to_what_is_kept() -> None:
    async def work(run: Context) -> Outcome:
        return Failed("Large", "nul \0" + "x" * 100_000, "y" * 100_000)

    outcome = await outcome_of(work)
    assert isinstance(outcome, Failed)
    assert len(outcome.message) < MAX_MESSAGE_CHARACTERS + 100
    assert len(outcome.traceback or "") < MAX_TRACEBACK_CHARACTERS + 100
    assert "\0" not in outcome.message


async def test_a_cancellation_nobody_asked_for_is_a_failure() -> None:
    async def work(run: Context) -> Any:
        raise asyncio.CancelledError

    outcome = await outcome_of(work)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "CancelledError"


async def test_what_goes_on_after_its_cancellation_ends_when_it_is_killed() -> None:
    steps: list[int] = []

    async def work(run: Context) -> Any:
        while True:
            try:
                steps.append(len(steps))
                await asyncio.sleep(0)
            except BaseException as error:
                steps.append(-1)
                if isinstance(error, GeneratorExit):
                    raise

    async with executor(work=work) as (running, record):
        run = context(1, "x:work")
        running.start([run])
        assert running.kill(run)
        outcome = await asyncio.to_thread(record.outcome, run)
        taken = len(steps)
        after = context(2, "x:good")
        running.start([after])
        await asyncio.to_thread(record.outcome, after)
        assert len(steps) == taken, "no code of it runs any more"
    assert isinstance(outcome, Interrupted)


class Outside(Worker):
    """Its work goes on outside of the process until `end` has ended it."""

    def __init__(self, works: dict[str, Work], executor_services: ExecutorServices) -> None:
        self.asked = asyncio.Event()
        self.is_gone = False
        super().__init__(works, executor_services)

    def interrupt(self, context: Context) -> None:
        self.asked.set()

    async def end(self, context: Context) -> None:
        self.asked.set()  # the coroutine ends now, and what it stands for does not
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(5 * tasks.KILL_SECONDS, gone.set)
        await gone.wait()
        self.is_gone = True


@pytest.mark.parametrize("insists", [False, True])
async def test_a_killed_run_is_over_when_its_work_outside_is_gone(
    insists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "KILL_SECONDS", 0.05)
    record = Record()
    gone_when_done: list[bool] = []

    def done(context: Context, outcome: Outcome) -> None:
        gone_when_done.append(running.is_gone)
        record.done(context, outcome)

    async def work(run: Context) -> Outcome:
        await running.asked.wait()
        if insists:
            await asyncio.Event().wait()
        return SUCCEEDED

    running = Outside({"work": work}, ExecutorServices(done, record.feed, record, 16))
    run = context(1, "x:work")
    running.start([run])
    await until("it has begun", lambda: run.started_monotonic is not None)
    assert running.kill(run)
    assert running.kill(run)
    outcome = await asyncio.to_thread(record.outcome, run)
    await running.close(5)
    assert gone_when_done == [True]
    assert isinstance(outcome, Interrupted if insists else Succeeded)


async def test_a_run_is_asked_to_stop_in_the_way_of_its_executor() -> None:
    record = Record()

    async def work(run: Context) -> Outcome:
        await running.asked.wait()
        return SUCCEEDED

    running = Outside({"work": work}, record.services(16))
    run = context(1, "x:work")
    running.start([run])
    await until("it has begun", lambda: run.started_monotonic is not None)
    running.stop(run, StopReason.CANCELLED)
    assert await asyncio.to_thread(record.outcome, run) is SUCCEEDED
    await running.close(5)
