"""Schedules as files say them: ``sql/schedules.sql``.

Rows of schedules are dictionaries by column, JSON columns as text, durations `timedelta`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pgcron_ha.db.commands.functions import as_json
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.rows import Row, Rows

# The most that one transaction may change, and one answer may hold.
MOST_SCHEDULES: Final = 100_000

# Some seconds for each statement, however many a folder has.
AT_ONCE: Final = 1000


_apply: Final = Rows("apply_schedules", "definitions", "source", take_over=False)
_prune: Final = Rows("prune_schedules", "source", "kept")
_export: Final = Rows("schedules_to_export", names=None, source=None, at_most=MOST_SCHEDULES)
_default: Final = Rows("default_schedule").the


async def apply_schedules(
    connection: Connection,
    definitions: Sequence[Mapping[str, Any]],
    source: str,
    *,
    prune: bool = False,
    take_over: bool = False,
    **options: Any,
) -> list[Row]:
    """Create, change or leave the schedules of a source, in the caller's transaction, and `prune`
    what it owns and does not define any more.

    Definitions have ``name``, ``spec``, ``handler`` and policies as `functions.put_schedule` takes
    them. Of each the ``name``, the ``change`` (added, changed, unchanged, pruned), and the row
    before (``previous``) and after (``content``), None where there is none. Raises Conflict for
    the schedule of another source, and what SQL refuses.
    """
    applied: list[Row] = []
    for start in range(0, len(definitions), AT_ONCE):
        batch = [as_json(definition) for definition in definitions[start : start + AT_ONCE]]
        applied += await _apply(connection, json.dumps(batch), source, take_over, **options)
    if prune:
        names = [definition["name"] for definition in definitions]
        applied += await _prune(connection, source, names, **options)
    return [
        {**row, "previous": _row(row["previous"]), "content": _row(row["content"])}
        for row in applied
    ]


async def schedules_to_export(connection: Connection, *values: Any, **options: Any) -> list[Row]:
    """All schedules, those of these `names`, or those of a `source`, by name."""
    return [dict(row["content"]) for row in await _export(connection, *values, **options)]


async def default_schedule(connection: Connection, **options: Any) -> Row:
    """A schedule with the default of each option, which files may leave out."""
    return dict((await _default(connection, **options))["content"])


def _row(record: Any) -> Row | None:
    return None if record is None or record["id"] is None else dict(record)
