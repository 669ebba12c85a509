"""The published JSON Schema of a file of schedules, generated from the policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.client import checks, options
from pgcron_ha.schedule_files.definitions import CALENDARS, POLICIES, SCHEDULES
from pgcron_ha.spec.calendars import calendar
from pgcron_ha.spec.spec import MOST_CHARACTERS, MOST_LINES

_DURATION: Final = {
    "description": "Seconds, or a text such as 90s, 15m, 1h30m.",
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d|w))+$"},
    ],
}
_BY_TYPE: Final[Mapping[Any, Mapping[str, Any]]] = {
    timedelta: _DURATION,
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
}
_BY_NAME: Final[Mapping[str, Mapping[str, Any]]] = {
    "args": {"type": ["object", "string"], "description": "What each run is given."},
    "retry": {"type": ["object", "string"], "description": "How a run is tried again."},
    "timezone": {"type": "string", "description": "A name of the IANA database."},
    "dst": {"enum": ["vixie", "robfig", "kubernetes", "skip"]},
    "owner": {"type": "string", "maxLength": checks.MOST_NAME_CHARACTERS},
    "description": {"type": "string", "maxLength": checks.MOST_DESCRIPTION_CHARACTERS},
    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": checks.MOST_TAGS},
    "links": {
        "type": ["object", "string"],
        "description": "Titles and addresses, such as that of a runbook.",
        "additionalProperties": {"type": "string", "pattern": "^https?://"},
        "maxProperties": checks.MOST_LINKS,
    },
    "requires": {"type": ["array", "string"], "items": {"type": "string"}},
    "enabled": {
        "type": "boolean",
        "description": "Whether it fires; without it a pause is left alone.",
    },
}


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of a file."""
    definition = {
        "type": "object",
        "required": ["spec", "handler"],
        "additionalProperties": False,
        "properties": {
            "spec": _lines(
                "A cron expression, an interval, …: a rule a line.", 1, MOST_CHARACTERS, MOST_LINES
            ),
            "handler": {
                "type": "string",
                "pattern": "^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$",
                "maxLength": checks.MOST_HANDLER_CHARACTERS,
            },
            **{name: _policy(name) for name in POLICIES},
        },
    }
    days = _lines(
        "A rule in each line: 2026-12-24..2027-01-01 # closed, yearly 12-25,"
        " yearly easter+1, sat,sun, calendar other-name, or not and any of these.",
        0,
        calendar.MOST_CHARACTERS,
        calendar.MOST_LINES,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Schedules of pgcron_ha",
        "type": "object",
        "additionalProperties": False,
        "anyOf": [{"required": [SCHEDULES]}, {"required": [CALENDARS]}],
        "properties": {
            CALENDARS: {
                "type": "object",
                "description": "Days that schedules share, by the name that their specs use.",
                "propertyNames": {"pattern": f"^{calendar.NAME.pattern}$"},
                "additionalProperties": {"$ref": "#/$defs/calendar"},
            },
            SCHEDULES: {
                "type": "object",
                "propertyNames": {"minLength": 1, "maxLength": checks.MOST_NAME_CHARACTERS},
                "additionalProperties": {"$ref": "#/$defs/schedule"},
            },
        },
        "$defs": {"schedule": definition, "calendar": days},
    }


def _lines(description: str, least: int, most_characters: int, most_lines: int) -> dict[str, Any]:
    text = {"type": "string", "minLength": least, "maxLength": most_characters}
    lines = {"type": "array", "items": text, "maxItems": most_lines}
    return {"description": description, "anyOf": [text, lines]}


def _policy(name: str) -> dict[str, Any]:
    """Null is the same as leaving it out."""
    policy = options.POLICIES[name]
    form = {**(_BY_NAME.get(name) or _BY_TYPE[policy.kind])}
    if policy.words and name not in _BY_NAME:
        form = {"enum": [*policy.words, *[""][: policy.is_removable]]}
    elif policy.kind is int:
        form |= {"minimum": policy.least, "maximum": policy.most}
    return {"anyOf": [form, {"type": "null"}]}
