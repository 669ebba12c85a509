"""What the tests on the real SQL under a clock of their own share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.real import RealStore


@pytest.fixture
def real(database: str) -> Iterator[RealStore]:
    """PostgreSQL under the test's own clock."""
    store = RealStore(database)
    yield store
    store.close()
