"""Workflows as files say them: ``sql/workflow_files.sql``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.rows import Row, Rows

# The most that one answer holds; each has 1 MiB at most.
MOST_WORKFLOWS: Final = 10_000

_apply: Final = Rows("apply_workflows", "definitions", "source", take_over=False)
_prune: Final = Rows("prune_workflows", "source", "kept")
_export: Final = Rows("workflows_to_export", "names", source=None, at_most=MOST_WORKFLOWS)


class AppliedWorkflow(NamedTuple):
    """The change of a workflow: its definition before and after, None where there is none."""

    name: str
    change: Literal["added", "changed", "unchanged", "pruned"]
    before: Row | None
    after: Row | None = None
    managed_before: str | None = "file"
    source_before: str | None = None
    """Who had defined it: ``file`` and their owner, or ``code``, ``sql``, …"""


async def apply_workflows(
    connection: Connection, definitions: Mapping[str, Any], source: str, **options: Any
) -> list[AppliedWorkflow]:
    """Create, change or leave the workflows of a source, in the caller's transaction.

    Raises Conflict for the workflow of another source, unless ``take_over``.
    """
    rows = await _apply(connection, json.dumps(definitions), source, **options)
    return [AppliedWorkflow(**row) for row in rows]


async def prune_workflows(
    connection: Connection, source: str, kept: Sequence[str], **options: Any
) -> list[AppliedWorkflow]:
    """Delete those that the source owns and that are not kept."""
    rows = await _prune(connection, source, kept, **options)
    return [AppliedWorkflow(**row, change="pruned", source_before=source) for row in rows]


async def workflows_to_export(
    connection: Connection, names: Sequence[str] | None, source: str | None = None, **options: Any
) -> dict[str, Row]:
    """Definitions by name: of all (None), or of these and those of a source."""
    rows = await _export(connection, names, source, **options)
    return {row["name"]: row["definition"] for row in rows}
