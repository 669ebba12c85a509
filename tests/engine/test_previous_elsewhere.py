"""What programs, services, statements and processes of their own learn of the run before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Context, Failed, StopReason, Succeeded
from tests.db.control import (
    Connection,
    Row,
    claim_overlapping,
    cursor_of,
    finish,
    join,
    materialize,
    put_schedule,
)
from tests.executors.http.calls import destination, outcome_of
from tests.executors.http.calls import executor as http_executor
from tests.executors.http.service import JSON, Answer, Service
from tests.executors.isolated_handlers import app
from tests.executors.running import Record, template
from tests.executors.test_sql import executor as sql_executor
from tests.executors.test_sql import profile
from tests.product.cli import statements
from tests.product.client import child_program
from tests.product.config import HttpDestination, ShellTemplate, read_tables
from tests.product.db import Busy, Link
from tests.product.engine import _OF_A_CLAIM
from tests.product.executors import ChildPool, ShellExecutor
from tests.waiting import until

ECHO = {"/": Answer(200, b'{"ok": true}', {"Content-Type": JSON})}
PLACE = "tests.executors.isolated_handlers:app"
NOWHERE = "postgresql://u@127.0.0.1:1/x"
REPORTS = 'env | grep ^PGCRON_PREVIOUS_ | grep -v _FILE= | sort; cat "$PGCRON_PREVIOUS_FILE"'


@pytest.fixture
async def fires(connection: Connection) -> tuple[Row, Row]:
    """The claims of two fires of one schedule; the first has succeeded."""
    schedule = await put_schedule(connection)
    node = await join(connection)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    claimed: list[Row] = []
    for _ in range(2):
        if claimed:
            assert await finish(connection, claimed)
        cursor = await cursor_of(connection, schedule)
        await materialize(connection, cursor, [cursor["watermark"] + timedelta(minutes=1)])
        claimed += (await claim_overlapping(connection, node))[0]
    first, second = claimed
    return first, second


def context_of(row: Row, handler: str) -> Context:
    made = Context(*_OF_A_CLAIM(row))
    made.handler = handler
    return made


@pytest.fixture
async def expected(connection: Connection, fires: tuple[Row, Row]) -> dict[str, Any]:
    ended = await connection.fetchval("SELECT finished_at FROM pgcron.history")
    return {
        "run_id": fires[0]["id"],
        "fire_time": fires[0]["fire_time"].isoformat().replace("+00:00", "Z"),
        "outcome": "succeeded",
        "finished_at": ended.isoformat().replace("+00:00", "Z"),
        "result": {"fine": True},
        "error": None,
    }


async def run_program(dsn: str, run: Context, **settings: Any) -> tuple[Any, Record]:
    record = Record()
    offered = template("sh", "-c", REPORTS, previous=True, **settings)
    running = ShellExecutor({"t": offered}, record.services(), Link(dsn))
    try:
        running.start([run])
        return await asyncio.to_thread(record.outcome, run), record
    finally:
        await running.close(5)


async def test_a_program_has_the_facts_in_its_environment_and_all_in_a_file(
    database: str, fires: tuple[Row, Row], expected: dict[str, Any]
) -> None:
    run = context_of(fires[1], "shell:t")
    outcome, record = await run_program(database, run)

    assert outcome is SUCCEEDED
    *facts, document = record.lines_of(run)
    assert facts == [
        f"PGCRON_PREVIOUS_FINISHED_AT={expected['finished_at']}",
        f"PGCRON_PREVIOUS_FIRE_TIME={expected['fire_time']}",
        "PGCRON_PREVIOUS_OUTCOME=succeeded",
        f"PGCRON_PREVIOUS_RUN_ID={expected['run_id']}",
    ]
    assert json.loads(document) == expected


async def test_the_first_fire_s_program_is_told_that_there_was_none(
    database: str, fires: tuple[Row, Row]
) -> None:
    run = context_of(fires[0], "shell:t")
    outcome, record = await run_program(database, run)

    assert outcome is SUCCEEDED
    assert record.lines_of(run)[-1] == "null"
    assert all(line.endswith("=") for line in record.lines_of(run)[:-1])


async def test_the_file_goes_with_its_run(
    database: str, fires: tuple[Row, Row], tmp_path: Path
) -> None:
    record = Record()
    offered = template("sh", "-c", "echo $PGCRON_PREVIOUS_FILE", previous=True)
    running = ShellExecutor({"t": offered}, record.services(directory=tmp_path), Link(database))
    run = context_of(fires[1], "shell:t")
    running.start([run])
    await asyncio.to_thread(record.outcome, run)
    [path] = record.lines_of(run)

    assert Path(path).parent.parent == tmp_path
    assert not Path(path).exists()
    await running.close(5)


async def test_a_program_is_not_started_while_the_database_does_not_say(
    fires: tuple[Row, Row],
) -> None:
    run = context_of(fires[1], "shell:t")
    outcome, record = await run_program(NOWHERE, run)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("DatabaseUnavailable", True)
    assert record.lines_of(run) == []


async def test_a_database_that_is_busy_is_as_one_that_does_not_answer(
    fires: tuple[Row, Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: Any, **__: Any) -> Any:
        raise Busy("canceling statement due to statement timeout", "SQLSTATE 57014")

    monkeypatch.setattr(Link, "rows", busy)
    outcome, _ = await run_program(NOWHERE, context_of(fires[1], "shell:t"))

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("DatabaseUnavailable", True)


class Silent:
    """A database that never answers."""

    is_asked = False

    async def rows(self, name: str, **parameters: Any) -> Any:
        self.is_asked = True
        await asyncio.Event().wait()

    async def close(self) -> None: ...


@pytest.mark.parametrize("how", ["stop", "kill", "close"])
async def test_a_run_that_waits_for_the_answer_can_be_stopped(
    how: str, fires: tuple[Row, Row]
) -> None:
    record, silent = Record(), Silent()
    offered = template("echo", "started", previous=True)
    running = ShellExecutor(
        {"t": offered}, record.services(),
        silent,  # type: ignore[arg-type]
    )  # fmt: skip
    run = context_of(fires[1], "shell:t")
    running.start([run])
    await until("the database was asked", lambda: silent.is_asked)
    if how == "stop":
        running.stop(run, StopReason.CANCELLED)
    elif how == "kill":
        running.kill(run)
    else:
        await running.close(5)

    outcome = await asyncio.to_thread(record.outcome, run)
    reason = StopReason.SHUTDOWN if how == "close" else StopReason.CANCELLED
    assert (type(outcome).__name__, run.stop_reason) == ("Interrupted", reason)
    assert record.lines_of(run) == []
    await running.close(5)


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({}, ("pgcron_previous",)),
        ({"body": {"last": "{pgcron_previous}"}}, ("last",)),
        ({"body": '{"a": [{pgcron_previous}]}', "headers": {"Content-Type": "text/x"}}, ("a", 0)),
    ],
)
async def test_a_service_has_the_facts_in_headers_and_all_in_the_body(
    database: str,
    fires: tuple[Row, Row],
    expected: dict[str, Any],
    table: dict[str, Any],
    place: tuple[Any, ...],
) -> None:
    reported, first = context_of(fires[1], "http:d"), context_of(fires[0], "http:d")
    with Service(ECHO) as service:
        offered = destination(service.url, previous=True, **table)
        async with http_executor(offered, dsn=database) as place_of_work:
            for run in (reported, first):
                assert isinstance(await outcome_of(*place_of_work, run), Succeeded)
    found, nothing = (json.loads(request.body) for request in service.requests)
    for key in place:
        found, nothing = found[key], nothing[key]

    assert (found, nothing) == (expected, None)
    headers = service.requests[0].headers
    assert headers["pgcron-previous-run"] == str(expected["run_id"])
    assert headers["pgcron-previous-outcome"] == "succeeded"
    assert headers["pgcron-previous-fire-time"] == expected["fire_time"]
    assert headers["pgcron-previous-finished-at"] == expected["finished_at"]
    assert service.requests[1].headers["pgcron-previous-run"] == ""


async def test_a_service_is_not_called_while_the_database_does_not_say(
    fires: tuple[Row, Row],
) -> None:
    run = context_of(fires[1], "http:d")
    with Service(ECHO) as service:
        offered = destination(service.url, previous=True)
        async with http_executor(offered, dsn=NOWHERE) as place_of_work:
            outcome = await outcome_of(*place_of_work, run)

    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("DatabaseUnavailable", True)
    assert service.requests == []


@pytest.fixture
async def isolated(database: str) -> AsyncIterator[tuple[ChildPool, Record]]:
    record = Record()
    program = child_program([PLACE], database, "pgcron")
    running = ChildPool(app.handlers, program, record.services(1))
    yield running, record
    await running.close(5)


async def test_a_process_of_its_own_asks_by_itself(
    fires: tuple[Row, Row], expected: dict[str, Any], isolated: tuple[ChildPool, Record]
) -> None:
    running, record = isolated
    for handler in ("py:reported", "py:reported_in_a_thread"):
        for row, wanted in ((fires[1], expected), (fires[0], None)):
            record.outcomes.clear()
            run = context_of(row, handler)
            running.start([run])
            outcome = await asyncio.to_thread(record.outcome, run)
            assert isinstance(outcome, Succeeded), outcome
            assert outcome.result == wanted


async def test_a_process_of_its_own_hears_why_there_is_no_answer(fires: tuple[Row, Row]) -> None:
    record = Record()
    program = child_program([PLACE], NOWHERE, "pgcron")
    running = ChildPool(app.handlers, program, record.services(1))
    run = context_of(fires[1], "py:reported")
    running.start([run])
    outcome = await asyncio.to_thread(record.outcome, run)
    await running.close(5)

    assert isinstance(outcome, Failed)
    assert outcome.error_class.endswith("DatabaseUnavailable")


async def test_a_statement_asks_with_its_token_and_needs_no_right_on_tables(
    database: str, connection: Connection, fires: tuple[Row, Row], expected: dict[str, Any]
) -> None:
    name = f"teller_{database.partition('?')[0].rpartition('/')[2]}"
    await connection.execute(f"CREATE ROLE {name} LOGIN")
    for grant in statements("service", name, "pgcron"):
        await connection.execute(grant)
    dsn = f"postgresql://{name}@{database.partition('@')[2]}"
    script = "SELECT p.* FROM pgcron.previous_of(:pgcron_run_id, :pgcron_token) p"
    try:
        async with sql_executor(dsn, profile(script, rows=True)) as (running, record):
            outcomes: list[Any] = []
            for row in (fires[1], fires[0]):
                record.outcomes.clear()
                run = context_of(row, "sql:t")
                running.start([run])
                outcomes.append(await asyncio.to_thread(record.outcome, run))
    finally:
        await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")

    reported, ended = outcomes
    [found] = reported.result["rows"]
    assert (found["previous"], found["result"]) == (expected["run_id"], {"fine": True})
    assert (ended.error_class, ended.retry) == ("PC012", False)


def test_a_table_that_names_the_run_before_without_asking_is_refused() -> None:
    asks = {"url": "https://example.com/", "body": {"last": "{pgcron_previous}"}}
    found, problems = read_tables("http", {"d": asks}, HttpDestination)
    assert (found, len(problems)) == ({}, 1)
    taken = {"url": asks["url"], "previous": True, "placeholders": {"pgcron_previous": True}}
    _, problems = read_tables("http", {"d": taken}, HttpDestination)
    assert "is made for each run" in problems[0]
    _, problems = read_tables("shell", {"t": {"argv": ["true"], "previous": "yes"}}, ShellTemplate)
    assert problems == ["shell.t.previous: 'yes': expected true or false"]
