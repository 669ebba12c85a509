"""Fire times at every change of every zone's clock, against the slow oracle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.product.spec import (
    DstPolicy,
    fires_between,
    next_fire,
    parse_cron,
    parse_spec,
    previous_fire,
    zones,
)
from tests.unit.cron_oracle import ClockChange, all_changes, fires_of_walk, job, tzdata_zone, walk

FIRST_YEAR, LAST_YEAR = 1990, 2040
CHUNKS = 12
MARGIN = timedelta(hours=3)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
# Every n-th change is also walked second by second.
BY_THE_SECOND = 60

# Wildcard, fixed and mixed jobs; days that exist on few dates only.
EVERYWHERE = ("*/15 * * * *", "30 */2 * * *", "0,30 0-23 * * *", "1 0 L,15W,1 * */2")


def changes_of(chunk: int) -> tuple[ClockChange, ...]:
    return all_changes(FIRST_YEAR, LAST_YEAR)[chunk::CHUNKS]


def expressions_at(change: ClockChange) -> Iterator[str]:
    """Jobs whose wall times lie in and beside what this change skips or repeats."""
    yield from EVERYWHERE
    first = (change.at + min(change.before, change.after)).replace(tzinfo=None)
    last = (change.at + max(change.before, change.after)).replace(tzinfo=None)
    middle = first + (last - first) / 2
    for wall in {first, middle}:
        yield f"{wall.minute} {wall.hour} * * *"
    yield f"{first.minute},{middle.minute},59 {first.hour} {first.day} * *"
    yield f"*/5 {first.hour} * {first.month} *"
    yield f"0-59/10 {min(first.hour, last.hour)}-{max(first.hour, last.hour)} * * mon-sun"


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fires_at_every_change_of_every_zone_are_those_of_the_rules(chunk: int) -> None:
    compared = 0
    for change in changes_of(chunk):
        start, end = change.at - MARGIN - change.repeated, change.at + MARGIN + change.repeated
        steps = walk(tzdata_zone(change.zone), start, end, MINUTE)
        for text in expressions_at(change):
            for policy, expected in fires_of_walk(job(text), steps).items():
                actual = fires_between(
                    parse_cron(text),
                    change.zone,
                    start - SECOND,
                    end,
                    DstPolicy(policy),
                    limit=1000,
                )
                assert actual == expected, (text, change, policy)
                compared += len(expected)
    assert compared > 10_000


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_jobs_with_seconds_follow_the_same_rules(chunk: int) -> None:
    for change in changes_of(chunk)[:: BY_THE_SECOND // CHUNKS * 2]:
        margin = timedelta(minutes=5)
        start, end = change.at - margin - change.repeated, change.at + margin + change.repeated
        steps = walk(tzdata_zone(change.zone), start, end, SECOND)
        wall = (change.at + min(change.before, change.after)).replace(tzinfo=None)
        for text in (
            f"*/20 {wall.minute} {wall.hour} * * *",
            f"7,59 {wall.minute} {wall.hour} * * *",
            "*/50 * * * * *",
        ):
            for policy, expected in fires_of_walk(job(text), steps).items():
                actual = fires_between(
                    parse_cron(text),
                    change.zone,
                    start - SECOND,
                    end,
                    DstPolicy(policy),
                    limit=10_000,
                )
                assert actual == expected, (text, change, policy)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_answer_depends_on_nothing_but_the_instant(chunk: int) -> None:
    """One next fire from any start up to it; looking back finds what looking forward found."""
    for change in changes_of(chunk)[::5]:
        wall = (change.at + min(change.before, change.after)).replace(tzinfo=None)
        for text in (f"{wall.minute}/20 {wall.hour} * * *", f"*/20 {wall.hour} * * *"):
            expression = parse_cron(text)
            for policy in DstPolicy:
                fires = fires_between(
                    expression,
                    change.zone,
                    change.at - timedelta(days=1),
                    change.at + timedelta(days=2),
                    policy,
                    limit=50,
                )
                for fire, following in pairwise(fires):
                    assert fire < following
                    starts = fire, fire + (following - fire) / 3, change.at, following - SECOND
                    for start in starts:
                        if fire <= start < following:
                            found = next_fire(expression, change.zone, start, policy)
                            assert found == following, (text, change, policy, start)
                    found = previous_fire(expression, change.zone, following, policy)
                    assert found == fire, (text, change, policy)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_fixed_daily_job_fires_once_on_every_date_it_exists(chunk: int) -> None:
    """Vixie: once a date, also where its wall time is skipped by up to three hours or repeated."""
    for change in changes_of(chunk):
        size = abs(change.after - change.before)
        if size > timedelta(hours=3):
            continue
        middle = (change.at + min(change.before, change.after) + size / 2).replace(tzinfo=None)
        dates = [middle.replace(second=0) + timedelta(days=days) for days in range(-3, 4)]
        expected = [fire_of_date(wall, change) for wall in dates]
        fires = fires_between(
            parse_cron(f"{middle.minute} {middle.hour} * * *"),
            change.zone,
            expected[0] - SECOND,
            expected[-1],
            DstPolicy.VIXIE,
            limit=20,
        )
        assert fires == expected, change


def fire_of_date(wall: datetime, change: ClockChange) -> datetime:
    """The first instant that shows ``wall``, or the change that skips it."""
    zone = tzdata_zone(change.zone)
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    return instant if shown == wall else change.at


@pytest.mark.long
def test_the_product_sees_exactly_the_changes_that_a_walk_finds() -> None:
    walked = {(c.at.replace(tzinfo=None), c.before, c.after) for c in all_changes(1990, 2040)}
    probed = {
        tuple(change)
        for name in {c.zone for c in all_changes(1990, 2040)}
        for year in range(FIRST_YEAR, LAST_YEAR + 1)
        for change in zones.changes_of_year(name, year)
    }
    assert probed == walked
    assert len(walked) > 4000


@pytest.mark.parametrize(
    ("zone", "change"),
    [("America/Santiago", "2026-04-05T03:00Z"), ("Asia/Beirut", "2026-10-24T21:00Z")],
)
def test_the_hour_before_midnight_that_a_clock_repeats_fires_on_both_passes(
    zone: str, change: str
) -> None:
    at = datetime.fromisoformat(change)
    spec = parse_spec("*/20 * * * sat\n0 12 1 1 *", zone)

    ends = [at + step * timedelta(minutes=20) for step in range(-1, 4)]

    assert spec.between(at - timedelta(minutes=30), ends[-1], 10) == ends[:-1]
    assert [spec.previous(end + SECOND) for end in ends[:-1]] == ends[:-1]
    assert spec.count(at - timedelta(minutes=30), ends[2], 10) == 3
