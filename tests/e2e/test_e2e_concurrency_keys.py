"""A key of three slots, eight nodes, and kills: judged by what the handlers wrote down."""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.evidence import Evidence, Execution
from tests.e2e.ledger import Connection, ended
from tests.e2e.nodes import Cluster
from tests.waiting import until

SLOTS = 3
NODES = 8
RUNS = 60
WORK_SECONDS = 0.5
POLL_SECONDS = 0.5
TTL = 3.0
# A claim and the start of its handler on a machine with fewer processors than nodes.
_START_SECONDS = 1.0


@pytest.mark.long
async def test_a_key_runs_no_more_than_its_slots_and_no_fewer_for_longer_than_a_poll(
    cluster: Cluster, connection: Connection
) -> None:
    nodes = [
        cluster.spawn(f"n{number}", slots=2, lease_ttl=f"{TTL}s", poll_interval=f"{POLL_SECONDS}s")
        for number in range(NODES)
    ]
    for node in nodes:
        await until(f"{node.name} has joined", node.has_joined)
    await connection.execute("SELECT pgcron.set_concurrency('customer-*', $1)", SLOTS)
    rows = await connection.fetch(
        "SELECT pgcron.enqueue('py:work', jsonb_build_object('seconds', $1::float8),"
        " concurrency_key => 'customer-7') AS id FROM generate_series(1, $2::int)",
        WORK_SECONDS,
        RUNS,
    )
    evidence = cluster.evidence
    for begun in (RUNS // 4, RUNS * 3 // 5):
        await until("some have begun", partial(_have_begun, evidence, begun))
        busy = {event.pid for event in evidence.events("start")[-SLOTS:]}
        next(node for node in nodes if node.pid in busy and not node.has_ended()).kill9()
    outcomes = await ended(connection, *(row["id"] for row in rows))

    assert {row["outcome"] for row in outcomes} == {"succeeded"}
    executions = evidence.executions(cluster.deaths())
    most, gaps = _concurrency(executions)
    kills = sorted(cluster.deaths().values())
    # While a dead node's lease lasts its slot is its own: the handler might still execute.
    waits = [(begin, end) for begin, end in gaps if not any(k <= end <= k + TTL + 3 for k in kills)]
    longest = max((end - begin for begin, end in waits), default=0.0)
    print(f"{most} at once; fewer for {longest:.2f} s at most, but for {len(kills)} kills")
    assert most == SLOTS
    assert longest <= POLL_SECONDS + _START_SECONDS


def _have_begun(evidence: Evidence, count: int) -> bool:
    return evidence.count("start") >= count


def _concurrency(executions: list[Execution]) -> tuple[int, list[tuple[float, float]]]:
    """How many executed at once at most, and when fewer did than could while others waited."""
    changes = sorted(
        [(each.began, 1) for each in executions]
        + [(each.ended, -1) for each in executions if each.ended is not None]
    )
    last_start = max(each.began for each in executions)
    most = current = 0
    gaps: list[tuple[float, float]] = []
    since: float | None = None
    for at, change in changes:
        current += change
        most = max(most, current)
        if at > last_start:
            break
        if current < SLOTS and since is None:
            since = at
        elif current == SLOTS and since is not None:
            gaps.append((since, at))
            since = None
    return most, gaps
