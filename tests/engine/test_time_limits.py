"""Silence and the time in all, and runs that are ended by force."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import Context, Interrupted, StopReason
from tests.db.control import Connection, Row, history_row, run_row
from tests.engine.conftest import MakeLink
from tests.engine.ending import Ending, begin
from tests.product.db import Link
from tests.product.engine import TimeLimits, Watch
from tests.product.executors import RunLog, RunServices

SIGNS: dict[str, Callable[[Any], object]] = {
    "a line": lambda context: RunLog(context, Sink()).write_line("log", "working"),
    "a part of a line": lambda context: RunLog(context, Sink()).feed("stdout", "."),
    "progress": lambda context: context.progress(1, 3),
    "a beat": lambda context: context.beat(),
}


class Sink:
    def write(self, *given: object) -> None: ...

    def progress(self, *given: object) -> None: ...

    def beat(self, *given: object) -> None: ...


@pytest.fixture
async def ending(make_link: MakeLink, connection: Connection) -> Ending:
    return await begin(make_link(), connection)


@pytest.fixture
def watch(link: Link, ending: Ending) -> Watch:
    return Watch(link, ending.runner)


async def in_history(connection: Connection, run: int) -> Row:
    row = await history_row(connection, run)
    assert row is not None
    return row


async def executing(ending: Ending, began: float, limits: str, **columns: Any) -> Context:
    """A run with these limits whose handler has begun."""
    (run,) = await ending.claim(time_limits=limits, **columns)
    ending.executor.begin(run, monotonic() - began)
    return ending.executor.executing[run]


async def test_a_silent_run_is_stopped_and_its_attempt_says_silence(
    ending: Ending, watch: Watch, connection: Connection
) -> None:
    silent = await executing(ending, 40, '{"silence_timeout": 30}')
    lively = await executing(ending, 40, '{"silence_timeout": 30}')
    patient = await executing(ending, 40, '{"silence_timeout": 50}')
    lively.beat()

    await watch.run_once()
    await watch.run_once()

    assert ending.executor.stopped == [(silent.run_id, StopReason.SILENT)]
    await ending.end([silent.run_id], Interrupted(StopReason.SILENT, "stopped: silent"))
    await ending.report()
    row = await connection.fetchrow("SELECT * FROM pgcron.attempt")
    assert row is not None
    assert (row["run_id"], row["outcome"], row["error_class"]) == (
        silent.run_id,
        "timed_out",
        "Silent",
    )
    assert row["error"] == (
        "it gave no sign for its silence timeout (no line, no progress, no beat)"
    )
    waiting = await run_row(connection, silent.run_id)
    assert waiting is not None
    assert waiting["state"] == "ready"
    assert patient.stop_reason is lively.stop_reason is None


async def test_a_run_whose_time_in_all_is_over_is_stopped_and_not_tried_again(
    ending: Ending, watch: Watch, connection: Connection
) -> None:
    over = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    context = await executing(ending, 40, f'{{"give_up_after": 60, "give_up_at": "{over}"}}')

    await watch.run_once()
    await watch.run_once()

    assert ending.executor.stopped == [(context.run_id, StopReason.GIVEN_UP)]
    await ending.end([context.run_id], Interrupted(StopReason.GIVEN_UP, "killed by signal 9"))
    await ending.report()
    row = await in_history(connection, context.run_id)
    assert row["outcome"] == "dead"
    assert row["error"].startswith("its time in all was over: killed by signal 9")


@pytest.mark.parametrize("sign", SIGNS)
async def test_a_sign_of_life_begins_the_silence_anew(sign: str, ending: Ending) -> None:
    context = await executing(ending, 40, '{"silence_timeout": 30}')
    context._services = RunServices(Sink())
    limits, now = TimeLimits(), monotonic()
    limits.learn(
        [context],
        [{"id": context.run_id, "silence_timeout": 30.0, "give_up_in": None}],  # type: ignore[list-item]
        now,
    )
    SIGNS[sign](context)

    assert limits.exceeded([context], now) == []
    assert limits.exceeded([context], now + 29.9) == []
    assert limits.exceeded([context], now + 30) == [(context, StopReason.SILENT)]
    assert limits.exceeded([], now + 30) == limits.exceeded([context], now + 30) == []


async def test_a_sign_of_a_batch_counts_for_all_its_runs(ending: Ending) -> None:
    batch = [await executing(ending, 40, '{"silence_timeout": 30}') for _ in range(2)]
    for context in batch:
        context._batch = batch
    limits, now = TimeLimits(), monotonic()
    rows = [{"id": each.run_id, "silence_timeout": 30.0, "give_up_in": None} for each in batch]
    limits.learn(batch, rows, now)  # type: ignore[arg-type]
    batch[0].gave_sign = True

    assert limits.exceeded(batch, now + 10) == []
    assert limits.exceeded(batch, now + 39.9) == []
    assert len(limits.exceeded(batch, now + 40)) == 2


async def test_a_sign_of_a_run_without_limits_counts_for_its_batch_once(ending: Ending) -> None:
    limited = await executing(ending, 40, '{"silence_timeout": 30}')
    (run,) = await ending.claim()
    free = ending.executor.executing[run]
    limited._batch = free._batch = [limited, free]
    limits, now = TimeLimits(), monotonic()
    row = {"id": limited.run_id, "silence_timeout": 30.0, "give_up_in": None}
    limits.learn([limited], [row], now)  # type: ignore[list-item]
    free.gave_sign = True

    assert limits.exceeded([limited, free], now) == []
    assert limits.exceeded([limited, free], now + 29.9) == []
    assert limits.exceeded([limited, free], now + 30) == [(limited, StopReason.SILENT)]


async def test_a_run_that_is_killed_is_not_given_grace(ending: Ending) -> None:
    (run,) = await ending.claim()
    ending.executor.begin(run, monotonic())
    ending.runner.kill(run)
    assert run in ending.executor.executing, "who was not asked to stop is not killed"
    ending.runner.stop(run, StopReason.CANCELLED)

    ending.runner.kill(run)
    assert run not in ending.executor.executing

    ending.runner.kill(run)
    assert ending.executor.killed == [run], "it is over"


async def test_a_killed_thread_is_told_as_stuck_at_once(ending: Ending, watch: Watch) -> None:
    ending.executor.may_kill = False
    (run,) = await ending.claim()
    ending.executor.begin(run, monotonic())
    ending.runner.stop(run, StopReason.CANCELLED)
    assert ending.runner.kill_stopped() == []

    ending.runner.kill(run)

    assert [context.run_id for context in ending.runner.kill_stopped()] == [run]
