"""Work that a service accepts, and ends later."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Failed, Interrupted, StopReason, Succeeded
from pgcron_ha.executors.contract.failures import ASKED_TO_RETRY
from tests.executors.http.calls import call, destination, executor, outcome_of
from tests.executors.http.service import JSON, Answer, Route, Service, reset
from tests.executors.running import context
from tests.product.executors import Progress
from tests.waiting import slowness

POLL: dict[str, Any] = {"poll": "20ms"}


def state(status: str, code: int = 200, **more: Any) -> Answer:
    return Answer(code, json.dumps({"status": status, **more}).encode(), {"Content-Type": JSON})


def accepted(location: str = "/jobs/1", header: str = "Operation-Location") -> Answer:
    return Answer(202, b"", {header: location})


async def test_work_is_asked_for_until_it_has_ended() -> None:
    routes: dict[str, Route] = {
        "/": accepted(),
        "/jobs/1": [
            Answer(202),
            state("notStarted"),
            state("In Progress", percentComplete=40),
            state("running"),
            state("Succeeded", result={"rows": 5}),
        ],
    }
    with Service(routes) as service:
        run = context(1, "http:d", {"a": 1})
        async with executor(destination(service.url, **POLL)) as (running, record):
            outcome = await outcome_of(running, record, run)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"rows": 5}
    assert record.reports == [Progress(40, 100, None)]
    asked, *questions = service.requests
    assert [each.method for each in questions] == ["GET"] * 5
    assert {each.headers["idempotency-key"] for each in service.requests} == {
        asked.headers["idempotency-key"]
    }
    assert {each.headers["pgcron-fence"] for each in questions} == {asked.headers["pgcron-fence"]}
    assert [each.body for each in questions] == [b""] * 5


@pytest.mark.parametrize(
    ("end", "message", "retry"),
    [
        (state("failed", error="no paper"), "failed (no paper)", True),
        (state("Failed", error={"message": "no ink"}, retry=False), "failed (no ink)", False),
        (state("cancelled"), "cancelled", True),
        (Answer(404), "answered 404", False),
        (Answer(410), "answered 410", False),
    ],
)
async def test_work_that_failed_fails_the_run(end: Answer, message: str, retry: bool) -> None:
    with Service({"/": accepted(), "/jobs/1": [state("queued"), end]}) as service:
        outcome, _ = await call(service, **POLL)
    assert isinstance(outcome, Failed)
    assert outcome.retry is retry
    assert message in outcome.message


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (state("retry"), Failed("Retry", "the work has ended: retry", causes=(ASKED_TO_RETRY,))),
        (
            state("Failed", retry_after=90),
            Failed("OperationFailed", "the work has ended: failed", after=timedelta(seconds=90)),
        ),
        (
            state("failed", retry_after="soon"),
            Failed("OperationFailed", "the work has ended: failed"),
        ),
    ],
)
async def test_work_that_asks_for_another_attempt_gets_it(end: Answer, expected: Failed) -> None:
    with Service({"/": accepted(), "/jobs/1": end}) as service:
        outcome, _ = await call(service, **POLL)
    assert outcome == expected


@pytest.mark.parametrize(
    "end",
    [Answer(200, b'{"rows": 5}', {"Content-Type": JSON}), Answer(303, b"", {"Location": "/r"})],
)
async def test_any_other_good_answer_is_the_result_itself(end: Answer) -> None:
    result = Answer(200, b'{"rows": 5}', {"Content-Type": JSON})
    routes: dict[str, Route] = {"/": accepted(header="Location"), "/jobs/1": end, "/r": result}
    with Service(routes) as service:
        outcome, _ = await call(service, **POLL)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == {"rows": 5}


async def test_a_status_that_can_not_be_told_for_a_while_is_asked_for_again() -> None:
    routes: dict[str, Route] = {"/": accepted(), "/jobs/1": [Answer(503)] * 5 + [state("done")]}
    with Service(routes) as service:
        outcome, _ = await call(service, **POLL)
    assert outcome is SUCCEEDED


@pytest.mark.parametrize("route", [Answer(503), reset])
async def test_a_status_that_is_never_told_ends_the_attempt(route: Route) -> None:
    with Service({"/": accepted(), "/jobs/1": route}) as service:
        outcome, _ = await call(service, **POLL)
    assert isinstance(outcome, Failed)
    assert outcome.retry
    assert len(service.requests) == 11


@pytest.mark.parametrize(
    "answer", [Answer(202), accepted("http://127.0.0.1:1/work"), accepted("//other/work")]
)
async def test_only_an_address_of_the_same_place_is_asked(answer: Answer) -> None:
    with Service({"/": answer}) as service:
        outcome, _ = await call(service, **POLL)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("UnexpectedAnswer", False)
    assert len(service.requests) == 1


async def test_without_poll_an_accepted_request_is_a_success() -> None:
    with Service({"/": accepted()}) as service:
        outcome, _ = await call(service)
    assert outcome is SUCCEEDED
    assert len(service.requests) == 1


async def test_work_that_goes_on_for_ever_ends_at_the_time_limit() -> None:
    with Service({"/": accepted(), "/jobs/1": state("running")}) as service:
        seconds = math.ceil(slowness() * 3) / 10
        outcome, _ = await call(service, timeout=f"{seconds * 1000:.0f}ms", **POLL)
    # Between two requests the run itself notices, in its own words.
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.TIMED_OUT
    assert 2 < len(service.requests) < 2 + seconds * 50


async def test_nobody_asks_any_more_when_the_run_was_stopped() -> None:
    with Service({"/": accepted(), "/jobs/1": state("running")}) as service:
        async with executor(destination(service.url, **POLL)) as (running, record):
            run = context(1, "http:d")
            running.start([run])
            record.wait_for_line(run, "accepted: its status is asked for every 0.02 s")
            running.stop(run, StopReason.CANCELLED)
            outcome = record.outcome(run)
            asked = len(service.requests)
            running.start([context(2, "http:x")])
            record.outcome(context(2, "http:x"))
        assert len(service.requests) <= asked + 1
    assert outcome == Interrupted(StopReason.CANCELLED, "stopped: cancelled")
