"""What the forms share that make a schedule and edit one: their fields, what is wrong with one of
them, and when the schedule would fire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.previews import not_offered, schedule_preview
from pgcron_ha.client.schedule_edits import (
    CHOICES,
    FIELDS,
    MOST_TEXT,
    NEW_SCHEDULE,
    texts_of,
    typed_changes,
    wrong_field,
)
from pgcron_ha.db.commands.calendars import calendars_of
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.db.queries.pages import schedules as ask
from pgcron_ha.errors import PgcronError, VersionConflict
from pgcron_ha.spec.preview import Preview
from pgcron_ha.spec.zones import zone_names
from pgcron_ha.web.page_request import PageRequest

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
    return await session.call(ask.offered, handler=handler, queue=queue, requires=asked)


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
