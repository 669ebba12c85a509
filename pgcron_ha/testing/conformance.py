"""Shows whether an executor keeps the contract of `pgcron_ha.executors.contract.base.Executor`.

Make a subclass of `ExecutorConformance` whose name begins with ``Test`` in a test file, say how the
executor is made and which of its handlers do what, and run pytest. Fixtures of yours that are
``autouse`` can prepare what the handlers need. ::

    class TestTouch(ExecutorConformance):
        succeeds = Sample("touch:here", {"name": "a"})
        ...
        def make(self, executor_services):
            return TouchExecutor({"here": {"directory": "/tmp"}}, executor_services)

The tests wait for conditions, with a deadline. Those about threads, processes and descriptors look
at ``/proc`` where there is one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
import uvloop

from pgcron_ha.executors.contract.base import (
    MAX_RESULT_BYTES,
    Context,
    Executor,
    ExecutorServices,
    Failed,
    Interrupted,
    StopReason,
    Succeeded,
)
from pgcron_ha.executors.contract.log_lines import MAX_LINE_BYTES, MAX_LINES
from pgcron_ha.operating_system import boottime
from pgcron_ha.testing.recording import RecordingEngine, resources

CLOSE_SECONDS = 5.0
PROMPT_SECONDS = 1.0
"""Calls from the engine's loop must return at once; the bound allows for busy machines."""

_SHORT_LEASE = 0.6


class Sample(NamedTuple):
    """A handler's full name and the args (JSON as text, too) that make it do what is wanted."""

    handler: str
    args: dict[str, Any] | str = "{}"


class ExecutorConformance:
    """Subclass it; the class attributes without a value must be given one."""

    succeeds: ClassVar[Sample]
    """Ends well within a second."""

    fails: ClassVar[Sample]
    """Ends with an error, within a second."""

    refused: ClassVar[Sample]
    """Has args the handler can't take: it must not begin, and no attempt can help."""

    lasts: ClassVar[Sample]
    """Works until it is stopped, and ends soon when it is. It may look at `Context.check`."""

    insists: ClassVar[Sample | None] = None
    """Continues although it is stopped. None where nothing can."""

    talks: ClassVar[Sample | None] = None
    """Writes more than `MAX_LINES` lines or one longer than `MAX_LINE_BYTES`. None: it can't."""

    returns_much: ClassVar[Sample | None] = None
    """Has a result of more than `MAX_RESULT_BYTES`. None where there are no results."""

    can_kill: ClassVar[bool] = True
    """Whether `kill` ends what does not want to end."""

    slots: ClassVar[int] = 64
    """The most runs that are started at the same time."""

    def make(self, executor_services: Any) -> Executor:
        """The executor under test, made with a `ExecutorServices`."""
        raise TypeError(f"{type(self).__name__} does not say how its executor is made: define make")

    def is_at_work(self, context: Context) -> bool:
        """Whether anything of the run's handler still works: a process, a connection, a thread.

        Called at the moment of `done`, too, from the executor's thread.
        """
        raise TypeError(f"{type(self).__name__} does not say what is at work: define is_at_work")

    # Names and refusals.

    def test_its_handlers_are_named_after_its_kind(self, trial: Trial) -> None:
        names = trial.executor.handlers()
        assert {self.succeeds.handler, self.fails.handler, self.lasts.handler} <= names
        assert all(name.startswith(f"{trial.executor.kind}:") for name in names)

    def test_a_run_of_another_handler_ends_as_a_failure(self, trial: Trial) -> None:
        run = trial.start(Sample(f"{trial.executor.kind}:nobody-has-this-one"))
        assert isinstance(trial.outcome(run), Failed)

    def test_args_that_do_not_fit_are_refused_for_good(self, trial: Trial) -> None:
        outcome = trial.outcome(trial.start(self.refused))
        assert isinstance(outcome, Failed)
        assert not outcome.retry
        assert outcome.message

    @pytest.mark.parametrize("levels", [450, 950, 100_000])
    def test_deeply_nested_args_end_no_other_run(self, levels: int, trial: Trial) -> None:
        other = trial.start_and_wait(self.lasts)
        args = f'{{"a": {"[" * levels}{"]" * levels}}}'
        trial.outcome(trial.start(Sample(self.succeeds.handler, args)))
        trial.executor.stop(other, StopReason.CANCELLED)
        assert isinstance(trial.outcome(other), Interrupted)
        assert isinstance(trial.outcome(trial.start(self.succeeds)), Succeeded)

    # The end of a run.

    def test_a_run_that_ends_well_is_told_once(self, trial: Trial) -> None:
        before = time.monotonic()
        run = trial.start(self.succeeds)
        assert isinstance(trial.outcome(run), Succeeded)
        assert run.started_monotonic is not None, "it says when the handler began"
        assert before <= run.started_monotonic <= time.monotonic()
        trial.close()
        assert len(trial.outcomes_of(run)) == 1

    def test_a_run_that_fails_says_what_and_why(self, trial: Trial) -> None:
        outcome = trial.outcome(trial.start(self.fails))
        assert isinstance(outcome, Failed)
        assert outcome.error_class
        assert outcome.message

    def test_many_runs_at_once_are_each_told_once(self, trial: Trial) -> None:
        runs = [trial.new(*self.succeeds) for _ in range(self.slots)]
        trial.executor.start(runs)
        for run in runs:
            assert isinstance(trial.outcome(run), Succeeded)
        trial.close()
        assert [len(trial.outcomes_of(run)) for run in runs] == [1] * len(runs)

    def test_after_each_end_it_asks_once_for_the_next_run_of_the_slot(self, trial: Trial) -> None:
        samples = [self.succeeds, self.refused, self.fails, self.succeeds]
        runs = [trial.new(*each) for each in samples]
        trial.waiting.extend(runs[1:])
        trial.executor.start(runs[:1])
        for run in runs:
            trial.outcome(run)
        trial.wait_until(lambda: len(trial.calls) >= 2 * len(runs), "the slot is free")
        assert trial.calls == ["done", "feed"] * len(runs)

    def test_what_it_was_not_asked_to_execute_leaves_it_silent(self, trial: Trial) -> None:
        trial.close()
        assert trial.calls == []

    # Stopping.

    def test_a_stopped_run_is_told_when_it_has_really_ended(self, trial: Trial) -> None:
        at_work: list[bool] = []
        trial.at_done = lambda run: at_work.append(self.is_at_work(run))
        run = trial.start_and_wait(self.lasts)
        trial.executor.stop(run, StopReason.CANCELLED)
        trial.executor.stop(run, StopReason.SHUTDOWN)
        assert trial.why_interrupted(run) is StopReason.CANCELLED, "the first reason stays"
        assert at_work == [False]

    def test_a_run_that_was_stopped_before_it_began_never_begins(self, trial: Trial) -> None:
        run = trial.new(*self.lasts)
        trial.executor.stop(run, StopReason.CANCELLED)
        trial.executor.start([run])
        assert trial.why_interrupted(run) is StopReason.CANCELLED
        assert run.started_monotonic is None

    def test_a_stop_that_races_with_the_start_is_obeyed(self, trial: Trial) -> None:
        runs = [trial.new(*self.lasts) for _ in range(min(20, self.slots))]
        for run in runs:
            trial.executor.start([run])
            trial.executor.stop(run, StopReason.CANCELLED)
        for run in runs:
            assert isinstance(trial.outcome(run), Interrupted)

    def test_a_stop_or_kill_that_races_with_the_end_changes_nothing(self, trial: Trial) -> None:
        runs = [trial.new(*self.succeeds) for _ in range(min(20, self.slots))]
        stopper = threading.Thread(target=_stop_and_kill, args=(trial.executor, runs))
        stopper.start()
        trial.executor.start(runs)
        for run in runs:
            trial.outcome(run)
        stopper.join()
        _stop_and_kill(trial.executor, runs)
        trial.close()
        assert [len(trial.outcomes_of(run)) for run in runs] == [1] * len(runs)

    def test_a_kill_ends_what_does_not_want_to_end(self, trial: Trial) -> None:
        run = trial.start_and_wait(self.insists or self.lasts)
        if self.insists is not None:
            trial.executor.stop(run, StopReason.CANCELLED)
        assert trial.executor.kill(run) is self.can_kill
        if not self.can_kill:
            trial.executor.stop(run, StopReason.CANCELLED)
        elif self.insists is not None:
            assert isinstance(trial.outcome(run), Interrupted)
            assert not self.is_at_work(run)

    def test_calls_from_the_engines_loop_return_at_once(self, trial: Trial) -> None:
        runs = [trial.new(*self.lasts) for _ in range(min(8, self.slots))]
        began = time.monotonic()
        trial.executor.start(runs)
        for run in runs:
            trial.executor.stop(run, StopReason.CANCELLED)
        trial.executor.renew_lease(boottime() + 60)
        assert time.monotonic() - began < PROMPT_SECONDS
        for run in runs:
            trial.outcome(run)

    # The lease.

    def test_nothing_works_on_after_the_end_of_the_lease(self, trial: Trial) -> None:
        run = trial.start_and_wait(self.lasts)
        trial.executor.renew_lease(boottime() + _SHORT_LEASE)
        assert trial.why_interrupted(run) is StopReason.LEASE_LOST
        assert not self.is_at_work(run)

    def test_nothing_begins_after_the_end_of_the_lease(self, trial: Trial) -> None:
        trial.executor.renew_lease(boottime() - 1)
        assert trial.why_interrupted(trial.start(self.lasts)) is StopReason.LEASE_LOST

    def test_a_lease_that_is_renewed_goes_on(self, trial: Trial) -> None:
        run = trial.start_and_wait(self.lasts)
        first = boottime() + _SHORT_LEASE
        trial.executor.renew_lease(first)
        trial.executor.renew_lease(boottime() + 60)
        trial.wait_until(lambda: boottime() > first + _SHORT_LEASE / 2, "the first lease is over")
        assert trial.outcomes_of(run) == []
        trial.executor.stop(run, StopReason.CANCELLED)
        assert isinstance(trial.outcome(run), Interrupted)

    # Closing.

    def test_close_ends_what_runs_and_leaves_nothing_behind(self, trial: Trial) -> None:
        trial.outcome(trial.start(self.succeeds))
        runs = [trial.start_and_wait(self.lasts) for _ in range(min(3, self.slots))]
        trial.close()
        for run in runs:
            assert trial.why_interrupted(run) is StopReason.SHUTDOWN
            assert not self.is_at_work(run)
        with suppress(AssertionError):  # the next line says what is left
            trial.wait_until(lambda: not trial.leaked(), "nothing is left")
        assert trial.leaked() == []

    def test_close_kills_what_does_not_stop(self, trial: Trial) -> None:
        if self.insists is None or not self.can_kill:
            return
        run = trial.start_and_wait(self.insists)
        trial.close(grace=0.1)
        assert isinstance(trial.outcome(run), Interrupted)
        assert not self.is_at_work(run)

    def test_what_comes_after_close_is_refused_and_told(self, trial: Trial) -> None:
        trial.close()
        run = trial.start(self.succeeds)
        trial.executor.stop(run, StopReason.CANCELLED)
        trial.executor.kill(run)
        trial.executor.renew_lease(boottime() + 60)
        assert isinstance(trial.outcome(run), Interrupted)

    # Bounds.

    def test_what_a_run_writes_is_bounded_and_ends_with_it(self, trial: Trial) -> None:
        run = trial.start(self.talks or self.succeeds)
        trial.outcome(run)
        trial.close()
        lines = trial.lines
        assert len(lines) <= MAX_LINES + 1, "and one that says how many were dropped"
        assert [line for line in lines if len(line.encode()) > MAX_LINE_BYTES] == []
        assert [line for line in lines if "\n" in line or "\0" in line] == []
        assert trial.late_lines == []
        assert lines or self.talks is None

    def test_a_result_is_no_larger_than_the_database_keeps(self, trial: Trial) -> None:
        outcome = trial.outcome(trial.start(self.returns_much or self.succeeds))
        if isinstance(outcome, Succeeded):
            assert (outcome.text is None) == (outcome.result is None)
            assert len((outcome.text or "").encode()) <= MAX_RESULT_BYTES
        else:
            assert isinstance(outcome, Failed)
            assert not outcome.retry, "its effects have happened"

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[Trial]:
        """The executor under test, with the engine's side of it."""
        trial = Trial(self, tmp_path)
        yield trial
        trial.close()


class Trial(RecordingEngine):
    """An executor under test, and the engine's side of it."""

    def __init__(self, suite: ExecutorConformance, directory: Path) -> None:
        super().__init__()
        uvloop.new_event_loop().close()  # the first of a process opens a pipe that it keeps
        self._before = resources()
        self._suite = suite
        self._directory = directory
        self._is_closed = False

    @cached_property
    def executor(self) -> Executor:
        """Made when the test uses it: before, pytest would take back what it does to stdout."""
        slots, directory = self._suite.slots, self._directory
        executor = self._suite.make(ExecutorServices(self.done, self.feed, self, slots, directory))
        executor.renew_lease(boottime() + 600)
        return executor

    def close(self, grace: float = CLOSE_SECONDS) -> None:
        """The executor, once."""
        if not self._is_closed:
            self._is_closed = True
            asyncio.run(self.executor.close(grace))

    def start(self, sample: Sample) -> Context:
        """A run that the executor is to execute."""
        run = self.new(*sample)
        self.executor.start([run])
        return run

    def start_and_wait(self, sample: Sample) -> Context:
        """Until it is at work."""
        run = self.start(sample)
        self.wait_until(
            lambda: self._suite.is_at_work(run) or bool(self.outcomes_of(run)), "it is at work"
        )
        assert self.outcomes_of(run) == [], "it must work until it is stopped"
        return run

    def why_interrupted(self, run: Context) -> StopReason:
        """Waits for the end of a run that must have been interrupted."""
        outcome = self.outcome(run)
        assert isinstance(outcome, Interrupted)
        return outcome.reason

    def leaked(self) -> list[str]:
        """What is there and was not there before the executor."""
        return sorted(resources() - self._before)


def _stop_and_kill(executor: Executor, runs: list[Context]) -> None:
    for run in runs:
        executor.stop(run, StopReason.CANCELLED)
        executor.kill(run)
