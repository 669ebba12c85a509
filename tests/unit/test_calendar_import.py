"""Files of appointments (.ics), and the lines of a calendar that they become."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from time import process_time

import pytest

from pgcron_ha.errors import InvalidInput, TooLarge
from pgcron_ha.schedule_files.calendar_events import MOST_BYTES, MOST_EVENTS
from pgcron_ha.schedule_files.calendar_import import ImportedCalendar, import_calendar

TODAY = date(2026, 11, 22)

GOOGLE = """BEGIN:VCALENDAR
PRODID:-//Google Inc//Google Calendar 70.9054//EN
VERSION:2.0
CALSCALE:GREGORIAN
METHOD:PUBLISH
X-WR-CALNAME:Holidays in Germany
X-WR-TIMEZONE:Europe/Berlin
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261225
DTEND;VALUE=DATE:20261226
DTSTAMP:20261101T081500Z
UID:20261225_60o30c1o60o30c1g60o30dr56k@google.com
CLASS:PUBLIC
DESCRIPTION:Public holiday
STATUS:CONFIRMED
SUMMARY:Christmas Day
TRANSP:TRANSPARENT
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20270102
UID:freeze@google.com
SUMMARY:Nothing is deployed: the shops earn half of what they earn in a ye
 ar\\, and everybody is on leave \\# twice
END:VEVENT
BEGIN:VEVENT
DTSTART:20261231T230000Z
DTEND:20270101T230000Z
UID:utc@google.com
SUMMARY:New Year's Day
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261031
STATUS:CANCELLED
UID:gone@google.com
SUMMARY:Reformation Day
END:VEVENT
END:VCALENDAR
"""

OUTLOOK = """BEGIN:VCALENDAR
PRODID:-//Microsoft Corporation//Outlook 16.0 MIMEDIR//EN
VERSION:2.0
METHOD:PUBLISH
X-MS-OLK-FORCEINSPECTOROPEN:TRUE
BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16011028T030000
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010325T020000
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE
BEGIN:VEVENT
CLASS:PUBLIC
DTEND;TZID="W. Europe Standard Time":20261211T000000
DTSTART;TZID="W. Europe Standard Time":20261210T000000
PRIORITY:5
SUMMARY;LANGUAGE=de:Betriebsversammlung
TRANSP:OPAQUE
UID:040000008200E00074C5B7101A82E008
X-MICROSOFT-CDO-BUSYSTATUS:OOF
BEGIN:VALARM
TRIGGER:-PT15M
ACTION:DISPLAY
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART;TZID="W. Europe Standard Time":20261215T220000
DURATION:PT4H
SUMMARY:Maintenance of the data centre
UID:maintenance
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20260525
DTEND;VALUE=DATE:20260526
RRULE:FREQ=YEARLY;BYDAY=MO;BYMONTH=5;BYSETPOS=-1
SUMMARY:Memorial Day
UID:memorial
END:VEVENT
BEGIN:VTODO
SUMMARY:Order cake
UID:cake
END:VTODO
END:VCALENDAR
"""


def imported(text: str, timezone: str | None = None, years_ahead: int = 5) -> ImportedCalendar:
    content = text.replace("\n", "\r\n").encode()
    return import_calendar(
        content, "days.ics", today=TODAY, timezone=timezone, years_ahead=years_ahead
    )


def of_event(*lines: str) -> ImportedCalendar:
    """Of a file that has one event with these lines."""
    return imported(file_of("\n".join(lines)))


def file_of(*events: str) -> str:
    written = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{written}END:VCALENDAR\n"


def test_a_file_of_google_becomes_dates_and_ranges_with_titles() -> None:
    found = imported(GOOGLE)

    assert found.content.splitlines() == [
        "2026-12-24..2027-01-01 # Nothing is deployed: the shops earn half of what they earn in a"
        " year, and everybody is on leave \\# twice",
        "2026-12-25 # Christmas Day",
        "2027-01-01 # New Year's Day",
    ]
    assert found.carried_over == 3
    assert found.losses == [('days.ics, 4 "Reformation Day"', "not carried over: it is cancelled")]


def test_a_file_of_outlook_keeps_the_days_of_its_own_zone() -> None:
    found = imported(OUTLOOK)

    assert found.content.splitlines() == [
        "yearly 05-mon#L # Memorial Day",
        "2026-12-10 # Betriebsversammlung",
        "2026-12-15..2026-12-16 # Maintenance of the data centre",
    ]
    assert found.losses == [
        ('days.ics, 5 "Order cake"', "not carried over: VTODO is no event"),
        (
            'days.ics, 3 "Maintenance of the data centre"',
            "it lasts 22:00 to 02:00, which became the whole day",
        ),
    ]


@pytest.mark.parametrize(
    ("start", "rule", "lines"),
    [
        ("20201225", "FREQ=YEARLY", ["yearly 12-25"]),
        ("20201225", "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25", ["yearly 12-25"]),
        ("20200229", "FREQ=YEARLY", ["yearly 02-29"]),
        ("20261126", "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", ["yearly 11-thu#4"]),
        ("20260525", "FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO", ["yearly 05-mon#L"]),
        ("20200104", "FREQ=WEEKLY;BYDAY=SA,SU", ["sat,sun"]),
        ("20200104", "FREQ=WEEKLY", ["sat"]),
    ],
)
def test_a_rule_without_end_becomes_a_line_that_names_the_same_days(
    start: str, rule: str, lines: list[str]
) -> None:
    found = of_event(f"DTSTART;VALUE=DATE:{start}", f"RRULE:{rule}")

    assert found.content.splitlines() == lines
    assert found.losses == []


def test_several_days_of_each_year_become_a_yearly_range() -> None:
    found = of_event(
        "DTSTART;VALUE=DATE:20241224", "DTEND;VALUE=DATE:20250107", "RRULE:FREQ=YEARLY"
    )

    assert found.content == "yearly 12-24..01-06\n"


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        # It begins only next year.
        (["DTSTART;VALUE=DATE:20271101", "RRULE:FREQ=YEARLY"], ["2027-11-01", "2028-11-01"]),
        # The range begins this year: its days in January are none yet.
        (
            ["DTSTART;VALUE=DATE:20261231", "DURATION:P2D", "RRULE:FREQ=YEARLY"],
            [f"{year}-12-31..{year + 1}-01-01" for year in (2026, 2027, 2028)],
        ),
        # A leap year's February has one day more.
        (
            ["DTSTART;VALUE=DATE:20260227", "DURATION:P3D", "RRULE:FREQ=YEARLY"],
            ["2026-02-27..2026-03-01", "2027-02-27..2027-03-01", "2028-02-27..2028-02-29"],
        ),
        # One is left out.
        (
            ["DTSTART;VALUE=DATE:20201225", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20271225"],
            ["2026-12-25", "2028-12-25"],
        ),
        (
            ["DTSTART;VALUE=DATE:20201225", "RRULE:FREQ=YEARLY;INTERVAL=2"],
            ["2026-12-25", "2028-12-25"],
        ),
        (
            ["DTSTART;VALUE=DATE:20281223", "RRULE:FREQ=WEEKLY;BYDAY=SA"],
            ["2028-12-23", "2028-12-30"],
        ),
        # Without BYMONTH it is that day of each month.
        (
            ["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=YEARLY;BYMONTHDAY=1"],
            [f"{year}-{month:02}-01" for year in (2026, 2027, 2028) for month in range(1, 13)],
        ),
        # The day after Thanksgiving is no nth weekday, and DTSTART the first occurrence.
        (
            ["DTSTART;VALUE=DATE:20261127", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"],
            ["2026-11-27", "2027-11-25", "2028-11-23"],
        ),
    ],
)
def test_what_no_line_says_exactly_is_counted_out_and_its_end_told(
    lines: list[str], days: list[str]
) -> None:
    found = imported(file_of("\n".join([*lines, "SUMMARY:It"])), years_ahead=2)

    assert found.content.splitlines() == [f"{day} # It" for day in days]
    assert found.losses == [
        ('days.ics, 1 "It"', "it goes on after 2028, which is not carried over")
    ]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;UNTIL=20400101", None),
    ],
)
def test_events_whose_rules_name_no_day_cost_little(rule: str, reason: str | None) -> None:
    """Each of them was once looked for in 64 years of days."""
    begin = process_time()
    found = imported(file_of(*[f"DTSTART;VALUE=DATE:20261201\nRRULE:{rule}"] * 5))

    assert process_time() - begin < 5
    assert all((reason or "") in loss.what for loss in found.losses)
    assert set(found.content.splitlines()) == (set() if reason else {"2026-12-01"})


def test_a_rule_that_ends_is_carried_over_whole() -> None:
    by_until = of_event(
        "DTSTART;TZID=America/New_York:20261102T000000",
        "DTEND;TZID=America/New_York:20261103T000000",
        "RRULE:FREQ=MONTHLY;BYDAY=1MO;UNTIL=20270201T050000Z",
        "EXDATE;TZID=America/New_York:20261207T000000",
    )
    by_count = of_event("DTSTART;VALUE=DATE:20261130", "RRULE:FREQ=DAILY;COUNT=3")

    assert by_until.content.splitlines() == ["2026-11-02", "2027-01-04", "2027-02-01"]
    assert by_count.content.splitlines() == ["2026-11-30", "2026-12-01", "2026-12-02"]
    assert by_until.losses == by_count.losses == []


def test_one_occurrence_that_is_moved_or_cancelled_replaces_the_ruled_one() -> None:
    series = (
        "UID:a\nDTSTART;VALUE=DATE:20261201\nRRULE:FREQ=WEEKLY;COUNT=4\nRDATE;VALUE=DATE:20261231"
    )
    moved = "UID:a\nRECURRENCE-ID;VALUE=DATE:20261208\nDTSTART;VALUE=DATE:20261209"
    gone = "UID:a\nRECURRENCE-ID;VALUE=DATE:20261222\nDTSTART;VALUE=DATE:20261222"

    found = imported(file_of(moved, series, f"{gone}\nSTATUS:CANCELLED"))

    assert found.content.splitlines() == ["2026-12-01", "2026-12-09", "2026-12-15", "2026-12-31"]


@pytest.mark.parametrize(
    ("timezone", "day"),
    [("UTC", "2026-12-24"), ("Asia/Tokyo", "2026-12-25"), (None, "2026-12-24")],
)
def test_an_event_in_utc_has_the_days_of_the_zone(timezone: str | None, day: str) -> None:
    found = imported(file_of("DTSTART:20261224T150000Z\nDTEND:20261224T160000Z"), timezone=timezone)

    assert found.content == f"{day}\n"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("SUMMARY:it", "it has no DTSTART"),
        ("SUMMARY:it\nDTSTART:20261301", "DTSTART can't be read"),
        (
            "SUMMARY:it\nDTSTART;VALUE=DATE:20261202\nDTEND;VALUE=DATE:20261201",
            "it ends before it begins",
        ),
        (
            "SUMMARY:it\nDTSTART:20261201T100000Z\nRRULE:FREQ=MINUTELY",
            '"FREQ=MINUTELY" is not valid in a recurrence rule; FREQ is one of YEARLY, MONTHLY,'
            " WEEKLY, DAILY, HOURLY; shorter periods are written as intervals",
        ),
        (
            "SUMMARY:it\nDTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20990101",
            "it lasts more than 3660 days",
        ),
        (
            "SUMMARY:it\nDTSTART;VALUE=DATE:16010101",
            "1601-01-01 is outside the calendar",
        ),
    ],
)
def test_an_event_that_can_not_be_is_told_and_the_others_are_taken(event: str, reason: str) -> None:
    found = imported(file_of(event, "SUMMARY:fine\nDTSTART;VALUE=DATE:20261206"))

    assert found.content == "2026-12-06 # fine\n"
    assert ('days.ics, 1 "it"', f"not carried over: {reason}") in found.losses


def test_a_title_can_not_begin_another_line() -> None:
    found = of_event(
        "DTSTART;VALUE=DATE:20261206", "SUMMARY:one\\nyearly 01-01\x1b[31m" + "x" * 900
    )

    (line,) = found.content.splitlines()
    assert line.startswith("2026-12-06 # one yearly 01-01 [31mxxx")
    assert len(line) < 256


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b"BEGIN:VEVENT\r\nEND:VEVENT\r\n"])
def test_a_file_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"days\.ics can't be read"):
        import_calendar(content, "days.ics", today=TODAY)


def test_a_file_has_bounds() -> None:
    with pytest.raises(TooLarge, match="is larger than 1048576 bytes"):
        import_calendar(b" " * (MOST_BYTES + 1), "days.ics", today=TODAY)
    many = "BEGIN:VEVENT\r\nEND:VEVENT\r\n" * (MOST_EVENTS + 1)
    with pytest.raises(TooLarge, match="has 10001 events"):
        import_calendar(many.encode(), "days.ics", today=TODAY)
    daily = "DTSTART;VALUE=DATE:20200101\nRRULE:FREQ=DAILY\nSUMMARY:"
    with pytest.raises(TooLarge, match="names days in more than 5000 lines"):
        imported(file_of(*(f"{daily}{number}" for number in range(3))))


def test_without_the_library_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['icalendar'] = None\n"
        "from datetime import date\n"
        "from pgcron_ha.errors import InvalidInput\n"
        "from pgcron_ha.schedule_files.calendar_import import import_calendar\n"
        "try: import_calendar(b'x', 'x', today=date(2026, 1, 1))\n"
        "except InvalidInput as error: print(error.hint)\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )

    assert run.stdout == 'install it: pip install "pgcron-ha[calendars]"\n', run.stderr
