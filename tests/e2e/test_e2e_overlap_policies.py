"""All overlap policies at once on eight nodes, of which some are killed and one is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.overlaps import POLICIES, Plan, at_once, play, table
from tests.chaos.proxy import Proxy
from tests.e2e.evidence import Execution
from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.e2e.nursery import Nursery
from tests.servers import ThrowAwayServer

PLAN = Plan(list(POLICIES), 150, copies=2, kill_every=3.0, cut_every=5.0, longest=3.0)


@pytest.mark.long
async def test_no_policy_is_broken_by_kills_and_a_partition(
    server: ThrowAwayServer, cluster: Cluster, connection: Connection
) -> None:
    with Nursery("tests.e2e.handlers") as cluster.nursery:
        async with Proxy(Path(server.folder) / f".s.PGSQL.{server.port}") as proxy:
            played = await play(cluster, connection, proxy, PLAN)

    print(table(played))
    assert {name: found.broken for name, found in played.findings.items()} == {
        name: [] for name in POLICIES
    }
    outcomes = {name: found.outcomes for name, found in played.findings.items()}
    assert outcomes["skip"]["skipped"] > 0
    assert outcomes["replace"]["cancelled"] > 0
    assert outcomes["terminate"]["cancelled"] > 0
    assert max(played.findings[name].most for name in ("skip3", "queue3", "allow3")) == 3
    assert played.kills
    assert played.cuts


def test_intervals_that_touch_are_not_at_once() -> None:
    def execution(began: float, ended: float | None) -> Execution:
        return Execution(1, 1, "t", 1, began, began, ended)

    assert at_once([execution(0, 1), execution(1, 2)]) == 1
    assert at_once([execution(0, 2), execution(1, 3)]) == 2
    assert at_once([execution(0, None), execution(5, 6)]) == 2
