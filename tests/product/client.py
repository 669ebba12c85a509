"""Parts of ``pgcron_ha.client`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.client import waiting
from pgcron_ha.client.checks import args_text, requirement_words
from pgcron_ha.client.fires import is_fire
from pgcron_ha.client.isolated import child_program
from pgcron_ha.client.loading import load_app
from pgcron_ha.client.options import (
    OF_RUNS,
    POLICIES,
    HandlerDefaults,
    Option,
    Policies,
    RunOptions,
)
from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.client.registry import Registry
from pgcron_ha.client.retry_policy import RetryPolicy, retry_text
from pgcron_ha.client.run_request import (
    MOST_RUNS,
    EnqueueStatement,
    NewRun,
    RunRequest,
    request_run,
)
from pgcron_ha.client.run_status import EnqueuedRun, RunStatus
from pgcron_ha.client.schedule_edits import FIELDS
from pgcron_ha.client.schedules import DEFAULTS, define_schedule
from pgcron_ha.client.verifying import Proof, prove, verdict_of
from pgcron_ha.client.waiting import Notifications, Waiting
from pgcron_ha.client.workflow_definitions import judged_workflow
from pgcron_ha.client.workflow_paths import Condition, Path, references
from pgcron_ha.client.workflow_starts import StartRequest, request_start

__all__ = [
    "DEFAULTS",
    "FIELDS",
    "MOST_RUNS",
    "OF_RUNS",
    "POLICIES",
    "Condition",
    "EnqueueStatement",
    "EnqueuedRun",
    "HandlerDefaults",
    "NewRun",
    "Notifications",
    "Option",
    "Path",
    "Policies",
    "Proof",
    "Registry",
    "RetryPolicy",
    "RunOptions",
    "RunRequest",
    "RunStatus",
    "StartRequest",
    "Waiting",
    "args_text",
    "child_program",
    "define_schedule",
    "is_fire",
    "judged_workflow",
    "load_app",
    "prove",
    "references",
    "request_run",
    "request_start",
    "requirement_words",
    "retry_text",
    "schedule_preview",
    "verdict_of",
    "waiting",
]
