"""Handlers that take several runs in one call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pgcron_ha import App, Snooze
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Failed,
    HandlerPolicy,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from tests.executors.running import Record, Turn, context
from tests.product.executors import PythonExecutor, PythonHandler

Function = Callable[[list[Context]], Any]


async def outcomes_of(function: Function, *runs: Context) -> list[Outcome]:
    """Of these runs, given to the executor as one batch."""
    record = Record()
    running = PythonExecutor(handler_of(function), record.services())
    runs[0]._batch = list(runs)
    try:
        running.start(runs[:1])
        return [record.outcome(run) for run in runs]
    finally:
        await running.close(5)


def handler_of(function: Function) -> dict[str, PythonHandler]:
    return {"many": PythonHandler("many", function, policy=HandlerPolicy(batch=10))}


def runs_of(count: int, **settings: Any) -> list[Context]:
    return [context(run, "py:many", {"n": run}, **settings) for run in range(1, count + 1)]


async def test_one_call_gets_all_and_each_run_its_result() -> None:
    calls = []

    async def doubled(batch: list[Context]) -> list[int]:
        calls.append(len(batch))
        return [run.args["n"] * 2 for run in batch]

    outcomes = await outcomes_of(doubled, *runs_of(3))

    assert calls == [3]
    assert outcomes == [Succeeded(2, "2"), Succeeded(4, "4"), Succeeded(6, "6")]


async def test_a_plain_function_that_returns_nothing_ends_all_well() -> None:
    threads = set()

    def quiet(batch: list[Context]) -> None:
        threads.add(threading.current_thread().name)
        batch.clear()

    assert await outcomes_of(quiet, *runs_of(3)) == [SUCCEEDED] * 3
    assert len(threads) == 1
    assert "MainThread" not in threads


async def test_each_run_has_its_own_outcome() -> None:
    async def mixed(batch: list[Context]) -> tuple[Any, ...]:
        return "fine", ValueError("no such customer"), Snooze("5m"), object()

    fine, failed, snoozed, unfit = await outcomes_of(mixed, *runs_of(4))

    assert fine == Succeeded("fine", '"fine"')
    assert isinstance(failed, Failed)
    assert (failed.error_class, failed.message) == ("ValueError", "no such customer")
    assert isinstance(snoozed, Failed)
    assert snoozed.snooze
    assert isinstance(unfit, Failed)
    assert unfit.error_class == "InvalidResult"


async def test_what_it_raises_is_the_outcome_of_all() -> None:
    async def broken(batch: list[Context]) -> None:
        raise OSError("the service is down")

    outcomes = await outcomes_of(broken, *runs_of(2))

    assert [each.message for each in outcomes if isinstance(each, Failed)] == [
        "the service is down"
    ] * 2


@pytest.mark.parametrize("returned", [[1], "ab", {"a": 1, "b": 2}])
async def test_results_that_are_not_one_for_each_run_fail_all(returned: Any) -> None:
    async def wrong(batch: list[Context]) -> Any:
        return returned

    for each in await outcomes_of(wrong, *runs_of(2)):
        assert isinstance(each, Failed)
        assert (each.error_class, each.retry) == ("InvalidResult", False)
        assert each.message.startswith("a batch of 2 runs returned ")


async def test_a_run_that_comes_alone_is_a_batch_of_one() -> None:
    async def count(batch: list[Context]) -> list[int]:
        return [len(batch)] * len(batch)

    record = Record()
    running = PythonExecutor(handler_of(count), record.services())
    (run,) = runs_of(1)
    running.start([run])
    outcome = record.outcome(run)
    await running.close(5)

    assert outcome == Succeeded(1, "1")


async def test_a_run_that_was_stopped_before_is_left_out() -> None:
    async def count(batch: list[Context]) -> list[int]:
        return [len(batch)] * len(batch)

    first, second, third = runs_of(3)
    first.stop_reason = StopReason.CANCELLED

    outcomes = await outcomes_of(count, first, second, third)

    assert isinstance(outcomes[0], Interrupted)
    assert outcomes[1:] == [Succeeded(2, "2")] * 2


@pytest.mark.parametrize("delivery", ["transactional", "at_most_once"])
async def test_a_run_of_another_delivery_is_refused_and_the_others_are_executed(
    delivery: str,
) -> None:
    async def count(batch: list[Context]) -> list[int]:
        return [len(batch)] * len(batch)

    unfit, other = runs_of(2)
    unfit.delivery = delivery

    refused, executed = await outcomes_of(count, unfit, other)

    assert isinstance(refused, Failed)
    assert not refused.retry
    assert "only runs with delivery at_least_once" in refused.message
    assert executed == Succeeded(1, "1")


class Stopping:
    """A batch of three whose call waits until it is stopped, or told to go on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.cancellations = 0
        self.record = Record()
        self.runs = runs_of(3)
        self.runs[0]._batch = list(self.runs)

    async def on_the_loop(self, batch: list[Context]) -> None:
        """Once cancelled it waits for the test, so that a second cancellation would be seen."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            while not self.go_on.is_set() and batch[0].stop_reason is not None:
                try:
                    await Turn()
                except asyncio.CancelledError:
                    self.cancellations += 1
            raise

    async def in_a_group(self, batch: list[Context]) -> None:
        async def each(run: Context) -> None:
            while not self.go_on.is_set():
                await Turn()
            run.check()

        self.begun.set()
        async with asyncio.TaskGroup() as group:
            for run in batch:
                group.create_task(each(run))

    def in_a_thread(self, batch: list[Context]) -> None:
        self.begun.set()
        self.go_on.wait(30)
        for run in batch:
            run.check()

    def start(self, function: Function) -> PythonExecutor:
        running = PythonExecutor(handler_of(function), self.record.services())
        running.start(self.runs[:1])
        assert self.begun.wait(30)
        return running

    def outcomes(self) -> list[Outcome]:
        return [self.record.outcome(run) for run in self.runs]


@pytest.mark.parametrize("function", ["on_the_loop", "in_a_thread", "in_a_group"])
async def test_a_stop_of_one_run_stops_the_call_and_gives_the_others_back(function: str) -> None:
    stopping = Stopping()
    running = stopping.start(getattr(stopping, function))

    running.stop(stopping.runs[1], StopReason.CANCELLED)
    if function != "on_the_loop":  # it learns of it by itself
        stopping.go_on.set()

    outcomes = stopping.outcomes()
    reasons = [each.reason for each in outcomes if isinstance(each, Interrupted)]
    assert reasons == [StopReason.SHUTDOWN, StopReason.CANCELLED, StopReason.SHUTDOWN]
    await running.close(5)


async def test_stops_of_all_runs_cancel_the_call_once_and_each_has_its_reason() -> None:
    stopping = Stopping()
    running = stopping.start(stopping.on_the_loop)

    for run, reason in zip(stopping.runs, StopReason, strict=False):
        running.stop(run, reason)
    stopping.go_on.set()

    outcomes = stopping.outcomes()
    reasons = [each.reason for each in outcomes if isinstance(each, Interrupted)]
    assert reasons == list(StopReason)[:3]
    assert stopping.cancellations == 1
    await running.close(5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 1}, "batch is 1"),
        ({"batch": 1001}, "batch is 1001"),
        ({"batch": "100"}, "batch is '100'"),
        ({"batch": True}, "batch is True"),
        ({"batch": 100, "isolation": "process"}, "with isolation='process'"),
        ({"batch": 100, "on_lease_loss": "finish"}, "with on_lease_loss='finish'"),
        ({"batch": 100, "delivery": "transactional"}, "with delivery='transactional'"),
        ({"batch": 100, "delivery": "at_most_once"}, "with delivery='at_most_once'"),
        ({"batch": 100, "weight": 2}, "with weight=2"),
    ],
)
def test_what_batch_may_not_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        App().handler("many", **options)(lambda batch: None)
    assert message in refused.value.message


def test_a_function_that_takes_args_by_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't be called with a batch of runs") as refused:
        App().handler("many", batch=100)(lambda context, customer: None)
    assert "missing a required argument: 'customer'" in str(refused.value.detail)
