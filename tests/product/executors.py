"""Parts of ``pgcron_ha.executors`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.executors.contract import masking, tasks
from pgcron_ha.executors.contract.attempt import Attempt, RunServices
from pgcron_ha.executors.contract.failures import fingerprint_of, normalized, outcome_of_error
from pgcron_ha.executors.contract.log_lines import CUT_MARK, MAX_LINE_BYTES, MAX_LINES, RunLog
from pgcron_ha.executors.contract.masking import MASK, mask, remember_password, remember_secret
from pgcron_ha.executors.contract.outcome import MAX_RESULT_BYTES, Succeeded
from pgcron_ha.executors.contract.placeholders import MAX_VALUE_CHARACTERS, placeholder_texts
from pgcron_ha.executors.contract.previous import Previous
from pgcron_ha.executors.contract.progress import MOST_NOTE, Progress, read_line
from pgcron_ha.executors.http.callback import CallbackDesk
from pgcron_ha.executors.http.client import MAX_BODY_BYTES as CLIENT_MAX_BODY_BYTES
from pgcron_ha.executors.http.client import is_allowed
from pgcron_ha.executors.http.executor import HttpExecutor
from pgcron_ha.executors.http.request import render_request
from pgcron_ha.executors.http.work_reports import MAX_BODY_BYTES as WORK_REPORTS_MAX_BODY_BYTES
from pgcron_ha.executors.http.work_reports import PATH
from pgcron_ha.executors.plugins import GROUP, load_plugin
from pgcron_ha.executors.process import supervisor_client
from pgcron_ha.executors.process.executor import ShellExecutor
from pgcron_ha.executors.process.supervisor_client import MARK, SupervisorClient, bury_descendants
from pgcron_ha.executors.python.child_pool import ChildPool, _environment
from pgcron_ha.executors.python.executor import PythonExecutor
from pgcron_ha.executors.python.handler import PythonHandler
from pgcron_ha.executors.python.parameters import Parameters
from pgcron_ha.executors.sql.executor import SqlExecutor

__all__ = [
    "CLIENT_MAX_BODY_BYTES",
    "CUT_MARK",
    "GROUP",
    "MARK",
    "MASK",
    "MAX_LINES",
    "MAX_LINE_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_VALUE_CHARACTERS",
    "MOST_NOTE",
    "PATH",
    "WORK_REPORTS_MAX_BODY_BYTES",
    "Attempt",
    "CallbackDesk",
    "ChildPool",
    "HttpExecutor",
    "Parameters",
    "Previous",
    "Progress",
    "PythonExecutor",
    "PythonHandler",
    "RunLog",
    "RunServices",
    "ShellExecutor",
    "SqlExecutor",
    "Succeeded",
    "SupervisorClient",
    "_environment",
    "bury_descendants",
    "fingerprint_of",
    "is_allowed",
    "load_plugin",
    "mask",
    "masking",
    "normalized",
    "outcome_of_error",
    "placeholder_texts",
    "read_line",
    "remember_password",
    "remember_secret",
    "render_request",
    "supervisor_client",
    "tasks",
]
