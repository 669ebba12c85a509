"""Schedules as files say them: ``sql/schedule_files.sql``.

Rows of schedules are dictionaries by column, JSON columns as text, durations `timedelta`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.clients import Connection
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load

Row = dict[str, Any]

# As many as one transaction may change, and one answer hold.
MOST_SCHEDULES: Final = 100_000


# Some seconds for each statement, however many a folder has.
AT_ONCE: Final = 1000


class AppliedSchedule(NamedTuple):
    """What became of a schedule: the row that was and the row that is, None where there is none."""

    name: str
    change: Literal["added", "changed", "unchanged", "pruned"]
    previous: Row | None
    content: Row | None


async def apply_schedules(
    connection: Connection,
    definitions: Sequence[Mapping[str, Any]],
    source: str,
    *,
    prune: bool = False,
    take_over: bool = False,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> list[AppliedSchedule]:
    """Make the schedules of a source so, in the caller's transaction.

    Definitions have ``name``, ``spec``, ``handler`` and policies as `interfaces.put_schedule` takes
    them. Raises Conflict for the schedule of another source, and what SQL refuses.
    """
    statements = load(schema)
    applied: list[AppliedSchedule] = []
    with answers():
        for start in range(0, len(definitions), AT_ONCE):
            batch = [_as_json(definition) for definition in definitions[start : start + AT_ONCE]]
            rows = await connection.fetch(
                statements["apply_schedules"].sql, json.dumps(batch), source, take_over, actor
            )
            applied += [_applied(row, row["change"], row["content"]) for row in rows]
        if prune:
            names = [definition["name"] for definition in definitions]
            rows = await connection.fetch(statements["prune_schedules"].sql, source, names, actor)
            applied += [_applied(row, "pruned", None) for row in rows]
    return applied


async def schedules_to_export(
    connection: Connection,
    names: Sequence[str] | None = None,
    source: str | None = None,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> list[Row]:
    """All schedules, those of these names, or those of a source, by name."""
    given = None if names is None else list(names)
    rows = await connection.fetch(
        load(schema)["schedules_to_export"].sql, given, source, MOST_SCHEDULES
    )
    return [dict(row["content"]) for row in rows]


async def default_schedule(connection: Connection, *, schema: str = DEFAULT_SCHEMA) -> Row:
    """A schedule of which nothing is said: what files need not say."""
    row = await connection.fetchrow(load(schema)["default_schedule"].sql)
    assert row is not None
    return dict(row["content"])


def _applied(row: Any, change: Any, content: Any) -> AppliedSchedule:
    return AppliedSchedule(row["name"], change, _row(row["previous"]), _row(content))


def _row(record: Any) -> Row | None:
    return None if record is None or record["id"] is None else dict(record)


def _as_json(definition: Mapping[str, Any]) -> dict[str, Any]:
    """As jsonb_populate_record reads it."""
    return {name: _value(name, value) for name, value in definition.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    if name in ("args", "retry") and value is not None:
        return json.loads(value)
    return list(value) if isinstance(value, tuple) else value
