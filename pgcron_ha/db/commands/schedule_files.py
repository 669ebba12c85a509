"""Schedules and workflows as files say them: ``sql/schedules.sql``, ``sql/workflow_files.sql``.

Schedules are records by column, JSON columns as text, durations `timedelta`.
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


async def apply_schedules(
    connection: Connection, definitions: Sequence[Mapping[str, Any]], source: str, **options: Any
) -> list[Row]:
    """Create, change or leave the schedules of a source, in the caller's transaction.

    Definitions have ``name``, ``spec``, ``handler`` and policies as `functions.put_schedule` takes
    them. Of each the ``name``, the ``change`` (added, changed, unchanged), and the schedule before
    (``previous``; of no meaning if it is added) and after (``content``). Raises Conflict for the
    schedule of another source, unless ``take_over``, and what SQL refuses.
    """
    applied: list[Row] = []
    for start in range(0, len(definitions), AT_ONCE):
        batch = [as_json(definition) for definition in definitions[start : start + AT_ONCE]]
        applied += await _apply(connection, json.dumps(batch), source, **options)
    return applied


prune_schedules: Final = Rows("prune_schedules", "source", "kept")
"""Deletes those that the source owns and that are not kept: rows as those of `apply_schedules`,
whose ``change`` is pruned, without ``content``.
"""

schedules_to_export: Final = Rows(
    "schedules_to_export", names=None, source=None, at_most=MOST_SCHEDULES
)
"""All schedules, those of these `names`, or those of a `source`, by name: each as ``content``."""

default_schedule: Final = Rows("default_schedule").the
"""A schedule with the default of each option, which files may leave out, as ``content``."""

apply_workflows: Final = Rows("apply_workflows", "definitions", "source", take_over=False)
"""Creates, changes or leaves the workflows of a source, in the caller's transaction. `definitions`
is a JSON object of them by name.

Of each the ``name``, the ``change`` (added, changed, unchanged), its definition ``before`` and
``after`` (None where there is none), and who had defined it: ``managed_before`` is ``file`` (and
``source_before`` their owner), ``code``, ``sql``, … Raises Conflict for the workflow of another
source, unless ``take_over``.
"""

prune_workflows: Final = Rows("prune_workflows", "source", "kept")
"""Deletes those that the source owns and that are not kept: rows as those of `apply_workflows`,
whose ``change`` is pruned.
"""

# Each has 1 MiB at most.
workflows_to_export: Final = Rows("workflows_to_export", "names", source=None, at_most=10_000)
"""``name`` and ``definition`` of all (`names` None), or of these and those of a source."""
