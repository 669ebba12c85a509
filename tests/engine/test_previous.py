"""What a handler learns of the run before: `Context.previous`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.base import Context, ExecutorServices, Outcome, Succeeded
from tests.db.control import (
    HANDLER,
    Connection,
    claim_overlapping,
    cursor_of,
    finish,
    join,
    materialize,
    put_schedule,
)
from tests.product.db import Link
from tests.product.engine import _OF_A_CLAIM
from tests.product.executors import Attempt, Previous, PythonExecutor, PythonHandler
from tests.waiting import until


class Sink:
    """Keeps nothing."""

    def write(self, context: Attempt, stream: Any, line: str) -> None: ...

    def progress(self, context: Attempt, progress: Any) -> None: ...

    def beat(self, context: Attempt) -> None: ...


Run = Callable[[Callable[..., Any], list[Any]], Any]


@pytest.fixture
async def run(database: str) -> AsyncIterator[Run]:
    """Executes a handler for claimed rows; gives their outcomes."""
    made: list[PythonExecutor] = []

    async def execute(function: Callable[..., Any], rows: list[Any]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        name = HANDLER.partition(":")[2]
        executor = PythonExecutor(
            {name: PythonHandler(name, function)},
            ExecutorServices(
                lambda context, outcome: outcomes.append(outcome), lambda: None, Sink(), 4
            ),
            Link(database),
        )
        made.append(executor)
        executor.start([Context(*_OF_A_CLAIM(row)) for row in rows])
        await until("the handlers have ended", lambda: len(outcomes) == len(rows))
        return outcomes

    yield execute
    for executor in made:
        await executor.close(1)


async def test_a_handler_learns_how_the_run_before_ended(connection: Connection, run: Run) -> None:
    schedule = await put_schedule(connection)
    node = await join(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    reported: list[Previous | None] = []

    async def asks(context: Context) -> None:
        reported.append(await context.previous())

    def waits(context: Context) -> None:
        reported.append(context.previous().wait())

    runs = []
    for handler in (asks, asks, waits):
        cursor = await cursor_of(connection, schedule)
        await materialize(connection, cursor, [cursor["watermark"] + timedelta(minutes=1)])
        rows, _ = await claim_overlapping(connection, node)
        assert [type(outcome) for outcome in await run(handler, rows)] == [Succeeded]
        await finish(connection, rows)
        runs += rows

    first, second, third = reported
    assert first is None
    assert second is not None
    assert third is not None
    assert (second.run_id, second.fire_time) == (runs[0]["id"], runs[0]["fire_time"])
    assert (second.outcome, second.result, second.error) == ("succeeded", {"fine": True}, None)
    assert third.run_id == runs[1]["id"]


async def test_without_a_schedule_there_is_none_and_elsewhere_it_is_refused() -> None:
    def context(schedule: str | None) -> Context:
        token = UUID(int=1)
        return Context(1, token, "py:work", "{}", 1, 5, "default", 5, schedule, None, token, 1)

    assert await context(None).previous() is None
    with pytest.raises(InvalidInput, match="can't ask for the one before"):
        context("job").previous()
