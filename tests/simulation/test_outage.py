"""All nodes are away for three days; then every policy decides as it says, in few statements."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.product.engine import FIRES_PER_SCHEDULE, decide, materialize_parameters
from tests.product.engine import MATERIALIZER_BATCH as BATCH
from tests.simulation.outages import GRACE, OUTAGE, Owed, Watched, watched
from tests.simulation.real import FIRST_INSTANT, RealStore

HORIZON = 60.0
MOST_PASSES = 20
MOST_MEMORY = 32 * 1024 * 1024


@pytest.fixture
def real(database: str) -> Iterator[RealStore]:
    """PostgreSQL under the test's own clock."""
    store = RealStore(database)
    store.begin()
    yield store
    store.undo()
    store.close()


@pytest.mark.long
def test_after_three_days_without_a_node_each_policy_decides_as_it_says(real: RealStore) -> None:
    schedules = {_put(real, schedule): schedule for schedule in watched(FIRST_INSTANT)}
    assert len(schedules) == 50
    real.set_clock(FIRST_INSTANT + OUTAGE)

    tracemalloc.start()
    passes = _materialize_all(real)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    late_end = FIRST_INSTANT + OUTAGE - GRACE
    for schedule_id, schedule in schedules.items():
        owed = schedule.owed(FIRST_INSTANT, FIRST_INSTANT + OUTAGE)
        assert _reported(real, schedule_id, schedule, late_end) == owed, schedule.name
    assert passes <= MOST_PASSES, "an outage of days is decided in a few statements"
    assert peak <= MOST_MEMORY


def test_an_every_second_schedule_is_told_as_one_range(real: RealStore) -> None:
    [schedule] = [s for s in watched(FIRST_INSTANT) if s.name == "* * * * * * latest 1:00:00"]
    schedule_id = _put(real, schedule)
    real.set_clock(FIRST_INSTANT + timedelta(days=2))

    _materialize_all(real)

    rows = _missed(real)
    assert [row["schedule_id"] for row in rows] == [schedule_id] * 2
    assert [row["reason"] for row in rows] == ["catchup_window", "catchup_latest"]
    assert rows[0]["first_at"] == FIRST_INSTANT + timedelta(seconds=1)
    assert rows[0]["last_at"] < rows[1]["first_at"]
    assert rows[1]["last_at"] < real.now


def _put(real: RealStore, schedule: Watched) -> int:
    query = (
        "INSERT INTO pgcron.schedule (name, spec, timezone, handler, overlap, catchup,"
        " catchup_window) VALUES ($1, $2, $3, 'py:work', $4, $5, $6) RETURNING id"
    )
    [row] = real.wait(
        real.connection.fetch(
            query,
            *(schedule.name, schedule.spec, schedule.timezone, schedule.overlap),
            *(schedule.catchup, schedule.window),
        )
    )
    return int(row["id"])


def _materialize_all(real: RealStore) -> int:
    """Passes until nothing is left to decide; how many had something to do."""
    passes = 0
    while rows := real.call("due_cursors", refill=HORIZON / 2, at_most=BATCH, aside=[]):
        decisions: list[Any] = [(row, *decide(row, HORIZON)) for row in rows]
        assert all(len(planned.fires) <= FIRES_PER_SCHEDULE for _, planned, _ in decisions)
        columns = materialize_parameters(decisions)
        real.call("materialize", **columns)
        passes += 1
        assert passes <= 100, "the materializer comes to an end"
    return passes


def _reported(real: RealStore, schedule_id: int, schedule: Watched, late_end: datetime) -> Owed:
    """What the ledger says of the late fires. A range is counted by the schedule's own instants."""
    query = "SELECT fire_at FROM pgcron.occurrence WHERE schedule_id = $1 ORDER BY fire_at"
    fires = [row[0] for row in real.ask(query, schedule_id) if row[0] <= late_end]
    missed: dict[str, int] = {}
    for row in _missed(real):
        if row["schedule_id"] == schedule_id:
            first, last = row["first_at"], row["last_at"]
            inside = list(schedule.instants(first - timedelta(microseconds=1), last))
            assert (inside[0], inside[-1]) == (first, last), "a range begins and ends with a fire"
            assert row["fires"] in (None, len(inside))
            assert (row["fires"] is None) == (len(inside) > 1000)
            missed[row["reason"]] = missed.get(row["reason"], 0) + len(inside)
    return Owed(tuple(fires), missed)


def _missed(real: RealStore) -> list[Any]:
    return list(real.ask("SELECT * FROM pgcron.missed ORDER BY schedule_id, first_at"))
