"""What the pages of workflows and their steps read: ``sql/pages_workflows.sql``.

A workflow may have 100,000 steps, and a step 10,000 items: all are counted, few are read.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pgcron_ha.db.queries.rows import Query
from pgcron_ha.db.queries.workflows import item_causes

PAGE_ROWS: Final = 50
# Runs that the list of workflows shows of each, and columns of a grid.
LAST_RUNS: Final = 10
GRID_RUNS: Final = 25
# Characters of a definition, an args or a result that are read.
MOST_JSON: Final = 30_000
# Bars beside each other that a person can still read, and of them those of the critical path.
MOST_BARS: Final = 80
MOST_CRITICAL: Final = 50

workflows: Final = Query("page_workflows", runs=LAST_RUNS, limit=PAGE_ROWS + 1)
"""Workflows by name, one more than a page has, those with ``text`` in their name, ``after`` a
name, whose last run belongs to ``owner`` and has the ``tags``.

Arrays `ids`, `states` and `started` are the newest `LAST_RUNS` runs, the newest last; None: none.
"""

workflow: Final = Query("page_workflow", most=MOST_JSON).one
"""The newest version of the workflow ``name`` that is not deleted."""

graph: Final = Query("page_workflow_graph", "definition").the
"""The `nodes` of a version of a workflow, and its dependencies, of `parents` and `children`."""

nodes: Final = Query("page_workflow_nodes", "definition")
"""The first ``limit`` steps of a version ``after`` a number; with their states in ``run_id``."""

cells: Final = Query("page_workflow_cells", runs=GRID_RUNS)
"""The newest `GRID_RUNS` runs of the workflow ``name``, with the `states` of those of the steps
``names`` that they have (`names`).
"""

workflow_run: Final = Query("page_workflow_run", "run_id").one
"""A workflow that has begun, by its run."""

step_counts: Final = Query("page_step_counts")
"""How many `steps` of the run, or of those that run again with the step of the number ``cleared``,
are in each `state`.
"""

step_groups: Final = Query("page_step_groups")
"""How many steps of each of the ``groups``, given by their ``numbers``, are in each state; None
without a ``run_id``. `first` is the number of the first of them, `name` its name.
"""

_HIGHEST: Final = 2**31 - 1
_rows: Final = Query("page_steps", limit=PAGE_ROWS + 1)
steps: Final = partial(_rows, last=_HIGHEST, first_item=-1, last_item=-1)
"""Steps of ``run_id`` from the number ``first`` on, one more than a page has."""

items: Final = partial(_rows, last_item=_HIGHEST)
"""The same of the items from ``first_item`` on; ``first`` and ``last`` are the number of the step.
"""

longest_steps: Final = Query("page_longest_steps", path=MOST_CRITICAL, limit=MOST_BARS)
"""The last `MOST_CRITICAL` steps of the critical path, then those that took the longest."""

step: Final = Query("page_step", most=MOST_JSON).one
"""The step ``name`` of ``run_id``, with its part of the definition."""

causes: Final = Query(item_causes.name, **item_causes.defaults)
"""Why items of a ``step`` failed, as `item_causes` says it."""

item_counts: Final = Query("page_item_counts")
"""How many items of a step are in each state."""

step_of_run: Final = Query("page_step_of_run", "run_id").one
"""The step of a workflow whose run this is."""
