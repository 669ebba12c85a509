"""Handlers with processes of their own: what they get, what becomes of them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pgcron_ha import App
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Failed,
    Interrupted,
    StopReason,
    Stream,
    Succeeded,
)
from pgcron_ha.operating_system import boottime
from tests.executors.isolated_handlers import app
from tests.executors.running import NOWHERE, Record, alive, context, readable_pid
from tests.product.client import child_program
from tests.product.executors import Attempt, ChildPool, Progress
from tests.waiting import wait_for

PLACE = "tests.executors.isolated_handlers:app"
Warm: TypeAlias = tuple[ChildPool, Record]
_numbers = itertools.count(1)


@asynccontextmanager
async def executor(
    limit: int = 4, record: Record | None = None
) -> AsyncIterator[tuple[ChildPool, Record]]:
    record = record or Record()
    program = child_program([PLACE], NOWHERE, "pgcron")
    running = ChildPool(app.handlers, program, record.services(limit))
    try:
        yield running, record
    finally:
        await running.close(5)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """One executor for the tests that leave it as it was: an interpreter takes its time."""
    record = Record()
    program = child_program([PLACE], NOWHERE, "pgcron")
    running = ChildPool(app.handlers, program, record.services(4))
    yield running, record
    with ThreadPoolExecutor(1) as thread:  # an event loop may already belong to this one
        thread.submit(lambda: asyncio.run(running.close(5))).result()


def run_of(handler: str, **args: Any) -> Context:
    return context(next(_numbers), f"py:{handler}", args)


def outcome_of(warm: Warm, handler: str, **args: Any) -> Any:
    running, record = warm
    run = run_of(handler, **args)
    running.start([run])
    return record.outcome(run)


def test_a_run_gets_its_args_and_context_and_its_result_comes_back(warm: Warm) -> None:
    running, record = warm
    run = context(next(_numbers), "py:add", {"left": 2, "day": "2026-01-31"}, origin="redrive")
    running.start([run])
    outcome = record.outcome(run)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {
    "sum": 3, "day": "2026-01-31", "attempt": 1, "key": str(run.run_uuid), "origin": "redrive",
    }  # fmt: skip
    assert run.started_monotonic is not None


def test_it_gains_no_rights_and_its_files_are_its_users_alone(warm: Warm) -> None:
    outcome = outcome_of(warm, "rights")

    assert outcome.result == ["077", "NoNewPrivs:\t1"]


def test_what_it_says_of_assets_and_steps_comes_back(warm: Warm) -> None:
    running, record = warm
    step = {"name": "more", "handler": "py:where", "args": {}, "queue": "mail"}
    declared = {"assets": {"sales": {"rows": 3}, "stock": None}, "steps": {"more": step}}
    for handler, expected in (("updates", declared), ("where", None)):
        run = context(next(_numbers), f"py:{handler}", origin="step")
        running.start([run])
        assert isinstance(record.outcome(run), Succeeded)
        assert run._declared == expected


async def test_runs_follow_each_other_in_one_warm_process() -> None:
    async with executor() as (running, record):
        runs = [context(number, "py:where") for number in range(20)]
        record.waiting.extend(runs[1:])
        running.start(runs[:1])
        places = {record.outcome(run).text for run in runs}  # type: ignore[union-attr]
    assert len(places) == 1
    assert str(os.getpid()) not in str(places)


def test_output_of_every_kind_is_the_runs_log_while_it_runs(warm: Warm, tmp_path: Path) -> None:
    running, record = warm
    run = context(next(_numbers), "py:talks", {"path": str(tmp_path / "go on")})
    running.start([run])
    for line in ("of a program", "below python", "printed", "to stderr"):
        record.wait_for_line(run, line)
    assert record.lines_of(run, "log") == [
        "WARNING shop: logged", "reported",
    ]  # fmt: skip
    assert record.lines_of(run, "stderr") == ["to stderr"]
    (tmp_path / "go on").touch()
    assert record.outcome(run) is SUCCEEDED or record.outcome(run) == SUCCEEDED
    assert Progress(1, 2, None) in record.reports


@pytest.mark.parametrize(
    ("how", "error_class", "retry"),
    [
        ("raises", "LookupError", True),
        ("discards", "Discard", False),
        ("snoozes", "Snooze", True),
        ("exits", "SystemExit", True),
        ("returns", "InvalidResult", False),
    ],
)
def test_what_a_handler_raises_is_told_as_in_a_node(
    warm: Warm, how: str, error_class: str, retry: bool
) -> None:
    outcome = outcome_of(warm, "fails", how=how)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == (error_class, retry)
    assert (outcome.snooze, outcome.after) == (
        (True, timedelta(minutes=5)) if how == "snoozes" else (False, None)
    )
    if how == "raises":
        assert "in fails" in str(outcome.traceback)


def test_wrong_args_are_refused_before_the_call(warm: Warm) -> None:
    outcome = outcome_of(warm, "add", left="two")
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
    assert "py:add: 'left' is \"two\": Input should be a valid integer" in outcome.message


@pytest.mark.parametrize(
    ("how", "error_class", "status", "sentence"),
    [
        ("exits", "ExitStatus", 7, "exited with status 7 before the handler had returned"),
        ("segfault", "KilledBySignal", -signal.SIGSEGV, "SIGSEGV"),
        ("killed", "KilledBySignal", -signal.SIGKILL, "had no memory left"),
        ("silent", "ExitStatus", 1, "exited with status 1 before"),
        ("babbles", "BadChild", None, "what a child does not say"),
        ("forges", "BadChild", None, "what a child does not say"),
    ],
)
def test_a_process_that_dies_fails_its_run_and_the_next_one_takes_over(
    warm: Warm,
    how: str,
    error_class: str,
    status: int | None,
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    running, record = warm
    dying, following = (
        context(next(_numbers), "py:dies", {"how": how}),
        context(next(_numbers), "py:add", {"left": 1}),
    )
    record.waiting.append(following)
    running.start([dying])
    outcome = record.outcome(dying)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.exit_status, outcome.retry) == (
        error_class, status, True,
    )  # fmt: skip
    assert sentence in outcome.message
    assert "the node failed" not in caplog.text
    assert isinstance(record.outcome(following), Succeeded)
    if status is not None and status > 0:
        assert record.lines_of(dying, "stderr")[:1] == ["last words"]


async def test_an_error_of_the_nodes_own_at_what_a_process_says_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full(Record):
        def write(self, context: Attempt, stream: Stream, line: str) -> None:
            raise NotImplementedError("no room for lines")

    async with executor(record=Full()) as (running, record):
        run = context(1, "py:leaks", {"secret": "a line", "before": 0})
        with caplog.at_level(logging.ERROR, "pgcron_ha"):
            running.start([run])
            outcome = record.outcome(run)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "BadChild"
    assert "NotImplementedError: no room for lines" in caplog.text
    assert "Traceback" in caplog.text


def test_memory_and_processor_time_are_limited(warm: Warm) -> None:
    running, record = warm
    small = context(next(_numbers), "py:eats", {"size": 1 << 20})
    large = context(next(_numbers), "py:eats", {"size": 1 << 30})
    busy = run_of("computes", seconds=30)
    record.waiting.extend([large, busy])
    running.start([small])
    assert record.outcome(small) == Succeeded(1 << 20, str(1 << 20))
    outcome = record.outcome(large)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "MemoryError"
    assert "may hold 268 MB of memory" in outcome.message
    computed = record.outcome(busy)
    assert isinstance(computed, Failed)
    assert (computed.error_class, computed.exit_status) == ("CpuLimit", -signal.SIGXCPU)
    assert "more than 1 s of processor time" in computed.message


@pytest.mark.parametrize("handler", ["waits", "asks"])
def test_a_stop_reaches_the_handler(warm: Warm, handler: str, tmp_path: Path) -> None:
    running, record = warm
    run = context(next(_numbers), f"py:{handler}", {"path": str(tmp_path / "pid")})
    running.start([run])
    wait_for("it runs", lambda: readable_pid(tmp_path / "pid"))
    running.stop(run, StopReason.CANCELLED)
    outcome = record.outcome(run)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.CANCELLED
    assert alive(int((tmp_path / "pid").read_text()))
    if handler == "waits":
        assert record.lines_of(run, "stdout") == ["cancelled"]


def test_what_does_not_stop_is_killed_and_only_then_done(warm: Warm, tmp_path: Path) -> None:
    running, record = warm
    run = context(next(_numbers), "py:unresponsive", {"path": str(tmp_path / "pid")})
    running.start([run])
    wait_for("it runs", lambda: readable_pid(tmp_path / "pid"))
    running.stop(run, StopReason.TIMED_OUT)
    assert running.kill(run) is True
    outcome = record.outcome(run)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.TIMED_OUT
    assert "SIGKILL" in outcome.message


async def test_a_run_that_waits_for_its_process_can_be_stopped(tmp_path: Path) -> None:
    async with executor(limit=1) as (running, record):
        first = context(1, "py:asks", {"path": str(tmp_path / "pid")})
        second = context(2, "py:add", {"left": 1})
        running.start([first, second])
        wait_for("the first runs", lambda: readable_pid(tmp_path / "pid"))
        running.stop(second, StopReason.CANCELLED)
        outcome = record.outcome(second)
        assert isinstance(outcome, Interrupted)
        assert second.started_monotonic is None
        assert first.run_id not in record.outcomes


def test_a_daemon_that_a_run_leaves_behind_is_gone_before_the_run_is_done(
    warm: Warm, tmp_path: Path
) -> None:
    running, record = warm
    run = context(next(_numbers), "py:leaves_a_daemon", {"path": str(tmp_path / "pid")})
    running.start([run])
    outcome = record.outcome(run)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert outcome == Succeeded("left", '"left"')
    assert "1 processes that the handler left behind are killed" in record.lines_of(run, "log")


async def test_everything_dies_with_the_lease(tmp_path: Path) -> None:
    async with executor() as (running, record):
        running.renew_lease(boottime() + 60)
        run = context(1, "py:unresponsive", {"path": str(tmp_path / "pid")})
        running.start([run])
        wait_for("it runs", lambda: readable_pid(tmp_path / "pid"))
        running.renew_lease(boottime() + 0.2)
        outcome = record.outcome(run)
        assert isinstance(outcome, Interrupted)
        assert outcome.reason is StopReason.LEASE_LOST
        assert not alive(int((tmp_path / "pid").read_text()))
        late = context(2, "py:add", {"left": 1})
        running.start([late])
        assert isinstance(record.outcome(late), Interrupted)
        running.renew_lease(boottime() + 60)
        again = context(3, "py:add", {"left": 1})
        running.start([again])
        assert isinstance(record.outcome(again), Succeeded)


def test_a_killed_supervisor_fails_its_runs_and_a_new_one_takes_over(warm: Warm) -> None:
    running, record = warm
    run, following = (
        context(next(_numbers), "py:kills_its_supervisor"),
        context(next(_numbers), "py:add", {"left": 1}),
    )
    running.start([run])
    outcome = record.outcome(run)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "SupervisorLost"
    running.start([following])
    assert isinstance(record.outcome(following), Succeeded)


async def test_close_leaves_no_process_behind(tmp_path: Path) -> None:
    async with executor() as (running, record):
        run = context(1, "py:unresponsive", {"path": str(tmp_path / "pid")})
        running.start([run])
        wait_for("it runs", lambda: readable_pid(tmp_path / "pid"))
        await running.close(0.1)
    outcome = record.outcome(run)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.SHUTDOWN
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_an_app_that_can_not_be_imported_fails_the_run_in_words() -> None:
    record = Record()
    program = child_program(["tests.executors.nowhere:app"], NOWHERE, "pgcron")
    running = ChildPool(app.handlers, program, record.services(4))
    run = context(1, "py:add", {"left": 1})
    running.start([run])
    outcome = record.outcome(run)
    await running.close(1)
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "CouldNotStart"
    assert "module 'tests.executors.nowhere' is not found" in outcome.message


async def test_many_runs_at_once_use_no_more_processes_than_slots() -> None:
    async with executor(limit=2) as (running, record):
        runs = [context(number, "py:where") for number in range(50)]
        running.start(runs)
        found = {record.outcome(run).text for run in runs}  # type: ignore[union-attr]
        await asyncio.sleep(0)
    assert 1 <= len(found) <= 2


def test_limits_without_a_process_and_limits_that_are_none_are_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"memory": "512MB"},
        {"isolation": "thread"},
        {"isolation": "process", "memory": "1MB"},
        {"isolation": "process", "memory": "lots"},
        {"isolation": "process", "cpu": "10ms"},
        {"isolation": "process", "cpu": True},
    ]
    for limits in wrong:
        with pytest.raises(ConfigError):
            App().handler("x", **limits)(lambda: None)
    limited = App()
    limited.handler("x", isolation="process", memory="0.5GB", cpu="1m30s")(lambda: None)
    isolation = limited.handlers["py:x"].isolation
    assert isolation is not None
    assert (isolation.memory, isolation.cpu) == (500_000_000, 90.0)


def test_an_isolated_handler_without_a_place_is_a_configuration_error() -> None:
    record = Record()
    with pytest.raises(ConfigError, match="can't have a process of its own"):
        ChildPool(app.handlers, None, record.services())
