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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pgcron_ha.executors.contract.base import (
    MAX_RESULT_BYTES,
    Context,
    Executor,
    Failed,
    Interrupted,
    StopReason,
    Succeeded,
)
from pgcron_ha.executors.contract.log_lines import MAX_LINE_BYTES, MAX_LINES
from pgcron_ha.operating_system import boottime
from pgcron_ha.testing import recording
from pgcron_ha.testing.recording import LeakedResources, RecordingEngine

CLOSE_SECONDS = 5.0
PROMPT_SECONDS = 1.0
"""Calls from the engine's loop must return at once; the bound allows for busy machines."""

_SHORT_LEASE = 0.6
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Sample:
    """A handler's full name and the args that make it do what is wanted."""

    handler: str
    args: Mapping[str, Any] = field(default_factory=dict)


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

    def test_its_handlers_are_named_after_its_kind(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, _):
            names = executor.handlers()
            assert {self.succeeds.handler, self.fails.handler, self.lasts.handler} <= names
            assert all(name.startswith(f"{executor.kind}:") for name in names)

    def test_a_run_of_another_handler_ends_as_a_failure(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = engine.run(f"{executor.kind}:nobody-has-this-one")
            executor.start([run])
            assert isinstance(engine.outcome(run), Failed)

    def test_args_that_do_not_fit_are_refused_for_good(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = self._start(executor, engine, self.refused)
            outcome = engine.outcome(run)
            assert isinstance(outcome, Failed)
            assert not outcome.retry
            assert outcome.message

    @pytest.mark.parametrize("levels", [450, 950, 100_000])
    def test_deeply_nested_args_end_no_other_run(self, levels: int, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            other = self._start_and_wait(executor, engine, self.lasts)
            nested = engine.run(self.succeeds.handler, f'{{"a": {"[" * levels}{"]" * levels}}}')
            executor.start([nested])
            engine.outcome(nested)
            executor.stop(other, StopReason.CANCELLED)
            assert isinstance(engine.outcome(other), Interrupted)
            following = self._start(executor, engine, self.succeeds)
            assert isinstance(engine.outcome(following), Succeeded)

    # The end of a run.

    def test_a_run_that_ends_well_is_told_once(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            before = time.monotonic()
            run = self._start(executor, engine, self.succeeds)
            assert isinstance(engine.outcome(run), Succeeded)
            assert run.started_monotonic is not None, "it says when the handler began"
            assert before <= run.started_monotonic <= time.monotonic()
        assert len(engine.outcomes_of(run)) == 1

    def test_a_run_that_fails_says_what_and_why(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            outcome = engine.outcome(self._start(executor, engine, self.fails))
            assert isinstance(outcome, Failed)
            assert outcome.error_class
            assert outcome.message

    def test_many_runs_at_once_are_each_told_once(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            runs = [self._run(engine, self.succeeds) for _ in range(self.slots)]
            executor.start(runs)
            for run in runs:
                assert isinstance(engine.outcome(run), Succeeded)
        assert [len(engine.outcomes_of(run)) for run in runs] == [1] * len(runs)

    def test_after_each_end_it_asks_once_for_the_next_run_of_the_slot(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            samples = [self.succeeds, self.refused, self.fails, self.succeeds]
            runs = [self._run(engine, each) for each in samples]
            engine.waiting.extend(runs[1:])
            executor.start(runs[:1])
            for run in runs:
                engine.outcome(run)
            engine.wait_until(lambda: len(engine.calls) >= 2 * len(runs), "the slot is free")
            assert engine.calls == ["done", "feed"] * len(runs)

    def test_what_it_was_not_asked_to_execute_leaves_it_silent(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (_, engine):
            pass
        assert engine.calls == []

    # Stopping.

    def test_a_stopped_run_is_told_when_it_has_really_ended(self, tmp_path: Path) -> None:
        at_work: list[bool] = []
        looked: Callable[[Context], None] = lambda run: at_work.append(self.is_at_work(run))  # noqa: E731
        with self._executor(tmp_path, looked) as (executor, engine):
            run = self._start_and_wait(executor, engine, self.lasts)
            executor.stop(run, StopReason.CANCELLED)
            executor.stop(run, StopReason.SHUTDOWN)
            assert _why_interrupted(engine, run) is StopReason.CANCELLED, "the first reason stays"
            assert at_work == [False]

    def test_a_run_that_was_stopped_before_it_began_never_begins(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = self._run(engine, self.lasts)
            executor.stop(run, StopReason.CANCELLED)
            executor.start([run])
            assert _why_interrupted(engine, run) is StopReason.CANCELLED
            assert run.started_monotonic is None

    def test_a_stop_that_races_with_the_start_is_obeyed(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            runs = [self._run(engine, self.lasts) for _ in range(min(20, self.slots))]
            for run in runs:
                executor.start([run])
                executor.stop(run, StopReason.CANCELLED)
            for run in runs:
                assert isinstance(engine.outcome(run), Interrupted)

    def test_a_stop_or_kill_that_races_with_the_end_changes_nothing(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            runs = [self._run(engine, self.succeeds) for _ in range(min(20, self.slots))]
            stopper = threading.Thread(target=_stop_and_kill, args=(executor, runs))
            stopper.start()
            executor.start(runs)
            for run in runs:
                engine.outcome(run)
            stopper.join()
            _stop_and_kill(executor, runs)
        assert [len(engine.outcomes_of(run)) for run in runs] == [1] * len(runs)

    def test_a_kill_ends_what_does_not_want_to_end(self, tmp_path: Path) -> None:
        sample = self.insists or self.lasts
        with self._executor(tmp_path) as (executor, engine):
            run = self._start_and_wait(executor, engine, sample)
            if self.insists is not None:
                executor.stop(run, StopReason.CANCELLED)
            assert executor.kill(run) is self.can_kill
            if not self.can_kill:
                executor.stop(run, StopReason.CANCELLED)
            elif self.insists is not None:
                assert isinstance(engine.outcome(run), Interrupted)
                assert not self.is_at_work(run)

    def test_calls_from_the_engines_loop_return_at_once(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            runs = [self._run(engine, self.lasts) for _ in range(min(8, self.slots))]
            began = time.monotonic()
            executor.start(runs)
            for run in runs:
                executor.stop(run, StopReason.CANCELLED)
            executor.renew_lease(boottime() + 60)
            assert time.monotonic() - began < PROMPT_SECONDS
            for run in runs:
                engine.outcome(run)

    # The lease.

    def test_nothing_works_on_after_the_end_of_the_lease(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = self._start_and_wait(executor, engine, self.lasts)
            executor.renew_lease(boottime() + _SHORT_LEASE)
            assert _why_interrupted(engine, run) is StopReason.LEASE_LOST
            assert not self.is_at_work(run)

    def test_nothing_begins_after_the_end_of_the_lease(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            executor.renew_lease(boottime() - 1)
            run = self._start(executor, engine, self.lasts)
            assert _why_interrupted(engine, run) is StopReason.LEASE_LOST

    def test_a_lease_that_is_renewed_goes_on(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = self._start_and_wait(executor, engine, self.lasts)
            first = boottime() + _SHORT_LEASE
            executor.renew_lease(first)
            executor.renew_lease(boottime() + 60)
            self._wait(lambda: boottime() > first + _SHORT_LEASE / 2, "the first lease is over")
            assert engine.outcomes_of(run) == []
            executor.stop(run, StopReason.CANCELLED)
            assert isinstance(engine.outcome(run), Interrupted)

    # Closing.

    def test_close_ends_what_runs_and_leaves_nothing_behind(self, tmp_path: Path) -> None:
        before = LeakedResources.now()
        with self._executor(tmp_path) as (executor, engine):
            ended = self._start(executor, engine, self.succeeds)
            engine.outcome(ended)
            runs = [
                self._start_and_wait(executor, engine, self.lasts)
                for _ in range(min(3, self.slots))
            ]
        for run in runs:
            assert _why_interrupted(engine, run) is StopReason.SHUTDOWN
            assert not self.is_at_work(run)
        self._wait(lambda: not LeakedResources.now().beyond(before), "nothing is left", before)

    def test_close_kills_what_does_not_stop(self, tmp_path: Path) -> None:
        if self.insists is None or not self.can_kill:
            return
        with self._executor(tmp_path, grace=0.1) as (executor, engine):
            run = self._start_and_wait(executor, engine, self.insists)
        assert isinstance(engine.outcome(run), Interrupted)
        assert not self.is_at_work(run)

    def test_what_comes_after_close_is_refused_and_told(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            asyncio.run(executor.close(CLOSE_SECONDS))
            run = self._start(executor, engine, self.succeeds)
            executor.stop(run, StopReason.CANCELLED)
            executor.kill(run)
            executor.renew_lease(boottime() + 60)
            assert isinstance(engine.outcome(run), Interrupted)

    # Bounds.

    def test_what_a_run_writes_is_bounded_and_ends_with_it(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            run = self._start(executor, engine, self.talks or self.succeeds)
            engine.outcome(run)
            lines = engine.lines_of(run)
        assert len(lines) <= MAX_LINES + 1, "and one that says how many were dropped"
        assert [line for line in lines if len(line.encode()) > MAX_LINE_BYTES] == []
        assert [line for line in lines if "\n" in line or "\0" in line] == []
        assert engine.late_lines == []
        assert lines or self.talks is None

    def test_a_result_is_no_larger_than_the_database_keeps(self, tmp_path: Path) -> None:
        with self._executor(tmp_path) as (executor, engine):
            outcome = engine.outcome(
                self._start(executor, engine, self.returns_much or self.succeeds)
            )
        if isinstance(outcome, Succeeded):
            assert (outcome.text is None) == (outcome.result is None)
            assert len((outcome.text or "").encode()) <= MAX_RESULT_BYTES
        else:
            assert isinstance(outcome, Failed)
            assert not outcome.retry, "its effects have happened"

    # What the tests above are made of.

    @contextmanager
    def _executor(
        self,
        directory: Path,
        at_done: Callable[[Context], None] = lambda context: None,
        grace: float = CLOSE_SECONDS,
    ) -> Iterator[tuple[Executor, RecordingEngine]]:
        engine = RecordingEngine(at_done)
        executor = self.make(engine.executor_services(self.slots, directory))
        executor.renew_lease(boottime() + 600)
        try:
            yield executor, engine
        finally:
            asyncio.run(executor.close(grace))

    def _run(self, engine: RecordingEngine, sample: Sample) -> Context:
        return engine.run(sample.handler, sample.args)

    def _start(self, executor: Executor, engine: RecordingEngine, sample: Sample) -> Context:
        run = self._run(engine, sample)
        executor.start([run])
        return run

    def _start_and_wait(
        self, executor: Executor, engine: RecordingEngine, sample: Sample
    ) -> Context:
        """Until it is at work."""
        run = self._start(executor, engine, sample)
        self._wait(lambda: self.is_at_work(run) or bool(engine.outcomes_of(run)), "it is at work")
        assert engine.outcomes_of(run) == [], "it must work until it is stopped"
        return run

    def _wait(
        self, condition: Callable[[], bool], what: str, before: LeakedResources | None = None
    ) -> None:
        end = time.monotonic() + recording.DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > end:
                more = "" if before is None else f", but {LeakedResources.now().beyond(before)}"
                pytest.fail(f"not in {recording.DEADLINE_SECONDS:g} s: {what}{more}")
            threading.Event().wait(_PAUSE_SECONDS)


def _stop_and_kill(executor: Executor, runs: list[Context]) -> None:
    for run in runs:
        executor.stop(run, StopReason.CANCELLED)
        executor.kill(run)


def _why_interrupted(engine: RecordingEngine, run: Context) -> StopReason:
    """Waits for the end of a run that must have been interrupted."""
    outcome = engine.outcome(run)
    assert isinstance(outcome, Interrupted)
    return outcome.reason
