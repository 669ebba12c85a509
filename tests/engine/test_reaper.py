from __future__ import annotations

from uuid import UUID

import pytest

from pgcron_ha.db.link import Link
from pgcron_ha.engine.reaper import BATCH, Reaper
from pgcron_ha.engine.reconcile import Beat
from pgcron_ha.executors.operating_system import boottime
from pgcron_ha.telemetry.events import Event, PeerDied, RunsReaped
from tests.db import control
from tests.db.control import Connection, Node

TTL = 15.0


@pytest.fixture
def reaper(link: Link) -> Reaper:
    return Reaper(link, TTL)


@pytest.fixture
async def peer(connection: Connection) -> Node:
    """A node that has joined and will be silent."""
    return await control.join(connection, lease_ttl=TTL)


def observe(reaper: Reaper, peer: UUID, silent_for: float, sequence: int = 0) -> None:
    """The beats of a node that has seen this peer not move for so long, the last one just now."""
    now = boottime()
    looks = 5
    for look in range(looks):
        at = now - silent_for * (1 - look / (looks - 1))
        reaper.observe(Beat(at, at, {}, frozenset(), {peer: (sequence, TTL)}))


async def lease_is_over(connection: Connection) -> None:
    """By the database's clock, too."""
    await connection.execute("UPDATE pgcron.node SET lease_until = now() - interval '1 second'")


async def state(connection: Connection, node: Node) -> str:
    found: str = await connection.fetchval(
        "SELECT state FROM pgcron.node WHERE incarnation = $1", node.incarnation
    )
    return found


async def test_a_peer_whose_lease_ran_out_by_both_clocks_is_dead_and_its_runs_are_ready(
    reaper: Reaper, peer: Node, connection: Connection, events: list[Event]
) -> None:
    (run,) = await control.enqueue(connection)
    await control.claim(connection, peer)
    await lease_is_over(connection)
    observe(reaper, peer.incarnation, TTL + 0.1)

    await reaper.run_once()

    assert await state(connection, peer) == "dead"
    row = await control.run_row(connection, run)
    assert row is not None
    assert row["state"] == "ready"
    assert events == [PeerDied(str(peer.incarnation)), RunsReaped({"retry": 1})]


async def test_a_peer_that_is_silent_for_less_than_its_lease_lives(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    await lease_is_over(connection)
    observe(reaper, peer.incarnation, TTL - 1)

    await reaper.run_once()

    assert await state(connection, peer) == "alive"


async def test_a_peer_whose_lease_lives_in_the_database_lives(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    observe(reaper, peer.incarnation, TTL + 0.1)

    await reaper.run_once()

    assert await state(connection, peer) == "alive"


async def test_a_renewal_that_gets_there_first_wins(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    await lease_is_over(connection)
    await connection.execute("UPDATE pgcron.node SET beat_sequence = beat_sequence + 1")
    observe(reaper, peer.incarnation, TTL + 0.1)

    await reaper.run_once()

    assert await state(connection, peer) == "alive"


async def test_the_timer_stands_at_the_verdict_not_at_the_next_tick(
    reaper: Reaper, peer: Node
) -> None:
    observe(reaper, peer.incarnation, TTL - 1)

    wait = await reaper.run_once()

    assert wait is not None
    assert 0 <= wait <= 1.1  # a stalled machine comes later, never earlier


async def test_without_peers_it_looks_at_its_interval(reaper: Reaper) -> None:
    assert await reaper.run_once() is None
    assert reaper.interval <= TTL / 3


async def test_a_peer_that_is_dead_is_declared_once_and_not_looked_at_all_the_time(
    reaper: Reaper, peer: Node, connection: Connection, events: list[Event]
) -> None:
    await lease_is_over(connection)
    observe(reaper, peer.incarnation, TTL + 0.1)

    assert await reaper.run_once() is None
    await reaper.run_once()

    assert events == [PeerDied(str(peer.incarnation))]


async def test_after_the_database_was_away_nobody_is_declared_dead(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    await lease_is_over(connection)
    observe(reaper, peer.incarnation, TTL + 0.1)
    reaper.forget()

    await reaper.run_once()

    assert await state(connection, peer) == "alive"


async def test_runs_of_whoever_is_dead_are_found_by_the_next_pass(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    """Level-triggered: whoever declared it, or whether its row is there at all."""
    await control.enqueue(connection, 3)
    await control.claim(connection, peer)
    await control.kill(connection, peer)

    await reaper.run_once()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'") == 3


async def test_more_than_a_batch_takes_another_pass_at_once(
    reaper: Reaper, peer: Node, connection: Connection
) -> None:
    await control.enqueue(connection, BATCH + 1)
    await control.claim(connection, peer, BATCH + 1)
    await control.kill(connection, peer)

    assert await reaper.run_once() == 0
    assert await reaper.run_once() is None

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE owner IS NULL") == (
        BATCH + 1
    )
