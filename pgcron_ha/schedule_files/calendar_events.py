"""The events of an iCalendar file (RFC 5545), as wall times of their own zones.

The library `icalendar` reads them; it comes with the extra ``calendars`` and is loaded here alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

from pgcron_ha.errors import InvalidInput, TooLarge, UnknownZone
from pgcron_ha.model.zones import load_zone
from pgcron_ha.schedule_files.imported import Loss

if TYPE_CHECKING:
    from icalendar import Component

MOST_BYTES: Final = 1_048_576
MOST_EVENTS: Final = 10_000
# What a list or a page can show of a title.
MOST_OF_NOTE: Final = 200
_DAY: Final = timedelta(days=1)
_EVENT: Final = re.compile(rb"^[ \t]*BEGIN:VEVENT[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Event:
    """An event that is not cancelled."""

    where: str
    """The file, its place there and its title, for people."""
    note: str
    """Its title in one line; may be empty."""
    start: datetime
    """Naive: wall time of its zone (UTC for one that is written in UTC)."""
    length: timedelta
    rule: str | None = None
    """Its RRULE without UNTIL."""
    until: datetime | None = None
    """The last wall time of its rule."""
    dates: tuple[datetime, ...] = ()
    """Further beginnings (RDATE)."""
    excluded: frozenset[date] = frozenset()
    """Days on which it would begin, but does not: EXDATE, and those that other events replace."""
    shown_in: tzinfo | None = None
    """The zone whose days count, if it is written in UTC."""
    identity: str = ""

    def days(self, start: datetime) -> tuple[date, date]:
        """The first and last day of the occurrence that begins then."""
        end = start + self.length
        if self.shown_in is not None:
            start, end = (
                wall.replace(tzinfo=UTC).astimezone(self.shown_in).replace(tzinfo=None)
                for wall in (start, end)
            )
        last = end.date() - _DAY if end.time() == time() else end.date()
        return start.date(), max(start.date(), last)

    @property
    def hours(self) -> str | None:
        """Of an event that is not whole days: from when to when; else None."""
        zone = self.shown_in
        begin, end = self.start, self.start + self.length
        if zone is not None:
            begin, end = (wall.replace(tzinfo=UTC).astimezone(zone) for wall in (begin, end))
        if self.length and begin.time() == time() == end.time():
            return None
        return f"{begin:%H:%M} to {end:%H:%M}" if self.length else f"{begin:%H:%M}"


class _Refused(Exception):
    """Why an event is not carried over."""


def read_events(
    content: bytes, name: str, timezone: str | None
) -> tuple[list[Event], list[Loss], int]:
    """The events, what is lost of the file, and how many events it has; ``timezone`` has the days
    of events in UTC, else the file's X-WR-TIMEZONE, else UTC. Raises `InvalidInput`, `TooLarge`.
    """
    if len(content) > MOST_BYTES:
        raise TooLarge(
            f"{name} is larger than {MOST_BYTES} bytes",
            "a calendar is imported whole",
            "export a shorter time, or import it as several calendars",
        )
    count = len(_EVENT.findall(content))
    if count > MOST_EVENTS:
        raise TooLarge(f"{name} has {count} events", f"at most {MOST_EVENTS} are imported")
    events: list[Event] = []
    losses: list[Loss] = []
    replaced: dict[str, set[date]] = {}
    for calendar in _parsed(content, name):
        zone = _zone(calendar, timezone)
        for number, part in enumerate(calendar.subcomponents, start=1):
            title = _note(part.get("SUMMARY"))
            where = f"{name}, {number}" + (f' "{title}"' if title else "")
            if part.name == "VEVENT":
                try:
                    events += _taken(part, where, title, zone, replaced, losses)
                except _Refused as reason:
                    losses.append(Loss(where, f"not carried over: {reason}"))
            elif part.name != "VTIMEZONE":
                losses.append(Loss(where, f"not carried over: {part.name} is no event"))
    return [_without(event, replaced) for event in events], losses, count


def _parsed(content: bytes, name: str) -> list[Component]:
    try:
        from icalendar import Calendar
    except ImportError:
        raise InvalidInput(
            "the library icalendar is not installed",
            "calendars of appointments (.ics) are read with it",
            'install it: pip install "pgcron-ha[calendars]"',
        ) from None
    try:
        text = content.decode("utf-8-sig")
        found: list[Component] = list(Calendar.from_ical(text, multiple=True))
        if not found or any(calendar.name != "VCALENDAR" for calendar in found):
            raise ValueError("it has no VCALENDAR")
    # The library says so in many ways, RecursionError and KeyError among them.
    except Exception as error:
        raise InvalidInput(
            f"{name} can't be read",
            f"it is no iCalendar file (RFC 5545) in UTF-8: {_note(error)}",
            "export it again from the program that keeps the calendar",
        ) from None
    return found


def _zone(calendar: Component, timezone: str | None) -> tzinfo:
    if timezone is not None:
        return load_zone(timezone)
    try:
        return load_zone(str(calendar.get("X-WR-TIMEZONE", "UTC")))
    except UnknownZone:
        return load_zone("UTC")


def _taken(
    part: Component,
    where: str,
    title: str,
    shown_in: tzinfo,
    replaced: dict[str, set[date]],
    losses: list[Loss],
) -> Iterator[Event]:
    broken = [str(name) for name, _ in part.errors]
    if broken:
        raise _Refused(f"{', '.join(broken)[:100]} can't be read")
    written = _one(part, "DTSTART")
    if written is None:
        raise _Refused("it has no DTSTART")
    identity = str(part.get("UID", ""))
    zone = written.tzinfo if isinstance(written, datetime) else None
    replaces = _one(part, "RECURRENCE-ID")
    if replaces is not None:
        replaced.setdefault(identity, set()).add(_wall(replaces, zone).date())
        if part["RECURRENCE-ID"].params.get("RANGE"):
            losses.append(Loss(where, "it replaces one occurrence; RANGE is not carried over"))
    if str(part.get("STATUS", "")).strip().upper() == "CANCELLED":
        raise _Refused("it is cancelled")
    if "EXRULE" in part:
        raise _Refused("EXRULE is no part of RFC 5545 any more")
    start = _wall(written, zone)
    rule, until = _rule(part, zone)
    is_utc = zone is not None and str(zone).upper() in ("UTC", "ETC/UTC", "GMT")
    yield Event(
        where=where,
        note=title,
        start=start,
        length=_length(part, written, start, zone),
        rule=rule,
        until=until,
        dates=tuple(_wall(value, zone) for value in _values(part, "RDATE")),
        excluded=frozenset(_wall(value, zone).date() for value in _values(part, "EXDATE")),
        shown_in=shown_in if is_utc else None,
        identity="" if replaces is not None else identity,
    )


def _length(part: Component, written: date, start: datetime, zone: tzinfo | None) -> timedelta:
    end, lasts = _one(part, "DTEND"), _one(part, "DURATION")
    least = timedelta() if isinstance(written, datetime) else _DAY
    length = least
    if end is not None:
        length = _wall(end, zone) - start
    elif lasts is not None:
        length = lasts
    if length < timedelta():
        raise _Refused("it ends before it begins")
    return max(length, least)


def _rule(part: Component, zone: tzinfo | None) -> tuple[str | None, datetime | None]:
    written = part.get("RRULE")
    if written is None:
        return None, None
    if isinstance(written, list):
        raise _Refused("it has more than one RRULE")
    parts = dict(written)
    until = next(iter(parts.pop("UNTIL", [])), None)
    rule = ";".join(
        item
        for item in written.to_ical().decode().split(";")
        if not item.upper().startswith("UNTIL=")
    )
    if until is None:
        return rule, None
    last = _wall(until, zone)
    return rule, last if isinstance(until, datetime) else last + _DAY - timedelta(seconds=1)


def _one(part: Component, name: str) -> Any:
    value = part.get(name)
    if isinstance(value, list):
        raise _Refused(f"it has more than one {name}")
    return None if value is None else value.dt


def _values(part: Component, name: str) -> Iterator[date]:
    found = part.get(name, [])
    for each in found if isinstance(found, list) else [found]:
        for value in each.dts:
            # A period is its beginning here: the length is that of the event.
            yield value.dt[0] if isinstance(value.dt, tuple) else value.dt


def _wall(value: date, zone: tzinfo | None) -> datetime:
    """In the zone of the event; a day begins at midnight."""
    if not isinstance(value, datetime):
        return datetime.combine(value, time())
    if value.tzinfo is not None and zone is not None:
        value = value.astimezone(zone)
    return value.replace(tzinfo=None, microsecond=0)


def _without(event: Event, replaced: dict[str, set[date]]) -> Event:
    others = replaced.get(event.identity) if event.identity else None
    return replace(event, excluded=event.excluded | others) if others else event


def _note(text: object) -> str:
    """In one line that a terminal and a page can show."""
    if isinstance(text, list):
        text = text[0]
    kept = "".join(c if c.isprintable() else " " for c in str("" if text is None else text))
    return " ".join(kept.split())[:MOST_OF_NOTE].rstrip()
