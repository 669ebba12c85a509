"""The table of routes: path, name, what it needs, what it does. There is no other way in.

A path segment in braces is one segment of the address, whatever characters the name in it has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pgcron_ha.web import probes
from pgcron_ha.web.page_request import Endpoint
from pgcron_ha.web.pages import (
    audit,
    backfills,
    calendars,
    cluster,
    dead_letters,
    docs,
    ledger,
    login,
    overview,
    run,
    runs,
    schedule_edit,
    schedules,
    steps,
    workflows,
)


class WebRoute(NamedTuple):
    """One line of the table; `method` is GET (and HEAD) or POST.

    Which role has a permission, `pgcron_ha.model.permissions` says; "open" needs none: probes for
    the operating system, files of the package.
    """

    method: str
    path: str
    name: str
    permission: str
    endpoint: Endpoint

    @property
    def audited(self) -> tuple[str, str] | None:
        """The verb and the kind that the audit has of a POST, which is named after them:
        ``skip_occurrence``; ``redrive_runs`` of many at once. None of a GET.
        """
        verb, _, kind = self.name.rpartition("_")
        return (verb, kind.removesuffix("s")) if self.method == "POST" else None


# Of paths that begin alike: the method, the rest of the path, the name, the permission, the page.
_ROUTES: Final[dict[str, tuple[tuple[str, str, str, str, Endpoint], ...]]] = {
    "": (
        ("GET", "/", "overview", "overview:read", overview.show_overview),
        ("GET", "/schedules", "schedules", "schedules:read", schedules.show_schedules),
        ("GET", "/new-schedule", "new_schedule", "schedules:read", schedule_edit.show_new),
        ("POST", "/new-schedule", "create_schedule", "schedules:write", schedule_edit.create),
        ("GET", "/backfills", "backfills", "schedules:read", backfills.show_backfills),
        ("GET", "/audit", "audit", "audit:read", audit.show_audit),
        ("GET", "/storage", "storage", "storage:read", cluster.show_storage),
        ("GET", "/roles", "roles", "roles:read", login.show_roles),
        ("GET", "/runs", "runs", "runs:read", runs.show_runs),
        ("GET", "/workflows", "workflows", "workflows:read", workflows.show_workflows),
        ("GET", "/enter/{key}", "enter", "open", login.enter),
        ("GET", "/login", "login", "open", login.show_login),
        ("GET", "/login/oidc", "login_by_provider", "open", login.login_by_provider),
        ("GET", "/login/oidc/callback", "provider_callback", "open", login.provider_callback),
        ("POST", "/login", "log_in", "open", login.log_in),
        ("POST", "/logout", "log_out", "open", login.log_out),
        ("GET", "/docs", "docs", "open", docs.show_document),
        ("GET", "/docs/{name}", "document", "open", docs.show_document),
        ("GET", "/static/{file}", "static", "open", docs.show_static_file),
        ("GET", "/livez", "livez", "open", probes.show_livez),
        ("GET", "/readyz", "readyz", "open", probes.show_readyz),
        ("GET", "/startupz", "startupz", "open", probes.show_startupz),
        ("GET", "/statusz", "statusz", "metrics:read", probes.show_statusz),
        ("GET", "/metrics", "metrics", "metrics:read", probes.show_metrics),
    ),
    "/account": (
        ("GET", "", "account", "account:read", login.show_account),
        ("POST", "/password", "set_password", "account:write", login.set_password),
        ("POST", "/sessions/end", "end_sessions", "account:write", login.end_sessions),
        ("POST", "/sessions/{session}/end", "end_session", "account:write", login.end_sessions),
        ("POST", "/tokens", "add_token", "account:write", login.add_token),
        ("POST", "/tokens/{token}/revoke", "revoke_token", "account:write", login.revoke_token),
    ),
    "/schedules/{name}": (
        ("GET", "", "schedule", "schedules:read", schedules.show_schedule),
        ("POST", "/run", "run_schedule", "schedules:run", schedules.run_now),
        ("POST", "/pause", "pause_schedule", "schedules:pause", schedules.pause),
        ("POST", "/rename", "rename_schedule", "schedules:write", schedules.rename),
        ("POST", "/delete", "delete_schedule", "schedules:write", schedules.delete),
        ("POST", "/resume", "resume_schedule", "schedules:pause", schedules.resume),
        ("GET", "/edit", "edit", "schedules:read", schedule_edit.show_edit),
        ("POST", "/save", "edit_schedule", "schedules:edit", schedule_edit.save),
        ("GET", "/versions", "versions", "schedules:read", schedule_edit.show_versions),
        ("POST", "/restore", "restore_schedule", "schedules:edit", schedule_edit.restore),
        ("POST", "/backfill", "start_backfill", "schedules:backfill", backfills.ask_for),
    ),
    "/schedules/{name}/occurrences": (
        ("GET", "", "occurrences", "schedules:read", ledger.show_ledger),
        ("POST", "/skip", "skip_occurrence", "schedules:pause", schedules.skip_fire),
        ("POST", "/move", "move_occurrence", "schedules:pause", schedules.move_fire),
        ("POST", "/edit", "edit_occurrence", "schedules:edit", schedules.edit_fire),
        ("POST", "/restore", "restore_occurrence", "schedules:edit", schedules.restore_fire),
    ),
    "/backfills/{id}": (
        ("GET", "", "backfill", "schedules:read", backfills.show_backfill),
        ("POST", "/pause", "pause_backfill", "schedules:backfill", backfills.pause),
        ("POST", "/resume", "resume_backfill", "schedules:backfill", backfills.resume),
        ("POST", "/stop", "stop_backfill", "schedules:backfill", backfills.stop),
    ),
    "/calendars": (
        ("GET", "", "calendars", "schedules:read", calendars.show_calendars),
        ("GET", "/{name}", "calendar", "schedules:read", calendars.show_calendar),
        ("POST", "", "edit_calendar", "calendars:write", calendars.save),
        ("POST", "/{name}/delete", "delete_calendar", "calendars:write", calendars.delete),
    ),
    "/dead": (
        ("GET", "", "dead", "dead:read", dead_letters.show_dead_letters),
        ("POST", "/redrive", "redrive_runs", "dead:redrive", dead_letters.redrive_cause),
        ("POST", "/{id}/redrive", "redrive_run", "dead:redrive", dead_letters.redrive),
        ("POST", "/archive", "archive_runs", "dead:archive", dead_letters.archive),
        ("POST", "/{id}/archive", "archive_run", "dead:archive", dead_letters.archive),
    ),
    "/breakers": (
        ("POST", "/{name}/reset", "reset_breaker", "breakers:reset", cluster.reset_breaker),
    ),
    "/queues": (
        ("GET", "", "queues", "queues:read", cluster.show_queues),
        ("GET", "/{name}", "queue", "queues:read", cluster.show_queue),
        ("POST", "/{name}/pause", "pause_queue", "queues:pause", cluster.pause),
        ("POST", "/{name}/resume", "resume_queue", "queues:pause", cluster.resume),
    ),
    "/nodes": (
        ("GET", "", "nodes", "nodes:read", cluster.show_nodes),
        ("GET", "/{incarnation}", "node", "nodes:read", cluster.show_node),
        ("POST", "/{incarnation}/cordon", "cordon_node", "nodes:drain", cluster.cordon),
        ("POST", "/{incarnation}/uncordon", "uncordon_node", "nodes:drain", cluster.uncordon),
    ),
    "/runs/{id}": (
        ("GET", "", "run", "runs:read", run.show_run),
        ("GET", "/log", "run_log", "runs:logs", run.show_log),
        ("POST", "/cancel", "cancel_run", "runs:cancel", run.cancel),
        ("POST", "/kill", "kill_run", "runs:cancel", run.kill),
        ("POST", "/retry", "retry_run", "runs:retry", run.retry),
        ("POST", "/pause", "pause_run", "workflows:pause", steps.pause),
        ("POST", "/resume", "resume_run", "workflows:pause", steps.resume),
    ),
    "/runs/{id}/steps/{step}": (
        ("GET", "", "step", "runs:read", steps.show_step),
        ("POST", "/signal", "signal_step", "workflows:signal", steps.signal),
        ("POST", "/approve", "approve_step", "workflows:approve", steps.approve),
        ("POST", "/reject", "reject_step", "workflows:approve", steps.reject),
        ("POST", "/skip", "skip_step", "workflows:repair", steps.skip),
        ("POST", "/succeed", "succeed_step", "workflows:repair", steps.succeed),
        ("POST", "/clear", "clear_step", "workflows:repair", steps.clear),
        ("POST", "/args", "set_args_step", "workflows:repair", steps.set_args),
    ),
    "/workflows/{name}": (
        ("GET", "", "workflow", "workflows:read", workflows.show_workflow),
        ("POST", "/start", "start_workflow", "workflows:start", workflows.start),
    ),
}
ROUTES: Final = tuple(
    WebRoute(method, path + rest, name, permission, endpoint)
    for path, routes in _ROUTES.items()
    for method, rest, name, permission, endpoint in routes
)
