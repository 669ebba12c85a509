"""What the forms share that make a schedule and edit one: their fields, what is wrong with one of
them, and when the schedule would fire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.previews import not_offered, schedule_preview
from pgcron_ha.client.schedule_edits import (
    CHOICES,
    FIELDS,
    MOST_TEXT,
    NEW_SCHEDULE,
    typed_changes,
    wrong_field,
)
from pgcron_ha.db.commands.calendars import calendars_of
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.preview import Preview
from pgcron_ha.spec.zones import zone_names
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.reading import Snapshot

PREVIEWED: Final = 10
_MOST_LINE: Final = 1000
"""Characters of a field of one line."""
# A browser sends a line's end as two characters.
LONGEST_SENT: Final = 2 * MOST_TEXT
FIRST: Final = ("spec", "timezone", "dst", "handler", "queue", "args")
"""The fields that are seen first: when and what."""
_LONG: Final = frozenset({"spec", "args", "retry"})
_LABELS: Final = {
    "timezone": "Time zone",
    "dst": "DST policy",
    "args": "Args (JSON)",
    "catchup": "Catch-up",
    "catchup_window": "Catch-up window",
    "retry": "Retry policy (JSON)",
    "requires": "Requires labels",
}
_EXAMPLES: Final = {
    "spec": "A line each: 0 3 * * * · every 90m · at 2026-12-24T18:00 · rrule FREQ=…"
    " · not 2026-12-24..2027-01-01 · not in holidays",
    "args": 'An object, such as {"day": 1}',
    "catchup": "latest, latest 3, all or none",
    "start_deadline": "such as 10m",
    "probe_after": "such as 30m",
    "give_up_after": "such as 1d",
    "silence_timeout": "such as 90s",
    "retry": 'Such as {"backoff": "linear", "retry_for": "2h"}',
    "requires": "such as gpu, disk=ssd",
    "jitter": "such as 5m",
    "priority": "0 is first, 9 last",
}


@dataclass(frozen=True)
class EditField:
    """One field of the form."""

    name: str
    label: str
    text: str
    """Its value."""
    choices: Sequence[str]
    """The words it may have; none: any text."""
    is_long: bool
    most: int
    """Characters that it may have."""
    example: str
    """An example, if the syntax is not obvious."""
    problem: PgcronError | None = None
    """What is wrong with it."""


@dataclass(frozen=True)
class DefinitionForm:
    """``_definition.html``: what a schedule says, as fields, and when it would fire."""

    fields: Sequence[EditField]
    """When and what."""
    more: Sequence[EditField]
    """All the rest."""
    is_unfolded: bool
    """Whether the rest is shown at once."""
    preview: Preview | None
    """None: its spec can't be read."""
    warnings: Sequence[str]
    error: PgcronError | None
    """Why it was not saved."""
    known: Mapping[str, Sequence[str]]
    """What a field may be, by its name; others may be typed."""

    @property
    def wrong(self) -> EditField | None:
        """The field that is to blame for `error`, if it is one."""
        return next((one for one in (*self.fields, *self.more) if one.problem), None)


def form_page(
    page_request: PageRequest,
    template: str,
    view: dict[str, Any],
    title: str,
    status: int = 200,
    snapshot: Snapshot[Any] | None = None,
) -> Response:
    """A page with a form, which stays as it is while somebody types."""
    frame: dict[str, Any] = {"title": title, "section": "schedules", "status": status}
    return page_request.page(template, snapshot, **frame, is_still=True, **view)


def definition_form(
    texts: Mapping[str, str], offered: Row, preview: Preview | None, *, is_unfolded: bool
) -> DefinitionForm:
    """The form with these texts; `offered` of `offered_for`."""
    fields = {name: _field(name, texts[name]) for name in FIELDS}
    return DefinitionForm(
        fields=[fields[name] for name in FIRST],
        more=[one for name, one in fields.items() if name not in FIRST],
        is_unfolded=is_unfolded,
        preview=preview,
        warnings=_warnings(texts, offered),
        error=None,
        known={
            "timezone": sorted(zone_names()),
            "handler": offered["handlers"],
            "queue": offered["queues"],
        },
    )


def look_ahead(row: Mapping[str, Any], changes: Mapping[str, Any], now: datetime) -> Preview:
    """When the row fires once it is changed so. Raises as `schedule_preview`."""
    changed = {
        key: NEW_SCHEDULE.get(key) if value is None else value for key, value in changes.items()
    }
    return schedule_preview({**row, **changed}, now, PREVIEWED)


def look_if_readable(
    row: Mapping[str, Any], changes: Mapping[str, Any], now: datetime
) -> Preview | None:
    """None when this process can't read the spec; saving says why."""
    try:
        return look_ahead(row, changes, now)
    except PgcronError:
        return None


async def judged(
    page_request: PageRequest, name: str, row: Row, texts: Mapping[str, str], now: datetime
) -> tuple[dict[str, Any], Preview | None]:
    """What the texts change of the row, and when it fires then. InvalidInput."""
    changes = typed_changes(name, row, texts)
    if changes.keys().isdisjoint(("spec", "timezone", "dst")):
        return changes, look_if_readable(row, changes, now)
    spec = str(changes.get("spec", row["spec"]))
    found = await page_request.act(lambda c: calendars_of(c, spec, schema=page_request.schema))
    return changes, look_ahead({**row, "calendars": found}, changes, now)


def blame(
    form: DefinitionForm, error: InvalidInput, row: Row, texts: Mapping[str, str]
) -> DefinitionForm:
    """The form, with the error beside the field that is wrong, if it is one."""
    wrong = wrong_field(row, texts, error)

    def reported(fields: Sequence[EditField]) -> list[EditField]:
        return [replace(one, problem=error) if one.name == wrong else one for one in fields]

    more = reported(form.more)
    return replace(
        form,
        fields=reported(form.fields),
        more=more,
        is_unfolded=form.is_unfolded or any(one.problem for one in more),
        preview=None,
        error=error,
    )


async def offered_for(connection: Any, texts: Mapping[str, str], schema: str) -> Row:
    """What living nodes take, and whether they take what the texts say."""
    handler, queue = _placed(texts)
    labels = texts["requires"].replace(",", " ").split()
    return await ask.offered(connection, handler, queue, labels or None, schema=schema)


def _placed(texts: Mapping[str, str]) -> tuple[str, str]:
    """The handler and the queue."""
    return texts["handler"].strip(), texts["queue"].strip() or NEW_SCHEDULE["queue"]


def _warnings(texts: Mapping[str, str], offered: Row) -> tuple[str, ...]:
    handler, queue = _placed(texts)
    reported = not_offered(handler, queue, offered) if handler else None
    return () if reported is None else (reported,)


def _field(name: str, text: str) -> EditField:
    known = CHOICES.get(name, ())
    # A word that another version knows must not be lost by opening the form; none is the default.
    choices = [text, *(word for word in known if word != text)] if known else []
    return EditField(
        name=name,
        label=_LABELS.get(name, name.replace("_", " ").capitalize()),
        text=text,
        choices=choices,
        is_long=name in _LONG,
        most=MOST_TEXT if name in _LONG else _MOST_LINE,
        example=_EXAMPLES.get(name, ""),
    )
