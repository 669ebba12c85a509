"""``/schedules/{name}/edit``: the definition as a form, with a look at the fires before saving.

It works without the script. Of two who edit at once the second sees what the first changed, and
keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.schedule_edits import FIELDS, changes_text, texts_of, typed_changes
from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import InvalidInput, VersionConflict
from pgcron_ha.web.page_request import INTERFACE, PageRequest
from pgcron_ha.web.pages.schedule import no_such_schedule, owner_words
from pgcron_ha.web.pages.schedule_form import (
    LONGEST_SENT,
    blame,
    definition_form,
    form_page,
    judged,
    look_if_readable,
    offered_for,
)
from pgcron_ha.web.pages.schedule_versions import Difference, version_number
from pgcron_ha.web.reading import Snapshot

_FORM: Final = (*FIELDS, "version", "note", "do")
MOST_NOTE: Final = 500


async def show_edit(page_request: PageRequest) -> Response:
    """The form with the current definition."""
    name = page_request.segment("name")
    page_request.query()

    snapshot = await page_request.read(("edit", name), _read, name, {})
    row, served = snapshot.value
    if row is None:
        raise no_such_schedule(page_request, name)
    view = _view(row, texts_of(row), served, "", snapshot.now)
    return _form_page(page_request, view, 200, snapshot)


async def save(page_request: PageRequest) -> Response:
    """Saves it, and shows the schedule; with ``do=preview`` only shows when it would fire.

    Errors are shown in the form, which keeps what was typed.
    """
    name = page_request.segment("name")
    given = await page_request.form(*_FORM, longest=LONGEST_SENT, keep_empty=True)
    texts = {field: given[field] for field in FIELDS if field in given}

    row, served = await page_request.act(
        lambda c: _read(c, name, texts, schema=page_request.schema)
    )
    if row is None:
        raise no_such_schedule(page_request, name)
    version = version_number(given.get("version") or None) or row["version"]
    note = given.get("note", "")[:MOST_NOTE]
    now = datetime.now(UTC)
    view = _view(row, {**texts_of(row), **texts}, served, note, now, version)
    try:
        changes, preview = await judged(page_request, name, row, texts, now)
        if given.get("do") == "preview":
            form = replace(view["form"], preview=preview)
            return _form_page(page_request, {**view, "form": form}, 200)
        await page_request.do(
            ask.edit_schedule,
            name,
            changes_text(changes),
            expected_version=version,
            note=note or None,
            interface=INTERFACE,
        )
    except VersionConflict as conflict:
        return await _met_another(page_request, name, version, texts, view, conflict)
    except InvalidInput as error:
        form = blame(view["form"], error, row, texts)
        return _form_page(page_request, {**view, "form": form}, 400)
    return page_request.redirect("schedule", {"done": "edited"}, name=name)


async def _met_another(
    page_request: PageRequest,
    name: str,
    version: int,
    texts: Mapping[str, str],
    view: dict[str, Any],
    conflict: VersionConflict,
) -> Response:
    """The form again: what was typed here, and what the other has changed since it was opened."""

    async def read(connection: Any) -> tuple[Row | None, Row, Row | None]:
        schema = page_request.schema
        old = await ask.written_version(connection, name, version, schema=schema)
        return *await _read(connection, name, {}, schema=schema), old

    row, served, based_on = await page_request.act(read)
    if row is None:
        raise no_such_schedule(page_request, name)
    now_texts = texts_of(row)
    before = now_texts if based_on is None else texts_of(based_on)
    mine = {field: texts.get(field, before[field]) for field in FIELDS}
    theirs = tuple(
        Difference(field, before[field] or None, now_texts[field] or None, mine[field] or None)
        for field in FIELDS
        if before[field] != now_texts[field]
    )
    merged = {
        field: now_texts[field] if _same(mine[field], before[field]) else mine[field]
        for field in FIELDS
    }
    now = datetime.now(UTC)
    again = _view(row, merged, served, view["note"], now)
    ahead = look_if_readable(row, _judged(name, row, merged), now)
    form = replace(again["form"], error=conflict, preview=ahead)
    return _form_page(page_request, {**again, "form": form, "theirs": theirs}, 409)


def _judged(name: str, row: Row, texts: Mapping[str, str]) -> dict[str, Any]:
    """What the form changes, if the two edits go together; saving says it if not."""
    try:
        return typed_changes(name, row, texts)
    except InvalidInput:
        return {}


def _form_page(
    page_request: PageRequest,
    view: dict[str, Any],
    status: int,
    snapshot: Snapshot[Any] | None = None,
) -> Response:
    title = f"Edit {view['name']}"
    return form_page(page_request, "schedule_edit.html", view, title, status, snapshot)


async def _read(
    connection: Any, name: str, typed: Mapping[str, str], *, schema: str
) -> tuple[Row | None, Row]:
    """The schedule, and what `offered_for` says of it with what was typed."""
    row = await ask.written_schedule(connection, name, schema=schema)
    if row is None:
        return None, {}
    return row, await offered_for(connection, {**texts_of(row), **typed}, schema)


def _view(
    row: Row,
    texts: Mapping[str, str],
    served: Row,
    note: str,
    now: datetime,
    version: int | None = None,
) -> dict[str, Any]:
    return {
        "name": row["name"],
        # The one that is edited: another one at saving is another editor's.
        "version": row["version"] if version is None else version,
        "form": definition_form(texts, served, look_if_readable(row, {}, now), is_unfolded=True),
        "note": note,
        "owner": owner_words(row["managed_by"]),
        "theirs": (),  # what somebody else has changed since the form was opened
    }


def _same(one: str, other: str) -> bool:
    return one.replace("\r\n", "\n").strip() == other.strip()
