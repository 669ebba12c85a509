"""What a destination is asked, and what of a run may get into it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import SUCCEEDED, Failed, Succeeded
from tests.executors.http.calls import call, destination, executor, outcome_of
from tests.executors.http.service import JSON, Answer, Service
from tests.executors.running import context
from tests.product.executors import render_request

ECHO = {"/": Answer(200, b'{"ok": true}', {"Content-Type": JSON})}


async def test_the_args_are_the_body_and_a_json_answer_is_the_result() -> None:
    with Service(ECHO) as service:
        outcome, lines = await call(service, args={"day": "möndag", "count": 2})
    assert isinstance(outcome, Succeeded)
    assert (outcome.result, outcome.text) == ({"ok": True}, '{"ok":true}')
    [request] = service.requests
    assert (request.method, request.target) == ("POST", "/")
    assert json.loads(request.body) == {"day": "möndag", "count": 2}
    assert request.headers["content-type"] == JSON
    [line] = lines
    assert line.startswith(f"POST {service.url}/ answered 200 OK in ")


async def test_the_headers_tell_the_run_its_fence_and_its_trace() -> None:
    fire = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
    run = context(7, "http:d", schedule="nächtlich\n", fire_time=fire, origin="rerun")
    with Service(ECHO) as service:
        async with executor(destination(service.url)) as (running, record):
            await outcome_of(running, record, run)
            again = context(7, "http:d")
            again.attempt = 2
            record.outcomes.clear()
            await outcome_of(running, record, again)
    first, second = (each.headers for each in service.requests)
    run_uuid = UUID(str(run.run_uuid))
    assert {name: value for name, value in first.items() if name.startswith("pgcron-")} == {
        "pgcron-run": "7",
        "pgcron-attempt": "1",
        "pgcron-token": str(run.token),
        "pgcron-fence": "14",
        "pgcron-schedule": "n%C3%A4chtlich%0A",
        "pgcron-fire-time": "2026-11-21T02:00:00Z",
        "pgcron-origin": "rerun",
    }
    assert first["idempotency-key"] == second["idempotency-key"] == run.idempotency_key
    version, trace, span, flags = first["traceparent"].split("-")
    assert (version, trace, flags) == ("00", run_uuid.hex, "01")
    assert len(span) == 16
    assert second["traceparent"].split("-")[1] == trace
    assert second["traceparent"].split("-")[2] != span


async def test_placeholders_fill_the_path_and_the_query_and_nothing_more() -> None:
    table: dict[str, Any] = {"placeholders": {"who": ".*", "n": "[0-9]+"}, "method": "get"}
    with Service({"/a%2Fb%3Fc%20%C3%A4/x": Answer(204)}) as service:
        outcome, _ = await call(
            service, "/{who}/x?n={n}&who={who}", {"who": "a/b?c ä", "n": 5}, **table
        )
    assert outcome is SUCCEEDED
    assert service.paths() == ["/a%2Fb%3Fc%20%C3%A4/x?n=5&who=a%2Fb%3Fc%20%C3%A4"]
    assert service.requests[0].body == b""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"who": ".."}, "segment '..'"),
        ({"who": "."}, "segment '.'"),
        ({}, "'who' is missing"),
        ({"who": {"a": 1}}, "is of type 'dict'"),
        ({"who": "b!"}, "has the value 'b!'"),
        ({"who": "a", "more": 1}, "no placeholder for the arg 'more'"),
    ],
)
async def test_args_that_do_not_fit_are_refused_without_a_request(
    args: dict[str, Any], words: str
) -> None:
    table: dict[str, Any] = {"placeholders": {"who": "[a-z.]+"}, "method": "GET"}
    with Service(ECHO) as service:
        outcome, _ = await call(service, "/x/{who}", args, **table)
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("InvalidInput", False)
    assert words in outcome.message
    assert service.requests == []


async def test_a_body_that_is_a_table_becomes_json_in_which_values_stay_values() -> None:
    body = {"n": "{n}", "note": 'for "{who}"', "fixed": [1, {"deep": "{who}"}]}
    args = {"n": 5, "who": 'a", "admin": "yes'}
    with Service(ECHO) as service:
        await call(service, args=args, body=body, placeholders={"n": "5", "who": ".*"})
    assert json.loads(service.requests[0].body) == {
        "n": 5,
        "note": 'for "a", "admin": "yes"',
        "fixed": [1, {"deep": 'a", "admin": "yes'}],
    }


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("application/x-www-form-urlencoded", b"who=a%20%26%20b%3D%22"),
        (JSON, b'who=a & b=\\"'),
        ("text/plain", b'who=a & b="'),
    ],
)
async def test_a_body_that_is_text_is_escaped_as_its_type_demands(kind: str, sent: bytes) -> None:
    table: dict[str, Any] = {"headers": {"content-type": kind}, "placeholders": {"who": ".*"}}
    with Service(ECHO) as service:
        await call(service, args={"who": 'a & b="'}, body="who={who}", **table)
    assert service.requests[0].body == sent
    assert service.requests[0].headers["content-type"] == kind


async def test_no_body_at_all_can_be_asked_for() -> None:
    with Service(ECHO) as service:
        await call(service, body=False)
    assert service.requests[0].body == b""
    assert "content-type" not in service.requests[0].headers


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"scheme": "bearer"}, "authorization", "Bearer s3cret-välue"),
        ({"scheme": "basic", "user": "ann"}, "authorization", "Basic YW5uOnMzY3JldC12w6RsdWU="),
        ({"scheme": "header", "header": "X-Api-Key"}, "x-api-key", "s3cret-välue"),
    ],
)
async def test_a_secret_is_sent_and_never_kept(
    auth: dict[str, str], header: str, value: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret-välue\n")
    table: dict[str, Any] = {"auth": {**auth, "secret": f"file:{tmp_path / 'secret'}"}}
    reported = value.rpartition(" ")[2]
    echo = json.dumps({reported: [f"you said {value}"], "plain": "s3cret-välue"}).encode()
    routes = {
        "/json": Answer(200, echo, {"Content-Type": JSON}),
        "/text": Answer(200, f"it was {value}".encode(), {"Content-Type": "text/plain"}),
        "/bad": Answer(500, f"bad {value}".encode(), {"Content-Type": "text/plain"}),
        "/away": Answer(302, b"", {"Location": "https://example.com/?k=s3cret-v%C3%A4lue"}),
    }
    with Service(routes) as service:
        kept = [str(await call(service, path, **table)) for path in routes]
    seen = service.requests[0].headers[header].encode("latin-1").decode()
    assert seen == value
    assert [
        text for text in kept if reported in text or "s3cret" in text or "***" not in text
    ] == []


async def test_a_secret_is_not_kept_however_a_service_writes_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret/äö")
    auth = {"scheme": "bearer", "secret": f"file:{tmp_path / 'secret'}"}
    state = "x" * 185 + r"s3cret\/\u00e4ö"
    answer = Answer(200, f'{{"state": "{state}"}}'.encode(), {"Content-Type": JSON})
    with Service({"/": answer}) as service:
        outcome, _ = await call(service, auth=auth, check={"path": "state", "value": "ok"})
    assert outcome.message.endswith('state is "' + "x" * 185 + '***"')


async def test_a_long_secret_across_a_cut_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret" * 850)
    auth = {"scheme": "basic", "user": "ann", "secret": f"file:{tmp_path / 'secret'}"}
    pair = base64.b64encode(b"ann:" + b"s3cret" * 850)
    answer = Answer(200, b"x" * 6000 + pair, {"Content-Type": "text/plain"})
    with Service({"/": answer}) as service:
        _, lines = await call(service, auth=auth)
    assert lines[1] == "x" * 6000 + "***"


async def test_a_secret_that_is_rotated_is_taken_up(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("first")
    auth = {"scheme": "bearer", "secret": f"file:{file}"}
    with Service(ECHO) as service:
        async with executor(destination(service.url, auth=auth)) as (running, record):
            await outcome_of(running, record, context(1, "http:d"))
            file.write_text("second")
            await outcome_of(running, record, context(2, "http:d"))
            file.unlink()
            outcome = await outcome_of(running, record, context(3, "http:d"))
    assert [each.headers["authorization"] for each in service.requests] == [
        "Bearer first",
        "Bearer second",
    ]
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("SecretUnreadable", True)


@pytest.mark.parametrize("place", ["env:PGCRON_TEST_ABSENT", "file:/nowhere/at/all"])
async def test_a_secret_that_is_missing_is_told_at_the_start(place: str) -> None:
    offered = destination("http://127.0.0.1:1/", auth={"scheme": "bearer", "secret": place})
    with pytest.raises(ConfigError, match=place):
        async with executor(offered):
            pass


async def test_no_run_leaves_a_cookie_to_the_next() -> None:
    routes = {"/": Answer(200, b"", {"Set-Cookie": "session=1; Path=/"})}
    with Service(routes) as service:
        async with executor(destination(service.url)) as (running, record):
            for number in (1, 2):
                await outcome_of(running, record, context(number, "http:d"))
    assert ["cookie" in each.headers for each in service.requests] == [False, False]
    assert service.connections == 1


async def test_no_more_requests_at_once_than_the_destination_takes() -> None:
    with Service(ECHO) as service:
        offered = destination(service.url, connections=2)
        async with executor(offered) as (running, record):
            runs = [context(number, "http:d") for number in range(12)]
            running.start(runs)
            for run in runs:
                record.outcome(run)
    assert len(service.requests) == 12
    assert service.most_at_once <= 2
    assert service.connections <= 2


@pytest.mark.parametrize(
    ("url", "private", "has_token"),
    [
        ("http://service.example/", False, False),
        ("https://service.example/", False, True),
        ("http://service.example/", True, True),
    ],
)
def test_the_claim_s_token_is_not_sent_in_the_clear(
    url: str, private: bool, has_token: bool
) -> None:
    offered = destination(url, allow_private=private)

    headers = render_request(offered, context(7, "http:d")).headers

    assert ("Pgcron-Token" in headers) is has_token
    assert headers["Pgcron-Fence"] == "14"
