"""Addresses of routes, and names as segments of them; reads addresses and forms, and the times that
people write there, and for a name that nothing has finds those that are like it.

Pages hold hundreds of links, so a link costs a look-up and no search.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote
from zoneinfo import ZoneInfo

from starlette.convertors import Convertor, IntegerConvertor, register_url_convertor

from pgcron_ha.client import checks
from pgcron_ha.config.values import attach, read_time
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.errors import InvalidInput, NotFound
from pgcron_ha.model.formats import offset
from pgcron_ha.spec.bounds import EARLIEST, LATEST

MOST_FIELDS: Final = 80
_NEAR: Final = 5


class Segment(Convertor[str]):
    """One segment of a path as a name: any characters, even ``/`` and quotes. No name in a database
    has a NUL character.
    """

    regex = "(?:(?!%00)[^/])+"

    def convert(self, value: str) -> str:
        """The name in a segment; `value` is still percent-encoded (see `security.Guard`)."""
        return unquote(value)


class Number(IntegerConvertor):
    """A segment that is the number of a row: no other text has a page."""

    regex = "[0-9]{1,18}"


register_url_convertor("segment", Segment())
register_url_convertor("number", Number())


def starlette_path(path: str) -> str:
    """``/runs/{id}`` as Starlette's router reads it: ids are numbers, all else is a `Segment`."""
    return path.replace("}", ":segment}").replace("{id:segment}", "{id:number}")


def singular(kind: str) -> str:
    """One of what a path begins with: ``schedule`` of ``/schedules/{name}``."""
    return "dead letter" if kind == "dead" else kind.removesuffix("s")


def filled(path: str, segments: Mapping[str, Any]) -> str:
    """The path of a route, such as ``/schedules/{name}``, with its segments: names or numbers."""
    return path.format_map({key: quote(str(value), safe="") for key, value in segments.items()})


class NoSuch(NotFound):
    """A name that nothing has; `near` are names and addresses that may have been meant."""

    def __init__(
        self, what: str, name: str, rule: str, near: Sequence[tuple[str, str]] = (), hint: str = ""
    ) -> None:
        hint = hint or f"Look for it in the list of {what}s."
        super().__init__(f"{what} '{name[:200]}' does not exist", rule, hint)
        self.near = near


def choice(given: str | None, known: tuple[str, ...], what: str) -> str | None:
    """`given` if it is one of the `known` words, None for None; else InvalidInput."""
    if given is None or given in known:
        return given
    rule = f"A {what} is one of {', '.join(known)}."
    raise _unknown(f"'{given[:100]}' is not a {what}", rule, given, known)


def label_filters(given: Mapping[str, str]) -> dict[str, Any]:
    """The ``owner`` and the ``tag`` of an address as statements take them."""
    return {"owner": given.get("owner"), "tags": (given["tag"],) if "tag" in given else None}


def cursor_instant(text: str | None, what: str) -> datetime | None:
    """Before which instant a page of a list begins; None for None, InvalidInput."""
    if text is None:
        return None
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    raise wrong_page(text, what, "A page begins before an instant, such as 2026-11-21T06:30:00Z.")


def first_of(rows: Sequence[Row], most: int, key: str) -> tuple[Sequence[Row], Any]:
    """The rows of a page, of which one more was read if there is another page, and what that one
    begins after: the `key` of the last row, or None.
    """
    return rows[:most], rows[most - 1][key] if len(rows) > most else None


def whole_cursor(text: str | None, most: int, what: str, rule: str) -> int | None:
    """The number after or before which a page of a list begins; None for None, InvalidInput."""
    number = whole_number(text, most)
    if text is not None and number is None:
        raise wrong_page(text, what, rule)
    return number


def wrong_page(text: str, what: str, rule: str) -> InvalidInput:
    """For a ``before`` that says no page of a list."""
    hint = "Leave 'before' out for the newest, and go on by the link below the list."
    return InvalidInput(f"'{text[:60]}' is not a page of {what}", rule, hint)


def whole_number(text: str | None, most: int) -> int | None:
    """A number of the address from 1 to `most`; None for what is none."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    return int(text) if 0 < int(text) <= most else None


def number_in(what: str, text: str, most: int) -> int:
    """A number of a form from 1 to `most`. InvalidInput for another, and for text that is none."""
    return checks.whole_number(what, whole_number(text, most) or text, 1, most)


def fields(text: str, known: Sequence[str], where: str, longest: int) -> dict[str, str]:
    """The values of an address's query or a form's body, with up to `longest` characters each.

    InvalidInput for a name that is not known, one that is given twice, a value that is too long or
    that no text of a database can be.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput(
            f"{where} can't be read", str(error), "Take the link from a page of this server."
        ) from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            message = f"{where} has an unknown field '{name[:100]}'"
            raise _unknown(message, f"Known here: {', '.join(known)}.", name, known)
        if name in found or len(value) > longest:
            raise InvalidInput(
                f"'{name}' is given twice or is too long",
                f"Each may be given once, with up to {longest} characters.",
                "Remove the others.",
            )
        if "\0" in value:
            raise InvalidInput(
                f"'{name}' has a NUL character",
                "No text in a PostgreSQL database has one, so nothing can be found by it.",
                "Remove it.",
            )
        found[name] = value
    return found


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """Those that may have been meant, the nearest first; else the first of the known ones."""
    return difflib.get_close_matches(name, known, n=_NEAR, cutoff=0.4) or list(known[:_NEAR])


def _unknown(message: str, rule: str, wrong: str, known: Sequence[str]) -> InvalidInput:
    near = difflib.get_close_matches(wrong[:100], known, n=1, cutoff=0.6)
    hint = f"Did you mean '{near[0]}'?" if near else "Leave it out."
    return InvalidInput(message, rule, hint)


def written_instant(text: str, zone: ZoneInfo, now: datetime, direction: int = -1) -> datetime:
    """In UTC, what `read_time` reads; without an offset it is wall time in `zone`. A duration is so
    long ago, or with direction 1 from now. InvalidInput.
    """
    with suppress(ValueError, OverflowError):
        found = read_time(text).at(now, zone, direction).astimezone(UTC)
        if EARLIEST <= found <= LATEST:
            return found
    raise _no_time(text, zone)


def written_end(text: str, zone: ZoneInfo, now: datetime) -> timedelta | datetime:
    """A duration from now, which the database adds to its clock, or an instant. InvalidInput."""
    with suppress(ValueError, OverflowError):
        if isinstance(value := read_time(text).value, timedelta):
            return value
    return written_instant(text, zone, now)


class Meant(NamedTuple):
    """An instant that a text may mean, and what the clock did then, if that needs saying."""

    instant: datetime
    note: str | None


def instants(text: str, zone: ZoneInfo, now: datetime) -> list[Meant]:
    """What ``2026-11-21 02:00``, ``02:00`` (the last one) or an instant with an offset mean.

    Without an offset it is wall time in `zone`: two instants when the clock was set back over it;
    the instant that the clock showed instead when it was set forward over it. InvalidInput for what
    is no time.
    """
    try:
        found = read_time(text).last_wall(now, zone)
        early, late = (attach(found.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1))
    except (ValueError, OverflowError):
        raise _no_time(text, zone) from None
    if not EARLIEST <= early <= LATEST:
        raise _no_time(text, zone)
    if early == late:
        return [Meant(early, None)]
    shown = f"{found:%Y-%m-%d %H:%M:%S}"
    if early.astimezone(zone).replace(tzinfo=None) != found:
        note = f"{shown} never was in {zone.key}: the clock was set forward over it. "
        instead = f"What would have been it was {early.astimezone(zone):%H:%M:%S}."
        return [Meant(early, note + instead)]
    said = f"{shown} was twice in {zone.key}; this is the"
    both = ((early, "first"), (late, "second"))
    return [Meant(at, f"{said} {word}, at UTC{offset(at.astimezone(zone))}.") for at, word in both]


def _no_time(text: str, zone: ZoneInfo) -> InvalidInput:
    return InvalidInput(
        f"'{text[:60]}' is not a time",
        f"A time is a date and time in {zone.key} or with its offset, a time of the day, or how"
        f" long ago (24h); in the years {EARLIEST.year} to {LATEST.year}.",
        "Write for example 2026-12-24 18:00, 18:30, yesterday 03:00 or 2026-12-24T18:00:00Z.",
    )
