"""Parts of ``pgcron_ha.client`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.client import waiting
from pgcron_ha.client.checks import args_text, requirement_words
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
from pgcron_ha.client.retry_policy import RetryPolicy, retry_text
from pgcron_ha.client.run_request import (
    MOST_RUNS,
    EnqueueStatement,
    NewRun,
    RunRequest,
    request_run,
    request_runs,
)
from pgcron_ha.client.run_status import EnqueuedRun, RunStatus
from pgcron_ha.client.schedule_edits import FIELDS
from pgcron_ha.client.schedules import DEFAULTS, define_schedule
from pgcron_ha.client.verifying import Proof, prove, verdict_of
from pgcron_ha.client.waiting import Notifications, Waiting

__all__ = [
    "DEFAULTS",
    "FIELDS",
    "MOST_RUNS",
    "OF_RUNS",
    "POLICIES",
    "EnqueueStatement",
    "EnqueuedRun",
    "HandlerDefaults",
    "NewRun",
    "Notifications",
    "Option",
    "Policies",
    "Proof",
    "RetryPolicy",
    "RunOptions",
    "RunRequest",
    "RunStatus",
    "Waiting",
    "args_text",
    "child_program",
    "define_schedule",
    "load_app",
    "prove",
    "request_run",
    "request_runs",
    "requirement_words",
    "retry_text",
    "schedule_preview",
    "verdict_of",
    "waiting",
]
