"""Schedules as YAML, which `definitions` reads back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import yaml

from pgcron_ha.config.values import format_duration
from pgcron_ha.db.commands.schedule_files import JSON_COLUMNS
from pgcron_ha.schedule_files.definitions import CALENDARS, POLICIES, SCHEDULES


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would not read as text; texts of several lines stay lines."""


# Floats of YAML 1.2 that 1.1 takes for text.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?\Z"), None
)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n|[ \t]\Z|\A\s", text) else None
    if not text.replace("\n", "").isprintable():
        style = '"'  # what else breaks lines, such as NEL, is written as an escape
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def definition_of(row: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a row's schedule: only what is not the default. Durations are texts.

    Both rows are those of `pgcron_ha.db.commands.schedule_files`.
    """
    said = {"spec": row["spec"], "handler": row["handler"]}
    for name in POLICIES:
        if name in row and row[name] is not None and row[name] != default.get(name):
            said[name] = _plain(name, row[name])
    if "args" in said and not said["args"]:
        del said["args"]
    return said


def as_yaml(
    definitions: Mapping[str, Mapping[str, Any]], calendars: Mapping[str, str] | None = None
) -> str:
    """The text of a file; ends with a newline."""
    schedules = {name: dict(said) for name, said in definitions.items()}
    return yaml.dump(
        {**({CALENDARS: dict(calendars)} if calendars else {}), SCHEDULES: schedules},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value.total_seconds())
    if name in JSON_COLUMNS:
        return json.loads(value)
    return list(value) if isinstance(value, list | tuple) else value
