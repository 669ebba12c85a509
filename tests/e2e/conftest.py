"""What the tests with real nodes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.nodes import Cluster


@pytest.fixture
def cluster(database: str, tmp_path: Path) -> Iterator[Cluster]:
    """Nodes on a database of the test's own; gone after it."""
    with Cluster(database, tmp_path) as nodes:
        yield nodes
