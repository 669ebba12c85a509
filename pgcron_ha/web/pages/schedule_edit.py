"""``/new-schedule`` and ``/schedules/{name}/edit``: a definition as a form, with a look at the
fires before it is saved; ``/schedules/{name}/versions``: what it was, who changed it, the way back.

The form works without the script. A new schedule overwrites none; of two who edit one at once the
second sees what the first changed, and keeps what was typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.client import checks
from pgcron_ha.client.previews import not_offered, schedule_preview
from pgcron_ha.client.schedule_edits import (
    CHOICES,
    FIELDS,
    MOST_TEXT,
    NEW_SCHEDULE,
    changes_text,
    texts_of,
    typed_changes,
    wrong_field,
)
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.commands.calendars import calendars_of
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.db.queries.pages.schedules import offered as offered_of
from pgcron_ha.errors import InvalidInput, PgcronError, VersionConflict
from pgcron_ha.model.differences import of_versions
from pgcron_ha.spec.lines import EXAMPLE_SEED
from pgcron_ha.spec.preview import Preview
from pgcron_ha.spec.zones import zone_names
from pgcron_ha.web.address import first_of, whole_cursor
from pgcron_ha.web.failures import IN_FORM, status_in_form
from pgcron_ha.web.page_request import INTERFACE, PageRequest
from pgcron_ha.web.reading import Snapshot
from pgcron_ha.web.verbs import Field, verb

PREVIEWED: Final = 10
_MOST_LINE: Final = 1000
"""Characters of a field of one line."""
MANAGED: Final[dict[str, str]] = {
    "code": "It is managed by the code of an application: the next start of a node with it puts"
    " back what is edited here, but for a pause.",
    "file": "It is managed by a file: the next `pgcron-ha schedules apply` of it puts back what is"
    " edited here.",
}
"""What happens to an edit made here when a schedule is managed elsewhere; else it stays."""
FIRST: Final = ("spec", "timezone", "dst", "handler", "queue", "args")
"""The fields that are seen first: when and what."""
_REST: Final = tuple(name for name in FIELDS if name not in FIRST)
_POLICIES: Final = tuple(name for name in _REST if name != "managed_by")
_DEFAULTS: Final = texts_of(NEW_SCHEDULE)
_LONG: Final = frozenset({"spec", "args", "retry", "description", "links"})
_LABELS: Final = {
    "timezone": "Time zone",
    "dst": "DST policy",
    "args": "Args (JSON)",
    "catchup": "Catch-up",
    "catchup_window": "Catch-up window",
    "retry": "Retry policy (JSON)",
    "requires": "Requires labels",
    "links": "Links (JSON)",
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
    "owner": "A team or a person",
    "tags": "such as nightly, team:billing",
    "links": 'Such as {"runbook": "https://wiki.example/billing"}',
    "jitter": "such as 5m",
    "priority": "0 is first, 9 last",
}
_SPREAD_NOTE: Final = (
    "Where ~ spreads it, its time is chosen when it is made: those shown here are an example."
)
PAGE_ROWS: Final = 25
_MOST_VERSION: Final = 2**31 - 1


class DefinitionForm:
    """What a schedule says, as fields, and when it would fire."""

    def __init__(
        self,
        texts: Mapping[str, str],
        offered: Row,
        *,
        name: str | None = None,
        edited: Row | None = None,
    ) -> None:
        """`offered` of `offered_for`; it has the `name` of a new schedule, or `edited` is one."""
        most = checks.MOST_NAME_CHARACTERS
        self.name = None if name is None else _field("name", name, most)
        self.is_paused, self.copied = False, ""
        """Of a new one; the name of the schedule that it is a copy of."""
        self.edited = edited or {}
        self.version, self.note = self.edited.get("version"), ""
        """The version that is edited, and why."""
        self.theirs: Sequence[Mapping[str, str]] = ()
        """What somebody else has changed since the form was opened."""
        self.managed = MANAGED.get(self.edited.get("managed_by", ""))
        self.fields = [_field(name, texts[name]) for name in FIRST]
        self.more = [_field(name, texts[name]) for name in _REST]
        self.is_unfolded = any(texts[name] != _DEFAULTS[name] for name in _POLICIES)
        """Whether the fields that are not seen first are shown at once."""
        self.preview: Preview | None = None
        handler, queue = _placed(texts)
        lacking = not_offered(handler, queue, offered) if handler else None
        self.warnings = [] if lacking is None else [lacking]
        self.is_preview = False
        """Whether nothing was to be saved."""
        self.error: PgcronError | None = None
        """Why it was not saved, or can't be."""
        self.wrong: SimpleNamespace | None = None
        """The field that is to blame for `error`, if it is one."""
        self.known: Mapping[str, Sequence[str]] = {
            "timezone": sorted(zone_names()),
            "handler": offered["handlers"],
            "queue": offered["queues"],
        }
        """What a field may be, by its name; others may be typed."""

    def blame(self, error: PgcronError, row: Row, texts: Mapping[str, str]) -> None:
        """Puts the error beside the field that is wrong, if it is one."""
        self.error, self.preview = error, None
        wrong = wrong_field(row, texts, error)
        self.wrong = next((one for one in (*self.fields, *self.more) if one.name == wrong), None)
        # As `checks` calls it; and one that exists already.
        is_name = "the schedule's name" in error.message or isinstance(error, VersionConflict)
        if self.wrong is None and is_name:
            self.wrong = self.name
        if self.wrong is not None:
            self.wrong.problem = error
        self.is_unfolded = self.is_unfolded or wrong in _REST


def look_ahead(row: Mapping[str, Any], changes: Mapping[str, Any], now: datetime) -> Preview | None:
    """When the row fires once it is changed so. None: this process can't read the spec."""
    with suppress(PgcronError):
        return schedule_preview(_changed(row, changes), now, PREVIEWED)
    return None


async def judged(
    page_request: PageRequest, name: str, row: Row, texts: Mapping[str, str], now: datetime
) -> tuple[Row, Preview | None]:
    """What the texts change of the row, and when it fires then. InvalidInput."""
    changes = typed_changes(name, row, texts)
    if changes.keys().isdisjoint(("spec", "timezone", "dst")):
        return changes, look_ahead(row, changes, now)
    spec = str(changes.get("spec", row["spec"]))
    known = json.dumps(row["calendars"])
    found = await page_request.act(lambda session: session.call(calendars_of, spec, known=known))
    changed = _changed({**row, "calendars": found}, changes)
    return changes, schedule_preview(changed, now, PREVIEWED)


async def offered_for(session: Session, texts: Mapping[str, str]) -> Row:
    """What living nodes take, and whether they take what the texts say."""
    handler, queue = _placed(texts)
    asked = texts["requires"].replace(",", " ").split() or None
    return await session.call(offered_of, handler=handler, queue=queue, requires=asked)


def _changed(row: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    values = changes.items()
    return {**row, **{key: NEW_SCHEDULE.get(key) if v is None else v for key, v in values}}


def _placed(texts: Mapping[str, str]) -> tuple[str, str]:
    """The handler and the queue."""
    return texts["handler"], texts["queue"] or NEW_SCHEDULE["queue"]


def label_of(name: str) -> str:
    """What a field is called."""
    return _LABELS.get(name, name.replace("_", " ").capitalize())


def _field(name: str, text: str, most: int | None = None) -> SimpleNamespace:
    """One field of the form, that may have up to `most` characters."""
    known = CHOICES.get(name, ())
    return SimpleNamespace(
        name=name,
        label=label_of(name),
        text=text,
        most=most or (MOST_TEXT if name in _LONG else _MOST_LINE),
        # The words it may have; none: any text. A word that another version knows must not be lost
        # by opening the form; none is the default.
        choices=[text, *(word for word in known if word != text)] if known else (),
        is_long=name in _LONG,
        example=_EXAMPLES.get(name, ""),
        problem=None,  # what is wrong with it
    )


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
    form.version = _version(given.get("version")) or form.version
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
    before = _version(page_request.query("before").get("before"))
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


def _version(text: str | None, _: Row | None = None) -> int | None:
    """The version that an address or a form names, if it names one. InvalidInput."""
    return whole_cursor(text or None, _MOST_VERSION, "versions", "Versions are counted from 1.")


_VERSIONS: Final = (Field("version", _version), Field("expected_version", _version))
# Makes ``version`` the next one, unless another is newer than the page showed.
restore = verb(ask.restore_schedule, "versions", "restored", *_VERSIONS)
