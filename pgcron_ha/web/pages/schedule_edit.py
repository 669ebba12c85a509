"""``/new-schedule`` and ``/schedules/{name}/edit``: a definition as a form, with a look at the
fires before it is saved; ``/schedules/{name}/versions``: what it was, who changed it, the way back.

The form works without the script. A new schedule overwrites none; of two who edit one at once the
second sees what the first changed, and keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client.schedule_edits import (
    FIELDS,
    NEW_SCHEDULE,
    changes_text,
    texts_of,
    typed_changes,
)
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import InvalidInput, VersionConflict
from pgcron_ha.model.differences import of_versions
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.web.address import first_of, whole_cursor
from pgcron_ha.web.failures import IN_FORM, status_in_form
from pgcron_ha.web.page_request import INTERFACE, PageRequest
from pgcron_ha.web.pages.schedule_form import DefinitionForm, judged, look_ahead, offered_for
from pgcron_ha.web.reading import Snapshot
from pgcron_ha.web.verbs import Field, verb

_SPREAD_NOTE: Final = (
    "Where ~ spreads it, its time is chosen when it is made: those shown here are an example."
)
PAGE_ROWS: Final = 25
_MOST_VERSION: Final = 2**31 - 1


async def show_new(page_request: PageRequest) -> Response:
    """The empty form; with ``?copy=`` the form with that schedule's definition."""
    copied = page_request.query("copy").get("copy")
    snapshot = await page_request.gather("new", _read_new, copied)
    texts, served = snapshot.value
    form = DefinitionForm(texts, served, name="")
    form.copied = copied or ""
    return _page(page_request, form, snapshot=snapshot)


async def create(page_request: PageRequest) -> Response:
    """Makes it, and shows it; with ``do=preview`` only shows when it would fire.

    Errors are shown in the form, which keeps what was typed.
    """
    given = await page_request.form("name", "state", *FIELDS, "do", keep_empty=True)
    name = given.get("name", "").strip()
    is_paused = given.get("state") == "paused"
    now = await page_request.now()
    row = {
        **NEW_SCHEDULE,
        "managed_by": INTERFACE,
        "enabled": not is_paused,
        "uuid": EXAMPLE_SEED,
        "calendars": None,
        "watermark": now,
        "runs_made": 0,
    }
    texts = {**texts_of(row), **_typed(given)}
    served = await page_request.act(lambda session: offered_for(session, texts))
    form = DefinitionForm(texts, served, name=name)
    form.is_preview, form.is_paused = given.get("do") == "preview", is_paused
    try:
        unnamed = name or ("new" if form.is_preview else "")
        changes, form.preview = await judged(page_request, unnamed, row, texts, now)
        if "~" in texts["spec"]:
            form.warnings.append(_SPREAD_NOTE)
        if form.is_preview:
            return _page(page_request, form)
        await page_request.do(
            functions.put_schedule, name, expected_version=0, enabled=not is_paused, **changes
        )
    except IN_FORM as error:
        form.blame(error, row, texts)
        return _page(page_request, form, status_in_form(page_request, error))
    return page_request.redirect("schedule", "created", name=name)


async def show_edit(page_request: PageRequest) -> Response:
    """The form with the current definition."""
    name = page_request.segments["name"]
    page_request.query()
    snapshot = await page_request.gather("edit", _read, name, {})
    row, served = snapshot.value
    form = DefinitionForm(texts_of(row), served, edited=row)
    form.preview = look_ahead(row, {}, snapshot.now)
    return _page(page_request, form, snapshot=snapshot)


async def save(page_request: PageRequest) -> Response:
    """Saves it, and shows the schedule; with ``do=preview`` only shows when it would fire.

    Errors are shown in the form, which keeps what was typed.
    """
    name = page_request.segments["name"]
    given = await page_request.form(*FIELDS, "version", "note", "do", keep_empty=True)
    texts = _typed(given)
    row, served = await page_request.act(lambda session: _read(session, name, texts))
    form = DefinitionForm({**texts_of(row), **texts}, served, edited=row)
    # Another version at saving is another editor's.
    form.version = version_number(given.get("version") or None) or form.version
    form.note, form.is_preview = given.get("note", ""), given.get("do") == "preview"
    try:
        now = await page_request.now()
        changes, form.preview = await judged(page_request, name, row, texts, now)
        if form.is_preview:
            return _page(page_request, form)
        await page_request.do(
            ask.edit_schedule,
            name,
            changes_text(changes),
            expected_version=form.version,
            note=form.note or None,
        )
    except VersionConflict as conflict:
        form.error = conflict
        return await _met_another(page_request, name, texts, form)
    except IN_FORM as error:
        form.blame(error, row, texts)
        return _page(page_request, form, status_in_form(page_request, error))
    return page_request.redirect("schedule", "edited", name=name)


async def _met_another(
    page_request: PageRequest, name: str, texts: Mapping[str, str], sent: DefinitionForm
) -> Response:
    """The form again: what was typed here, and what the other has changed since it was opened."""
    row, served = await page_request.act(lambda session: _read(session, name, {}))
    based_on = await page_request.act(
        lambda session: session.call(ask.written_version, name, sent.version)
    )
    current = texts_of(row)
    before = current if based_on is None else texts_of(based_on)
    mine = {field: texts.get(field, before[field]) for field in FIELDS}
    merged = {
        field: current[field] if mine[field] == before[field] else mine[field] for field in FIELDS
    }
    changes: dict[str, Any] = {}
    with suppress(InvalidInput):  # the two edits don't go together: saving says so
        changes = typed_changes(name, row, merged)
    form = DefinitionForm(merged, served, edited=row)
    form.preview = look_ahead(row, changes, await page_request.now())
    form.error, form.note = sent.error, sent.note
    form.theirs = [
        {"field": field, "before": before[field], "now": current[field], "mine": mine[field]}
        for field in FIELDS
        if before[field] != current[field]
    ]
    return _page(page_request, form, 409)


def _page(
    page_request: PageRequest,
    form: DefinitionForm,
    status: int = 200,
    *,
    snapshot: Snapshot[Any] | None = None,
) -> Response:
    title = "New schedule" if form.name is not None else f"Edit {form.edited['name']}"
    shown: dict[str, Any] = {"title": title, "status": status, "is_still": True, "form": form}
    return page_request.page("schedule_form.html", snapshot, **shown)


async def _read_new(session: Session, copied: str | None) -> tuple[dict[str, str], Row]:
    row: Mapping[str, Any] = NEW_SCHEDULE
    if copied is not None:
        row = await session.call(ask.written_schedule, copied)
    texts = texts_of({**row, "managed_by": INTERFACE})
    return texts, await offered_for(session, texts)


async def _read(session: Session, name: str, typed: Mapping[str, str]) -> tuple[Row, Row]:
    """The schedule, and what `offered_for` says of it with what was typed. NotFound."""
    row = await session.call(ask.written_schedule, name)
    return row, await offered_for(session, {**texts_of(row), **typed})


def _typed(given: Mapping[str, str]) -> dict[str, str]:
    found = {field: given[field] for field in FIELDS if field in given}
    return {field: text.replace("\r\n", "\n").strip() for field, text in found.items()}


async def show_versions(page_request: PageRequest) -> Response:
    """The versions, newest first; of a deleted schedule, too. ``before`` turns pages."""
    name = page_request.segments["name"]
    before = version_number(page_request.query("before").get("before"))
    snapshot = await page_request.read(
        "versions", ask.schedule_versions, name, before=before, limit=PAGE_ROWS + 1
    )
    rows = snapshot.value
    shown, after = first_of(rows, PAGE_ROWS, "version")
    return page_request.page(
        "schedule_versions.html",
        snapshot,
        title=f"Versions of {name}",
        name=name,
        rows=[{**row, "changes": made} for row, made in islice(of_versions(rows), PAGE_ROWS)],
        is_deleted=bool(shown) and shown[0]["operation"] == "delete",
        newest=shown[0]["version"] if shown else 0,
        **page_request.turns("versions", {}, "before", after, name=name),
    )


def _version(text: str, row: Row) -> int | None:
    return version_number(text or None)


_VERSIONS: Final = (Field("version", _version), Field("expected_version", _version))
# Makes ``version`` the next one, unless another is newer than the page showed.
restore = verb(ask.restore_schedule, "versions", "restored", *_VERSIONS)


def version_number(text: str | None) -> int | None:
    """The version that an address or a form names; None for None. InvalidInput."""
    return whole_cursor(text, _MOST_VERSION, "versions", "Versions are counted from 1.")
