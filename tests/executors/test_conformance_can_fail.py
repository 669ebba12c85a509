"""Each fault of an executor is found by a test of the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Executor,
    ExecutorServices,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
)
from pgcron_ha.executors.contract.tasks import TaskExecutor
from pgcron_ha.testing import recording
from tests.product.testing import ExecutorConformance, Sample, Trial

HANDLERS = ("x:good", "x:bad", "x:lasts", "x:talks")
SHORT_SECONDS = 2.0


class Plain(TaskExecutor):
    def __init__(self, executor_services: ExecutorServices) -> None:
        self.at_work: set[int] = set()
        super().__init__("x", HANDLERS, executor_services)

    async def execute(self, context: Context) -> Outcome:
        if context.args:
            return Failed("InvalidInput", "no args are taken", retry=False)
        if context.handler == "x:lasts":
            self.at_work.add(context.run_id)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.at_work.discard(context.run_id)
        if context.handler == "x:talks":
            self.talk(context)
        return SUCCEEDED if context.handler != "x:bad" else Failed("Bad", "as it should")

    def talk(self, context: Context) -> None:
        context.log("x" * 100_000)


class SaysDoneTwice(Plain):
    def _report_end(self, context: Context, outcome: Outcome) -> None:
        super()._report_end(context, outcome)
        self._done(context, outcome)


class SaysDoneTooEarly(Plain):
    def stop(self, context: Context, reason: StopReason) -> None:
        if context in self._live and context.stop_reason is None:
            self._done(context, Interrupted(reason, "soon"))
        super().stop(context, reason)


class NeverAsksForMore(Plain):
    def __init__(self, executor_services: ExecutorServices) -> None:
        super().__init__(executor_services)
        self._feed = lambda: None


class AsksBeforeItIsDone(Plain):
    def _report_end(self, context: Context, outcome: Outcome) -> None:
        following, feed = self._feed(), self._feed
        super()._report_end(context, outcome)

        def give() -> Context | None:
            self._feed = feed
            return following

        self._feed = give


class ForgetsItsLease(Plain):
    def renew_lease(self, deadline: float) -> None:
        pass


class KillsNothing(Plain):
    def kill(self, context: Context) -> bool:
        return False


class LeavesAThread(Plain):
    over = threading.Event()

    async def close(self, grace: float) -> None:
        await super().close(grace)
        threading.Thread(target=self.over.wait, daemon=True).start()


class WritesWithoutEnd(Plain):
    def talk(self, context: Context) -> None:
        self._services.sink.write(context, "log", "x" * 100_000)


class RetriesForNothing(Plain):
    async def execute(self, context: Context) -> Outcome:
        return Failed("InvalidInput", "no args are taken") if context.args else SUCCEEDED


class TakesItsTime(Plain):
    def start(self, contexts: Sequence[Context]) -> None:
        threading.Event().wait(1.2)
        super().start(contexts)


class ForgetsWhatCameLate(Plain):
    def start(self, contexts: Sequence[Context]) -> None:
        if not self._closing:
            super().start(contexts)


class MixesReasons(Plain):
    def stop(self, context: Context, reason: StopReason) -> None:
        context.stop_reason = None
        super().stop(context, reason)


class Suite(ExecutorConformance):
    succeeds = Sample("x:good")
    fails = Sample("x:bad")
    refused = Sample("x:good", {"unknown": 1})
    lasts = Sample("x:lasts")
    talks = Sample("x:talks")
    slots = 4

    def __init__(self, kind: type[Plain]) -> None:
        self.kind = kind

    def make(self, executor_services: ExecutorServices) -> Executor:
        self.executor = self.kind(executor_services)
        return self.executor

    def is_at_work(self, context: Context) -> bool:
        return context.run_id in self.executor.at_work


FAULTS: list[tuple[type[Plain], str]] = [
    (SaysDoneTwice, "a_run_that_ends_well_is_told_once"),
    (SaysDoneTooEarly, "a_stopped_run_is_told_when_it_has_really_ended"),
    (NeverAsksForMore, "after_each_end_it_asks_once_for_the_next_run_of_the_slot"),
    (AsksBeforeItIsDone, "after_each_end_it_asks_once_for_the_next_run_of_the_slot"),
    (ForgetsItsLease, "nothing_works_on_after_the_end_of_the_lease"),
    (ForgetsItsLease, "nothing_begins_after_the_end_of_the_lease"),
    (KillsNothing, "a_kill_ends_what_does_not_want_to_end"),
    (LeavesAThread, "close_ends_what_runs_and_leaves_nothing_behind"),
    (WritesWithoutEnd, "what_a_run_writes_is_bounded_and_ends_with_it"),
    (RetriesForNothing, "args_that_do_not_fit_are_refused_for_good"),
    (RetriesForNothing, "a_run_that_fails_says_what_and_why"),
    (TakesItsTime, "calls_from_the_engines_loop_return_at_once"),
    (ForgetsWhatCameLate, "what_comes_after_close_is_refused_and_told"),
    (MixesReasons, "a_stopped_run_is_told_when_it_has_really_ended"),
]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(recording, "DEADLINE_SECONDS", SHORT_SECONDS)
    LeavesAThread.over.clear()
    yield
    LeavesAThread.over.set()


def play(suite: Suite, name: str, folder: Path) -> None:
    """One test of the suite."""
    with closing(Trial(suite, folder)) as trial:
        getattr(suite, f"test_{name}")(trial)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), FAULTS)
def test_a_fault_is_found(kind: type[Plain], name: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError)):
        play(Suite(kind), name, tmp_path)


@pytest.mark.parametrize("name", sorted({name for _, name in FAULTS}))
def test_without_the_fault_it_passes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "DEADLINE_SECONDS", 20.0)
    play(Suite(Plain), name, tmp_path)
