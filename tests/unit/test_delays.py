"""Jitter and spread windows: the same on every node, in order, and what is late by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.model.delays import FireDelay, delay_of
from pgcron_ha.model.plan import Plan, plan
from pgcron_ha.model.spec import parse_spec

SEED = "8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def planned(
    spec: str,
    since: datetime,
    now: datetime,
    delay: FireDelay | None,
    catchup: str = "latest",
    window: timedelta = timedelta(hours=1),
) -> Plan:
    horizon, grace = now + MINUTE, timedelta(seconds=2)
    return plan(parse_spec(spec), since, now, horizon, catchup, window, grace, 1000, delay)


def test_a_delay_is_the_same_for_ever() -> None:
    spec = parse_spec("0 * * * *")
    jitter, window = FireDelay(SEED, jitter=10 * MINUTE), FireDelay(SEED, window=30 * MINUTE)

    assert [str(jitter.of(spec, NOON + timedelta(hours=n))) for n in range(3)] == [
        "0:03:40.627000",
        "0:08:00.270000",
        "0:09:08.225000",
    ]
    assert {window.of(spec, NOON + timedelta(hours=n)) for n in range(3)} == {
        timedelta(minutes=13, seconds=36, milliseconds=88)
    }


_specs = st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "every 45s", "0 3 * * *"])
_delays = st.one_of(
    st.builds(lambda s: FireDelay(SEED, jitter=timedelta(seconds=s)), st.integers(1, 86_400)),
    st.builds(lambda s: FireDelay(SEED, window=timedelta(seconds=s)), st.integers(1, 86_400)),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(_specs, _delays, st.integers(0, 400_000))
def test_fires_keep_their_order_and_their_bound(text: str, delay: FireDelay, later: int) -> None:
    spec = parse_spec(text)
    now = NOON + timedelta(seconds=later)
    fires = spec.between(now, now + timedelta(days=3), 20)
    due = [fire + delay.of(spec, fire) for fire in fires]

    assert all(earlier < following for earlier, following in pairwise(due))
    assert all(
        one - fire < (delay.jitter or delay.window) for one, fire in zip(due, fires, strict=True)
    )
    if delay.jitter:
        assert all(one < following for one, following in zip(due, fires[1:], strict=False))
    bound = delay.last_due(spec, now)
    around = spec.between(now - timedelta(days=2), now + MINUTE, 5000)[-40:]
    assert all((fire + delay.of(spec, fire) <= now) == (fire <= bound) for fire in around)


def test_a_fire_is_late_when_it_is_due_and_not_before() -> None:
    window = FireDelay(SEED, window=30 * MINUTE)  # 13:36 later
    early, late = NOON + 10 * MINUTE, NOON + 20 * MINUTE
    delayed = timedelta(minutes=13, seconds=36, milliseconds=88)
    since = NOON - MINUTE

    waiting = planned("0 * * * *", since, early, window, catchup="none")
    missed = planned("0 * * * *", since, late, window, catchup="none")
    old = planned("0 * * * *", since, NOON + timedelta(minutes=70), window, window=57 * MINUTE)
    plain = planned("0 * * * *", since, early, None, catchup="none")

    assert (waiting.fires, waiting.missed, waiting.delays) == ([NOON], [], {NOON: delayed})
    assert [one.count for one in missed.missed] == [1]
    assert NOON in old.fires  # 70 minutes after it fired, but 56 after it was due
    assert [one.count for one in plain.missed] == [1]
    assert plain.delays == {}


def test_a_preview_tells_delays_and_the_last_run() -> None:
    row: dict[str, Any] = {
        "spec": "0 * * * *",
        "timezone": "UTC",
        "dst": "vixie",
        "calendars": None,
        "uuid": UUID(SEED),
        "jitter": 600.0,
        "spread_window": None,
        "max_runs": 5,
        "runs_made": 3,
        "watermark": NOON + MINUTE,
    }
    ahead = schedule_preview(row, NOON - MINUTE, 10)

    assert [fire.fire_at.hour for fire in ahead.fires] == [12, 13, 14]
    assert ahead.fires[0].note == "due 3m40s later by jitter"
    assert ahead.is_over
    assert "each fire is due up to 10m later; it ends after 5 runs" in ahead.sentence
    assert schedule_preview(row | {"runs_made": 5}, NOON + MINUTE, 10).fires == ()
    assert delay_of(row | {"jitter": None}) is None
