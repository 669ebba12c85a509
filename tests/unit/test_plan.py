"""Plans: every fire up to the new watermark is planned or missed, exactly once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidInput
from tests.product.model import COUNTED_EXACTLY, Missed, MissedReason, Plan, catchup_policy, plan
from tests.product.spec import Spec, parse_spec
from tests.unit.cron_oracle import fires_of_walk, job, tzdata_zone, walk

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NOON = datetime(2026, 10, 24, 12, tzinfo=UTC)
HOURLY = parse_spec("0 * * * *")

# Two days in Berlin with the autumn change between them.
WALK_START, WALK_END = NOON, NOON + timedelta(days=2)
WALKED = ("*/20 * * * *", "30 2 * * *", "0 9,10,11 * * *", "15 */3 25-30 * *", "* 3 * * *")

# How many of the newest late fires run.
CATCHUPS = {"latest": 1, "latest 3": 3, "all": 10_000, "none": 0}

bounded = settings(max_examples=200, deadline=None, derandomize=True, database=None)
times = st.datetimes(
    WALK_START.replace(tzinfo=None), WALK_END.replace(tzinfo=None), timezones=st.just(UTC)
)
spans = st.timedeltas(timedelta(0), timedelta(days=3))


def decide(
    spec: Spec = HOURLY,
    watermark: datetime = NOON,
    now: datetime = NOON,
    horizon_end: datetime = NOON + 2 * HOUR,
    catchup: str = "latest",
    window: timedelta = 24 * HOUR,
    grace: timedelta = MINUTE,
    limit: int = 100,
) -> Plan:
    return plan(spec, watermark, now, horizon_end, catchup, window, grace, limit)


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def test_fires_within_the_horizon_are_planned_and_the_watermark_is_its_end() -> None:
    decided = decide(horizon_end=at(2.5))
    assert decided == Plan([at(1), at(2)], [], at(2.5), at(3))


def test_a_horizon_without_a_fire_only_moves_the_watermark() -> None:
    assert decide(horizon_end=at(0.5)) == Plan([], [], at(0.5), at(1))


def test_a_horizon_behind_the_watermark_decides_nothing() -> None:
    assert decide(watermark=at(5), horizon_end=at(2)) == Plan([], [], at(5), at(6))


def test_more_fires_than_the_limit_stop_the_watermark_at_the_last_planned_one() -> None:
    decided = decide(horizon_end=at(10), limit=3)
    assert decided == Plan([at(1), at(2), at(3)], [], at(3), at(4))


def test_exactly_as_many_fires_as_the_limit_reach_the_horizon() -> None:
    assert decide(horizon_end=at(3.5), limit=3).watermark == at(3.5)


def test_a_fire_within_the_grace_is_not_late() -> None:
    decided = decide(now=at(2) + MINUTE / 2, horizon_end=at(3))
    assert decided.fires == [at(1), at(2), at(3)]
    assert decided.missed == []


def test_latest_keeps_the_newest_late_fire_and_counts_the_others() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6))
    assert decided.fires == [at(5), at(6)]
    assert decided.missed == [Missed(at(1), at(4), 4, MissedReason.LATEST)]


def test_late_fires_older_than_the_window_are_missed_for_that_reason() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6), window=2 * HOUR)
    assert decided.fires == [at(5), at(6)]
    assert decided.missed == [
        Missed(at(1), at(3), 3, MissedReason.WINDOW),
        Missed(at(4), at(4), 1, MissedReason.LATEST),
    ]


def test_a_newest_late_fire_older_than_the_window_is_not_caught_up() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6), window=HOUR / 4)
    assert decided.fires == [at(6)]
    assert decided.missed == [Missed(at(1), at(5), 5, MissedReason.WINDOW)]


def test_a_late_fire_as_old_as_the_window_is_caught_up_and_one_at_the_grace_is_late() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6), window=HOUR / 2, grace=HOUR / 2)
    assert decided.fires == [at(5), at(6)]
    assert decided.missed == [Missed(at(1), at(4), 4, MissedReason.WINDOW)]
    dropped = decide(now=at(5.5), horizon_end=at(6), catchup="none", grace=HOUR / 2)
    assert dropped.missed == [Missed(at(1), at(5), 5, MissedReason.NONE)]


def test_none_drops_all_late_fires() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6), catchup="none")
    assert decided.fires == [at(6)]
    assert decided.missed == [Missed(at(1), at(5), 5, MissedReason.NONE)]


def test_a_kept_late_fire_counts_against_the_limit() -> None:
    decided = decide(now=at(5.5), horizon_end=at(8), limit=1)
    assert decided.fires == [at(5)]
    assert decided.watermark == at(5)
    assert decided.next_fire == at(6)


def test_a_schedule_that_has_ended_has_no_next_fire() -> None:
    spec = parse_spec("every 36525d from 9990-01-01T00:00Z")
    end = datetime(9991, 1, 1, tzinfo=UTC)
    decided = decide(spec, at(0), end, end)
    assert decided.watermark == end
    assert decided.next_fire is None


@pytest.mark.parametrize("text", ["* * * * * *", "every 1s", "* * * * * *\nevery 1s\n0 0 * * *"])
def test_a_weekend_of_every_second_is_one_range_and_counted_only_as_far_as_is_cheap(
    text: str,
) -> None:
    asked = 0

    class Counted(Spec):
        def next(self, after: datetime) -> datetime | None:
            nonlocal asked
            asked += 1
            return super().next(after)

    spec = parse_spec(text)
    counted = Counted(spec.canonical, spec.timezone, spec.dst, spec.notes, spec.rules)
    now = NOON + timedelta(days=3)
    decided = decide(counted, now=now, horizon_end=now)
    newest = now - MINUTE
    assert decided.missed == [
        Missed(NOON + MINUTE / 60, now - 24 * HOUR - MINUTE / 60, None, MissedReason.WINDOW),
        Missed(now - 24 * HOUR, newest - MINUTE / 60, None, MissedReason.LATEST),
    ]
    assert decided.fires[0] == newest
    assert asked < 100 + 10  # the planned ones and a few more


def test_a_range_is_counted_exactly_up_to_the_bound() -> None:
    spec = parse_spec("every 1m")
    for fires, count in ((COUNTED_EXACTLY, COUNTED_EXACTLY), (COUNTED_EXACTLY + 1, None)):
        now = NOON + fires * MINUTE
        decided = decide(spec, now=now, horizon_end=now, catchup="none", grace=timedelta(0))
        assert decided.missed == [Missed(NOON + MINUTE, now, count, MissedReason.NONE)]


def test_windows_and_graces_longer_than_the_calendar_are_no_trouble() -> None:
    decided = decide(now=at(5.5), window=timedelta.max, grace=timedelta.max)
    assert decided.fires == [at(1), at(2)]


def test_a_policy_that_does_not_exist_is_refused() -> None:
    for wrong in ("some", "latest 1", "latest 101", "latest few", "all 5", ""):
        with pytest.raises(InvalidInput, match=f'"{wrong}" is not a catch-up policy'):
            decide(catchup=wrong)
    assert catchup_policy(" LATEST ") == "latest"
    assert catchup_policy("latest  100") == "latest 100"


def test_all_late_fires_of_the_window_run_in_their_order() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6.5), window=3 * HOUR, catchup="all")
    assert decided.fires == [at(3), at(4), at(5), at(6)]
    assert decided.missed == [Missed(at(1), at(2), 2, MissedReason.WINDOW)]


def test_the_newest_of_the_late_fires_run_and_they_replace_the_others() -> None:
    decided = decide(now=at(5.5), horizon_end=at(6.5), window=4 * HOUR, catchup="latest 2")
    assert decided.fires == [at(4), at(5), at(6)]
    assert decided.missed == [
        Missed(at(1), at(1), 1, MissedReason.WINDOW),
        Missed(at(2), at(3), 2, MissedReason.LATEST),
    ]


def test_a_weekend_of_every_second_runs_late_in_batches_and_each_fire_once() -> None:
    spec = parse_spec("* * * * * *")
    watermark, now, fires = NOON, NOON + 48 * HOUR, list[datetime]()
    for _ in range(3):
        step = decide(spec, watermark, now, now, catchup="all", window=HOUR, limit=1500)
        assert len(step.fires) <= 1500
        fires += step.fires
        watermark = step.watermark
    assert fires == [now - HOUR + timedelta(seconds=number) for number in range(3601)]
    assert watermark == now


@cache
def oracle(text: str) -> list[datetime]:
    start = WALK_START - timedelta(days=3)
    steps = walk(tzdata_zone("Europe/Berlin"), start, WALK_END + timedelta(days=3), MINUTE)
    return fires_of_walk(job(text), steps)["vixie"]


@bounded
@given(
    st.sampled_from(WALKED),
    times,
    times,
    times,
    st.sampled_from(list(CATCHUPS)),
    spans,
    spans,
    st.integers(1, 30),
)
def test_every_fire_up_to_the_new_watermark_is_in_exactly_one_place(
    text: str,
    watermark: datetime,
    now: datetime,
    horizon_end: datetime,
    catchup: str,
    window: timedelta,
    grace: timedelta,
    limit: int,
) -> None:
    spec = parse_spec(text, "Europe/Berlin")
    decided = plan(spec, watermark, now, horizon_end, catchup, window, grace, limit)
    due = [fire for fire in oracle(text) if watermark < fire <= decided.watermark]
    places = {
        fire: (fire in decided.fires) + sum(m.first <= fire <= m.last for m in decided.missed)
        for fire in due
    }
    assert set(places.values()) <= {1}
    assert decided.fires == sorted(fire for fire in due if fire in decided.fires)
    for missed in decided.missed:
        covered = [fire for fire in due if missed.first <= fire <= missed.last]
        assert (covered[0], covered[-1], len(covered)) == (missed.first, missed.last, missed.count)
    assert watermark <= decided.watermark <= max(watermark, horizon_end)
    assert len(decided.fires) <= limit
    # And each place is the right one.
    end = max(watermark, horizon_end)
    late = [fire for fire in oracle(text) if watermark < fire <= min(now - grace, end)]
    kept = [fire for fire in decided.fires if fire <= now - grace]
    newest = late[-CATCHUPS[catchup] :] if CATCHUPS[catchup] else []
    assert kept == [f for f in newest if now - f <= window and f <= decided.watermark]
    assert [fire for fire in due if fire > now - grace] == [
        f for f in decided.fires if f not in kept
    ]
    if decided.watermark < horizon_end:
        assert len(decided.fires) == limit
    assert decided.next_fire == next(f for f in oracle(text) if f > decided.watermark)


def test_plans_in_a_row_decide_what_one_plan_decides() -> None:
    whole = decide(horizon_end=at(30))
    watermark, fires = NOON, list[datetime]()
    while watermark < at(30):
        step = decide(watermark=watermark, horizon_end=min(watermark + 7 * HOUR, at(30)), limit=4)
        fires += step.fires
        watermark = step.watermark
    assert fires == whole.fires
