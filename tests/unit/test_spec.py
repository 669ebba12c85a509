"""Specs: lines, intervals, unions, bounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec, UnknownZone
from tests.product.spec import EARLIEST, LATEST, MOST_LINES, DstPolicy, parse_spec, read_spec
from tests.product.spec import SPEC_MOST_CHARACTERS as MOST_CHARACTERS

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
bounded = settings(max_examples=150, deadline=None, derandomize=True, database=None)

instants = st.datetimes(datetime(1980, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("every 90m", "every 1h30m"),
        ("EVERY 1h30m", "every 1h30m"),
        ("every 86400s", "every 1d"),
        ("every 1d25h61m61s", "every 2d2h2m1s"),
        ("every 1s", "every 1s"),
        ("every 2d FROM 2026-01-01T00:10Z", "every 2d from 2026-01-01T00:10:00Z"),
        ("every 2d from 2026-01-01T01:10:05+01:00", "every 2d from 2026-01-01T00:10:05Z"),
        ("every 2d from 1970-01-01T00:00Z", "every 2d"),
        ("\n  @daily \r\n\n0 0 * * *\n", "0 0 * * *"),
        ("every 60m\n0 9 * * 7\nevery 1h", "0 9 * * 0\nevery 1h"),
    ],
)
def test_canonical_text_is_one_for_all_spellings_and_reads_back(text: str, canonical: str) -> None:
    spec = parse_spec(text)
    assert spec.canonical == canonical
    assert parse_spec(canonical) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the spec has 0 lines"),
        (" \n\t\n", "the spec has 0 lines"),
        ("@daily\n" * (MOST_LINES + 1), "the spec has 33 lines"),
        ("0" * 300 + " * * * *", "the line has 308 characters"),
        (" " * (MOST_CHARACTERS + 1), "the spec has 4097 characters"),
        ("every", '"every" is not a valid `every` line'),
        ("every 5m from", '"every 5m from" is not a valid `every` line'),
        ("every 5m at noon", '"every 5m at noon" is not a valid `every` line'),
        ("every 5m from 2026-01-01T00:00Z sharp", "is not a valid `every` line"),
        ("every 0s", 'the interval "0s" is too short'),
        ("every -5m", '"-5m" is not a duration'),
        ("every 1.5h", '"1.5h" is not a duration'),
        ("every 5", '"5" is not a duration'),
        ("every 5m1h", '"5m1h" is not a duration'),
        ("every 500ms", '"500ms" is not a duration'),
        ("every 36526d", 'the interval "36526d" is too long'),
        ("every 5m from 2026-01-01", '"2026-01-01" is not an instant'),
        ("every 5m from 2026-01-01T00:00", '"2026-01-01T00:00" is not an instant'),
        ("every 5m from 2026-13-01T00:00Z", '"2026-13-01T00:00Z" is not an instant'),
        ("every 5m from 2026-01-01T00:00:00.5Z", "is not an instant"),
        ("every 5m from 0001-01-01T00:00+10:00", "is outside the calendar"),
        ("@daily\n61 * * * *", 'line 2: the minute field does not allow "61"'),
        ("\n\n61 * * * *", 'the minute field does not allow "61"'),
    ],
)
def test_a_spec_that_cannot_be_is_refused_with_all_three_sentences(text: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(text)
    assert message in refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@dialy", 'did you mean "@daily"?'),
        ("@every 5m", 'for an interval write "every 90m"'),
        ("every 5 minutes", 'write "every 5m"'),
        ("every 2 HOURS from 2026-01-01T00:00Z", 'write "every 2h from 2026-01-01T00:00Z"'),
        ("every 30 sec", 'write "every 30s"'),
        ("every day", 'write "every 1d"'),
        ("every 5minutes", 'write "every 5m"'),
    ],
)
def test_what_is_nearly_a_spec_is_answered_with_its_spelling(text: str, hint: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(text)
    assert refusal.value.hint == hint
    if hint.startswith("write"):
        assert parse_spec(hint.split('"')[1]).rules


def test_an_unknown_zone_is_refused_even_when_no_line_needs_one() -> None:
    with pytest.raises(UnknownZone):
        parse_spec("every 5m", "Mars/Olympus")


def test_an_interval_counts_from_its_instant_in_both_directions_through_any_change() -> None:
    spec = parse_spec("every 90m from 2026-03-29T00:10Z", "Europe/Berlin")
    start = datetime(2026, 3, 29, 0, 10, tzinfo=UTC)
    assert spec.next(start) == start + timedelta(minutes=90)
    assert spec.next(start - timedelta(microseconds=1)) == start
    assert spec.previous(start) == start - timedelta(minutes=90)
    assert spec.previous(start + timedelta(microseconds=1)) == start


def test_several_lines_are_a_union_in_which_a_common_fire_counts_once() -> None:
    spec = parse_spec("0 0 * * *\nevery 6h\n0 3 * * *")
    hours = [fire.hour for fire in spec.between(NEW_YEAR, NEW_YEAR + timedelta(days=1), 100)]
    assert hours == [3, 6, 12, 18, 0]
    assert spec.previous(NEW_YEAR + timedelta(hours=4)) == NEW_YEAR + timedelta(hours=3)
    assert len(spec.between(NEW_YEAR, NEW_YEAR + timedelta(days=1), 2)) == 2


def test_the_zone_and_the_policy_are_those_of_the_spec() -> None:
    before = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second_pass = before + timedelta(hours=1)
    assert parse_spec("30 2 * * *", "Europe/Berlin", DstPolicy.ROBFIG).next(before) == second_pass
    assert parse_spec("30 2 * * *", "Europe/Berlin").next(before) == before + timedelta(hours=25)


def test_notes_of_all_lines_are_kept_once() -> None:
    spec = parse_spec("0 0 13 * 5\n0 1 13 * 5\nevery 5m")
    assert spec.notes == ('a day matches when day "13" or weekday "5" does',)


@bounded
@given(st.integers(1, 10**7), instants, instants)
def test_an_interval_fires_at_every_multiple_and_nowhere_else(
    seconds: int, anchor: datetime, moment: datetime
) -> None:
    anchor = anchor.replace(microsecond=0)
    spec = parse_spec(f"every {seconds}s from {anchor:%Y-%m-%dT%H:%M:%SZ}")
    following, preceding = spec.next(moment), spec.previous(moment)
    assert following is not None
    assert preceding is not None
    period = timedelta(seconds=seconds)
    assert moment < following <= moment + period
    assert moment - period <= preceding < moment
    assert (following - anchor) % period == (preceding - anchor) % period == timedelta(0)


def test_an_interval_ends_with_the_calendar() -> None:
    spec = parse_spec("every 36525d")
    assert spec.next(LATEST) is None
    assert spec.next(datetime.max.replace(tzinfo=UTC)) is None
    assert spec.previous(EARLIEST) is None
    assert spec.next(datetime.min.replace(tzinfo=UTC)) is not None
    assert spec.previous(datetime.max.replace(tzinfo=UTC)) is not None


def test_threads_that_share_a_spec_get_the_answers_of_one() -> None:
    texts = [f"{minute} */2 * * mon#1,fri" for minute in range(40)]
    times = [NEW_YEAR + timedelta(days=17 * n, seconds=n) for n in range(50)]

    def answers(texts: list[str]) -> dict[str, list[datetime | None]]:
        return {t: [parse_spec(t, "Europe/Paris").next(m) for m in times] for t in texts}

    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(answers, [texts, texts[::-1], texts, texts[::-1]]))
    assert all(one == shared[0] for one in shared)
    read_spec.cache_clear()
    assert answers(texts) == shared[0]


def test_a_count_from_within_a_repeated_hour_leaves_the_second_pass_out() -> None:
    start, noon = datetime(2026, 10, 25, 1, 10, tzinfo=UTC), datetime(2026, 10, 25, 12, tzinfo=UTC)
    assert parse_spec("30 2 * * *", "Europe/Berlin").count(start, noon, 10) == 0
    assert parse_spec("30 2 * * *", "Europe/Berlin", DstPolicy.ROBFIG).count(start, noon, 10) == 1
