"""Calendars, and the fires that they leave out or move."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidCalendar, InvalidInput, InvalidSpec
from tests.product.spec import (
    Calendar,
    Calendars,
    DstPolicy,
    Spec,
    bit,
    calendar_names,
    check_spec,
    instant_at,
    load_zone,
    parse_spec,
    read_calendars,
    sentence,
    wall_clock,
    why_not,
)

BERLIN = "Europe/Berlin"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOLIDAYS = """
2026-12-25 # Christmas Day
yearly 12-26 # Boxing Day
yearly easter-2..easter+1
yearly 11-thu#4   # Thanksgiving
yearly 05-mon#L
"""
BOOK: Calendars = (
    ("business-days", "mon-fri\nnot calendar holidays"),
    ("freeze", "2026-12-20..2027-01-03 # freeze"),
    ("holidays", HOLIDAYS),
    ("nothing", "\n# no day yet\n"),
    ("weekend", "sat,sun"),
)


def spec(text: str, zone: str = BERLIN, calendars: Calendars = BOOK) -> Spec:
    return parse_spec(text, zone, DstPolicy.VIXIE, calendars=calendars)


def has(calendar: Calendar, day: date) -> bool:
    return bool(calendar.days(day.year) & bit(day))


def days_of(content: str, year: int) -> list[str]:
    calendar = read_calendars((("it", content),))["it"]
    day, found = date(year, 1, 1), []
    while day.year == year:
        if has(calendar, day):
            found.append(f"{day:%m-%d}")
        day += DAY
    return found


def local_days(fires: list[datetime], zone: str = BERLIN) -> list[str]:
    return [f"{fire.astimezone(load_zone(zone)):%m-%d %H:%M}" for fire in fires]


@pytest.mark.parametrize(
    ("content", "year", "days"),
    [
        ("2026-12-24", 2026, ["12-24"]),
        ("2026-12-24", 2027, []),
        ("2026-12-30..2027-01-02", 2026, ["12-30", "12-31"]),
        ("2026-12-30..2027-01-02", 2027, ["01-01", "01-02"]),
        ("yearly 12-30..01-02", 2031, ["01-01", "01-02", "12-30", "12-31"]),
        ("yearly 02-29", 2027, []),
        ("yearly 02-29", 2028, ["02-29"]),
        ("yearly 02-28..02-29", 2027, ["02-28"]),
        ("yearly 02-29..03-01", 2027, ["03-01"]),
        ("yearly easter", 2026, ["04-05"]),
        ("YEARLY Easter+1", 2027, ["03-29"]),
        ("yearly easter-2..easter+1", 2025, ["04-18", "04-19", "04-20", "04-21"]),
        ("yearly 11-thu#4", 2026, ["11-26"]),
        ("yearly 05-mon#L", 2026, ["05-25"]),
        ("yearly 02-sun#5", 2027, []),
        ("yearly 02-tue#5", 2028, ["02-29"]),
        ("2026-12-24..2026-12-26\nnot sat", 2026, ["12-24", "12-25"]),
        ("fri-mon\nnot fri,mon\nnot yearly 02-01..12-31\nnot sun", 2026,
         ["01-03", "01-10", "01-17", "01-24", "01-31"]),
        ("", 2026, []),
        ("  # only a note\n\n", 2026, []),
    ],
)  # fmt: skip
def test_a_calendar_names_its_days(content: str, year: int, days: list[str]) -> None:
    assert days_of(content, year) == days


def test_a_calendar_is_made_of_others_and_tells_their_notes() -> None:
    found: Calendar = read_calendars(
        (("a", "calendar b\ncalendar c # of c\nnot calendar d"), ("b", "2026-01-01 # one"),
         ("c", "2026-01-02 # two"), ("d", "2026-01-03 # three"))
    )["a"]  # fmt: skip
    assert found.note(date(2026, 1, 1)) == "one"
    assert found.note(date(2026, 1, 2)) == "of c"
    assert has(found, date(2026, 1, 2))
    assert not has(found, date(2026, 1, 3))
    assert found.last_date_year == 2026


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2026-02-30", 'line 1: "2026-02-30" is not a date'),
        ("sat\nmoonday", 'line 2: "moonday" does not name days'),
        ("2026-12-26..2026-12-24", "end before they begin"),
        ("2026-01-01..2036-12-31", "after too many days"),
        ("yearly 13-01", "does not name days"),
        ("yearly 02-30", "does not name days"),
        ("yearly 11-thu#6", "does not name days"),
        ("yearly easter+251", "does not name days"),
        ("yearly easter+2..easter+1", "does not name days"),
        ("calendar", "does not name days"),
        ("calendar two words", "does not name days"),
        ("not", "does not name days"),
        ("not sat", "has no line that names days"),
        ("sat\x07", "control character"),
        ("sat #" + "x" * 600, "line 1: it has 605 characters"),
        ("calendar other #" + "x" * 600, "line 1: it has 616 characters"),
        ("calendar it", 'calendar "it" contains itself: it > it'),
    ],
)
def test_what_is_no_calendar_is_refused(content: str, message: str) -> None:
    with pytest.raises(InvalidCalendar) as refused:
        read_calendars((("it", content),))
    assert message in refused.value.message


def test_a_circle_of_calendars_is_refused_with_its_names() -> None:
    circle = (("a", "calendar b"), ("b", "sat\nnot calendar c"), ("c", "calendar b"))
    with pytest.raises(InvalidCalendar, match='"b" contains itself: b > c > b'):
        read_calendars(circle)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@daily\nnot in somewhere", 'calendar "somewhere" is not known'),
        ("@daily\nnot in weekend holidays", "is not an exclusion"),
        ("@daily\nonly weekend", "does not name a calendar"),
        ("@daily\nonly in weekend, move", "does not name a calendar"),
        ("@daily\nonly in weekend, move up", "does not name a calendar"),
        ("only in weekend", "has no line that fires"),
        ("@daily\nonly in nothing", "the spec never fires"),
        ("@daily\nonly in nothing, move next", "the spec never fires"),
        ("@daily\nnot in weekend\nonly in weekend", "the spec never fires"),
        ("*/5 * * * 0\nnot in weekend", "the spec never fires"),
        ("at 2026-12-26T09:00\nnot in holidays", "the spec never fires"),
        (
            "@daily\nnot in weekend, move next\nnot in holidays, move previous",
            "moves to the next and to the previous day",
        ),
        ("* * * * * *\nnot in weekend, move next", "fires more than 24 times a day"),
        ("every 57m\nnot in weekend, move next", "fires more than 24 times a day"),
    ],
)
def test_what_a_spec_can_not_ask_of_calendars_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(text)
    assert message in refused.value.message


def test_a_spec_is_judged_and_asked_for_its_calendars_without_them() -> None:
    text = "@daily\nnot in holidays\nONLY in a.b-c , Move  NEXT\nnot in holidays"
    check_spec(text)
    assert calendar_names(text) == ("holidays", "a.b-c")
    for wrong in ("only in x", "@daily\nonly in x, move", "@daily\nnot in x\nfrom now", "bad"):
        with pytest.raises(InvalidSpec):
            check_spec(wrong)


def test_canonical_text_is_one_for_all_spellings_and_reads_back() -> None:
    written = spec("not in weekend , skip\nNOT IN holidays,MOVE next\n@daily\nnot 2026-12-24")
    assert written.canonical == (
        "0 0 * * *\nnot 2026-12-24\nnot in holidays, move next\nnot in weekend"
    )
    assert spec(written.canonical) == written
    other = spec(written.canonical, calendars=(*BOOK[:-1], ("weekend", "fri")))
    assert other != written


def test_days_of_a_calendar_are_skipped() -> None:
    fires = spec("0 9 * * *\nnot in holidays").between(
        datetime(2026, 12, 24, tzinfo=UTC), datetime(2026, 12, 28, tzinfo=UTC), 10
    )
    assert local_days(fires) == ["12-24 09:00", "12-27 09:00"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("only in business-days, move next", ["12-24 09:00", "12-28 09:00"]),
        ("only in business-days, move previous", ["12-24 09:00"]),
        ("not in holidays, move next", ["12-24 09:00", "12-27 09:00"]),
        ("not in holidays, move next\nnot in weekend", ["12-24 09:00", "12-28 09:00"]),
        ("not in holidays, move next\nnot * * * * sat,sun", ["12-24 09:00", "12-28 09:00"]),
        ("not in holidays, move next\nnot 2026-12-27", ["12-24 09:00", "12-28 09:00"]),
        ("not in holidays, move next\nnot at 2026-12-27T09:00", ["12-24 09:00"]),
    ],
)
def test_fires_move_to_an_allowed_day(lines: str, expected: list[str]) -> None:
    moved = spec(f"0 9 24,25 12 *\n{lines}")
    assert local_days(moved.between(NEW_YEAR + 350 * DAY, NEW_YEAR + 365 * DAY, 10)) == expected
    weekly = spec(f"0 9 25 12 *\n{lines}")
    last = weekly.previous(NEW_YEAR + 370 * DAY)
    assert last is not None
    assert (local_days([last])[0] in expected) == (len(expected) > 1 or "previous" in lines)


def test_a_fire_does_not_move_further_than_a_quarter_of_a_year() -> None:
    closed = (("open", "2026-12-24..2027-12-31"), ("shut", "2026-06-01..2026-09-30"))
    assert spec("0 9 1 6 *\nuntil 2026-12-31T00:00\nnot in shut, move next\nat 2026-12-24T00:00",
                calendars=closed).next(NEW_YEAR) == datetime(
                    2026, 12, 23, 23, tzinfo=UTC)  # fmt: skip
    near = spec("0 9 1 7 *\nnot in shut, move next", calendars=closed)
    assert near.next(NEW_YEAR) == datetime(2026, 10, 1, 7, tzinfo=UTC)


def test_bounds_hold_for_what_has_moved() -> None:
    text = "0 9 * * *\nonly in business-days, move next\nfrom 2026-12-28T00:00"
    found = spec(f"{text}\nuntil 2026-12-28T12:00")
    assert local_days(found.between(NEW_YEAR, NEW_YEAR + 1000 * DAY, 5)) == ["12-28 09:00"]


@pytest.mark.parametrize(
    ("text", "local", "answer"),
    [
        ("0 9 * * *\nnot in holidays", "2026-12-25T09:00",
         "left out by calendar holidays: 2026-12-25 Christmas Day"),
        ("0 9 * * *\nonly in business-days", "2026-12-25T09:00",
         "left out by calendar business-days: 2026-12-25 is not one of its days"
         " (not calendar holidays Christmas Day)"),
        ("0 9 * * *\nonly in business-days", "2026-12-27T09:00",
         "left out by calendar business-days: 2026-12-27 is not one of its days"),
        ("0 9 25 * *\nnot in holidays, move next", "2026-12-25T09:00",
         "moved to 2026-12-27T08:00:00Z by calendar holidays: 2026-12-25 Christmas Day"),
        ("0 9 * * *\nnot 2026-12-24..2026-12-31", "2026-12-27T09:00",
         'left out by "not 2026-12-24..2026-12-31"'),
        ("0 9 * * *\nfrom 2026-12-28T00:00", "2026-12-27T09:00",
         "the schedule begins later, at 2026-12-27T23:00:00Z"),
        ("0 9 * * *\nuntil 2026-12-26T00:00", "2026-12-27T09:00",
         "the schedule ended at 2026-12-25T23:00:00Z"),
        ("0 9 * * *\nnot in holidays", "2026-12-25T09:01", None),
        ("0 9 * * *\nnot in holidays", "2026-12-24T09:00", None),
    ],
)  # fmt: skip
def test_what_takes_an_instant_is_told(text: str, local: str, answer: str | None) -> None:
    instant = datetime.fromisoformat(local).replace(tzinfo=load_zone(BERLIN)).astimezone(UTC)
    assert why_not(spec(text), instant) == answer


def test_a_sentence_tells_of_calendars() -> None:
    assert sentence(spec("0 9 * * *\nnot in holidays")) == (
        "At 09:00 every day, in Europe/Berlin, but not on days of calendar holidays."
    )
    assert sentence(spec("0 9 1 * *\nonly in business-days, move next")) == (
        "At 09:00 on the 1st of the month, in Europe/Berlin,"
        " outside calendar business-days on the next day that is left."
    )


# The oracle: every fire of some years, moved one by one.

_LINES = st.sampled_from(
    ["not in holidays", "only in business-days", "not in weekend", "not in freeze",
     "only in odd", "not in long"]
)  # fmt: skip
_RULES = st.sampled_from(
    ["0 9 * * *", "30 2 * * sun,mon", "15 0,23 * * *", "0 12 25-31 * *", "every 35h", "0 9 1 1 *",
     "45 23 * * sat,tue", "at 2026-12-25T00:15"]
)  # fmt: skip
_NOTS = st.sampled_from(["not * * * * sat", "not 2026-12-28", "not * 9 * * mon"])
_ZONES = st.sampled_from(
    [BERLIN, "UTC", "America/New_York", "Asia/Beirut", "America/Havana", "Pacific/Apia"]
)
_YEARS: Calendars = tuple(
    sorted((*BOOK, ("odd", "mon,wed,thu"), ("long", "yearly 03-01..05-25\n2028-01-01..2028-07-01")))
)
FIRST, LAST = datetime(2024, 6, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)


def expected_fires(
    rules: list[str], nots: list[str], uses: list[str], zone: str, move: str
) -> list[datetime]:
    """What fires from FIRST to LAST, by the definition of the words."""
    others = [use for use in uses if not use.endswith(move)] if move else uses
    plain = parse_spec("\n".join([*rules, *nots]), zone)
    calendars = read_calendars(_YEARS)
    bare = parse_spec("\n".join(rules), zone)
    every_minute = parse_spec("\n".join(["* * * * *", *nots]), zone)

    def taken(use: str, day: date) -> bool:
        kind, _, name, *_ = use.replace(",", "").split()
        return has(calendars[name], day) == (kind == "not")

    def whole_day(day: date) -> bool:
        return (("not * * * * sat" in nots and day.weekday() == 5)
                or ("not 2026-12-28" in nots and day == date(2026, 12, 28))
                or any(taken(use, day) for use in others))  # fmt: skip

    fires: set[datetime] = set()
    movers = [use for use in uses if move and use.endswith(move)]
    for fire in plain.between(FIRST - 100 * DAY, LAST + 100 * DAY, 100_000):
        wall = wall_clock(load_zone(zone), fire.replace(tzinfo=None))
        day = wall.date()
        if any(taken(use, day) for use in others):
            continue
        if any(taken(use, day) for use in movers):
            step = DAY if move.endswith("next") else -DAY
            found = day + step
            while whole_day(found) or any(taken(use, found) for use in movers):
                found += step
            if abs(found - day) > 92 * DAY:
                continue
            at = datetime.combine(found, time(wall.hour, wall.minute, wall.second))
            fire = instant_at(zone, at).replace(tzinfo=UTC)
            if every_minute.next(fire - timedelta(microseconds=1)) != fire:
                continue
        fires.add(fire)
    assert bare.next(FIRST) is not None or "at" in rules[0]
    return sorted(fire for fire in fires if FIRST < fire <= LAST)


@pytest.mark.long
@given(
    rules=st.lists(_RULES, min_size=1, max_size=2, unique=True),
    nots=st.lists(_NOTS, max_size=1),
    lines=st.lists(_LINES, min_size=1, max_size=2, unique=True),
    moved=st.integers(0, 2),
    direction=st.sampled_from([", move next", ", move previous"]),
    zone=_ZONES,
    data=st.data(),
)
@settings(max_examples=40, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
def test_years_of_days_by_brute_force(
    rules: list[str],
    nots: list[str],
    lines: list[str],
    moved: int,
    direction: str,
    zone: str,
    data: st.DataObject,
) -> None:
    uses = [line + direction if at < moved else line for at, line in enumerate(lines)]
    move = direction if moved else ""
    expected = expected_fires(rules, nots, uses, zone, move)
    try:
        found = parse_spec(
            "\n".join([*rules, *nots, *uses]), zone, DstPolicy.VIXIE, calendars=_YEARS
        )
    except InvalidInput as error:
        assert "never fires" in error.message  # noqa: PT017
        assert expected == []
        return
    assert found.between(FIRST, LAST, 100_000) == expected
    assert all(earlier < later for earlier, later in pairwise(expected))
    assert found.count(FIRST, LAST, 100_000) == len(expected)
    for at in data.draw(st.lists(st.integers(0, max(len(expected) - 1, 0)), max_size=3)):
        if expected and at > 0:
            assert found.previous(expected[at]) == expected[at - 1]
            assert found.next(expected[at - 1]) == expected[at]
