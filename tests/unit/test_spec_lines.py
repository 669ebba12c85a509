"""One-off instants, exclusions and bounds of a spec."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import EARLIEST, LATEST, DstPolicy, Spec, load_zone, parse_spec

BERLIN = "Europe/Berlin"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)
DAYS = 3
bounded = settings(max_examples=50, deadline=None, derandomize=True, database=None)
few = settings(bounded, max_examples=15)


def fires(spec: Spec, after: datetime, days: int, most: int = 100_000) -> list[datetime]:
    return spec.between(after, after + timedelta(days=days), most)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("AT 2026-12-24t18:00", "at 2026-12-24T18:00:00"),
        ("at 2026-12-24T18:00+01:00", "at 2026-12-24T17:00:00Z"),
        ("@daily\nnot  2026-12-24", "0 0 * * *\nnot 2026-12-24"),
        (
            "not 2026-12-26,2026-12-24..2026-12-25,2027-05-01\n@daily",
            "0 0 * * *\nnot 2026-12-24..2026-12-26,2027-05-01",
        ),
        ("@hourly\nNOT * * * * SAT,sun", "0 * * * *\nnot * * * * 0,6"),
        ("@hourly\nnot 0 * * * * 6", "0 * * * *\nnot 0 * * * * 6"),
        ("@daily\nnot at 2026-12-24T00:00Z", "0 0 * * *\nnot at 2026-12-24T00:00:00Z"),
        (
            "until 2027-01-01T00:00\n@daily\nfrom 2026-01-01T00:00",
            "from 2026-01-01T00:00:00\nuntil 2027-01-01T00:00:00\n0 0 * * *",
        ),
    ],
)
def test_canonical_text_is_one_for_all_spellings_and_reads_back(text: str, canonical: str) -> None:
    spec = parse_spec(text, BERLIN)
    assert spec.canonical == canonical
    assert parse_spec(canonical, BERLIN) == spec
    assert fires(parse_spec(canonical, BERLIN), NEW_YEAR, 400) == fires(spec, NEW_YEAR, 400)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("at", '"at" is not a valid `at` line'),
        ("at noon", '"noon" is not an instant'),
        ("at 2026-02-30T00:00", '"2026-02-30T00:00" is not an instant'),
        ("at 2026-12-24T18:00 2026-12-25T18:00", "is not a valid `at` line"),
        ("at 1899-12-31T23:59", "is outside the calendar"),
        ("@daily\nnot", 'line 2: "not" is not an exclusion'),
        ("@daily\nnot 2026-13-01", 'line 2: "2026-13-01" is not a date'),
        ("@daily\nnot 2026-12-26..2026-12-24", "end before they begin"),
        ("@daily\nnot 2026-12-24..", '"" is not a date'),
        ("@daily\nnot 9999-01-01", "is outside the calendar"),
        ("@daily\nnot 61 * * * *", 'line 2: the minute field does not allow "61"'),
        ("@daily\nnot every 5m", '"not every 5m" is not an exclusion'),
        ("@daily\nnot not * * * * *", "is not an exclusion"),
        ("@daily\nnot at", '"not at" is not an exclusion'),
        ("@daily\nfrom", '"from" is not a valid `from` line'),
        (
            "@daily\nfrom 2026-01-01T00:00\nfrom 2026-01-02T00:00",
            "has 2 lines that begin with from",
        ),
        ("not 2026-12-24", "the spec has no line that fires"),
        ("from 2026-01-01T00:00", "the spec has no line that fires"),
        ("@daily\nnot * * * * *", "the spec never fires"),
        ("30 * * * *\nnot 30 * * * *", "the spec never fires"),
        ("at 2026-12-24T18:00\nnot 2026-12-24", "the spec never fires"),
        ("@daily\nuntil 2026-01-01T00:00\nfrom 2026-01-01T00:01", "the spec never fires"),
        ("every 90m\nnot *\t" + "0," * 130 + "0 * * *", "the line has"),
    ],
)
def test_a_line_that_cannot_be_is_refused_with_all_three_sentences(text: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(text)
    assert message in refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint


def test_an_instant_without_an_offset_is_wall_time_of_the_zone() -> None:
    spec = parse_spec("at 2026-12-24T18:00", BERLIN)
    instant = datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert spec.next(NEW_YEAR) == instant
    assert spec.next(instant) is None
    assert spec.previous(instant) is None
    assert spec.previous(instant + A_SECOND) == instant
    assert spec.count(instant - A_SECOND, instant, 10) == 1


def test_a_skipped_wall_time_is_the_end_of_the_gap_and_a_repeated_one_its_first_pass() -> None:
    assert parse_spec("at 2026-03-29T02:30", BERLIN).next(NEW_YEAR) == datetime(
        2026, 3, 29, 1, tzinfo=UTC
    )
    assert parse_spec("at 2026-10-25T02:30", BERLIN).next(NEW_YEAR) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


def test_whole_days_are_left_out_by_the_calendar_of_the_zone() -> None:
    spec = parse_spec("every 6h\nnot 2026-03-29..2026-03-30", BERLIN)
    start = datetime(2026, 3, 28, tzinfo=UTC)
    assert [f"{fire:%d %H}" for fire in fires(spec, start, 4)] == [
        *("28 06", "28 12", "28 18", "31 00", "31 06", "31 12", "31 18", "01 00")
    ]
    assert spec.previous(datetime(2026, 3, 30, 22, tzinfo=UTC)) == datetime(
        2026, 3, 28, 18, tzinfo=UTC
    )


def test_what_a_cron_line_names_is_left_out_to_the_minute_or_the_second() -> None:
    minutes = parse_spec("*/20 * * * * *\nnot 1 * * * *").between(NEW_YEAR, LATEST, 8)
    assert [fire.minute * 60 + fire.second for fire in minutes] == [
        *(20, 40, 120, 140, 160, 180, 200, 220)
    ]
    seconds = parse_spec("*/20 * * * * *\nnot 20 1 * * * *").between(NEW_YEAR, LATEST, 5)
    assert [fire.minute * 60 + fire.second for fire in seconds] == [20, 40, 60, 100, 120]


def test_a_day_without_a_fire_of_the_rule_is_passed_over_at_once() -> None:
    """Only in December, whatever the hour, on a schedule of every other minute."""
    spec = parse_spec("*/2 * * * *\nnot */2 * * 1-11 *", BERLIN)
    december = datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert spec.next(datetime(2025, 12, 31, 22, 58, tzinfo=UTC)) == december
    assert spec.previous(december) == datetime(2025, 12, 31, 22, 58, tzinfo=UTC)
    assert spec.count(NEW_YEAR, december + timedelta(days=31), 100_000) == 31 * 720


def test_a_weekend_of_every_second_is_counted_by_stretches() -> None:
    spec = parse_spec("* * * * * *\nnot * 8-17 * * *\nnot 2026-01-03")
    assert spec.count(NEW_YEAR - A_SECOND, NEW_YEAR + timedelta(days=4) - A_SECOND, 10**6) == (
        3 * 14 * 3600
    )


def test_bounds_are_the_first_and_the_last_instant() -> None:
    spec = parse_spec("@hourly\nfrom 2026-01-01T05:00\nuntil 2026-01-01T07:00")
    hours = [NEW_YEAR + timedelta(hours=hour) for hour in (5, 6, 7)]
    assert spec.between(EARLIEST, LATEST, 10) == hours
    assert spec.previous(LATEST) == hours[-1]
    assert spec.previous(hours[1]) == hours[0]
    assert spec.previous(hours[0]) is None
    assert spec.count(EARLIEST, LATEST, 10) == 3
    assert spec.next(hours[-1]) is None


def test_more_than_can_be_looked_through_is_refused_and_never_taken_for_nothing() -> None:
    with pytest.raises(InvalidSpec, match="never fires") as refusal:
        parse_spec("every 1h\nat 2099-01-01T00:30\nnot 0 */2 * * *\nnot 0 1-23/2 * * *")
    assert "looking for a fire ends after 4000 steps" in str(refusal.value.detail)


def test_a_rule_of_which_nothing_is_left_leaves_the_others_alone() -> None:
    spec = parse_spec("every 1h\n30 9 1 * *\nnot 0 */2 * * *\nnot 0 1-23/2 * * *")
    fires = [datetime(2026, month, 1, 9, 30, tzinfo=UTC) for month in (1, 2, 3)]
    assert spec.between(NEW_YEAR, LATEST, 3) == fires
    assert spec.previous(fires[1]) == fires[0]
    assert spec.count(NEW_YEAR, fires[1], 10) == 2


def test_a_rule_of_which_little_is_left_fires_before_the_others() -> None:
    spec = parse_spec("every 1h\nat 2026-03-01T00:30\nnot 0 * 1-27 2 *\nfrom 2026-02-01T00:00")
    assert spec.next(NEW_YEAR) == datetime(2026, 2, 28, tzinfo=UTC)
    mondays = (("mondays", "mon"),)
    late = "0 9 * * mon\n0 9 9 * *\nat 2026-02-02T10:00\nnot in mondays\nfrom 2026-01-01T00:00"
    fires = parse_spec(late, calendars=mondays).between(NEW_YEAR, LATEST, 2)
    assert [f"{fire:%m-%d}" for fire in fires] == ["01-09", "04-09"]


_TIMES = st.sampled_from(["0", "30", "*", "*/7", "0-20", "5,50"])
_HOURS = st.sampled_from(["*", "2", "0-4", "1-3,23", "*/2"])
_DAYS = st.sampled_from(["*", "28-30", "25", "L"])
_WEEKDAYS = st.sampled_from(["*", "sun", "mon-fri", "sat,sun"])
_CRONS = st.builds("{} {} {} * {}".format, _TIMES, _HOURS, _DAYS, _WEEKDAYS)
_DATES = st.sampled_from(["2026-03-29", "2026-10-24..2026-10-25", "2026-03-28,2026-03-30"])
_ZONES = st.sampled_from([BERLIN, "UTC", "America/Havana", "Australia/Lord_Howe", "Asia/Beirut"])
_STARTS = st.sampled_from([datetime(2026, 3, 7), datetime(2026, 3, 28), datetime(2026, 10, 24)])


def is_refused(text: str, zone: str) -> bool:
    try:
        parse_spec(text, zone)
    except InvalidSpec:
        return True
    return False


def left_by_looking(rule: str, lines: list[str], zone: str, start: datetime) -> list[datetime]:
    """The rule's fires whose wall minute no line names: the meaning of ``not``, one by one."""
    named = {
        instant
        for line in lines
        if " " in line
        for instant in fires(parse_spec(line), start - timedelta(days=1), DAYS + 2)
    }
    days = [item.partition("..") for line in lines if " " not in line for item in line.split(",")]
    kept = []
    for fire in fires(parse_spec(rule, zone), start, DAYS):
        wall = fire.astimezone(load_zone(zone)).replace(tzinfo=UTC, second=0)
        if wall in named or any(
            low <= f"{wall:%Y-%m-%d}" <= (high or low) for low, _, high in days
        ):
            continue
        kept.append(fire)
    return kept


_RULES_WITH_EXCLUSIONS = given(
    st.one_of(_CRONS, st.just("every 7m"), st.just("every 1h30m")),
    st.lists(st.one_of(_CRONS, _DATES), min_size=1, max_size=3),
    _ZONES,
    _STARTS,
)


@few
@_RULES_WITH_EXCLUSIONS
def test_what_is_left_is_what_looking_at_each_fire_leaves(
    rule: str, lines: list[str], zone: str, day: datetime
) -> None:
    look_at_each_fire(rule, lines, zone, day)


@pytest.mark.long
@bounded
@_RULES_WITH_EXCLUSIONS
def test_what_is_left_of_many_rules_is_what_looking_at_each_fire_leaves(
    rule: str, lines: list[str], zone: str, day: datetime
) -> None:
    look_at_each_fire(rule, lines, zone, day)


def look_at_each_fire(rule: str, lines: list[str], zone: str, day: datetime) -> None:
    start = day.replace(tzinfo=UTC)
    expected = left_by_looking(rule, lines, zone, start)
    text = "\n".join([rule, *(f"not {line}" for line in lines)])
    if is_refused(text, zone):
        assert expected == []
        return
    spec = parse_spec(text, zone)
    assert fires(spec, start, DAYS) == expected
    end = start + timedelta(days=DAYS)
    assert spec.count(start, end, 10_000) == len(expected)
    assert all(spec.previous(later) == earlier for earlier, later in pairwise(expected[-20:]))


@bounded
@given(_CRONS, _CRONS, _ZONES, st.sampled_from(list(DstPolicy)), _STARTS)
def test_a_union_with_exclusions_fires_when_any_of_its_rules_would(
    one: str, other: str, zone: str, dst: DstPolicy, day: datetime
) -> None:
    start = day.replace(tzinfo=UTC)
    left_out = "not 2026-03-29,2026-10-25"
    apart = [parse_spec(f"{rule}\n{left_out}", zone, dst) for rule in (one, other)]
    together = parse_spec(f"{one}\n{other}\n{left_out}", zone, dst)
    expected = sorted({fire for spec in apart for fire in fires(spec, start, DAYS)})
    assert fires(together, start, DAYS) == expected
    assert together.count(start, start + timedelta(days=DAYS), 10_000) == len(expected)
