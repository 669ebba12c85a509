"""Jitter: one delay for each schedule, the same at every fire, and what is late by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.product.client import schedule_preview
from tests.product.model import Plan, delay_of, plan
from tests.product.spec import parse_spec

SEED = "8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GRACE = timedelta(seconds=2)


def planned(
    now: datetime, delay: timedelta, catchup: str = "none", window: timedelta = 60 * MINUTE
) -> Plan:
    given = (catchup, window, GRACE, 1000, delay)
    return plan(parse_spec("0 * * * *"), NOON - MINUTE, now, now + MINUTE, *given)


def test_a_delay_is_the_same_for_ever() -> None:
    half_an_hour = {"uuid": UUID(SEED), "jitter": 30 * MINUTE}

    assert str(delay_of(half_an_hour)) == "0:02:26.859000"
    assert str(delay_of(half_an_hour | {"jitter": 2 * MINUTE})) == "0:00:26.859000"
    assert delay_of({"uuid": SEED, "jitter": 1800.0}) == delay_of(half_an_hour)
    assert delay_of({"uuid": SEED, "jitter": None}) == timedelta(0)
    assert delay_of({"uuid": SEED, "jitter": timedelta(microseconds=1)}) == timedelta(0)


def test_schedules_are_delayed_over_the_whole_of_their_jitter() -> None:
    minutes = [
        delay_of({"uuid": UUID(int=number), "jitter": 10 * MINUTE}) // MINUTE
        for number in range(1000)
    ]
    assert set(minutes) == set(range(10))
    assert max(map(minutes.count, range(10))) < 2 * 1000 / 10


def test_a_fire_is_late_when_it_is_due_and_not_before() -> None:
    delay = timedelta(minutes=13, seconds=36)

    late = NOON + delay + GRACE

    waiting = planned(late - timedelta(microseconds=1), delay)
    missed = planned(late, delay)
    old = planned(NOON + 70 * MINUTE, delay, "all", 57 * MINUTE)
    plain = planned(NOON + 10 * MINUTE, timedelta(0))

    assert (waiting.fires, waiting.missed) == ([NOON], [])
    assert [one.count for one in missed.missed] == [1]
    assert NOON in old.fires  # 70 minutes after it fired, but 56 after it was due
    assert [one.count for one in plain.missed] == [1]


def test_a_preview_tells_delays_and_the_last_run() -> None:
    row: dict[str, Any] = {
        "spec": "0 * * * *",
        "timezone": "UTC",
        "dst": "vixie",
        "calendars": None,
        "uuid": UUID(SEED),
        "jitter": 600.0,
        "max_runs": 5,
        "runs_made": 3,
        "watermark": NOON + MINUTE,
    }
    ahead = schedule_preview(row, NOON - MINUTE, 10)

    assert [fire.fire_at.hour for fire in ahead.fires] == [12, 13, 14]
    assert {fire.note for fire in ahead.fires} == {"due 2m26s later by jitter"}
    assert ahead.is_over
    assert "each fire is due up to 10m later, all alike; it ends after 5 runs" in ahead.sentence
    assert schedule_preview(row | {"runs_made": 5}, NOON + MINUTE, 10).fires == ()
    assert schedule_preview(row | {"jitter": None}, NOON, 1).fires[0].note is None
