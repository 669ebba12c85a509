"""Work whose end a service tells by calling back."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Failed, Interrupted, StopReason, Succeeded
from pgcron_ha.executors.contract.failures import ASKED_TO_RETRY
from tests.db.control import Connection
from tests.executors.http.callbacks import called_back, caller, claimed, served
from tests.executors.http.service import JSON, Answer, Service, hang
from tests.product.executors import Progress
from tests.waiting import slowness, until

ACCEPTS = {"/": Answer(202)}


async def test_a_run_ends_as_its_service_says(database: str, connection: Connection) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service) as (running, record):
                running.start([run])
                calling = await caller(service)
                said = await calling.say("Completed", result={"rows": 5})
                outcome = await asyncio.to_thread(record.outcome, run)
                again = await calling.say("Completed", result={"rows": 5})
                other = await calling.say("failed")
    assert (said.status_code, said.json()) == (200, {"taken": True})
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"rows": 5}
    assert [again.status_code, other.status_code] == [200, 409]
    assert calling.url == f"{url}/callback/runs/{run.run_id}/{run.fence}"


async def test_the_token_is_random_and_the_database_does_not_know_it(
    database: str, connection: Connection
) -> None:
    first, second = await claimed(connection), await claimed(connection)
    body = {"call": "{callback_url}", "with": "token {callback_token}"}
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service, body=body) as (running, _):
                running.start([first, second])
                callers = [await caller(service, 1), await caller(service, 2)]
                rows = await connection.fetch("SELECT c::text AS row FROM pgcron.callback c")
    tokens = [each.token for each in callers]
    assert len({*tokens}) == 2
    assert [len(token) for token in tokens] == [43, 43]
    assert [token for token in tokens for row in rows if token in row["row"]] == []
    sent = json.loads(service.requests[0].body)
    assert sent == {"call": callers[0].url, "with": f"token {callers[0].token}"}


@pytest.mark.parametrize(
    ("said", "retry", "after", "causes"),
    [
        ({"status": "failed", "error": "no paper"}, True, None, ()),
        ({"status": "failed", "error": {"message": "no ink"}, "retry": False}, False, None, ()),
        ({"status": "error", "retry_after": 90}, True, timedelta(seconds=90), ()),
        ({"status": "retry", "retry_after": 1e9}, True, timedelta(days=1), (ASKED_TO_RETRY,)),
    ],
)
async def test_a_failure_is_told_with_its_reason_and_its_retry(
    database: str,
    connection: Connection,
    said: dict[str, Any],
    retry: bool,
    after: timedelta | None,
    causes: tuple[str, ...],
) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service) as (running, record):
                running.start([run])
                assert (await (await caller(service)).say(**said)).status_code == 200
                outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Failed)
    assert (outcome.retry, outcome.after, outcome.causes) == (retry, after, causes)
    reason = said.get("error", "")
    assert (reason["message"] if isinstance(reason, dict) else reason) in outcome.message


async def test_progress_and_lines_are_shown_while_it_goes_on(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service) as (running, record):
                running.start([run])
                calling = await caller(service)
                reported = {"done": 3, "total": 10, "note": "copying"}
                lines = ["one", f"with {calling.token}\ntwo"]
                await calling.say("progress", progress=reported, log=lines)
                await until("it is shown", lambda: record.reports == [Progress(3, 10, "copying")])
                await calling.say("running", percentComplete=70)
                await until("it is shown", lambda: record.reports[-1] == Progress(70, 100, None))
                assert run.run_id not in record.outcomes
                await calling.say("done", log="the last")
                assert await asyncio.to_thread(record.outcome, run) is SUCCEEDED
    assert record.lines_of(run)[1:-1] == ["one", "with ***", "two", "the last"]


async def test_a_callback_may_come_before_the_answer_to_the_request(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service({"/": hang}) as service:
            limit = f"{slowness():.0f}s"
            async with called_back(database, url, service, request_timeout=limit) as (
                running,
                record,
            ):
                running.start([run])
                await (await caller(service)).say("succeeded", result=1)
                outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == 1


@pytest.mark.parametrize("status", [200, 422])
async def test_an_answer_that_is_no_202_is_the_end(
    database: str, connection: Connection, status: int
) -> None:
    run = await claimed(connection)
    routes = {"/": Answer(status, b'{"n": 1}', {"Content-Type": JSON})}
    async with served(database) as url:
        with Service(routes) as service:
            async with called_back(database, url, service) as (running, record):
                running.start([run])
                outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Succeeded if status == 200 else Failed)


@pytest.mark.parametrize("how", ["stop", "limit"])
async def test_a_run_that_is_stopped_takes_no_callback_any_more(
    database: str, connection: Connection, how: str
) -> None:
    run = await claimed(connection)
    limit = {"timeout": "500ms"} if how == "limit" else {}
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service, **limit) as (running, record):
                running.start([run])
                calling = await caller(service)
                if how == "stop":
                    assert (await calling.say("running")).status_code == 200
                    running.stop(run, StopReason.CANCELLED)
                outcome = await asyncio.to_thread(record.outcome, run)
                late = [await calling.say("running"), await calling.say("succeeded")]
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is (StopReason.CANCELLED if how == "stop" else StopReason.TIMED_OUT)
    assert [each.status_code for each in late] == [410, 410]


async def test_an_end_that_was_told_before_the_stop_is_the_end(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service) as (running, record):
                running._desk._interval = 3600  # it hears nothing by itself
                running.start([run])
                calling = await caller(service)
                await until("it waits", lambda: len(record.lines_of(run)) == 1)
                assert (await calling.say("succeeded", result="done")).status_code == 200
                assert run.run_id not in record.outcomes
                running.stop(run, StopReason.SHUTDOWN)
                outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == "done"


async def test_a_result_with_the_secrets_of_the_destination_is_masked(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    async with served(database) as url:
        with Service(ACCEPTS) as service:
            async with called_back(database, url, service) as (running, record):
                running.start([run])
                calling = await caller(service)
                await calling.say("succeeded", result={"echo": calling.token})
                outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"echo": "***"}


async def test_of_a_run_that_is_refused_no_callback_is_taken(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    with Service(ACCEPTS) as service:
        asks = called_back(database, "http://127.0.0.1:1", service, body="{callback_token}{a}",
                           placeholders={"a": ".+"})  # fmt: skip
        async with asks as (running, record):
            running.start([run])
            outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
    assert await connection.fetchval("SELECT closed_at IS NOT NULL FROM pgcron.callback")


async def test_a_run_that_is_not_held_any_more_is_not_sent(
    database: str, connection: Connection
) -> None:
    run = await claimed(connection)
    await connection.execute(
        "UPDATE pgcron.run SET token = gen_random_uuid() WHERE id = $1", run.run_id
    )
    with Service(ACCEPTS) as service:
        async with called_back(database, "http://127.0.0.1:1", service) as (running, record):
            running.start([run])
            outcome = await asyncio.to_thread(record.outcome, run)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.LEASE_LOST
    assert service.requests == []
