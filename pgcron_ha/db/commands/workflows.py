"""What people do to workflows, and to steps of one that runs: the SQL functions from Python.

Errors are those of `pgcron_ha.errors`. A step is named by its workflow's run and its name.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call

start_workflow: Final = Call[int]("start_workflow_workflow", "workflow", args="{}")
"""The id of the root run of a workflow by its name. NotFound, InvalidInput."""

start_definition: Final = Call[int]("start_workflow_definition", "definition", args="{}")
"""The id of the root run of a definition (JSON text) that nobody has put. InvalidInput."""

put_workflow: Final = Call[int]("put_workflow", "workflow", "definition")
"""The definition (JSON text) is the workflow's newest version; which. InvalidInput, TooLarge."""

delete_workflow: Final = Call[None]("delete_workflow", "workflow")
"""It starts no more; what runs goes on. NotFound."""

signal: Final = Call[str]("signal", "run_id", "step", payload=None, note=None)
"""``ended`` (the step waited for it) or ``kept`` (until the step waits). NotFound, Conflict."""

approve_step: Final = Call[str]("approve_step", "run_id", "step", approved=True, note=None)
"""As `signal`, of a step that waits for an approval."""

skip_step: Final = Call[None]("skip_step", "run_id", "step", note=None)
"""The step does not run, or not on: it is skipped. NotFound, Conflict."""

succeed_step: Final = Call[None]("succeed_step", "run_id", "step", result=None, note=None)
"""The step counts as succeeded, with this result (JSON text). NotFound, Conflict."""

clear_step: Final = Call[int]("clear_step", "run_id", "step", note=None)
"""The step and all that come after it run again: how many these are. NotFound, Conflict."""

pause_workflow: Final = Call[None]("pause_workflow", "run_id", note=None)
"""No step begins until it is resumed; those that run go on. NotFound, Conflict."""

resume_workflow: Final = Call[None]("resume_workflow", "run_id", note=None)
"""Steps begin again. NotFound, Conflict."""

set_step_args: Final = Call[None]("set_step_args", "run_id", "step", "args", note=None)
"""The step, which has not begun, gets these args (JSON text). NotFound, Conflict."""
