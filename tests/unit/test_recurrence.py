"""Recurrence rules: what RFC 5545 names, in a zone, found without counting from the beginning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidSpec
from tests.product.spec import EARLIEST, LATEST, DstPolicy, parse_spec

BERLIN = "Europe/Berlin"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
bounded = settings(max_examples=80, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("RRULE freq=daily;interval=1", "rrule FREQ=DAILY"),
        ("rrule BYDAY=1FR,-1MO,+2TU;FREQ=MONTHLY", "rrule FREQ=MONTHLY;BYDAY=-1MO,1FR,2TU"),
        ("rrule FREQ=WEEKLY;WKST=MO;BYHOUR=17,9", "rrule FREQ=WEEKLY;BYHOUR=9,17"),
        (
            "rrule FREQ=DAILY;COUNT=05 FROM 2026-01-01T08:00Z",
            "rrule FREQ=DAILY;COUNT=5 from 2026-01-01T09:00:00",
        ),
    ],
)
def test_canonical_text_is_one_for_all_spellings_and_reads_back(text: str, canonical: str) -> None:
    spec = parse_spec(text, BERLIN)
    assert spec.canonical == canonical
    assert parse_spec(canonical, BERLIN) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rrule", '"rrule" is not a valid `rrule` line'),
        ("rrule FREQ=DAILY from", "is not a valid `rrule` line"),
        ("rrule FREQ=DAILY since 2026-01-01T00:00", "is not a valid `rrule` line"),
        ("rrule FREQ=HOURLY", '"FREQ=HOURLY" is not valid'),
        ("rrule INTERVAL=2", '"FREQ=" is not valid'),
        ("rrule FREQ=DAILY;FREQ=DAILY", '"FREQ=DAILY" is not valid'),
        ("rrule FREQ=DAILY;", '"" is not valid'),
        ("rrule FREQ=DAILY;INTERVAL=0", '"INTERVAL=0" is not valid'),
        ("rrule FREQ=DAILY;INTERVAL=1001", '"INTERVAL=1001" is not valid'),
        ("rrule FREQ=DAILY;COUNT=1001 from 2026-01-01T00:00", '"COUNT=1001" is not valid'),
        ("rrule FREQ=DAILY;COUNT=3", "COUNT without an instant to count from"),
        ("rrule FREQ=DAILY;UNTIL=2026", '"UNTIL=2026" is not valid'),
        ("rrule FREQ=DAILY;UNTIL=20261301", '"UNTIL=20261301" is not valid'),
        ("rrule FREQ=DAILY;UNTIL=18001231", '"UNTIL=18001231" is not valid'),
        ("rrule FREQ=DAILY;COUNT=2;UNTIL=20261231", '"UNTIL=20261231" is not valid'),
        ("rrule FREQ=DAILY;BYHOUR=24", '"BYHOUR=24" is not valid'),
        ("rrule FREQ=DAILY;BYHOUR=-1", '"BYHOUR=-1" is not valid'),
        ("rrule FREQ=MONTHLY;BYMONTHDAY=0", '"BYMONTHDAY=0" is not valid'),
        ("rrule FREQ=MONTHLY;BYDAY=54MO", '"BYDAY=54MO" is not valid'),
        ("rrule FREQ=WEEKLY;BYDAY=2MO", '"BYDAY" is not valid'),
        ("rrule FREQ=MONTHLY;BYDAY=MO,2TU", '"BYDAY" is not valid'),
        ("rrule FREQ=YEARLY;BYWEEKNO=2", '"BYWEEKNO=2" is not valid'),
        ("rrule FREQ=YEARLY;BYYEARDAY=2", '"BYYEARDAY=2" is not valid'),
        ("rrule FREQ=WEEKLY;BYMONTHDAY=2", '"BYMONTHDAY" is not valid'),
        ("rrule FREQ=MONTHLY;BYSETPOS=1", '"BYSETPOS" is not valid'),
        ("rrule FREQ=DAILY;WKST=XX", '"WKST=XX" is not valid'),
        ("rrule FREQ=DAILY;BYEASTER=0", '"BYEASTER=0" is not valid'),
        ("rrule FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        # Day by day these would be searched for up to a minute.
        ("rrule FREQ=DAILY;BYMONTH=2,4;BYMONTHDAY=31,-31", "never fires"),
        ("rrule FREQ=DAILY;BYHOUR=5;BYSETPOS=-2", "never fires"),
        ("rrule FREQ=DAILY;BYMINUTE=5,10;BYSETPOS=3", "never fires"),
        ("rrule FREQ=DAILY;UNTIL=20251231 from 2026-01-01T00:00", "never fires"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_all_three_sentences(text: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(text)
    assert message in refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint


def test_a_day_counted_from_the_end_of_the_month_follows_the_zone() -> None:
    spec = parse_spec("rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9 from 2026-01-01T00:00", BERLIN)
    assert [f"{fire:%m-%dT%H}" for fire in spec.between(NEW_YEAR, LATEST, 5)] == [
        *("01-30T08", "02-27T08", "03-27T08", "04-24T07", "05-29T07")
    ]


def test_every_other_week_keeps_its_phase_however_late_it_is_asked() -> None:
    spec = parse_spec("rrule FREQ=WEEKLY;INTERVAL=2 from 2026-01-05T10:00")
    start = datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert spec.next(start - timedelta(days=400)) == start
    assert spec.next(start + timedelta(weeks=1501)) == start + timedelta(weeks=1502)
    assert spec.previous(start + timedelta(weeks=1502)) == start + timedelta(weeks=1500)
    assert spec.previous(start) is None


def test_a_count_ends_the_rule_and_until_with_a_date_lasts_that_day() -> None:
    counted = parse_spec("rrule FREQ=DAILY;COUNT=3 from 2026-01-01T12:00")
    noons = [NEW_YEAR + timedelta(days=day, hours=12) for day in range(3)]
    assert counted.between(EARLIEST, LATEST, 10) == noons
    assert counted.previous(LATEST) == noons[-1]
    assert counted.count(EARLIEST, LATEST, 10) == 3
    assert (
        parse_spec("rrule FREQ=DAILY;UNTIL=20260103 from 2026-01-01T12:00").between(
            EARLIEST, LATEST, 10
        )
        == noons
    )
    assert (
        parse_spec("rrule FREQ=DAILY;UNTIL=20260103T115959Z from 2026-01-01T12:00").between(
            EARLIEST, LATEST, 10
        )
        == noons[:2]
    )


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [
        (DstPolicy.VIXIE, ["03-28T01:30", "03-29T01:00", "03-30T00:30"], 1),
        (DstPolicy.SKIP, ["03-28T01:30", "03-30T00:30"], 1),
        (DstPolicy.ROBFIG, ["03-28T01:30", "03-30T00:30"], 2),
    ],
)
def test_a_skipped_and_a_repeated_wall_time_follow_the_policy(
    dst: DstPolicy, spring: list[str], autumn: int
) -> None:
    spec = parse_spec("rrule FREQ=DAILY;BYHOUR=2;BYMINUTE=30 from 2026-01-01T00:00", BERLIN, dst)
    start = datetime(2026, 3, 28, tzinfo=UTC)
    assert [
        f"{fire:%m-%dT%H:%M}" for fire in spec.between(start, start + timedelta(days=3), 9)
    ] == spring
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert len(spec.between(start, start + timedelta(days=1), 9)) == autumn


@pytest.mark.parametrize(
    ("text", "earlier", "later"),
    [
        ("rrule FREQ=YEARLY;INTERVAL=1000 from 1979-12-20T09:45", "1979-12-20T09:45", None),
        (
            *("rrule FREQ=YEARLY;INTERVAL=100 from 1901-05-01T09:00", "2001-05-01T09:00"),
            "2101-05-01T09:00",
        ),
        (
            *("rrule FREQ=MONTHLY;INTERVAL=999 from 1930-01-30T09:00", "2013-04-30T09:00"),
            "2096-07-30T09:00",
        ),
        ("every 10000th of 0 0 * * mon", "1970-01-05T00:00", "2161-08-31T00:00"),
        ("at 1970-01-01T00:00\nnot 2026-12-24", "1970-01-01T00:00", None),
        ("rrule FREQ=YEARLY;COUNT=100 from 2000-01-01T00:00", "2099-01-01T00:00", None),
    ],
)
def test_looking_back_and_ahead_goes_as_far_as_the_rule_pauses(
    text: str, earlier: str, later: str | None
) -> None:
    spec = parse_spec(text)
    fire = datetime.fromisoformat(f"{earlier}Z")
    following = None if later is None else datetime.fromisoformat(f"{later}Z")
    assert spec.next(fire - timedelta(seconds=1)) == fire
    if following is None:
        assert spec.previous(datetime(2150, 1, 1, tzinfo=UTC)) == fire
    else:
        assert spec.previous(following) == fire
        assert spec.previous(following + timedelta(seconds=1)) == following
        assert spec.next(fire) == following


def test_what_fired_last_is_found_among_rules_that_ended_long_ago() -> None:
    spec = parse_spec(
        "rrule FREQ=DAILY;INTERVAL=7;COUNT=165;BYHOUR=20;BYMINUTE=43,58,2 from 1974-08-29T21:02\n"
        "rrule FREQ=YEARLY;INTERVAL=1000;BYHOUR=10,0,23 from 1979-12-20T09:45",
        "Africa/Casablanca",
        DstPolicy.SKIP,
    )
    last = datetime(1979, 12, 20, 23, 45, tzinfo=UTC)
    assert spec.previous(datetime(2053, 9, 13, tzinfo=UTC)) == last


_NUMBERS = st.sampled_from
_RULES = st.one_of(
    st.builds(
        "FREQ=YEARLY;INTERVAL={};{}".format,
        st.integers(1, 7),
        _NUMBERS(["BYMONTH=2,12", "BYMONTHDAY=-1,16", "BYDAY=1MO,-1SU", "BYHOUR=5"]),
    ),
    st.builds(
        "FREQ=MONTHLY;INTERVAL={};{}".format,
        st.integers(1, 30),
        _NUMBERS(["BYMONTHDAY=31", "BYMONTHDAY=-1", "BYDAY=MO,TU,WE;BYSETPOS=-1", "BYDAY=2FR"]),
    ),
    st.builds(
        "FREQ=WEEKLY;INTERVAL={};{}".format,
        st.integers(1, 9),
        _NUMBERS(["BYDAY=MO,SU", "WKST=SU;BYDAY=SU,TU", "BYMONTH=1,7", "BYHOUR=1,23"]),
    ),
    st.builds(
        "FREQ=DAILY;INTERVAL={};{}".format,
        st.integers(1, 40),
        _NUMBERS(["BYMONTHDAY=1,15", "BYDAY=SA", "BYHOUR=0,12;BYMINUTE=0,30", "BYSECOND=59"]),
    ),
)
_FIRSTS = st.datetimes(datetime(2019, 1, 1), datetime(2021, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0)
)


def fires_ever(text: str) -> bool:
    try:
        parse_spec(text)
    except InvalidSpec:  # every third hour from 2 o'clock is never 3 o'clock
        return False
    return True


@bounded
@given(_RULES, _FIRSTS, st.integers(0, 4000))
def test_a_rule_that_begins_later_names_what_it_names_from_its_beginning(
    rule: str, first: datetime, days: int
) -> None:
    """Against the library counting from the first instant, in a zone that is never changed."""
    start = first + timedelta(days=days)
    stop = start + timedelta(days=800)
    text = f"rrule {rule} from {first:%Y-%m-%dT%H:%M:%S}"
    assume(fires_ever(text))
    spec = parse_spec(text)
    counted = takewhile(lambda wall: wall <= stop, rrulestr(rule, dtstart=first))
    expected = [wall.replace(tzinfo=UTC) for wall in counted if wall > start][:40]
    begin, end = start.replace(tzinfo=UTC), stop.replace(tzinfo=UTC)
    assert spec.between(begin, end, 40) == expected
    assert all(spec.previous(later) == earlier for earlier, later in pairwise(expected[-5:]))
