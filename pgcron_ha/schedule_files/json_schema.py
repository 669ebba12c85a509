"""The published JSON Schema of a file of schedules, generated from the policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.client import checks, options, workflows
from pgcron_ha.client.options import Option
from pgcron_ha.client.workflow_definitions import NAME, OF_STEPS, OF_WORKFLOWS
from pgcron_ha.config.values import HANDLER_NAME
from pgcron_ha.schedule_files.definitions import CALENDARS, POLICIES, SCHEDULES, WORKFLOWS
from pgcron_ha.spec.calendars import calendar
from pgcron_ha.spec.spec import MOST_CHARACTERS, MOST_LINES

_TEXT: Final = {"type": "string"}
_WORDS: Final = {"type": "array", "items": _TEXT}
_PATH: Final = {"type": "string", "pattern": "\\$"}
_OBJECT: Final = {"type": ["object", "string"], "description": "A mapping, or its JSON as text."}
_HANDLER: Final = {"type": "string", "pattern": f"^{HANDLER_NAME}$"}
_DURATION: Final = {
    "description": "Seconds, or a text such as 90s, 15m, 1h30m.",
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d|w))+$"},
    ],
}


def _table(required: list[str], properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A mapping with these keys and no others."""
    form = {"type": "object", "required": required, "additionalProperties": False, **more}
    return form | {"properties": properties}


_BY_KIND: Final[Mapping[Any, Mapping[str, Any]]] = {
    timedelta: _DURATION,
    str: _TEXT,
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    tuple: _WORDS,
}
# Those that are more than their kind.
_BY_NAME: Final[Mapping[str, Mapping[str, Any]]] = {
    "args": _OBJECT,
    "retry": _OBJECT,
    "links": {**_OBJECT, "additionalProperties": {"type": "string", "pattern": "^https?://"}},
    "dst": {"enum": ["vixie", "robfig", "kubernetes", "skip"]},
    "enabled": {
        "type": "boolean",
        "description": "Whether it fires; without it a pause is left alone.",
    },
    # Of steps of workflows.
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "handler": _HANDLER,
    "args_from": {"type": "object", "additionalProperties": _PATH},
    "after": {"type": ["array", "string"], "items": _TEXT},
    "when": _PATH,
    "for_each": _PATH,
    "repeat": _table(
        ["while", "at_most"],
        {"while": _PATH, "at_most": {"type": "integer", "minimum": 1}, "every": _DURATION},
    ),
}


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of a file."""
    spec = "A cron expression, an interval, …: a rule a line."
    days = (
        "A rule in each line: 2026-12-24..2027-01-01 # closed, yearly 12-25, yearly easter+1,"
        " sat,sun, calendar other-name, or not and any of these."
    )
    schedule = {
        "spec": _lines(spec, 1, MOST_CHARACTERS, MOST_LINES),
        "handler": _HANDLER,
        **_forms({name: options.POLICIES[name] for name in POLICIES}),
    }
    wait_or_run = [{"required": ["handler"]}, {"required": ["wait_for"]}]
    step = _table(["name"], _forms(OF_STEPS), oneOf=wait_or_run)
    steps = {"type": "array", "items": step, "minItems": 1}
    names = {
        CALENDARS: {"pattern": f"^{calendar.NAME.pattern}$"},
        WORKFLOWS: {"pattern": f"^{workflows.NAME.pattern}$"},
        SCHEDULES: {"minLength": 1, "maxLength": checks.MOST_NAME_CHARACTERS},
    }
    forms = {
        CALENDARS: _lines(days, 0, calendar.MOST_CHARACTERS, calendar.MOST_LINES_IN_ALL),
        WORKFLOWS: _table(["steps"], {**_forms(OF_WORKFLOWS), "steps": steps}),
        SCHEDULES: _table(["spec", "handler"], schedule),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Schedules of pgcron_ha",
        "type": "object",
        "additionalProperties": False,
        "anyOf": [{"required": [table]} for table in names],
        "properties": {
            table: {
                "type": "object",
                "propertyNames": names[table],
                "additionalProperties": {"$ref": f"#/$defs/{table.removesuffix('s')}"},
            }
            for table in names
        },
        "$defs": {table.removesuffix("s"): form for table, form in forms.items()},
    }


def _lines(description: str, least: int, most_characters: int, most_lines: int) -> dict[str, Any]:
    text = {"type": "string", "minLength": least, "maxLength": most_characters}
    lines = {"type": "array", "items": text, "maxItems": most_lines}
    return {"description": description, "anyOf": [text, lines]}


def _forms(table: Mapping[str, Option]) -> dict[str, Any]:
    """Null is the same as leaving it out."""
    return {name: {"anyOf": [_form(name, row), {"type": "null"}]} for name, row in table.items()}


def _form(name: str, row: Option) -> Mapping[str, Any]:
    if name in _BY_NAME:
        return _BY_NAME[name]
    if row.words:
        return {"enum": [*row.words, *[""][: row.is_removable]]}
    bounds = {"minimum": row.least, "maximum": row.most} if row.kind is int else {}
    return {**_BY_KIND[row.kind], **bounds}
