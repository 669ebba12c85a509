"""What becomes of a run by what the service answers."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Failed, Succeeded
from tests.executors.http.calls import call, call_url
from tests.executors.http.service import JSON, Answer, Service, hang, no_http, reset

TEXT = {"Content-Type": "text/plain; charset=utf-8"}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599 - 88])
async def test_what_may_be_another_time_is_tried_again(status: int) -> None:
    with Service({"/": Answer(status, b"first line\nsecond", TEXT)}) as service:
        outcome, _ = await call(service)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == (f"Http{status}", True)
    assert outcome.causes == (f"http:{status}", f"http:{status // 100}xx")
    assert f"POST {service.url}/ answered {status} " in outcome.message
    assert outcome.traceback == "first line\nsecond"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 300, 304])
async def test_what_will_be_the_same_again_is_not_tried_again(status: int) -> None:
    with Service({"/": Answer(status)}) as service:
        outcome, _ = await call(service)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == (f"Http{status}", False)


async def test_the_destination_may_judge_statuses_otherwise() -> None:
    routes: dict[str, Any] = {f"/{status}": Answer(status) for status in (200, 404, 409, 500, 501)}
    table: dict[str, Any] = {"expect": [404], "retry": ["4xx", "5xx"], "discard": [501]}
    with Service(routes) as service:
        outcomes = [(await call(service, path, **table))[0] for path in routes]
    assert outcomes[1] is SUCCEEDED
    assert [getattr(each, "retry", None) for each in outcomes] == [False, None, True, True, False]


@pytest.mark.parametrize("behaviour", [reset, no_http])
async def test_a_connection_that_breaks_is_tried_again(behaviour: Any) -> None:
    with Service({"/": behaviour}) as service:
        outcome, _ = await call(service)
    assert isinstance(outcome, Failed)
    assert outcome.retry
    assert outcome.error_class in ("RemoteProtocolError", "ReadError")


async def test_a_service_that_is_not_there_is_tried_again() -> None:
    with Service() as service:
        pass
    outcome, _ = await call(service)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("ConnectError", True)
    assert outcome.message.startswith(f"127.0.0.1:{service.port}: ")


async def test_a_name_nobody_knows_is_tried_again() -> None:
    outcome, _ = await call_url("http://no-such-name.invalid/")
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("ResolveError", True)
    assert outcome.message.startswith("no-such-name.invalid: ")


async def test_an_exchange_that_takes_too_long_is_tried_again() -> None:
    with Service({"/": hang}) as service:
        outcome, _ = await call(service, request_timeout="200ms")
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("RequestTimeout", True)
    assert outcome.message == "no whole answer within 0.2 s"


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"Retry-After": "120"}, timedelta(seconds=120)),
        ({"Retry-After": "99999999999"}, timedelta(hours=24)),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}, None),
        ({}, None),
    ],
)
async def test_the_pause_a_service_asks_for_is_kept(
    headers: dict[str, str], after: timedelta | None
) -> None:
    with Service({"/": Answer(503, b"", headers)}) as service:
        outcome, _ = await call(service)
    assert (outcome.error_class, outcome.after) == ("Http503", after)


async def test_a_pause_until_a_date_is_counted_on_the_clock_of_the_service() -> None:
    its_now = datetime(2031, 1, 1, tzinfo=UTC)
    headers = {
        "Date": format_datetime(its_now, usegmt=True),
        "Retry-After": format_datetime(its_now + timedelta(minutes=3), usegmt=True),
    }
    past = {**headers, "Retry-After": format_datetime(its_now - timedelta(1), usegmt=True)}
    with Service({"/": Answer(429, b"", headers), "/past": Answer(429, b"", past)}) as service:
        outcome, _ = await call(service)
        passed, _ = await call(service, "/past")
    assert outcome.after == timedelta(minutes=3)
    assert passed.after == timedelta(0)


@pytest.mark.parametrize(
    ("body", "check", "fits"),
    [
        (b'{"order": {"state": "ok"}}', {"path": "order.state", "value": "ok"}, True),
        (b'{"order": {"state": "bad"}}', {"path": "order.state", "value": "ok"}, False),
        (b'{"order": "ok"}', {"path": "order.state", "value": "ok"}, False),
        (b'[{"n": 1}, {"n": 2.0}]', {"path": "1.n", "value": 2}, True),
        (b'[{"n": 1}]', {"path": "1.n", "value": 2}, False),
        (b'{"done": true}', {"path": "done", "value": True}, True),
        (b'{"done": 1}', {"path": "done", "value": True}, False),
        (b'{"done": true', {"path": "done", "value": True}, False),
    ],
)
async def test_a_check_looks_at_one_value_of_the_answer(
    body: bytes, check: dict[str, Any], fits: bool
) -> None:
    with Service({"/": Answer(200, body, {"Content-Type": JSON})}) as service:
        outcome, _ = await call(service, check=check)
    if fits:
        assert isinstance(outcome, Succeeded)
    else:
        assert isinstance(outcome, Failed)
        assert (outcome.error_class, outcome.retry) == ("UnexpectedAnswer", True)
        assert outcome.traceback == body.decode()


async def test_text_goes_to_the_log_and_not_into_the_result() -> None:
    body = "\n".join(f"line {number}" for number in range(150)).encode()
    with Service({"/": Answer(200, body, TEXT)}) as service:
        outcome, lines = await call(service)
    assert outcome is SUCCEEDED
    assert lines[1:3] == ["line 0", "line 1"]
    assert len(lines) == 102
    assert lines[-1] == "50 more lines of the answer are not kept"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{nonsense", JSON),
        (b'{"n": NaN}', JSON),
        (b"[" * 100_000, JSON),
        (b"\xff\xfe\x00", JSON),
        (b"\x89PNG\r\n", "image/png"),
        (b'"nul \\u0000"', JSON),
        (b'"' + b"x" * 300_000 + b'"', "application/problem+json"),
        (b'{"n": 1e999}', JSON),
    ],
)
async def test_an_answer_that_can_not_be_kept_does_not_make_a_failure_of_a_success(
    body: bytes, kind: str
) -> None:
    with Service({"/": Answer(200, body, {"Content-Type": kind})}) as service:
        outcome, lines = await call(service)
    assert outcome is SUCCEEDED
    assert all("\0" not in line for line in lines)


async def test_a_compressed_answer_is_not_asked_for_and_not_kept() -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    with Service({"/": Answer(200, gzip.compress(b'{"n": 1}'), headers)}) as service:
        outcome, _ = await call(service)
        checked, _ = await call(service, check={"path": "n", "value": 1})
    assert outcome is SUCCEEDED
    assert "too long, or compressed" in checked.message
    assert service.requests[0].headers["accept-encoding"] == "identity"
