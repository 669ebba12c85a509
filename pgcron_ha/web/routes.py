"""The table of routes: path, name, what it needs, what it does. There is no other way in.

A path segment in braces is one segment of the address, whatever characters the name in it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from pgcron_ha.web import probes
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages import (
    assets_page,
    backfills,
    calendars,
    dead_letters,
    ledger,
    nodes,
    occurrence_verbs,
    overview,
    queues,
    run,
    runs,
    schedule,
    schedule_edit,
    schedule_new,
    schedule_verbs,
    schedule_versions,
    schedules,
    storage,
)

Endpoint = Callable[[PageRequest], Awaitable[Response]]

# What a person may be allowed to do; a role will be a set of these.
PERMISSIONS: Final = frozenset(
    {
        "open",  # needs nothing: probes for the operating system, files that are in the package
        "overview:read",
        "schedules:read",
        "schedules:run",
        "schedules:pause",
        "schedules:edit",
        "schedules:write",
        "schedules:backfill",
        "runs:read",
        "runs:logs",
        "runs:cancel",
        "runs:retry",
        "dead:read",
        "dead:redrive",
        "queues:read",
        "queues:pause",
        "breakers:reset",
        "nodes:read",
        "nodes:drain",
        "storage:read",
        "metrics:read",
    }
)


@dataclass(frozen=True)
class WebRoute:
    """One line of the table; `method` is GET (and HEAD) or POST."""

    method: str
    path: str
    name: str
    permission: str
    endpoint: Endpoint


ROUTES: Final[tuple[WebRoute, ...]] = (
    WebRoute("GET", "/", "overview", "overview:read", overview.show_overview),
    WebRoute("GET", "/schedules", "schedules", "schedules:read", schedules.show_schedules),
    WebRoute("GET", "/new-schedule", "new_schedule", "schedules:read", schedule_new.show_new),
    WebRoute("POST", "/new-schedule", "create_schedule", "schedules:write", schedule_new.create),
    WebRoute("GET", "/schedules/{name}", "schedule", "schedules:read", schedule.show_schedule),
    WebRoute("POST", "/schedules/{name}/run", "run_now", "schedules:run", schedule_verbs.run_now),
    WebRoute("POST", "/schedules/{name}/pause", "pause", "schedules:pause", schedule_verbs.pause),
    WebRoute(
        "POST", "/schedules/{name}/rename", "rename", "schedules:write", schedule_verbs.rename
    ),
    WebRoute(
        "POST", "/schedules/{name}/resume", "resume", "schedules:pause", schedule_verbs.resume
    ),
    WebRoute(
        "GET", "/schedules/{name}/occurrences", "occurrences", "schedules:read", ledger.show_ledger
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/occurrences/skip",
        "skip_fire",
        "schedules:pause",
        occurrence_verbs.skip,
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/occurrences/move",
        "move_fire",
        "schedules:pause",
        occurrence_verbs.move,
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/occurrences/edit",
        "edit_fire",
        "schedules:run",
        occurrence_verbs.edit,
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/occurrences/restore",
        "restore_fire",
        "schedules:pause",
        occurrence_verbs.restore,
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/occurrences/restore-args",
        "restore_args",
        "schedules:run",
        occurrence_verbs.restore_args,
    ),
    WebRoute("GET", "/schedules/{name}/edit", "edit", "schedules:read", schedule_edit.show_edit),
    WebRoute("POST", "/schedules/{name}/save", "save", "schedules:edit", schedule_edit.save),
    WebRoute(
        "GET",
        "/schedules/{name}/versions",
        "versions",
        "schedules:read",
        schedule_versions.show_versions,
    ),
    WebRoute(
        "POST", "/schedules/{name}/restore", "restore", "schedules:edit", schedule_versions.restore
    ),
    WebRoute(
        "POST",
        "/schedules/{name}/backfill",
        "ask_backfill",
        "schedules:backfill",
        backfills.ask_for,
    ),
    WebRoute("GET", "/backfills", "backfills", "schedules:read", backfills.show_backfills),
    WebRoute("GET", "/backfills/{id}", "backfill", "schedules:read", backfills.show_backfill),
    WebRoute(
        "POST", "/backfills/{id}/pause", "pause_backfill", "schedules:backfill", backfills.pause
    ),
    WebRoute(
        "POST", "/backfills/{id}/resume", "resume_backfill", "schedules:backfill", backfills.resume
    ),
    WebRoute("POST", "/backfills/{id}/stop", "stop_backfill", "schedules:backfill", backfills.stop),
    WebRoute("GET", "/calendars", "calendars", "schedules:read", calendars.show_calendars),
    WebRoute("GET", "/calendars/{name}", "calendar", "schedules:read", calendars.show_calendar),
    WebRoute("POST", "/calendars", "save_calendar", "schedules:edit", calendars.save),
    WebRoute(
        "POST", "/calendars/{name}/delete", "delete_calendar", "schedules:edit", calendars.delete
    ),
    WebRoute("GET", "/dead", "dead", "dead:read", dead_letters.show_dead_letters),
    WebRoute("POST", "/dead/redrive", "redrive_cause", "dead:redrive", dead_letters.redrive_cause),
    WebRoute("POST", "/dead/{id}/redrive", "redrive", "dead:redrive", dead_letters.redrive),
    WebRoute("GET", "/queues", "queues", "queues:read", queues.show_queues),
    WebRoute("GET", "/queues/{name}", "queue", "queues:read", queues.show_queue),
    WebRoute("POST", "/queues/{name}/pause", "pause_queue", "queues:pause", queues.pause),
    WebRoute("POST", "/queues/{name}/resume", "resume_queue", "queues:pause", queues.resume),
    WebRoute(
        "POST", "/breakers/{name}/reset", "reset_breaker", "breakers:reset", queues.reset_breaker
    ),
    WebRoute("GET", "/nodes", "nodes", "nodes:read", nodes.show_nodes),
    WebRoute("GET", "/nodes/{incarnation}", "node", "nodes:read", nodes.show_node),
    WebRoute("POST", "/nodes/{incarnation}/cordon", "cordon", "nodes:drain", nodes.cordon),
    WebRoute("POST", "/nodes/{incarnation}/uncordon", "uncordon", "nodes:drain", nodes.uncordon),
    WebRoute("GET", "/storage", "storage", "storage:read", storage.show_storage),
    WebRoute("GET", "/storage/{name}", "storage_table", "storage:read", storage.show_table),
    WebRoute("GET", "/runs", "runs", "runs:read", runs.show_runs),
    WebRoute("GET", "/runs/{id}", "run", "runs:read", run.show_run),
    WebRoute("GET", "/runs/{id}/log", "run_log", "runs:logs", run.show_log),
    WebRoute("POST", "/runs/{id}/cancel", "cancel", "runs:cancel", run.cancel),
    WebRoute("POST", "/runs/{id}/kill", "kill", "runs:cancel", run.kill),
    WebRoute("POST", "/runs/{id}/retry", "retry", "runs:retry", run.retry),
    WebRoute("GET", "/static/{file}", "static", "open", assets_page.show_static_file),
    WebRoute("GET", "/favicon.ico", "favicon", "open", assets_page.show_icon),
    WebRoute("GET", "/robots.txt", "robots", "open", assets_page.show_robots),
    WebRoute("GET", "/livez", "livez", "open", probes.show_livez),
    WebRoute("GET", "/readyz", "readyz", "open", probes.show_readyz),
    WebRoute("GET", "/startupz", "startupz", "open", probes.show_startupz),
    WebRoute("GET", "/statusz", "statusz", "metrics:read", probes.show_statusz),
    WebRoute("GET", "/metrics", "metrics", "metrics:read", probes.show_metrics),
)
