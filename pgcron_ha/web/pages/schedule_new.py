"""``/new-schedule``: a schedule from nothing, or as a copy of another, looked at before it is made.

It works without the script. A name that exists is refused: nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client import checks
from pgcron_ha.client.schedule_edits import FIELDS, NEW_SCHEDULE, texts_of
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import InvalidInput, PgcronError, VersionConflict
from pgcron_ha.spec.macros import EXAMPLE_SEED
from pgcron_ha.spec.preview import Preview
from pgcron_ha.web.address import choice
from pgcron_ha.web.page_request import INTERFACE, PageRequest
from pgcron_ha.web.pages.schedule import no_such_schedule
from pgcron_ha.web.pages.schedule_form import (
    FIRST,
    LONGEST_SENT,
    DefinitionForm,
    EditField,
    blame,
    definition_form,
    form_page,
    judged,
    offered_for,
)
from pgcron_ha.web.reading import Snapshot

STATES: Final = ("on", "paused")
_FORM: Final = ("name", "state", *FIELDS, "do")
_SPREAD_NOTE: Final = (
    "Where ~ spreads it, its time is chosen when it is made: those shown here are an example."
)


async def show_new(page_request: PageRequest) -> Response:
    """The empty form; with ``?copy=`` the form with that schedule's definition."""
    copied = page_request.query("copy").get("copy")

    async def read(connection: Any, *, schema: str) -> tuple[dict[str, str] | None, Row]:
        row: Mapping[str, Any] | None = NEW_SCHEDULE
        if copied is not None:
            row = await ask.written_schedule(connection, copied, schema=schema)
        if row is None:
            return None, {}
        texts = texts_of({**row, "managed_by": INTERFACE})
        return texts, await offered_for(connection, texts, schema)

    snapshot = await page_request.read(("new", copied), read)
    texts, served = snapshot.value
    if texts is None:
        raise no_such_schedule(page_request, copied or "")
    form = definition_form(texts, served, None, is_unfolded=copied is not None)
    return _page(page_request, "", form, snapshot=snapshot, copied=copied)


async def create(page_request: PageRequest) -> Response:
    """Makes it, and shows it; with ``do=preview`` only shows when it would fire.

    Errors are shown in the form, which keeps what was typed.
    """
    given = await page_request.form(*_FORM, longest=LONGEST_SENT, keep_empty=True)
    name = given.get("name", "").strip()
    is_paused = choice(given.get("state") or None, STATES, "state") == "paused"
    now = datetime.now(UTC)
    row = _row(now, is_paused)
    texts = {**texts_of(row), **{field: given[field] for field in FIELDS if field in given}}
    served = await page_request.act(lambda c: offered_for(c, texts, page_request.schema))
    form = definition_form(texts, served, None, is_unfolded=_says_more(texts, row))
    is_preview = given.get("do") == "preview"
    try:
        unnamed = name or ("new" if is_preview else "")
        changes, preview = await judged(page_request, unnamed, row, texts, now)
        form = _with_preview(form, texts, preview)
        if is_preview:
            return _page(page_request, name, form, is_paused=is_paused)
        await page_request.do(
            functions.put_schedule,
            name,
            expected_version=0,
            enabled=not is_paused,
            interface=INTERFACE,
            **changes,
        )
    except VersionConflict as taken:
        taken = VersionConflict(taken.message, taken.detail, "Choose another name.")
        form = replace(form, error=taken)
        return _page(
            page_request, name, form, 409, problem=taken, is_paused=is_paused, is_taken=True
        )
    except InvalidInput as error:
        form = blame(form, error, row, texts)
        problem = error if form.wrong is None and not _is_name(name) else None
        return _page(page_request, name, form, 400, problem=problem, is_paused=is_paused)
    return page_request.redirect("schedule", {"done": "created"}, name=name)


def _page(
    page_request: PageRequest,
    name: str,
    form: DefinitionForm,
    status: int = 200,
    *,
    snapshot: Snapshot[Any] | None = None,
    problem: PgcronError | None = None,
    **more: Any,
) -> Response:
    """The form; `problem` is of the name; `more` are views that differ from what they are here."""
    most = checks.MOST_NAME_CHARACTERS
    field = EditField("name", "Name", name, (), False, most, "", problem)
    view = {"is_paused": False, "is_taken": False, "copied": None, **more}
    view |= {"name": field, "form": form}
    return form_page(page_request, "schedule_new.html", view, "New schedule", status, snapshot)


def _row(now: datetime, is_paused: bool) -> dict[str, Any]:
    """What is changed by the form: the defaults, at the beginning."""
    return {
        **NEW_SCHEDULE,
        "managed_by": INTERFACE,
        "enabled": not is_paused,
        "uuid": EXAMPLE_SEED,
        "calendars": None,
        "watermark": now,
        "runs_made": 0,
    }


def _with_preview(
    form: DefinitionForm, texts: Mapping[str, str], preview: Preview | None
) -> DefinitionForm:
    notes = (_SPREAD_NOTE,) if "~" in texts["spec"] else ()
    return replace(form, preview=preview, warnings=(*form.warnings, *notes))


def _says_more(texts: Mapping[str, str], row: Mapping[str, Any]) -> bool:
    """Whether a field that is folded away says something else than its default."""
    defaults = texts_of(row)
    return any(texts[name].strip() != defaults[name] for name in FIELDS if name not in FIRST)


def _is_name(name: str) -> bool:
    try:
        return bool(checks.text("the schedule's name", name, checks.MOST_NAME_CHARACTERS))
    except InvalidInput:
        return False
