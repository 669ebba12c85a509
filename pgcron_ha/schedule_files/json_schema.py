"""The published JSON Schema of a file of schedules, generated from the policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.client import checks, options
from pgcron_ha.client.options import Option
from pgcron_ha.client.workflow_definitions import NAME, OF_STEPS, OF_WORKFLOWS
from pgcron_ha.schedule_files.definitions import CALENDARS, POLICIES, SCHEDULES, WORKFLOWS
from pgcron_ha.spec.calendars import calendar
from pgcron_ha.spec.spec import MOST_CHARACTERS, MOST_LINES

_HANDLER: Final = {
    "type": "string",
    "pattern": "^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$",
    "maxLength": checks.MOST_HANDLER_CHARACTERS,
}
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


_PATH: Final = {"type": "string", "pattern": "\\$"}
_STEP: Final[Mapping[str, Mapping[str, Any]]] = {
    **_BY_NAME,
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "handler": _HANDLER,
    "args_from": {"type": "object", "additionalProperties": _PATH},
    "after": {"type": ["array", "string"], "items": {"type": "string"}},
    "when": _PATH,
    "for_each": _PATH,
    "repeat": {
        "type": "object",
        "required": ["while", "at_most"],
        "additionalProperties": False,
        "properties": {
            "while": _PATH,
            "at_most": {"type": "integer", "minimum": 1},
            "every": _DURATION,
        },
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
            "handler": _HANDLER,
            **{name: _form(name, options.POLICIES[name], _BY_NAME) for name in POLICIES},
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
        "anyOf": [{"required": [table]} for table in (SCHEDULES, WORKFLOWS, CALENDARS)],
        "properties": {
            CALENDARS: {
                "type": "object",
                "description": "Days that schedules share, by the name that their specs use.",
                "propertyNames": {"pattern": f"^{calendar.NAME.pattern}$"},
                "additionalProperties": {"$ref": "#/$defs/calendar"},
            },
            WORKFLOWS: {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,196}$"},
                "additionalProperties": {"$ref": "#/$defs/workflow"},
            },
            SCHEDULES: {
                "type": "object",
                "propertyNames": {"minLength": 1, "maxLength": checks.MOST_NAME_CHARACTERS},
                "additionalProperties": {"$ref": "#/$defs/schedule"},
            },
        },
        "$defs": {"schedule": definition, "workflow": _workflow(), "calendar": days},
    }


def _workflow() -> dict[str, Any]:
    step = {
        "type": "object",
        "required": ["name"],
        "oneOf": [{"required": ["handler"]}, {"required": ["wait_for"]}],
        "additionalProperties": False,
        "properties": {name: _form(name, each, _STEP) for name, each in OF_STEPS.items()},
    }
    own = {name: _form(name, each, _BY_NAME) for name, each in OF_WORKFLOWS.items()}
    return {
        "type": "object",
        "required": ["steps"],
        "additionalProperties": False,
        "properties": own | {"steps": {"type": "array", "items": step, "minItems": 1}},
    }


def _lines(description: str, least: int, most_characters: int, most_lines: int) -> dict[str, Any]:
    text = {"type": "string", "minLength": least, "maxLength": most_characters}
    lines = {"type": "array", "items": text, "maxItems": most_lines}
    return {"description": description, "anyOf": [text, lines]}


def _form(name: str, policy: Option, by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Null is the same as leaving it out."""
    form = {**(by_name.get(name) or _BY_TYPE[policy.kind])}
    if policy.words and name not in by_name:
        form = {"enum": [*policy.words, *[""][: policy.is_removable]]}
    elif policy.kind is int:
        form |= {"minimum": policy.least, "maximum": policy.most}
    return {"anyOf": [form, {"type": "null"}]}
