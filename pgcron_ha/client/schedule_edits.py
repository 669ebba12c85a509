"""A schedule as texts that a person edits, and back: for forms of whatever kind.

Every one of `POLICIES` is a field; so a new policy can be edited as soon as it is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.options import POLICIES
from pgcron_ha.client.schedules import DEFAULTS, check_schedule
from pgcron_ha.db.commands.functions import JSON_COLUMNS, as_json
from pgcron_ha.errors import InvalidInput, InvalidSpec, PgcronError, UnknownZone
from pgcron_ha.spec.text import duration_text

MOST_TEXT: Final = checks.MOST_ARGS_BYTES
"""Characters of a field: args, the longest, have no more bytes."""

_FIRST: Final = ("spec", "timezone", "dst", "handler")
# Pausing is a verb of its own, with a note.
FIELDS: Final = (*_FIRST, *(name for name in POLICIES if name not in (*_FIRST, "enabled")))
_YES_NO: Final = ("yes", "no")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    name: policy.words or _YES_NO
    for name, policy in POLICIES.items()
    if policy.words or policy.kind is bool
}
"""The words of fields that know no others."""
_BLAMED: Final = ((InvalidSpec, "spec"), (UnknownZone, "timezone"))

NEW_SCHEDULE: Final[Mapping[str, Any]] = MappingProxyType(
    {**dict.fromkeys(FIELDS), **DEFAULTS, "retry": None, "links": None}
)
"""The row of a schedule that says nothing but the defaults; it has no spec and no handler yet."""


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a schedule's row; one that has no value is empty."""
    return {name: _text(row.get(name)).strip() for name in FIELDS}


def typed_changes(name: str, row: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """What `texts` (some of the fields, without blanks around) change of a schedule's row, judged;
    None: the default.

    Raises InvalidInput, InvalidSpec, UnknownZone and TooLarge.
    """
    before = texts_of(row)
    written = {field: text for field, text in texts.items() if text != before[field]}
    values = {field: _value(field, text) for field, text in written.items()}
    spec, handler = (values.get(key, row[key]) for key in ("spec", "handler"))
    for what, value in (("spec", spec), ("handler", handler)):
        if value is None:
            raise InvalidInput(
                f"the {what} is empty", "A schedule says when it fires, and what runs then."
            )
    # What is changed is judged beside what stays; payloads go together with whatever else is said.
    stays = {
        key: row[key] for key in POLICIES if key not in JSON_COLUMNS and row.get(key) is not None
    }
    comes = {
        key: NEW_SCHEDULE.get(key) if value is None else value
        for key, value in values.items()
        if key in POLICIES
    }
    judged = check_schedule(name, spec, handler, {**stays, **comes})
    return {
        field: None if value is None else _kept(field, judged.get(field, value))
        for field, value in values.items()
    }


def wrong_field(row: Mapping[str, Any], texts: Mapping[str, str], error: PgcronError) -> str | None:
    """Which of the texts is to blame for the error that `typed_changes`, or the database, raised.

    None: each is fine by itself, but they don't go together; or it is the name.
    """
    before = texts_of(row)
    fine = {**row, "spec": row["spec"] or "@daily", "handler": row["handler"] or "py:job"}
    for field, text in texts.items():
        if text != before[field] or not text:
            try:
                typed_changes("job", fine, {field: text})
            except InvalidInput as found:
                if found.message == error.message:
                    return field
    return next((field for kind, field in _BLAMED if isinstance(error, kind)), None)


def changes_text(changes: Mapping[str, Any]) -> str:
    """Typed changes as the JSON that ``pgcron.edit_schedule`` takes."""
    return json.dumps(as_json(changes))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES_NO[not value]
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def _kept(field: str, value: Any) -> Any:
    """The value; None for a 0 that takes back what the schedule had."""
    is_removable = field in POLICIES and POLICIES[field].is_removable
    return None if is_removable and not value else value


def _value(field: str, text: str) -> Any:
    """The text as the column's type; durations and JSON stay texts, which are judged later."""
    if not text:
        return None
    kind = POLICIES[field].kind if field in POLICIES else str
    if kind is int and text.removeprefix("-").isdecimal():
        return int(text[:12])
    if kind is bool:
        return text == _YES_NO[0]
    if kind is tuple:
        return [word for word in text.replace(",", " ").split() if word]
    return text
