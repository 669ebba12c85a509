from __future__ import annotations

import dataclasses
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pgcron_ha.operating_system import boottime
from tests.db import control
from tests.db.control import Connection, Row
from tests.engine.proxy import Proxy
from tests.engine.workshop import HANDLERS, Workshop
from tests.product.engine import LeasePhase
from tests.product.telemetry import COUNTERS, Event, NodeFenced, NodeJoined
from tests.waiting import until


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database)
    await workshop.join()
    yield workshop
    await workshop.leave()


async def node_row(connection: Connection) -> Row:
    row = await connection.fetchrow("SELECT * FROM pgcron.node ORDER BY started_at DESC LIMIT 1")
    assert row is not None
    return row


async def test_a_node_says_what_it_is_when_it_joins(
    workshop: Workshop, connection: Connection
) -> None:
    row = await node_row(connection)

    assert row["incarnation"] == workshop.session.incarnation
    assert (row["name"], row["state"], row["slots"]) == ("n1", "alive", 4)
    assert row["queues"] == ["default"]
    offers = await connection.fetch("SELECT handler FROM pgcron.offer")
    assert [offer["handler"] for offer in offers] == list(HANDLERS)
    assert workshop.joined == 1
    assert workshop.phases[0] is LeasePhase.HELD


async def test_a_beat_renews_the_lease_and_says_which_runs_are_mine(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 2)
    await workshop.step()
    peer = await control.join(connection, lease_ttl=7)
    claimed = {row["id"]: row["token"] for row in await connection.fetch("TABLE pgcron.run")}
    before = await node_row(connection)

    beat = await workshop.beat()

    assert beat.runs == claimed
    assert beat.peers == {peer.incarnation: (0, 7.0)}
    assert beat.cancelled == frozenset()
    row = await connection.fetchrow(
        "SELECT * FROM pgcron.node WHERE incarnation = $1", workshop.session.incarnation
    )
    assert row is not None
    assert row["slots_used"] == 2
    assert row["beat_sequence"] > 0
    assert row["lease_until"] >= before["lease_until"]
    assert workshop.deadlines[-1] == pytest.approx(beat.sent_at + 0.9 * 15)


async def test_a_node_that_hears_nothing_says_so_until_it_does(
    workshop: Workshop, connection: Connection
) -> None:
    for is_unresponsive in (True, False):
        workshop.is_unresponsive = is_unresponsive
        workshop.session.beat_now()

        async def is_said(expected: bool = is_unresponsive) -> bool:
            return (await node_row(connection))["is_pooled"] is expected

        await until("it is said", is_said)


async def test_a_beat_says_what_is_to_be_cancelled(
    workshop: Workshop, connection: Connection
) -> None:
    (run,) = await control.enqueue(connection)
    await workshop.step()
    await connection.execute("SELECT pgcron.cancel_run($1, 'enough')", run)

    assert (await workshop.beat()).cancelled == {run}


async def test_a_node_that_was_declared_dead_stops_and_joins_anew_when_it_is_quiet(
    workshop: Workshop, connection: Connection, events: list[Event]
) -> None:
    first = workshop.session.incarnation
    workshop.is_quiet = False
    await connection.execute(
        "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'test'"
    )
    workshop.session.beat_now()
    await until("it is fenced", lambda: workshop.fenced == 1)

    assert not workshop.session.may_claim()
    assert workshop.phases[-1] is LeasePhase.OVER
    assert await connection.fetchval("SELECT count(*) FROM pgcron.node") == 1

    workshop.is_quiet = True
    await until("it joined again", lambda: workshop.joined == 2 and workshop.session.may_claim())

    assert workshop.session.incarnation not in (None, first)
    assert [event for event in events if isinstance(event, NodeFenced)] == [NodeFenced(str(first))]


async def test_no_lease_is_kept_for_an_engine_whose_loop_is_blocked(
    database: str, connection: Connection
) -> None:
    workshop = Workshop(database, ttl=1.0)
    await workshop.join()
    await until("it renews", lambda: workshop.tick() and len(workshop.beats) > 2)

    # From here on nobody ticks: the engine's loop would hang in something.
    await until("its lease is over", lambda: workshop.phases[-1] is LeasePhase.OVER)

    assert workshop.phases[-3:] == [LeasePhase.SUSPECT, LeasePhase.LOST, LeasePhase.OVER]
    assert not workshop.session.may_claim()
    sequence = (await node_row(connection))["beat_sequence"]
    await until("it renews again", lambda: workshop.tick() and workshop.session.may_claim())
    assert (await node_row(connection))["beat_sequence"] > sequence
    await workshop.leave()


async def test_a_node_that_leaves_says_why_and_frees_its_runs_at_once(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection)
    await workshop.step()

    await workshop.leave("an upgrade")

    row = await node_row(connection)
    assert (row["state"], row["ended_because"]) == ("dead", "an upgrade")
    assert list((await control.reap(connection)).values()) == ["retry"]


async def test_a_node_that_drains_claims_nothing_and_keeps_its_lease(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection)

    workshop.session.drain()
    await workshop.beat()
    await workshop.dispatcher.run_once()

    assert not workshop.session.may_claim()
    assert workshop.session.lease.is_held(boottime())
    assert (await node_row(connection))["state"] == "draining"
    assert workshop.executor.executing == {}


async def test_a_broken_connection_does_not_cost_the_lease(
    proxy: Proxy, database: str, connection: Connection
) -> None:
    workshop = Workshop(proxy.dsn(database))
    await workshop.join()
    incarnation = workshop.session.incarnation

    for _ in range(3):
        proxy.reset()
        await workshop.beat()

    assert workshop.session.incarnation == incarnation
    assert set(workshop.phases) == {LeasePhase.HELD}
    await workshop.leave()


async def test_a_beat_that_can_not_be_stored_does_not_cost_the_connection(
    proxy: Proxy, database: str, connection: Connection
) -> None:
    workshop = Workshop(proxy.dsn(database))
    await workshop.join()
    opened = proxy.connections
    await connection.execute(
        "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'no room for it' USING ERRCODE = '53100'; END $$;"
        "CREATE TRIGGER full_disk BEFORE UPDATE ON pgcron.node"
        " FOR EACH ROW EXECUTE FUNCTION public.full_disk()"
    )
    failed = COUNTERS.renewals["failed"]
    workshop.session.beat_now()
    await until("a beat failed", lambda: COUNTERS.renewals["failed"] > failed)
    await connection.execute("DROP TRIGGER full_disk ON pgcron.node")
    await workshop.beat()

    assert proxy.connections == opened
    assert workshop.session.may_claim()
    await workshop.leave()


async def test_a_silent_database_ends_the_lease_and_its_return_gives_it_back(
    proxy: Proxy, database: str
) -> None:
    workshop = Workshop(proxy.dsn(database), ttl=1.5)
    await workshop.join()
    proxy.stall()
    await until(
        "the lease is over", lambda: workshop.tick() and workshop.phases[-1] is LeasePhase.OVER
    )
    assert not workshop.session.may_claim()

    proxy.reset()
    proxy.resume()
    await until("it is back", lambda: workshop.tick() and workshop.session.may_claim())

    await workshop.leave()


async def test_a_node_in_the_folder_of_a_dead_one_frees_its_runs_at_once(
    database: str, connection: Connection, events: list[Event]
) -> None:
    first = Workshop(database, home="here:/folder:1")
    await first.join()
    await control.enqueue(connection)
    await first.step()
    await first.leave(None)
    assert (await node_row(connection))["state"] == "alive"

    second = Workshop(database, home="here:/folder:1")
    await second.join()

    def predecessors() -> list[int]:
        return [e.predecessors for e in events if isinstance(e, NodeJoined)]

    await until("it has said so", lambda: predecessors() == [0, 1])
    assert list((await control.reap(connection)).values()) == ["retry"]
    await second.leave()


async def test_a_locked_predecessor_does_not_keep_its_successor_from_work(
    database: str, connection: Connection
) -> None:
    first = Workshop(database, home="here:/folder:1")
    await first.join()
    await first.leave(None)
    second = Workshop(database, home="here:/folder:1")
    async with connection.transaction():
        await connection.execute("SELECT FROM pgcron.node FOR UPDATE")
        await second.join()
        assert second.session.refusal is None

    async def is_buried() -> bool:
        second.tick()
        second.session.beat_now()
        states = await connection.fetch("SELECT state FROM pgcron.node ORDER BY started_at")
        return [row["state"] for row in states] == ["dead", "alive"]

    await until("it buries it after a beat", is_buried)
    await second.leave()


@pytest.mark.parametrize("relation", ["node", "offer"])
async def test_a_node_that_was_declared_dead_joins_again_when_a_lock_is_released(
    database: str, connection: Connection, relation: str
) -> None:
    workshop = Workshop(database)
    await workshop.join()
    first, workshop.is_quiet = workshop.session.incarnation, False
    await connection.execute(
        "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'a test'"
    )
    workshop.session.beat_now()
    await until("it is fenced", lambda: workshop.tick() and workshop.fenced)
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE pgcron.{relation} IN ACCESS EXCLUSIVE MODE")
        failed, workshop.is_quiet = COUNTERS.renewals["failed"], True
        await until(
            "joins have failed",
            lambda: workshop.tick() and COUNTERS.renewals["failed"] >= failed + 2,
        )
        assert workshop.session.refusal is None

    await until("it joins again", lambda: workshop.tick() and workshop.session.may_claim())

    assert workshop.session.incarnation != first
    await workshop.leave()


async def test_an_exception_nobody_foresaw_is_a_failed_beat(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(database)
    await workshop.join()
    incarnation, failed = workshop.session.incarnation, COUNTERS.renewals["failed"]
    bad_news, known = iter(["unforeseen"]), workshop.session._hooks

    def report() -> Mapping[str, Any]:
        if next(bad_news, None) is not None:
            raise KeyError("nothing")
        return known.report()

    hooks = dataclasses.replace(known, report=report)
    monkeypatch.setattr(workshop.session, "_hooks", hooks)
    await workshop.beat()

    assert COUNTERS.renewals["failed"] == failed + 1
    assert workshop.session.refusal is None
    assert workshop.session.incarnation == incarnation
    await workshop.leave()


async def test_a_node_that_can_not_watch_its_lease_ends(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(database, ttl=1.0)
    await workshop.join()

    def fail(phase: LeasePhase) -> None:
        raise KeyError("nothing")

    hooks = dataclasses.replace(workshop.session._hooks, phase=fail)
    monkeypatch.setattr(workshop.session, "_hooks", hooks)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    # Nobody ticks, and so the lease is endangered.
    refusal = await until("it can't go on", lambda: workshop.session.refusal)

    assert refusal is not None
    assert (refusal.detail or "").startswith("KeyError: 'nothing' at fail, line")
    await workshop.leave()


async def test_a_node_without_a_folder_buries_nobody(
    database: str, connection: Connection, events: list[Event]
) -> None:
    first, second = Workshop(database), Workshop(database)
    await first.join()
    await second.join()

    def predecessors() -> list[int]:
        return [e.predecessors for e in events if isinstance(e, NodeJoined)]

    # Said by the thread of the session, which holds its lease before.
    await until("both have joined", lambda: len(predecessors()) == 2)
    assert predecessors() == [0, 0]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.node") == 2
    await first.leave()
    await second.leave()


async def test_a_database_without_the_schema_is_a_refusal_not_a_wait(empty_database: str) -> None:
    workshop = Workshop(empty_database)
    workshop.session.start()

    await until("it is refused", lambda: workshop.session.refusal)

    assert "not in this database" in str(workshop.session.refusal)
    assert workshop.session.incarnation is None
    await workshop.leave()


async def test_a_session_that_never_reached_a_database_can_be_stopped() -> None:
    workshop = Workshop("postgresql://nobody@127.0.0.1:1/nothing?sslmode=disable")
    workshop.session.start()

    await workshop.leave()

    assert workshop.session.incarnation is None
