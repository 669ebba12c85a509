"""Workflows as files say them: ``sql/workflow_files.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.rows import Rows

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
