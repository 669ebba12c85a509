from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from time import monotonic, process_time

import pytest

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    ExecutorServices,
    Failed,
    HandlerPolicy,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from tests.engine.by_hand import ByHand, row, rows
from tests.executors.running import Record
from tests.product.config import ShellTemplate
from tests.product.engine import Ended, Runner, policy_of
from tests.product.executors import PythonExecutor, PythonHandler
from tests.waiting import until


@dataclass
class Held:
    """A runner with two slots, its executor, and what ended."""

    runner: Runner
    executor: ByHand
    ended: list[tuple[int, Outcome]] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    may_start: bool = True

    async def outcome(self, run: int) -> Outcome:
        """How it ended, when the engine's loop has heard of it."""
        await until(f"run {run} ended", lambda: run in dict(self.ended))
        return dict(self.ended)[run]


@pytest.fixture
async def held() -> Held:
    """A runner whose runs end by hand."""

    def collect(batch: list[Ended]) -> None:
        made.ended += [(context.run_id, outcome) for context, outcome, _ in batch]
        made.contexts += [context for context, _, _ in batch]

    runner = Runner(2, lambda: made.may_start, collect)
    made = Held(runner, ByHand(runner.done, runner.feed_for("py")))
    runner.use({"py": made.executor})
    return made


@pytest.mark.parametrize("grace", [4.0, 60.0])
async def test_a_run_is_killed_when_the_grace_of_its_template_is_over(
    grace: float, held: Held
) -> None:
    template = ShellTemplate(name="t", argv=("true",), grace=grace)
    held.runner.use({"shell": held.executor}, {"shell:t": policy_of(template)})
    held.runner.accept([row(1, handler="shell:t"), row(2, handler="shell:other")])
    for run in (1, 2):
        held.runner.stop(run, StopReason.TIMED_OUT)

    def killed_after(seconds: float) -> set[int]:
        for run in (1, 2):
            held.runner._stopped_at[run] = monotonic() - seconds
        held.runner.kill_stopped()
        return {1, 2} - set(held.executor.executing)

    assert killed_after(min(grace, 10.0) - 1) == set()
    assert killed_after(min(grace, 10.0) + 1) == ({1} if grace < 10 else {2})
    assert killed_after(grace + 11) == {1, 2}


async def test_the_end_of_a_node_waits_for_no_grace(held: Held) -> None:
    held.runner.use({"py": held.executor}, {"py:work": HandlerPolicy(grace=3600.0)})
    held.runner.accept(rows(1))
    held.runner.stop(1, StopReason.SHUTDOWN)

    held.runner.kill_stopped(grace=0)

    assert held.executor.executing == {}


async def test_as_many_runs_execute_as_there_are_slots_and_the_rest_waits(held: Held) -> None:
    held.runner.accept(rows(1, 2, 3, 4))

    assert set(held.executor.executing) == {1, 2}
    assert (held.runner.free_slots, held.runner.executing, held.runner.waiting) == (0, 2, 2)
    assert len(held.runner.held()) == 4


async def test_a_workflow_takes_no_slot_and_waits_for_none(held: Held) -> None:
    held.runner.accept(rows(1, 2, 3))

    held.runner.accept([row(4, handler="workflow:etl", attempt=2)], {4: 2})

    assert [context.run_id for context in held.runner.take_waiting()] == [3]
    assert isinstance(await held.outcome(4), Succeeded)
    assert set(held.executor.executing) == {1, 2}
    assert (held.runner.executing, held.runner.waiting) == (2, 0)


async def test_a_slot_that_becomes_free_takes_the_next_run_without_the_loop(held: Held) -> None:
    held.runner.accept(rows(1, 2, 3))

    held.executor.end(1)

    assert set(held.executor.executing) == {2, 3}
    assert held.runner.executing == 2
    assert held.ended == []
    assert isinstance(await held.outcome(1), Succeeded)


async def test_a_slot_without_a_next_run_is_free(held: Held) -> None:
    held.runner.accept(rows(1))

    held.executor.end(1)

    assert held.runner.free_slots == 2


async def test_no_handler_begins_without_a_lease_and_waiting_runs_begin_when_it_is_back(
    held: Held,
) -> None:
    held.runner.accept(rows(1, 2, 3))
    held.may_start = False

    held.executor.end(1)
    held.executor.end(2)
    assert held.executor.executing == {}
    assert (held.runner.free_slots, held.runner.waiting) == (2, 1)

    held.may_start = True
    held.runner.start_waiting()
    assert set(held.executor.executing) == {3}


async def test_ends_from_many_threads_are_each_collected_once(held: Held) -> None:
    contexts: list[Context] = []
    runner = Runner(100, lambda: True, lambda batch: contexts.extend(c for c, _, _ in batch))
    executor = ByHand(runner.done, runner.feed_for("py"))
    runner.use({"py": executor})
    runner.accept(rows(*range(100)))

    def end_all(runs: range) -> None:
        for run in runs:
            executor.end(run)

    threads = [
        threading.Thread(target=end_all, args=(part,)) for part in (range(0, 50), range(50, 100))
    ]
    for thread in threads:
        thread.start()
    await until("all have ended", lambda: len(contexts) == 100)
    for thread in threads:
        thread.join()

    assert sorted(context.run_id for context in contexts) == list(range(100))
    assert runner.free_slots == 100


async def test_a_run_is_held_until_it_is_forgotten_and_ending_in_between(held: Held) -> None:
    held.runner.accept(rows(1))
    assert not held.runner.held()[1].is_ending

    held.executor.end(1)
    assert held.runner.held()[1].is_ending
    await held.outcome(1)
    held.runner.forget(held.contexts)

    assert len(held.runner.held()) == 0


async def test_forgetting_an_attempt_keeps_the_next_claim_of_the_same_run(held: Held) -> None:
    """A retry that is due at once is claimed before the last attempt's end is acknowledged."""
    held.runner.accept(rows(1))
    held.executor.end(1, Failed("ValueError", "again"))
    await held.outcome(1)
    retry = row(1, attempt=2)
    held.runner.accept([retry])

    held.runner.forget(held.contexts)

    assert held.runner.held()[1].token == retry["token"]
    assert not held.runner.held()[1].is_ending
    held.runner.stop(1, StopReason.CANCELLED)
    assert held.executor.stopped == [(1, StopReason.CANCELLED)]


async def test_a_stop_of_an_earlier_claim_is_no_stop_of_the_next_one(held: Held) -> None:
    held.runner.accept(rows(1))
    held.runner.stop(1, StopReason.LEASE_LOST)
    held.executor.end(1, Interrupted(StopReason.LEASE_LOST, "stopped"))
    await held.outcome(1)
    held.runner.accept([row(1, attempt=2)])

    assert held.runner.kill_stopped(grace=0) == []
    assert set(held.executor.executing) == {1}
    held.runner.stop(1, StopReason.TIMED_OUT)

    assert held.executor.stopped == [(1, StopReason.LEASE_LOST), (1, StopReason.TIMED_OUT)]


async def test_a_waiting_run_that_is_stopped_ends_without_a_slot(held: Held) -> None:
    held.runner.accept(rows(1, 2, 3))

    held.runner.stop(3, StopReason.CANCELLED)

    assert await held.outcome(3) == Interrupted(
        StopReason.CANCELLED, "asked to stop before it began"
    )
    assert held.runner.waiting == 0
    assert held.executor.stopped == []


async def test_a_run_is_asked_to_stop_once(held: Held) -> None:
    held.runner.accept(rows(1))

    held.runner.stop(1, StopReason.CANCELLED)
    held.runner.stop(1, StopReason.TIMED_OUT)
    held.runner.stop(99, StopReason.CANCELLED)

    assert held.executor.stopped == [(1, StopReason.CANCELLED)]


async def test_all_stops_what_an_executor_has_though_it_did_not_begin(held: Held) -> None:
    """A blocked event loop may begin it long after the lease is over."""
    held.runner.accept(rows(1, 2, 3))
    held.executor.begin(1, monotonic())

    held.runner.stop_all(StopReason.LEASE_LOST)

    assert held.executor.stopped == [(1, StopReason.LEASE_LOST), (2, StopReason.LEASE_LOST)]
    assert held.runner.waiting == 1


async def test_what_does_not_stop_is_killed_after_its_grace(held: Held) -> None:
    held.runner.accept(rows(1, 2))
    held.runner.stop(1, StopReason.TIMED_OUT)

    assert held.runner.kill_stopped() == []
    assert 1 in held.executor.executing
    assert held.runner.kill_stopped(grace=0) == []

    assert isinstance(await held.outcome(1), Interrupted)
    assert set(held.executor.executing) == {2}


async def test_what_can_not_be_killed_is_named(held: Held) -> None:
    held.executor.may_kill = False
    held.runner.accept(rows(1))
    held.runner.stop(1, StopReason.TIMED_OUT)

    assert [context.run_id for context in held.runner.kill_stopped(grace=0)] == [1]


async def test_an_executor_that_fails_with_one_run_keeps_no_other_from_its_end(held: Held) -> None:
    class Faulty(ByHand):
        def stop(self, context: Context, reason: StopReason) -> None:
            if context.run_id == 1:
                raise OSError("it can't be asked")
            super().stop(context, reason)

        def kill(self, context: Context) -> bool:
            if context.run_id == 1:
                raise OSError("it can't be killed")
            return super().kill(context)

    faulty = Faulty(held.runner.done, held.runner.feed_for("py"))
    held.runner.use({"py": faulty})
    held.runner.accept(rows(1, 2))

    held.runner.stop_all(StopReason.LEASE_LOST)
    assert faulty.stopped == [(2, StopReason.LEASE_LOST)]

    assert [context.run_id for context in held.runner.kill_stopped(grace=0)] == [1]
    assert list(faulty.executing) == [1]


async def test_what_waits_can_be_taken_back(held: Held) -> None:
    held.runner.accept(rows(1, 2, 3, 4))

    taken = held.runner.take_waiting()

    assert [context.run_id for context in taken] == [3, 4]
    assert held.runner.waiting == 0
    held.runner.forget(taken)
    assert set(held.runner.held()) == {1, 2}


async def test_taking_back_takes_no_longer_for_what_goes_on_waiting(held: Held) -> None:
    """Each run is looked at once: 20,000 that look at each other take seconds."""
    claimed = rows(*range(20_000))
    for each in claimed[2:10_000]:
        each["handler"] = "py:kept"
    held.runner.accept(claimed)

    began = process_time()
    taken = held.runner.take_waiting({"py:kept"})

    assert process_time() - began < 0.5
    assert [context.run_id for context in taken] == list(range(10_000, 20_000))
    assert held.runner.waiting == 9_998


async def test_a_context_says_what_the_row_says(held: Held) -> None:
    claimed = row(7, attempt=2, max_attempts=3, priority=1, queue="q", schedule="s", fence=70)
    once = row(8, delivery="at_most_once", max_attempts=1)
    held.runner.accept([claimed, once])

    context = held.executor.executing[7]
    assert (context.run_id, context.attempt, context.max_attempts) == (7, 2, 3)
    assert (context.queue, context.priority, context.schedule) == ("q", 1, "s")
    assert (context.token, context.fence) == (claimed["token"], 70)
    assert held.executor.executing[8].max_attempts == 1
    assert held.executor.executing[8].delivery == "at_most_once"


async def test_an_end_after_the_loop_is_closed_harms_nobody() -> None:
    made: list[ByHand] = []

    async def live() -> None:
        runner = Runner(1, lambda: True, lambda _: None)
        executor = ByHand(runner.done, runner.feed_for("py"))
        runner.use({"py": executor})
        runner.accept(rows(1))
        made.append(executor)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    thread.join()

    made[0].end(1)
    assert made[0].executing == {}
    assert SUCCEEDED.text is None


async def test_the_runs_of_one_call_have_one_slot(held: Held) -> None:
    held.runner.use({"py": held.executor}, {"py:many": HandlerPolicy(batch=3)})
    held.runner.accept([row(run, handler="py:many") for run in (1, 2, 3, 4, 5)])

    first, second = held.executor.executing.values()
    assert [run.run_id for run in first._batch or ()] == [1, 2, 3]
    assert [run.run_id for run in second._batch or ()] == [4, 5]
    assert (held.runner.executing, held.runner.waiting, held.runner.free_slots) == (2, 0, 0)

    held.executor.end(1)
    assert [await held.outcome(run) for run in (1, 2, 3)] == [SUCCEEDED] * 3
    assert held.runner.free_slots == 1


async def test_batches_and_single_runs_take_turns(held: Held) -> None:
    held.runner.use({"py": held.executor}, {"py:many": HandlerPolicy(batch=3)})
    held.runner.accept(rows(1, 2, 3, 4, 5, 6))
    held.runner.accept([row(run, handler="py:many") for run in (11, 12, 13, 14)])

    begun: list[int] = []
    while held.executor.executing:
        run = next(iter(held.executor.executing))
        begun.append(run)
        held.executor.end(run)

    assert sorted(begun) == [1, 2, 3, 4, 5, 6, 11, 14]
    assert begun.index(11) <= 4
    assert begun.index(14) <= 6


async def test_a_run_that_waits_for_its_batch_ends_at_once_when_it_is_stopped(held: Held) -> None:
    held.runner.use({"py": held.executor}, {"py:many": HandlerPolicy(batch=3)})
    held.runner.accept([*rows(1, 2), row(3, handler="py:many")])

    held.runner.stop(3, StopReason.CANCELLED)

    assert isinstance(await held.outcome(3), Interrupted)
    assert held.runner.waiting == 0


async def test_runs_of_different_executors_take_turns(held: Held) -> None:
    class Alone(ByHand):
        def handlers(self) -> frozenset[str]:
            return frozenset({"py:alone"})

    alone = Alone(held.runner.done, held.runner.feed_for("py isolated"))
    held.runner.use({"py": held.executor, "py isolated": alone})
    held.runner.accept(rows(*range(1, 9)))
    held.runner.accept([row(11, handler="py:alone"), row(12, handler="py:alone")])

    def in_use() -> bool:
        return len(held.executor.executing) + len(alone.executing) == 2

    ends = 0
    while len(alone.executing) < 2:
        held.executor.end(min(held.executor.executing))
        ends += 1
        await until("both slots are in use", in_use)

    assert ends <= 4
    alone.end(11)
    await until("a plain run has the slot again", lambda: len(held.executor.executing) == 1)


async def test_the_slot_of_a_run_that_its_executor_refuses_is_free_again() -> None:
    async def many(batch: list[Context]) -> None:
        pass

    ended: list[Ended] = []
    runner = Runner(2, lambda: True, ended.extend)
    handlers = {"many": PythonHandler("many", many, policy=HandlerPolicy(batch=10))}
    services = ExecutorServices(runner.done, runner.feed_for("py"), Record(), 2)
    executor = PythonExecutor(handlers, services)
    runner.use({"py": executor}, {"py:many": HandlerPolicy(batch=10)})
    refused = [row(run, handler="py:many", delivery="transactional") for run in (1, 2, 3)]

    for each in refused:
        runner.accept([each])
    runner.accept([row(4, handler="py:many")])

    await until("all have ended", lambda: len(ended) == 4)
    by_run = {context.run_id: type(outcome) for context, outcome, _ in ended}
    assert by_run == {1: Failed, 2: Failed, 3: Failed, 4: Succeeded}
    assert runner.executing == 0
    await executor.close(5)
