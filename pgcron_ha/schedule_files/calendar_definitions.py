"""Calendars that files define: a name, and its lines as one text or a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from pgcron_ha.errors import InvalidCalendar, InvalidInput, PgcronError
from pgcron_ha.schedule_files.documents import Document
from pgcron_ha.spec.calendars.calendar import NAME, parts_of

CALENDARS: Final = "calendars"


@dataclass(frozen=True)
class CalendarDefinition:
    """One calendar as a file says it."""

    name: str
    content: str
    """A rule in each line, as `pgcron_ha.spec.calendars.calendar` reads them."""
    where: str
    """``file, line 3``."""


def calendar_definitions(
    document: Document, written: object, problems: list[PgcronError]
) -> Iterable[CalendarDefinition]:
    """Those of the table ``calendars`` of a document; what is wrong is told in ``problems``."""
    if not isinstance(written, dict):
        problems.append(
            InvalidInput(
                f"{document.where(CALENDARS)}: {CALENDARS!r} is no table",
                "It has names, and for each the lines of a calendar.",
                "Write for example calendars: {holidays: [yearly 12-25]}.",
            )
        )
        return
    for name, value in written.items():
        try:
            yield _definition(document, name, value)
        except PgcronError as error:
            problems.append(error)


def circle_of(definitions: Mapping[str, CalendarDefinition]) -> InvalidCalendar | None:
    """The refusal of calendars that contain themselves by one another, with the way."""
    parts = {name: parts_of(definition.content) for name, definition in definitions.items()}
    try:
        TopologicalSorter(parts).prepare()
    except CycleError as error:
        way: Sequence[str] = error.args[1][::-1]
        return InvalidCalendar(
            f"calendar {way[0]!r} contains itself: "
            + " > ".join(f"{name} ({definitions[name].where})" for name in way),
            "A calendar may name others, but not in a circle.",
            "Remove one of the `calendar` lines.",
        )
    return None


def _definition(document: Document, name: str, value: object) -> CalendarDefinition:
    where = document.where(CALENDARS, name)
    if not NAME.fullmatch(name):
        raise InvalidCalendar(
            f"{where}: {name[:100]!r} is not a name of a calendar",
            'A name has 1 to 100 letters, digits, "_", "." and "-", and begins with a letter or a'
            " digit.",
            "Write for example holidays.",
        )
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise InvalidCalendar(
            f"{where}: calendar {name!r} is no text, and no list of texts",
            "A calendar has a rule in each line.",
            'Write for example ["yearly 12-25 # Christmas Day", "sat,sun"].',
        )
    try:
        content = value.rstrip(" \t\r\n")
        parts_of(content)
    except PgcronError as error:
        raise type(error)(
            f"{where}: calendar {name!r}: {error.message}", error.detail, error.hint
        ) from error
    return CalendarDefinition(name, f"{content}\n", where)
