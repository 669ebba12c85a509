"""What the tests with real nodes share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.nodes import Cluster
from tests.pooler import straight
from tests.product.client import Proof, prove
from tests.sessions import own_session


@pytest.fixture
def cluster(database: str, tmp_path: Path) -> Iterator[Cluster]:
    """Nodes on a database of the test's own; gone after it. Whatever a test does to them, its
    ledger has one answer for each instant.
    """
    with Cluster(database, tmp_path) as nodes:
        yield nodes
    # In a thread: the test's event loop belongs to this one.
    with ThreadPoolExecutor(1) as thread:
        proof = thread.submit(lambda: asyncio.run(_proof(database))).result()
    assert proof.breaks == []


async def _proof(database: str) -> Proof:
    connection = await own_session(straight(database))
    try:
        return await prove(connection, datetime.now(UTC) - timedelta(days=1))
    finally:
        await connection.close(timeout=5)
