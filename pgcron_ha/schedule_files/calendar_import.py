"""A calendar of appointments (.ics) as the text of a calendar: its lines name whole days.

An event that is the same in each year becomes a ``yearly`` line if that says exactly the same from
this year on, an endless weekly one its days of the week; other rules are counted out, from this
year until some years ahead. The title of an event is the note beside its days.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from pgcron_ha.errors import InvalidInput, InvalidSpec, TooLarge
from pgcron_ha.model.calendar_bounds import EARLIEST, LATEST
from pgcron_ha.model.calendars import MOST_CHARACTERS, MOST_DAYS_OF_RANGE, MOST_LINES
from pgcron_ha.model.cron import DstPolicy
from pgcron_ha.model.recurrence import RecurrenceRule, read_recurrence
from pgcron_ha.model.recurrence_parts import DAYS, Parts, read_parts
from pgcron_ha.schedule_files.calendar_events import Event, read_events
from pgcron_ha.schedule_files.imported import Loss

YEARS_AHEAD: Final = 5
MOST_YEARS_AHEAD: Final = 50
# Whether a rule goes on afterwards is told; a February 29 is at most 8 years away.
_YEARS_SEEN_AFTER: Final = 8
_DAY: Final = timedelta(days=1)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PLAIN_YEARLY: Final = {"FREQ", "INTERVAL", "WKST", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS"}


class ImportedCalendar(NamedTuple):
    """The outcome of one import."""

    content: str
    """Lines as a calendar has them."""
    carried_over: int
    """How many events stand in it."""
    losses: list[Loss]
    """What is not carried over, or not as it was, and why; in the order of the file."""


class _Line(NamedTuple):
    order: tuple[int, str]
    text: str
    note: str


def import_calendar(
    content: bytes,
    name: str,
    *,
    today: date,
    timezone: str | None = None,
    years_ahead: int = YEARS_AHEAD,
) -> ImportedCalendar:
    """What the file ``name`` has. Events in UTC have the days of ``timezone`` (without it those of
    the zone that the file names, or UTC); others those of their own zones. Raises `InvalidInput`
    for a file that can't be read, `TooLarge` for one that has too much.
    """
    if not 0 <= years_ahead <= MOST_YEARS_AHEAD:
        raise InvalidInput(f'"{years_ahead}" years ahead', f"it is from 0 to {MOST_YEARS_AHEAD}")
    since = date(today.year, 1, 1)
    until = date(today.year + years_ahead, 12, 31)
    events, losses, _ = read_events(content, name, timezone)
    lines: dict[_Line, None] = {}
    carried_over = 0
    for event in events:
        try:
            found = list(_lines(event, since, until, losses))
        except InvalidSpec as error:
            reason = "; ".join(text for text in (error.message, error.detail) if text)
            losses.append(Loss(event.where, f"not carried over: {reason}"))
            continue
        lines |= dict.fromkeys(found)
        carried_over += 1 if found else 0
        if len(lines) > MOST_LINES:
            raise _too_large(f"{name} names days in more than {MOST_LINES} lines")
    texts = [_written(line) for line in sorted(lines, key=lambda line: line.order)]
    written = "".join(f"{text}\n" for text in texts)
    if len(written.encode()) > MOST_CHARACTERS:
        raise _too_large(f"the days of {name} have more than {MOST_CHARACTERS} bytes")
    return ImportedCalendar(written, carried_over, losses)


def _too_large(fact: str) -> TooLarge:
    return TooLarge(
        fact, "a calendar has no more", "import fewer years ahead, or a part of the file"
    )


def _written(line: _Line) -> str:
    return f"{line.text} # {line.note}" if line.note else line.text


def _lines(event: Event, since: date, until: date, losses: list[Loss]) -> Iterator[_Line]:
    first, last = event.days(event.start)
    if last - first > timedelta(days=MOST_DAYS_OF_RANGE):
        losses.append(
            Loss(event.where, f"not carried over: it lasts more than {MOST_DAYS_OF_RANGE} days")
        )
        return
    if event.hours is not None:
        losses.append(
            Loss(event.where, f"it lasts {event.hours}, which became the whole day")
            if event.length
            else Loss(event.where, f"it is at {event.hours}, which became the whole day")
        )
    yearly = _as_rule(event, since)
    if yearly:
        yield from (_Line((0, text), text, event.note) for text in yearly)
        starts = list(event.dates)
    else:
        starts = sorted({*_starts(event, since, until, losses), *event.dates})
    for start in starts:
        if start.date() not in event.excluded:
            yield from _dates(event, start, losses)


def _dates(event: Event, start: datetime, losses: list[Loss]) -> Iterator[_Line]:
    first, last = event.days(start)
    if first < EARLIEST.date() or last >= LATEST.date():
        losses.append(Loss(event.where, f"not carried over: {first} is outside the calendar"))
        return
    text = f"{first}" if first == last else f"{first}..{last}"
    yield _Line((1, text), text, event.note)


def _starts(event: Event, since: date, until: date, losses: list[Loss]) -> Iterator[datetime]:
    """The beginnings of its occurrences: all if they have no rule, else those that reach into the
    time from ``since`` to ``until``.
    """
    if event.rule is None:
        yield event.start
        return
    rule = _counted(event, until)
    begin = datetime.combine(since, time()) - event.length
    end = datetime.combine(until + _DAY, time())
    if event.start >= begin:
        yield event.start  # the first occurrence, even one that the rule does not name
    fire = rule.next(max(begin, event.start - _DAY).replace(tzinfo=UTC) - timedelta(seconds=1))
    while fire is not None:
        wall = fire.replace(tzinfo=None)
        if event.until is not None and wall > event.until:
            return
        if wall >= end:
            losses.append(
                Loss(event.where, f"it goes on after {until.year}, which is not carried over")
            )
            return
        yield wall
        # Days are named once, however many hours of them the rule has.
        fire = rule.next(datetime.combine(wall, time(23, 59, 59), UTC))


def _counted(event: Event, until: date) -> RecurrenceRule:
    """Its rule, so far ahead as anybody asks."""
    words = ["rrule", event.rule or "", "from", f"{event.start:%Y-%m-%dT%H:%M:%S}"]
    rule = read_recurrence(words, "UTC", DstPolicy.VIXIE, must_fire=False)
    last = datetime(until.year + _YEARS_SEEN_AFTER, 12, 31, tzinfo=UTC)
    return replace(rule, last=min(rule.last, last))


def _as_rule(event: Event, since: date) -> list[str]:
    """The lines that name the same days from ``since`` on; none if no such lines do."""
    if event.rule is None or event.until is not None or event.shown_in is not None:
        return []
    if any(day >= since - event.length for day in event.excluded):
        return []
    parts = read_parts(event.rule)
    if parts.texts.get("INTERVAL", "1") != "1" or not set(parts.texts) <= _PLAIN_YEARLY:
        return []
    first, last = event.days(event.start)
    if parts.texts["FREQ"] == "WEEKLY" and first == last:
        return _weekly(parts, first, since)
    # Before its first occurrence the lines must name nothing, nor what began in the year before.
    if parts.texts["FREQ"] == "YEARLY" and last.year <= since.year:
        if "BYDAY" in parts:
            return _nth_weekdays(parts, first) if first == last else []
        return _yearly(parts, first, last)
    return []


def _weekly(parts: Parts, first: date, since: date) -> list[str]:
    if set(parts.texts) - {"FREQ", "INTERVAL", "WKST", "BYDAY"}:
        return []
    named = [DAYS.index(day) for _, day in parts.days] or [first.weekday()]
    missed = [since + _DAY * number for number in range(min(7, (first - since).days))]
    if first.weekday() not in named or any(day.weekday() in named for day in missed):
        return []  # it begins after days that the line would name
    return [",".join(_WEEKDAYS[number] for number in sorted(set(named)))]


def _yearly(parts: Parts, first: date, last: date) -> list[str]:
    months = parts.numbers.get("BYMONTH", (first.month,))
    days = parts.numbers.get("BYMONTHDAY", (first.day,))
    if months != (first.month,) or days != (first.day,) or "BYSETPOS" in parts:
        return []
    if "BYMONTHDAY" in parts and "BYMONTH" not in parts:
        return []  # that day of each month
    if first == last:
        return [f"yearly {first:%m-%d}"]
    months_between = {(first + _DAY * number).month for number in range((last - first).days + 1)}
    if {2, 3} <= months_between or (last.month, last.day) in ((2, 28), (2, 29)):
        return []  # it has another last day in leap years
    if last - first >= timedelta(days=364):
        return []
    return [f"yearly {first:%m-%d}..{last:%m-%d}"]


def _nth_weekdays(parts: Parts, first: date) -> list[str]:
    """The fourth Thursday of November, also as Outlook writes it: with BYSETPOS."""
    if "BYMONTHDAY" in parts or parts.numbers.get("BYMONTH") != (first.month,):
        return []
    if len(parts.days) != 1:
        return []
    (place, day), positions = parts.days[0], parts.numbers.get("BYSETPOS", ())
    if positions:
        place = positions[0] if place == 0 and len(positions) == 1 else 0
    week = (first.day - 1) // 7 + 1
    is_last = (first + 7 * _DAY).month != first.month
    if first.weekday() != DAYS.index(day) or not (place == week or (place == -1 and is_last)):
        return []  # its first occurrence is not one of its rule
    ending = "L" if place == -1 else str(place)
    return [f"yearly {first:%m}-{_WEEKDAYS[first.weekday()]}#{ending}"]
