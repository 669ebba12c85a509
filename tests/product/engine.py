"""Parts of ``pgcron_ha.engine`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.engine import batches, node, notifications
from pgcron_ha.engine.admit import admission
from pgcron_ha.engine.admit.admission import Admission
from pgcron_ha.engine.batches import BATCH_CHARACTERS, MOST_ASIDE, SetAside, isolate
from pgcron_ha.engine.claim import acceptance, dispatcher, search_order
from pgcron_ha.engine.claim.dispatcher import IDLE_LOOKS, Dispatcher
from pgcron_ha.engine.claim.prefetch import AHEAD_SECONDS, Prefetch
from pgcron_ha.engine.claim.search_order import AGEING_EVERY, PRIORITIES, SWEEP_SECONDS, SearchOrder
from pgcron_ha.engine.finish import completer
from pgcron_ha.engine.finish.completer import BATCH as COMPLETER_BATCH
from pgcron_ha.engine.finish.completer import (
    MOST_PENDING,
    MOST_PENDING_CHARACTERS,
    REPORTED_SINGLY,
    Completer,
)
from pgcron_ha.engine.lease import lease, session, state_directory
from pgcron_ha.engine.lease import reconcile as reconcile_module
from pgcron_ha.engine.lease.lease import LOST_AT, OVER_AT, SUSPECT_AT, Lease, LeasePhase
from pgcron_ha.engine.lease.reaper import BATCH as REAPER_BATCH
from pgcron_ha.engine.lease.reaper import Reaper
from pgcron_ha.engine.lease.reconcile import Beat, Held, PeerWatch, Reconciliation, reconcile
from pgcron_ha.engine.lease.session import Identity, Session, SessionHooks
from pgcron_ha.engine.lease.state_directory import Home
from pgcron_ha.engine.maintain import janitor
from pgcron_ha.engine.maintain.audit_webhook import ROWS, AuditWebhook
from pgcron_ha.engine.maintain.janitor import Janitor
from pgcron_ha.engine.materialize import materializer
from pgcron_ha.engine.materialize.backfills import BATCH as BACKFILLS_BATCH
from pgcron_ha.engine.materialize.backfills import BUSY_SECONDS, MOST_AT_ONCE, Backfills
from pgcron_ha.engine.materialize.materializer import BATCH as MATERIALIZER_BATCH
from pgcron_ha.engine.materialize.materializer import FIRES_PER_SCHEDULE, Materializer, decide
from pgcron_ha.engine.materialize.previews import AT_ONCE, FIRES, compute, write_previews
from pgcron_ha.engine.materialize.schedule_duties import materialize_parameters, one_fire
from pgcron_ha.engine.node import Node
from pgcron_ha.engine.notifications import Listener
from pgcron_ha.engine.process_exit import EXIT_UNRESPONSIVE
from pgcron_ha.engine.run import recorder, runner, timeouts
from pgcron_ha.engine.run.counters import (
    count_decided,
    count_dropped_lines,
    count_failures,
    count_lines,
    count_successes,
    count_waits,
)
from pgcron_ha.engine.run.executors import policy_of
from pgcron_ha.engine.run.recorder import BATCH as RECORDER_BATCH
from pgcron_ha.engine.run.recorder import BUFFER_LINES, PROGRESS_SECONDS, Recorder
from pgcron_ha.engine.run.runner import _OF_A_CLAIM, Ended, Runner
from pgcron_ha.engine.run.timeouts import EXIT_WITHOUT_LEASE, MARK_AFTER_SECONDS, TimeLimits, Watch
from pgcron_ha.engine.service import Service, reported
from pgcron_ha.engine.workflows.progress import WORKFLOWS

__all__ = [
    "AGEING_EVERY",
    "AHEAD_SECONDS",
    "AT_ONCE",
    "BACKFILLS_BATCH",
    "BATCH_CHARACTERS",
    "BUFFER_LINES",
    "BUSY_SECONDS",
    "COMPLETER_BATCH",
    "EXIT_UNRESPONSIVE",
    "EXIT_WITHOUT_LEASE",
    "FIRES",
    "FIRES_PER_SCHEDULE",
    "IDLE_LOOKS",
    "LOST_AT",
    "MARK_AFTER_SECONDS",
    "MATERIALIZER_BATCH",
    "MOST_ASIDE",
    "MOST_AT_ONCE",
    "MOST_PENDING",
    "MOST_PENDING_CHARACTERS",
    "OVER_AT",
    "PRIORITIES",
    "PROGRESS_SECONDS",
    "REAPER_BATCH",
    "RECORDER_BATCH",
    "REPORTED_SINGLY",
    "ROWS",
    "SUSPECT_AT",
    "SWEEP_SECONDS",
    "WORKFLOWS",
    "_OF_A_CLAIM",
    "Admission",
    "AuditWebhook",
    "Backfills",
    "Beat",
    "Completer",
    "Dispatcher",
    "Ended",
    "Held",
    "Home",
    "Identity",
    "Janitor",
    "Lease",
    "LeasePhase",
    "Listener",
    "Materializer",
    "Node",
    "PeerWatch",
    "Prefetch",
    "Reaper",
    "Reconciliation",
    "Recorder",
    "Runner",
    "SearchOrder",
    "Service",
    "Session",
    "SessionHooks",
    "SetAside",
    "TimeLimits",
    "Watch",
    "acceptance",
    "admission",
    "batches",
    "completer",
    "compute",
    "count_decided",
    "count_dropped_lines",
    "count_failures",
    "count_lines",
    "count_successes",
    "count_waits",
    "decide",
    "dispatcher",
    "isolate",
    "janitor",
    "lease",
    "materialize_parameters",
    "materializer",
    "node",
    "notifications",
    "one_fire",
    "policy_of",
    "reconcile",
    "reconcile_module",
    "recorder",
    "reported",
    "runner",
    "search_order",
    "session",
    "state_directory",
    "timeouts",
    "write_previews",
]
