"""``@daily~`` and ``every 2nd of``: the same on every node, for ever, counted by brute force."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import DstPolicy, nth_of, parse_cron, parse_spec, spec_of

SEED = "8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"
NOVEMBER = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("macro", "is_here"),
    [
        ("@hourly~", "33 * * * *"),
        ("@daily~", "33 17 * * *"),
        ("@weekly~", "33 17 * * 0"),
        ("@monthly~", "33 17 15 * *"),
        ("@yearly~", "33 17 15 6 *"),
    ],
)
def test_a_spread_macro_is_the_same_for_ever(macro: str, is_here: str) -> None:
    spread = parse_spec(macro.upper(), "Europe/Berlin", seed=SEED)
    plain = parse_spec(is_here, "Europe/Berlin")

    assert spread.canonical == macro
    assert spread.notes == (f'"{macro}" is {is_here} here',)
    assert spread.next(NOVEMBER) == plain.next(NOVEMBER)
    assert parse_spec(spread.canonical, "Europe/Berlin", seed=SEED) == spread


def test_schedules_with_one_macro_are_spread_over_its_whole_period() -> None:
    seeds = [str(UUID(int=number << 64 | 4711)) for number in range(6000)]
    first = [parse_spec("@daily~", seed=seed).next(NOVEMBER) for seed in seeds]
    minutes = Counter(fire.minute for fire in first if fire)
    hours = Counter(fire.hour for fire in first if fire)

    assert len(minutes) == 60
    assert len(hours) == 24
    assert max(minutes.values()) < 2 * 6000 / 60
    assert max(hours.values()) < 2 * 6000 / 24


def test_a_seed_is_asked_for_and_changes_nothing_else() -> None:
    with pytest.raises(InvalidSpec, match="another time for each schedule"):
        parse_spec("@daily~")
    assert parse_spec("@daily~", seed=SEED) != parse_spec("@daily~", seed=str(UUID(int=1)))
    assert parse_spec("@daily", seed=SEED) is parse_spec("@daily", seed=str(UUID(int=1)))
    row = {"spec": "@daily~", "timezone": "UTC", "dst": "vixie", "uuid": UUID(SEED)}
    row |= {"calendars": None}
    assert spec_of(row) == parse_spec("@daily~", seed=SEED)
    with pytest.raises(InvalidSpec, match='"@daily~" is not a known macro'):
        parse_spec("@hourly\nnot @daily~", seed=SEED)


def test_every_second_monday_goes_on_over_new_year_and_holidays() -> None:
    rule = "every 2nd of 0 9 * * mon from 2026-12-07T09:00"
    spec = parse_spec(rule, "Europe/Berlin")
    left_out = parse_spec(f"{rule}\nnot 2026-12-21", "Europe/Berlin")
    fires = spec.between(datetime(2026, 11, 1, tzinfo=UTC), datetime(2027, 2, 9, tzinfo=UTC), 9)

    days = [f"{fire:%m-%d}" for fire in fires]
    assert days == ["11-09", "11-23", "12-07", "12-21", "01-04", "01-18", "02-01"]
    assert left_out.next(fires[2]) == fires[4]
    assert spec.canonical == "every 2nd of 0 9 * * 1 from 2026-12-07T09:00:00"
    assert parse_spec(spec.canonical, "Europe/Berlin") == spec


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("every 1st of @daily", "out of range"),
        ("every 10001st of @daily", "out of range"),
        ("every second of @daily", '"second" does not say which ones'),
        ("every 2nd of every 5m", "5 fields|fields"),
        ("every 2nd of @daily from noon", "not an instant|noon"),
        ("every 2nd of " + "0 " * 130, "characters"),
    ],
)
def test_what_is_no_nth_line_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        parse_spec(text)


_expressions = st.sampled_from(
    ["* * * * *", "*/7 3 * * *", "0 9 * * mon", "30 2 L * *", "15,45 1-3 29 2 *", "0 0 31 * *"]
)
_walls = st.datetimes(datetime(1975, 1, 1), datetime(2045, 1, 1)).map(
    lambda wall: wall.replace(microsecond=0)
)


@pytest.mark.long
@settings(derandomize=True, max_examples=150, deadline=None)
@given(_expressions, st.integers(2, 40), _walls, st.integers(-400, 400))
def test_each_nth_wall_time_is_found_as_by_counting(
    text: str, step: int, anchor: datetime, days: int
) -> None:
    expression = parse_cron(text)
    nth = nth_of(expression, step, anchor)
    wall = anchor + timedelta(days=days, seconds=days)
    # By hand: from the anchor on, or from the wall time up to it.
    counted: list[datetime] = []
    found = expression.wall_after(min(wall, anchor - timedelta(seconds=1)), datetime.max)
    while found is not None and len(counted) < 4000:
        counted.append(found)
        found = expression.wall_after(found, datetime.max)
    begin = next((i for i, one in enumerate(counted) if one >= anchor), None)
    if begin is None or counted[-1] <= wall:
        return  # further away than is counted here
    expected = [one for i, one in enumerate(counted) if one > wall and (i - begin) % step == 0]
    last = counted[-1]

    fires: list[datetime] = []
    found = nth.wall_after(wall, datetime.max)
    while found is not None and found <= last:
        fires.append(found)
        found = nth.wall_after(found, datetime.max)
    assert fires == expected
    assert nth.count_between(wall, last) == len(expected)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    _expressions,
    st.integers(2, 400),
    st.sampled_from(list(DstPolicy)),
    st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1)),
)
def test_nth_fires_look_back_and_count_as_they_look_forward(
    text: str, step: int, dst: DstPolicy, start: datetime
) -> None:
    spec = parse_spec(f"every {step}th of {text} from 2025-06-01T00:00", "Europe/Berlin", dst)
    since = start.replace(tzinfo=UTC, microsecond=0)
    fires = spec.between(since, since + timedelta(days=800), 12)

    assert fires == sorted(set(fires))
    for earlier, later in pairwise(fires):
        assert spec.previous(later) == earlier
    if fires:
        assert spec.count(since, fires[-1], 100) == len(fires)
