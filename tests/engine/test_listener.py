from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.db import control
from tests.db.control import Connection
from tests.engine.conftest import MakeLink
from tests.engine.proxy import Proxy
from tests.product.db import Link
from tests.product.engine import Listener, notifications
from tests.product.telemetry import Event, NotificationsAreLost, NotificationsArrive
from tests.servers import ThrowAwayServer
from tests.waiting import until


class Ears:
    """A listener, and what it has told."""

    def __init__(self, listening: Link, probing: Link, has_own_dsn: bool = False) -> None:
        self.link = listening
        self.woken = 0
        self.proved: list[bool] = []
        self.changes: list[bool] = []
        self.listener = Listener(
            listening,
            probing,
            {"run": self._wake},
            self.proved.append,
            lambda: self.changes.append(self.listener.is_unresponsive),
            has_own_dsn=has_own_dsn,
        )

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
async def ears(make_link: MakeLink, link: Link) -> AsyncIterator[Ears]:
    ears = Ears(make_link(), link)
    listening = asyncio.ensure_future(ears.listener.run())
    yield ears
    ears.listener.stop()
    await listening


async def test_a_notification_that_arrives_proves_that_they_do(ears: Ears) -> None:
    await until("the probe is heard", lambda: ears.proved == [True])


async def test_a_broken_connection_proves_nothing_until_the_next_probe(ears: Ears) -> None:
    await until("the probe is heard", lambda: ears.proved == [True])
    woken = ears.woken

    ears.link.drop()

    await until("the second probe is heard", lambda: ears.proved == [True, False, True])
    assert ears.woken > woken


async def test_runs_that_are_given_back_wake_who_is_idle(
    ears: Ears, connection: Connection
) -> None:
    busy, idle = await control.join(connection), await control.join(connection)
    await until("the probe is heard", lambda: ears.proved == [True])
    woken = ears.woken
    await control.call(connection, "wake_idle_nodes")
    await control.call(connection, "probe_listeners")
    await until("all that was said is heard", lambda: len(ears.proved) == 2)
    assert ears.woken == woken

    for node in (busy, idle):
        is_idle = node is idle
        await control.call(connection, "say_idle", incarnation=node.incarnation, is_idle=is_idle)
    await control.call(connection, "wake_idle_nodes")

    await until("the idle node is woken", lambda: ears.woken == woken + 1)


async def test_it_ends_when_it_is_told_to_while_it_connects(
    make_link: MakeLink, link: Link
) -> None:
    """A node that is stopped as soon as it has begun must not wait for ever."""
    ears = Ears(make_link(), link)
    listening = asyncio.ensure_future(ears.listener.run())
    await asyncio.sleep(0)  # it connects now

    ears.listener.stop()

    await asyncio.wait_for(listening, 10)
    assert not ears.link.is_open


async def test_a_way_of_its_own_that_is_lost_is_told_and_found_again(
    make_link: MakeLink, link: Link, proxy: Proxy, database: str, events: list[Event]
) -> None:
    ears = Ears(make_link(proxy.dsn(database)), link, has_own_dsn=True)
    listening = asyncio.ensure_future(ears.listener.run())
    await until("the probe is heard", lambda: ears.proved == [True])
    assert not ears.listener.is_unresponsive

    await proxy.refuse()
    await until("it is told", lambda: ears.changes == [True])
    assert ears.proved == [True, False]
    await until("it is in trouble", lambda: ears.listener.trouble is not None)
    await proxy.accept()
    ears.listener.retry()
    await until("it is heard again", lambda: ears.changes == [True, False])

    assert ears.proved[-1]
    assert ears.listener.trouble is None
    assert [event for event in events if isinstance(event, NotificationsArrive)]
    [lost] = [event for event in events if isinstance(event, NotificationsAreLost)]
    assert lost.why == "listen_dsn can't be used (the database can't be reached)"
    ears.listener.stop()
    await listening


async def test_listening_elsewhere_than_where_it_is_said_is_noticed(
    make_link: MakeLink,
    link: Link,
    server: ThrowAwayServer,
    template: str,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "PROBE_SECONDS", 0.3)
    elsewhere = server.create_database("elsewhere", template)
    ears = Ears(make_link(elsewhere), link, has_own_dsn=True)

    pause = await ears.listener.run_once()

    assert pause is not None
    assert pause >= 10
    assert ears.changes == [True]
    [lost] = [event for event in events if isinstance(event, NotificationsAreLost)]
    assert "nothing was heard" in lost.why
    assert not ears.link.is_open
    server.drop_database("elsewhere")
