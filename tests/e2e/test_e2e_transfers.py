"""Exactly once where the effects are in the database: nodes are killed while money moves."""

from __future__ import annotations

import pytest

from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.e2e.transfers import play


@pytest.mark.long
async def test_each_transfer_is_applied_once_whatever_is_killed(
    cluster: Cluster, connection: Connection
) -> None:
    report = await play(cluster, connection, 400, seconds=8, pause=0.7, most_kills=8)

    print("\n".join(report.lines()))
    assert report.broken == []
    assert report.kills >= 3
