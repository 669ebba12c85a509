"""Workflows, their runs and steps as people read them: ``sql/workflow_lists.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

workflows: Final = Rows("list_workflows", limit=DEFAULT_LIMIT)
"""The newest version of each workflow by name, with its last run; of those whose last run belongs
to ``owner`` and has the ``tags``.
"""

workflow: Final = Rows("one_workflow", "name").existing(
    "workflow '{:.200}' does not exist",
    "A workflow is named exactly as it was created; a deleted one starts no more.",
    "`pgcron-ha workflows list` lists them.",
)
"""Everything about one workflow. NotFound."""

workflow_runs: Final = Rows("list_workflow_runs", "name", limit=DEFAULT_LIMIT)
"""Its runs that have begun, the newest first."""

workflow_run: Final = Rows("one_workflow_run", "run_id").existing(
    "run {} is no workflow that has begun",
    "A workflow begins when a node takes its run; a run of any other handler has no steps.",
    "`pgcron-ha runs show` shows any run.",
)
"""One run of a workflow, with its steps counted by their states. NotFound."""

steps_of_workflow: Final = Rows("steps_of_workflow", "definition")
"""The steps of a version in order, each with the names of those that it comes directly after.

Of one run (`run_id`) with their states, and what those that are open wait for.
"""

why_steps: Final = Rows("why_steps", "run_id")
"""The open steps of a run; or one `step` alone, open or not, with its items that are open."""

MOST_FAILED: Final = 1_000
item_causes: Final = Rows("item_causes", "run_id", "step", look=MOST_FAILED, limit=10)
"""Why the first `MOST_FAILED` items of a step that failed did: so many `failed` for each cause."""

step_results: Final = Rows("step_results", "run_id")
"""The steps of a run and their items, with their results."""
