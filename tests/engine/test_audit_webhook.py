"""The audit reaches a webhook: every row at least once, in order, whatever the service answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest

from pgcron_ha.errors import ConfigError
from tests.db.control import Connect, Connection
from tests.engine.conftest import MakeLink
from tests.executors.http.rebinding import Resolver
from tests.executors.http.service import CERTIFICATE, Answer, Service, own_tls
from tests.product.config import AuditSettings, SecretReference
from tests.product.db import Link
from tests.product.engine import ROWS, AuditWebhook

SECRET = "0123456789abcdef"
PUBLIC = "93.184.216.34"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_SECRET", SECRET)


def made(link: Link, url: str, *, allow_private: bool = True) -> AuditWebhook:
    reference = SecretReference("env", "AUDIT_SECRET")
    return AuditWebhook(link, AuditSettings(url, reference, allow_private), url)


def sent(service: Service) -> list[str]:
    """The names of all rows that it was sent, in order."""
    bodies = [request.body.decode() for request in service.requests]
    return [json.loads(line)["name"] for body in bodies for line in body.splitlines()]


async def record(connection: Connection, first: int, last: int) -> None:
    await connection.execute(
        "SELECT pgcron.record_audit('look', 'test', n::text) FROM generate_series($1::int, $2) n",
        first,
        last,
    )


async def be_due(connection: Connection) -> None:
    """As if the time until the next try were over."""
    await connection.execute("UPDATE pgcron.audit_export SET due_at = now()")


async def test_all_rows_are_sent_in_batches_with_a_signature(
    link: Link, connection: Connection
) -> None:
    await record(connection, 1, ROWS + 20)
    with Service({"/audit": Answer()}) as service:
        webhook = made(link, f"{service.url}/audit")
        while await webhook.run_once() == 0:
            pass
        await record(connection, 500, 500)
        await webhook.run_once()

    assert sent(service) == [*(str(number) for number in range(1, ROWS + 21)), "500"]
    first = service.requests[0]
    digest = hmac.new(SECRET.encode(), first.body, hashlib.sha256).hexdigest()
    assert first.headers["pgcron-signature"] == f"sha256={digest}"
    row = json.loads(first.body.splitlines()[0])
    assert (row["id"], row["verb"], row["login"]) == (1, "look", "postgres")
    assert await connection.fetchval("SELECT sent = settled FROM pgcron.audit_export")


async def test_what_was_not_taken_is_sent_again_later(link: Link, connection: Connection) -> None:
    await record(connection, 1, 2)
    with Service({"/audit": [Answer(503), Answer(500), Answer(204)]}) as service:
        webhook = made(link, f"{service.url}/audit")
        await webhook.run_once()
        await webhook.run_once()  # it is not due yet
        assert len(service.requests) == 1
        assert "answered 503" in await connection.fetchval("SELECT error FROM pgcron.audit_export")
        assert len(webhook.aside) == 1
        await be_due(connection)
        await webhook.run_once()
        row = await connection.fetchrow(
            "SELECT failures, due_at > now() + interval '1.5 s' AS waits FROM pgcron.audit_export"
        )
        assert row is not None
        assert (row["failures"], row["waits"]) == (2, True)
        await be_due(connection)
        await webhook.run_once()

    assert sent(service) == ["1", "2"] * 3
    assert len(webhook.aside) == 0
    state = await connection.fetchrow("SELECT sent, failures, error FROM pgcron.audit_export")
    assert state is not None
    assert tuple(state) == (2, 0, None)


async def test_without_its_key_nothing_is_sent_and_the_failure_is_recorded(
    link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record(connection, 1, 1)
    with Service({"/audit": Answer()}) as service:
        webhook = made(link, f"{service.url}/audit")
        monkeypatch.delenv("AUDIT_SECRET")
        await webhook.run_once()
        failure = await connection.fetchval("SELECT error FROM pgcron.audit_export")
        assert (service.requests, len(webhook.aside)) == ([], 1)
        monkeypatch.setenv("AUDIT_SECRET", SECRET)
        await be_due(connection)
        await webhook.run_once()

    assert failure == "audit.secret: the secret 'env:AUDIT_SECRET' is empty or not set"
    assert sent(service) == ["1"]


async def test_two_nodes_do_not_send_the_same_at_once(
    make_link: MakeLink, link: Link, connection: Connection
) -> None:
    await record(connection, 1, 3)
    with Service({"/audit": Answer()}) as service:
        other = make_link()
        url = f"{service.url}/audit"
        await asyncio.gather(made(link, url).run_once(), made(other, url).run_once())

    assert sent(service) == ["1", "2", "3"]


async def test_no_row_is_left_out_for_one_that_came_before_it(
    link: Link, connection: Connection, another: Connect
) -> None:
    slow = await another()
    with Service({"/audit": Answer()}) as service:
        webhook = made(link, f"{service.url}/audit")
        transaction = slow.transaction()
        await transaction.start()
        await record(slow, 1, 1)
        await record(connection, 2, 2)
        await webhook.run_once()
        assert sent(service) == []
        await transaction.commit()
        await webhook.run_once()

    assert sent(service) == ["1", "2"]


async def test_nothing_goes_to_a_private_network_or_in_the_clear_unless_allowed(
    link: Link, connection: Connection
) -> None:
    with pytest.raises(ConfigError, match="is not encrypted"):
        made(link, "http://127.0.0.1:1/audit", allow_private=False)
    await record(connection, 1, 1)

    await made(link, "https://127.0.0.1:1/audit", allow_private=False).run_once()

    error = await connection.fetchval("SELECT error FROM pgcron.audit_export")
    assert "no public address" in error


async def test_a_webhook_whose_name_moves_is_called_where_it_was_judged_and_then_not_at_all(
    link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certifi.where", lambda: str(CERTIFICATE))
    tls = own_tls()
    routes = {"/audit": Answer()}
    with (
        Service(routes, tls) as judged,
        Service(routes, tls, host="127.0.0.2", port=judged.port) as other,
    ):
        lead_to_this_machine(monkeypatch)
        resolver = Resolver(monkeypatch, [PUBLIC], ["127.0.0.2"], name="localhost")
        webhook = made(link, f"https://localhost:{judged.port}/audit", allow_private=False)
        await record(connection, 1, 1)
        await webhook.run_once()
        assert resolver.asked == 1
        await record(connection, 2, 2)
        await webhook.run_once()
        error = await connection.fetchval("SELECT error FROM pgcron.audit_export")
        connections = other.connections

    assert (sent(judged), connections) == (["1"], 0)
    assert "localhost is 127.0.0.2, which is no public address" in error


def lead_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `PUBLIC` were an address of this machine's network, at 127.0.0.1."""
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def led(connecting: Any, address: Any) -> None:
        is_public = address[0] == PUBLIC  # of a socket in a folder it is the path
        await connect(connecting, ("127.0.0.1", *address[1:]) if is_public else address)

    monkeypatch.setattr(loop, "sock_connect", led)


async def test_a_restored_database_goes_on_though_its_transactions_count_anew(
    link: Link, connection: Connection
) -> None:
    await record(connection, 1, 1)
    await connection.execute("UPDATE pgcron.audit_export SET next_xid = '999999999999'")

    await link.value("settle_audit")

    assert await connection.fetchval("SELECT settled FROM pgcron.audit_export") == 1
