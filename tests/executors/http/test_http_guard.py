"""Where a destination can not lead a node: other addresses, other places, too much of anything."""

from __future__ import annotations

import ipaddress
from contextlib import ExitStack
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Failed, Succeeded
from tests.executors.http.calls import call, call_url, destination, executor, outcome_of
from tests.executors.http.rebinding import NAME, Resolver
from tests.executors.http.service import CERTIFICATE, JSON, Answer, Service, endless, own_tls
from tests.executors.running import context
from tests.product.executors import CLIENT_MAX_BODY_BYTES as MAX_BODY_BYTES
from tests.product.executors import is_allowed

GET: dict[str, Any] = {"method": "GET"}


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
        *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
        *("2002:7f00:1::", "2001:db8::1", "::127.0.0.1", "2001:0:1:1:1:1:80ff:fffe"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_allowed(ipaddress.ip_address(address), ())


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"]
)
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address), ())


def test_only_the_named_networks_are_allowed_besides() -> None:
    allowed = (ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8"))
    assert is_allowed(ipaddress.ip_address("10.1.2.3"), allowed)
    assert is_allowed(ipaddress.ip_address("::ffff:10.1.2.3"), allowed)
    assert is_allowed(ipaddress.ip_address("fd00::1"), allowed)
    assert not is_allowed(ipaddress.ip_address("10.2.0.1"), allowed)
    assert not is_allowed(ipaddress.ip_address("127.0.0.1"), allowed)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "[::1]"])
@pytest.mark.parametrize("allow_private", [False, ["10.0.0.0/8"]])
async def test_a_node_does_not_call_itself_unless_it_is_told_to(
    host: str, allow_private: Any
) -> None:
    with Service({"/": Answer(204)}) as service:
        url = f"http://{host}:{service.port}/"
        outcome, _ = await call_url(url, allow_private=allow_private)
        connections = service.connections
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("AddressRefused", False)
    assert "allow_private" in outcome.message
    assert connections == 0


async def test_a_name_is_called_at_its_judged_address_with_its_own_name() -> None:
    with Service({"/": Answer(204)}) as service:
        outcome, _ = await call_url(
            f"http://localhost:{service.port}/", allow_private=["127.0.0.0/8"]
        )
    assert outcome is SUCCEEDED
    assert service.requests[0].headers["host"] == f"localhost:{service.port}"


async def test_a_name_that_moves_once_it_was_judged_is_called_where_it_was_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = {"/": Answer(204)}
    with Service(routes) as judged, Service(routes, host="127.0.0.2", port=judged.port) as other:
        resolver = Resolver(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        offered = destination(f"http://{NAME}:{judged.port}/", allow_private=["127.0.0.1/32"])
        async with executor(offered) as (running, record):
            first = await outcome_of(running, record, context(1, "http:d"))
            asked = resolver.asked
            second = await outcome_of(running, record, context(2, "http:d"))
        called = len(judged.requests), other.connections
    assert (first, asked) == (SUCCEEDED, 1)
    assert called == (1, 0)
    assert_refused(second)


async def test_a_name_that_moves_while_its_work_goes_on_is_asked_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = {"/": Answer(202, b"", {"Location": "/jobs/1"}), "/jobs/1": Answer(204)}
    with Service(routes) as judged, Service(routes, host="127.0.0.2", port=judged.port) as other:
        Resolver(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        url = f"http://{NAME}:{judged.port}/"
        outcome, _ = await call_url(url, allow_private=["127.0.0.1/32"], poll="20ms")
        called = judged.paths(), other.connections
    assert called == (["/"], 0)
    assert_refused(outcome)


@pytest.mark.parametrize(
    ("answers", "is_there"),
    [
        # Both at once in either order, and one after the other where nobody listens at the first.
        ([["127.0.0.2", "127.0.0.1"]], True),
        ([["127.0.0.1", "127.0.0.2"]], True),
        ([["127.0.0.1", "127.0.0.2"]], False),
        ([["127.0.0.1"], ["127.0.0.2"]], False),
    ],
    ids=str,
)
async def test_no_address_that_was_refused_is_called_instead_of_one_that_was_not(
    monkeypatch: pytest.MonkeyPatch, answers: list[list[str]], is_there: bool
) -> None:
    with Service() as gone:
        port = gone.port
    with ExitStack() as stack:
        other = stack.enter_context(Service({"/": Answer(204)}, host="127.0.0.2", port=port))
        if is_there:
            stack.enter_context(Service({"/": Answer(204)}, port=port))
        resolver = Resolver(monkeypatch, *answers)
        outcome, _ = await call_url(f"http://{NAME}:{port}/", allow_private=["127.0.0.1/32"])
        connections = other.connections
    assert (connections, resolver.asked) == (0, 1)
    assert (outcome is SUCCEEDED) == is_there
    assert is_there or outcome.error_class == "ConnectError"


def assert_refused(outcome: Any) -> None:
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.retry) == ("AddressRefused", False)
    assert f"{NAME} is 127.0.0.2, which is no public address" in outcome.message


async def test_a_certificate_is_checked_against_the_name_and_not_the_address() -> None:
    tls = own_tls()
    with Service({"/": Answer(204)}, tls) as service:
        named = f"https://localhost:{service.port}/"
        outcome, _ = await call_url(named, ca_file=str(CERTIFICATE))
        by_address, _ = await call(service, ca_file=str(CERTIFICATE))
        unknown, _ = await call_url(named)
    assert outcome is SUCCEEDED
    assert service.names[0] == "localhost"
    for refused in (by_address, unknown):
        assert isinstance(refused, Failed)
        assert refused.error_class == "ConnectError"
        assert "CERTIFICATE_VERIFY_FAILED" in refused.message
    assert len(service.requests) == 1


async def test_a_redirect_to_another_place_is_not_followed() -> None:
    with Service({"/stolen": Answer(200)}) as other:
        places = [
            *(f"{other.url}/stolen", f"//127.0.0.1:{other.port}/stolen", "https://example.com/"),
            *("file:///etc/passwd", "http://u:p@127.0.0.1/", "http://[", "gopher://x/", "/0"),
        ]
        routes = {f"/{n}": Answer(302, b"", {"Location": at}) for n, at in enumerate(places)}
        with Service(routes) as service:
            for path, place in zip(routes, places, strict=True):
                outcome, _ = await call(service, path, **GET)
                assert isinstance(outcome, Failed)
                assert (outcome.error_class, outcome.retry) == ("Http302", False)
                reported = place.replace(":p@", ":***@")
                assert f"to {reported}, which is not followed" in outcome.message
        assert other.connections == 0


async def test_a_redirect_that_is_expected_is_the_answer() -> None:
    with Service({"/": Answer(303, b"", {"Location": "/there"})}) as service:
        outcome, _ = await call(service, expect=[303])
    assert outcome is SUCCEEDED
    assert service.paths() == ["/"]


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Service({"/": Answer(204)}) as service, Service() as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        outcome, _ = await call(service)
        assert proxy.connections == 0
    assert outcome is SUCCEEDED


@pytest.mark.parametrize("headers", [f"Content-Type: {JSON}\r\n", "Content-Type: text/plain\r\n"])
async def test_a_body_without_end_is_read_to_its_bound_only(headers: str) -> None:
    with Service({"/": endless(b"1" * 65_536, headers)}) as service:
        outcome, lines = await call(service)
    assert outcome is SUCCEEDED
    assert f"over {MAX_BODY_BYTES} bytes" in lines[0]
    assert sum(map(len, lines)) < 20_000


async def test_a_check_fails_on_an_answer_that_is_too_long() -> None:
    with Service({"/": endless(b"[1," * 9999, f"Content-Type: {JSON}\r\n")}) as service:
        outcome, _ = await call(service, check={"path": "0", "value": 1})
    assert isinstance(outcome, Failed)
    assert outcome.error_class == "UnexpectedAnswer"
    assert len(outcome.traceback or "") < 3000


async def test_an_answer_that_broke_off_leaves_the_next_run_its_own() -> None:
    routes: dict[str, Any] = {
        "/": [
            Answer(200, b"x" * (2 << 20), {"Content-Type": JSON}),
            Answer(200, b'{"n": 2}', {"Content-Type": JSON}),
        ]
    }
    with Service(routes) as service:
        async with executor(destination(service.url)) as (running, record):
            first = await outcome_of(running, record, context(1, "http:d"))
            second = await outcome_of(running, record, context(2, "http:d"))
    assert first is SUCCEEDED
    assert isinstance(second, Succeeded)
    assert second.result == {"n": 2}
