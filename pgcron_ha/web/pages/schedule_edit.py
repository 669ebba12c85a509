"""``/schedules/{name}/edit``: the definition as a form, with a look at the fires before saving.

It works without the script. Of two who edit at once the second is told what the first changed, and
keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.client.schedule_edits import (
    CHOICES,
    FIELDS,
    MOST_TEXT,
    changes_text,
    texts_of,
    typed_changes,
)
from pgcron_ha.db import schedule_versions as ask
from pgcron_ha.db.calendars import calendars_of
from pgcron_ha.db.overview import Row
from pgcron_ha.errors import InvalidInput, PgcronError, VersionConflict
from pgcron_ha.model.preview import Preview
from pgcron_ha.web.edit_contexts import Difference, EditField, EditView
from pgcron_ha.web.owners import owner_words
from pgcron_ha.web.pages.schedule import NoSuchSchedule
from pgcron_ha.web.visit import Visit

PREVIEWED: Final = 10
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
_FORM: Final = (*FIELDS, "version", "note", "do")
MOST_NOTE: Final = 500


async def show_edit(visit: Visit) -> Response:
    """The form as the schedule stands."""
    name = visit.segment("name")
    visit.query()
    snapshot = await visit.read(
        ("edit", name), lambda c: ask.written_schedule(c, name, schema=visit.schema)
    )
    row = snapshot.value
    if row is None:
        raise NoSuchSchedule(name, [("all schedules", visit.link("schedules"))])
    view = _view(row, texts_of(row), "", snapshot.now)
    return visit.page(
        "schedule_edit.html",
        view,
        snapshot,
        title=f"Edit {name}",
        section="schedules",
        is_still=True,
    )


async def save(visit: Visit) -> Response:
    """Saves it, and shows the schedule; with ``do=preview`` only shows when it would fire.

    What is wrong is told in the form, which keeps what was typed.
    """
    name = visit.segment("name")
    given = await visit.form(*_FORM, longest=MOST_TEXT, keep_empty=True)
    read = await visit.act(lambda c: ask.written_schedule(c, name, schema=visit.schema))
    if read is None:
        raise NoSuchSchedule(name, [("all schedules", visit.link("schedules"))])
    texts = {field: given[field] for field in FIELDS if field in given}
    version, note = _version(given, read), given.get("note", "")[:MOST_NOTE]
    now = datetime.now(UTC)
    view = _view(read, {**texts_of(read), **texts}, note, now, version)
    try:
        changes = typed_changes(name, read, texts)
        if "spec" in changes:
            spec = changes["spec"]
            found = await visit.act(lambda c: calendars_of(c, spec, schema=visit.schema))
            read = {**read, "calendars": found}
        view = replace(view, preview=_preview(read, changes, now))
        if given.get("do") == "preview":
            return _form_page(visit, view, 200)
        await visit.act(
            lambda c: ask.edit_schedule(
                c,
                name,
                changes_text(changes),
                expected_version=version,
                note=note or None,
                actor=visit.actor,
                door=visit.door,
                schema=visit.schema,
            )
        )
    except VersionConflict as conflict:
        return await _met_another(visit, name, version, texts, replace(view, error=conflict))
    except InvalidInput as error:
        return _form_page(visit, replace(view, error=error, preview=None), 400)
    return visit.redirect("schedule", {"done": "edited"}, name=name)


async def _met_another(
    visit: Visit, name: str, version: int, texts: Mapping[str, str], view: EditView
) -> Response:
    """The form again: what was typed here, and what the other has changed since it was opened."""

    async def read(connection: Any) -> tuple[Row | None, Row | None]:
        row = await ask.written_schedule(connection, name, schema=visit.schema)
        old = await ask.written_version(connection, name, version, schema=visit.schema)
        return row, old

    row, based_on = await visit.act(read)
    if row is None:
        raise NoSuchSchedule(name, [("all schedules", visit.link("schedules"))])
    now_texts = texts_of(row)
    before = now_texts if based_on is None else texts_of(based_on)
    mine = {field: texts.get(field, before[field]) for field in FIELDS}
    theirs = [
        Difference(field, before[field] or None, now_texts[field] or None, mine[field] or None)
        for field in FIELDS
        if before[field] != now_texts[field]
    ]
    merged = {
        field: now_texts[field] if _same(mine[field], before[field]) else mine[field]
        for field in FIELDS
    }
    again = _view(row, merged, view.note, view.previewed_at)
    ahead = _preview(row, _judged(name, row, merged), view.previewed_at)
    return _form_page(visit, replace(again, error=view.error, theirs=theirs, preview=ahead), 409)


def _judged(name: str, row: Row, texts: Mapping[str, str]) -> dict[str, Any]:
    """What the form changes, if the two edits go together; saving says it if not."""
    try:
        return typed_changes(name, row, texts)
    except InvalidInput:
        return {}


def _form_page(visit: Visit, view: EditView, status: int) -> Response:
    return visit.page(
        "schedule_edit.html",
        view,
        None,
        title=f"Edit {view.name}",
        section="schedules",
        status=status,
        is_still=True,
    )


def _view(
    row: Row,
    texts: Mapping[str, str],
    note: str,
    now: datetime,
    version: int | None = None,
) -> EditView:
    return EditView(
        name=row["name"],
        version=row["version"] if version is None else version,
        fields=[_field(field, texts[field]) for field in FIELDS],
        note=note,
        owner=owner_words(row["managed_by"]),
        preview=_preview(row, {}, now),
        previewed_at=now,
        error=None,
        theirs=(),
    )


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
        is_too_long=len(text) > MOST_TEXT,
    )


def _preview(row: Row, changes: Mapping[str, Any], now: datetime) -> Preview | None:
    """None when this process can't read the spec; saving says why."""
    defaults = {"timezone": "UTC", "dst": "vixie"}
    changed = {key: defaults.get(key) if value is None else value for key, value in changes.items()}
    try:
        return schedule_preview({**row, **changed}, now, PREVIEWED)
    except PgcronError:
        return None


def _version(given: Mapping[str, str], row: Row) -> int:
    """The version that the form was opened with."""
    text = given.get("version") or str(row["version"])
    if not text.isdecimal() or len(text) > len(str(2**31)) - 1:
        raise InvalidInput(
            f"'{text[:60]}' is not a version", "The form says which version it edits.", "Open it."
        )
    return int(text)


def _same(one: str, other: str) -> bool:
    return one.replace("\r\n", "\n").strip() == other.strip()
