from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from pgcron_ha.operating_system import boottime
from tests.db import control
from tests.db.control import Connect, Connection, Node
from tests.product.db import Link
from tests.product.engine import REAPER_BATCH as BATCH
from tests.product.engine import Beat, Reaper
from tests.product.telemetry import Event, PeerDied, RunsReaped
from tests.waiting import slowness

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
        reaper.peers.observe(Beat(at, at, {}, frozenset(), {peer: (sequence, TTL)}))


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
    reaper.peers.forget()

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


async def spoil(connection: Connection, run: int) -> None:
    """Values that no producer can write any more."""
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    await connection.execute(
        """UPDATE pgcron.run SET time_limits =
           '{"give_up_at": "2026-13-45T99:99", "give_up_after": 60}' WHERE id = $1""",
        run,
    )


async def break_a_rule(connection: Connection, run: int) -> None:
    await connection.execute(
        f"ALTER TABLE pgcron.run ADD CONSTRAINT newer_rule CHECK (id <> {run}) NOT VALID"
    )


@pytest.mark.parametrize("harm", [spoil, break_a_rule])
async def test_a_run_that_cannot_be_judged_ends_and_the_others_are_taken_over(
    reaper: Reaper, peer: Node, connection: Connection, harm: Callable[..., Awaitable[None]]
) -> None:
    runs = await control.enqueue(connection, 9)
    await control.claim(connection, peer)
    await harm(connection, runs[3])
    await control.kill(connection, peer)

    await reaper.run_once()

    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE state = 'ready'")
    assert sorted(row["id"] for row in rows) == runs[:3] + runs[4:]
    dead = await control.history_row(connection, runs[3])
    assert dead is not None
    assert dead["outcome"] == "dead"
    assert "2026-13-45" in dead["error"] or "newer_rule" in dead["error"]


async def test_a_locked_row_of_a_node_keeps_no_run_of_another_from_being_taken_over(
    reaper: Reaper, peer: Node, connection: Connection, another: Connect
) -> None:
    gone = await control.join(connection)
    (run,) = await control.enqueue(connection)
    await control.claim(connection, gone)
    await control.kill(connection, gone)
    await lease_is_over(connection)
    observe(reaper, peer.incarnation, TTL + 0.1)
    other = await another()
    await other.execute("BEGIN; UPDATE pgcron.node SET slots = slots")

    async with asyncio.timeout(1 * slowness()):
        await reaper.run_once()

    row = await control.run_row(connection, run)
    assert row is not None
    assert row["state"] == "ready"
    await other.execute("ROLLBACK")
    await reaper.run_once()
    assert await state(connection, peer) == "dead"


async def test_a_batch_of_locked_runs_stands_in_front_of_no_other(
    reaper: Reaper, peer: Node, connection: Connection, another: Connect
) -> None:
    await control.enqueue(connection, BATCH + 10)
    await control.claim(connection, peer, limit=BATCH + 10)
    await control.kill(connection, peer)
    other = await another()
    await other.execute("BEGIN")
    await other.execute(
        "SELECT FROM pgcron.run WHERE id IN (SELECT id FROM pgcron.run ORDER BY ctid LIMIT $1)"
        " FOR UPDATE",
        BATCH,
    )

    await reaper.run_once()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'") == 10
    await other.execute("ROLLBACK")


@pytest.mark.parametrize(
    "at", ["2026-13-45T99:99", "2026-01-01T25:00", "0000-01-01T00:00", "2026-01-01T00:00+99:99"]
)
async def test_time_limits_that_nobody_can_read_are_refused(
    connection: Connection, at: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match="time_limits"):
        await control.enqueue(
            connection, time_limits=f'{{"give_up_at": "{at}", "give_up_after": 60}}'
        )
