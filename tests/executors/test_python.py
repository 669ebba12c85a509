import asyncio
import contextvars
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import nan
from typing import Any
from uuid import UUID

import pytest

from pgcron_ha import Discard, Retry
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import (
    MAX_RESULT_BYTES,
    SUCCEEDED,
    Context,
    Failed,
    Interrupted,
    StopReason,
    Succeeded,
)
from pgcron_ha.operating_system import boottime
from tests.executors.running import Record, Turn, context
from tests.product.executors import PythonExecutor, PythonHandler
from tests.waiting import wait_for

Started = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def executor(*functions: Callable[..., Any]) -> AsyncIterator[tuple[PythonExecutor, Record]]:
    record = Record()
    handlers = {each.__name__: PythonHandler(each.__name__, each) for each in functions}
    running = PythonExecutor(handlers, record.services())
    try:
        yield running, record
    finally:
        await running.close(5)


async def outcome_of(function: Callable[..., Any], args: dict[str, Any] | str = "{}") -> Any:
    async with executor(function) as (running, record):
        run = context(1, f"py:{function.__name__}", args)
        running.start([run])
        return record.outcome(run)


async def test_an_async_handler_gets_its_args_and_its_result_is_kept_as_json() -> None:
    async def add(ctx: Context, left: int, right: int = 1) -> dict[str, int]:
        return {"sum": left + right, "attempt": ctx.attempt}

    assert await outcome_of(add, {"left": 2}) == Succeeded(
        {"sum": 3, "attempt": 1}, '{"sum":3,"attempt":1}'
    )


async def test_a_plain_handler_without_context_gets_args_from_json_text() -> None:
    def double(number: int) -> int:
        return number * 2

    assert await outcome_of(double, '{"number": 21}') == Succeeded(42, "42")


async def test_a_handler_that_returns_none_shares_one_outcome() -> None:
    async def quiet() -> None:
        pass

    assert await outcome_of(quiet) is SUCCEEDED


async def test_a_first_parameter_annotated_as_context_gets_it_under_any_name() -> None:
    def annotated(run: Context) -> int:
        return run.run_id

    def as_text(run: "Context") -> int:
        return run.run_id

    assert await outcome_of(annotated) == Succeeded(1, "1")
    assert await outcome_of(as_text) == Succeeded(1, "1")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({}, "the arg 'left' of py:add is missing"),
        ({"left": 1, "lefd": 2}, "py:add takes no arg 'lefd'; did you mean 'left'?"),
        ({"left": 1, "ctx": 2}, "py:add takes no arg 'ctx'"),
        (
            {"left": "1"},
            "the args don't fit py:add: 'left' is \"1\": Input should be a valid integer",
        ),
    ],
)
async def test_args_that_do_not_fit_are_refused_before_the_call(args: Any, sentence: str) -> None:
    called = []

    async def add(ctx: Context, left: int) -> None:
        called.append(ctx)

    outcome = await outcome_of(add, args)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
    assert sentence in outcome.message
    assert not called


async def test_an_error_is_told_with_class_message_and_the_handlers_traceback() -> None:
    async def broken() -> None:
        raise ValueError("no \0 such ledger")

    outcome = await outcome_of(broken)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("ValueError", True)
    assert outcome.message == "no \ufffd such ledger"
    assert outcome.traceback is not None
    assert "in broken" in outcome.traceback
    assert "python.py" not in outcome.traceback.replace("test_python.py", "")


async def test_a_huge_traceback_keeps_its_head_and_its_tail() -> None:
    def broken() -> None:
        raise ValueError("head" + "x" * 100_000 + "tail")

    outcome = await outcome_of(broken)
    assert isinstance(outcome, Failed)
    assert outcome.traceback is not None
    assert len(outcome.traceback) < 17_000
    assert outcome.traceback.startswith("Traceback")
    assert outcome.traceback.endswith("tail\n")
    assert len(outcome.message) < 5_000


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_a_handler_that_ends_the_interpreter_only_fails(
    kind: str, error: BaseException
) -> None:
    async def leaves() -> None:
        raise error

    def leaves_plainly() -> None:
        raise error

    async def fine() -> str:
        return "alive"

    function: Callable[..., Any] = leaves if kind == "async" else leaves_plainly
    async with executor(function, fine) as (running, record):
        first, second = context(1, f"py:{function.__name__}"), context(2, "py:fine")
        running.start([first])
        outcome = record.outcome(first)
        assert isinstance(outcome, Failed)
        assert outcome.error_class == type(error).__name__
        running.start([second])
        assert record.outcome(second) == Succeeded("alive", '"alive"')


async def test_the_loop_survives_a_left_behind_task_that_raises_system_exit() -> None:
    async def leave() -> None:
        raise SystemExit(1)

    left: list[asyncio.Task[None]] = []

    async def leaves_a_task() -> None:
        left.append(asyncio.ensure_future(leave()))

    async with executor(leaves_a_task) as (running, record):
        for number in (1, 2):
            run = context(number, "py:leaves_a_task")
            running.start([run])
            assert record.outcome(run) is SUCCEEDED
        wait_for("both tasks ended", lambda: all(task.done() for task in left))
        assert [type(task.exception()) for task in left] == [SystemExit, SystemExit]


@pytest.mark.parametrize(
    "result", [object(), (each for each in "ab"), nan, "a\0b", {"k": "\\\0"}, "\ud800", b"\xff"]
)
async def test_a_result_that_is_no_storable_json_fails_without_retry(result: Any) -> None:
    async def gives() -> Any:
        return result

    outcome = await outcome_of(gives)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidResult", False)


async def test_results_are_written_as_args_are() -> None:
    day = datetime(2026, 11, 28, 3, tzinfo=UTC)

    async def gives() -> Any:
        return {"total": Decimal("7.50"), "at": day, "id": UUID(int=7), "for": timedelta(hours=2)}

    outcome = await outcome_of(gives)
    assert isinstance(outcome, Succeeded)
    assert json.loads(outcome.text or "") == {
        "total": "7.50",
        "at": "2026-11-28T03:00:00Z",
        "id": str(UUID(int=7)),
        "for": "PT2H",
    }


async def test_a_backslash_before_u0000_is_no_nul() -> None:
    async def gives() -> str:
        return "\\u0000"

    assert await outcome_of(gives) == Succeeded("\\u0000", '"\\\\u0000"')


async def test_a_result_over_its_bound_is_too_large_and_one_at_the_bound_is_not() -> None:
    def gives(size: int) -> str:
        return "é" * (size // 2)

    assert isinstance(await outcome_of(gives, {"size": MAX_RESULT_BYTES - 2}), Succeeded)
    outcome = await outcome_of(gives, {"size": MAX_RESULT_BYTES})
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("TooLarge", False)


@pytest.mark.parametrize(("levels", "is_kept"), [(100, True), (101, False), (100_000, False)])
async def test_a_result_is_nested_a_hundred_levels_deep_at_most(levels: int, is_kept: bool) -> None:
    def gives() -> Any:
        result: list[Any] = []
        for _ in range(levels - 1):
            result = [result]
        return result

    outcome = await outcome_of(gives)
    assert isinstance(outcome, Succeeded if is_kept else Failed)
    if isinstance(outcome, Failed):
        assert not outcome.retry


async def test_retry_and_discard_say_what_comes_next() -> None:
    async def later() -> None:
        raise Retry(timedelta(seconds=30))

    def never() -> None:
        raise Discard("the customer is gone")

    postponed = await outcome_of(later)
    assert isinstance(postponed, Failed)
    assert (postponed.retry, postponed.after) == (True, timedelta(seconds=30))
    discarded = await outcome_of(never)
    assert isinstance(discarded, Failed)
    assert (discarded.retry, discarded.message) == (False, "the customer is gone")


async def test_a_stopped_async_handler_cleans_up_before_it_is_interrupted() -> None:
    begun, steps = threading.Event(), []

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await Turn()
            steps.append("cleaned")

    async with executor(waits) as (running, record):
        run = context(1, "py:waits")
        running.start([run])
        assert begun.wait(5)
        running.stop(run, StopReason.TIMED_OUT)
        running.stop(run, StopReason.CANCELLED)
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.TIMED_OUT
        assert steps == ["cleaned"]
        assert running.kill(run) is False


async def test_a_handler_that_finishes_in_spite_of_the_stop_has_succeeded() -> None:
    begun = threading.Event()

    async def finishes() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    async with executor(finishes) as (running, record):
        run = context(1, "py:finishes")
        running.start([run])
        assert begun.wait(5)
        running.stop(run, StopReason.CANCELLED)
        assert record.outcome(run) == Succeeded("done", '"done"')


async def test_an_error_raised_while_being_cancelled_is_still_an_interruption() -> None:
    begun = threading.Event()

    async def fails_late() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("connection closed")

    async with executor(fails_late) as (running, record):
        run = context(1, "py:fails_late")
        running.start([run])
        assert begun.wait(5)
        running.stop(run, StopReason.SHUTDOWN)
        assert isinstance(record.outcome(run), Interrupted)


async def test_a_cancellation_nobody_asked_for_is_a_failure() -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    outcome = await outcome_of(cancels_itself)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "CancelledError"


async def test_a_run_stopped_before_it_began_never_begins() -> None:
    called: list[Context] = []

    async def handler(ctx: Context) -> None:
        called.append(ctx)

    def plain(ctx: Context) -> None:
        called.append(ctx)

    async with executor(handler, plain) as (running, record):
        runs = [context(1, "py:handler"), context(2, "py:plain")]
        for run in runs:
            running.stop(run, StopReason.CANCELLED)
        running.start(runs)
        for run in runs:
            outcome = record.outcome(run)
            assert isinstance(outcome, Interrupted)
            assert outcome.reason is StopReason.CANCELLED
            assert run.started_monotonic is None
    assert not called


async def test_check_stops_a_plain_handler_that_catches_every_exception() -> None:
    begun = threading.Event()

    def works(ctx: Context) -> None:
        while True:
            begun.set()
            try:
                ctx.check()
            except Exception:
                continue

    async with executor(works) as (running, record):
        run = context(1, "py:works")
        running.start([run])
        assert begun.wait(5)
        running.stop(run, StopReason.CANCELLED)
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.CANCELLED


async def test_check_raises_when_the_lease_is_over() -> None:
    def works(ctx: Context) -> None:
        while True:
            ctx.check()

    async with executor(works) as (running, record):
        run = context(1, "py:works")
        running.renew_lease(boottime() + 60)
        running.start([run])
        running.renew_lease(boottime() - 0.001)
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.LEASE_LOST


async def test_a_handler_does_not_begin_without_a_lease() -> None:
    begun = threading.Event()

    async def works() -> None:
        begun.set()

    async with executor(works) as (running, record):
        run = context(1, "py:works")
        running.renew_lease(boottime() - 0.001)
        running.start([run])
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.LEASE_LOST
        assert not begun.is_set()


async def test_handlers_never_run_on_the_engines_thread() -> None:
    async def where() -> str:
        assert asyncio.current_task() is not None
        return threading.current_thread().name

    def plainly() -> str:
        return threading.current_thread().name

    assert threading.current_thread() is threading.main_thread()
    assert (await outcome_of(where)).result == "pgcron-handlers"
    assert (await outcome_of(plainly)).result == "pgcron-handler-1"


async def test_a_blocked_event_loop_delays_no_plain_handler() -> None:
    release = threading.Event()

    async def blocks() -> None:
        release.wait(10)

    def plain() -> None:
        pass

    async with executor(blocks, plain) as (running, record):
        first, second = context(1, "py:blocks"), context(2, "py:plain")
        running.start([first, second])
        assert record.outcome(second) is SUCCEEDED
        assert first.run_id not in record.outcomes
        release.set()
        assert record.outcome(first) is SUCCEEDED


async def test_context_variables_do_not_leak_from_run_to_run() -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)

    async def handler(ctx: Context) -> int:
        before = seen.get()
        seen.set(ctx.run_id)
        return before

    def plain(ctx: Context) -> int:
        before = seen.get()
        seen.set(ctx.run_id)
        return before

    async with executor(handler, plain) as (running, record):
        for name, base in (("py:handler", 1), ("py:plain", 100)):
            runs = [context(base + number, name) for number in range(20)]
            record.waiting.extend(runs[1:])
            running.start(runs[:1])
            assert {record.outcome(run).result for run in runs} == {0}  # type: ignore[union-attr]


async def test_a_run_that_ends_takes_the_next_one_of_either_kind() -> None:
    async def handler() -> str:
        return "async"

    def plain() -> str:
        return "plain"

    async with executor(handler, plain) as (running, record):
        names = ["py:handler", "py:plain", "py:plain", "py:none", "py:handler", "py:handler"]
        runs = [context(number, name) for number, name in enumerate(names * 20)]
        record.waiting.extend(runs[1:])
        running.start(runs[:1])
        for run in runs:
            outcome = record.outcome(run)
            if run.handler == "py:none":
                assert isinstance(outcome, Failed)
                assert outcome.error_class == "NotFound"
            else:
                assert outcome in (Succeeded("async", '"async"'), Succeeded("plain", '"plain"'))


async def test_a_batch_runs_side_by_side_and_each_run_is_done_once() -> None:
    together = 500
    arrived: list[int] = []
    everybody = asyncio.Barrier(together)

    async def handler(ctx: Context) -> None:
        arrived.append(ctx.run_id)
        await everybody.wait()

    async with executor(handler) as (running, record):
        runs = [context(number, "py:handler") for number in range(together)]
        running.start(runs)
        assert all(record.outcome(run) is SUCCEEDED for run in runs)
        assert sorted(arrived) == list(range(together))


async def test_plain_functions_use_at_most_the_given_threads() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    first_two = threading.Barrier(2)

    def plain(ctx: Context) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        if ctx.run_id < 2:
            first_two.wait(5)
        with lock:
            now[0] -= 1

    record = Record()
    handlers = {"plain": PythonHandler("plain", plain)}
    running = PythonExecutor(handlers, record.services(2))
    runs = [context(number, "py:plain") for number in range(50)]
    running.start(runs)
    assert all(record.outcome(run) is SUCCEEDED for run in runs)
    assert most == [2]
    await running.close(5)


async def test_started_monotonic_is_the_instant_the_handler_began() -> None:
    async def handler(ctx: Context) -> bool:
        return ctx.started_monotonic is not None and ctx.started_monotonic <= time.monotonic()

    assert (await outcome_of(handler)).result is True


async def test_close_stops_runs_and_leaves_no_thread() -> None:
    begun = threading.Barrier(3)

    async def waits() -> None:
        await asyncio.to_thread(begun.wait, 5)
        await asyncio.Event().wait()

    def plain(ctx: Context) -> None:
        begun.wait(5)
        while True:
            ctx.check()

    before = set(threading.enumerate())
    async with executor(waits, plain) as (running, record):
        runs = [context(1, "py:waits"), context(2, "py:plain")]
        running.start(runs)
        begun.wait(5)
    for run in runs:
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.SHUTDOWN
    wait_for("no thread is left", lambda: set(threading.enumerate()) <= before)
    late = context(3, "py:waits")
    running.start([late])
    assert isinstance(record.outcome(late), Interrupted)


async def test_a_task_that_ignores_its_cancellation_is_over_after_the_grace() -> None:
    begun = threading.Event()

    async def ignores() -> None:
        while True:
            try:
                begun.set()
                await Turn()
            except asyncio.CancelledError:
                continue

    record = Record()
    handlers = {"ignores": PythonHandler("ignores", ignores)}
    running = PythonExecutor(handlers, record.services())
    run = context(1, "py:ignores")
    running.start([run])
    assert begun.wait(5)
    await running.close(0.1)
    assert isinstance(record.outcome(run), Interrupted)
    assert "pgcron-handlers" not in [thread.name for thread in threading.enumerate()]


async def test_a_task_left_behind_that_swallows_its_end_is_ended_once_at_the_close() -> None:
    tasks, ends = list[asyncio.Task[None]](), list[GeneratorExit]()

    async def swallows() -> None:
        while True:
            try:
                await Turn()
            except GeneratorExit as end:
                ends.append(end)
                if len(ends) > 1:
                    raise

    async def leaves() -> None:
        tasks.append(asyncio.create_task(swallows()))
        await Turn()

    assert await outcome_of(leaves) is SUCCEEDED
    assert len(ends) == 1
    tasks[0].get_coro().close()


def test_a_callable_without_signature_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="no readable signature"):
        PythonHandler("minimum", min)


def test_a_context_outside_an_executor_can_be_used_in_a_users_unit_test() -> None:
    alone = context(1, "py:report", '{"day": "monday"}')
    alone.check()
    alone.log("nobody listens")
    alone.progress(1, 2)
    assert alone.args == {"day": "monday"}
    assert alone.idempotency_key == str(alone.run_uuid)
