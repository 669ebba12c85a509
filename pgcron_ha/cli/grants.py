"""``pgcron-ha grants``: the SQL that gives a role its rights; printed, never executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.client.options import POLICIES
from pgcron_ha.db.driver.statements import in_schema, literal
from pgcron_ha.errors import InvalidInput

# Column lists, so that nobody forges a state, an owner, a token or an attempt.
_RUN = (
    "handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, "
    "concurrency_key, weight, requires, unique_key, unique_scope, expire_at, time_limits, "
    "tags, created_by"
)
_RUN_OF_SCHEDULE = (
    f"{_RUN}, origin, schedule_id, schedule, nominal_for, parent_run, "
    "retry_base, retry_cap, overlap"
)
_SCHEDULE = ", ".join(("name, spec, handler, paused_note, paused_until, source", *POLICIES))
_VIEWS = (
    "runs, schedules, schedule_versions, occurrences, nodes, queues, dead_letters, error_groups, "
    "backfills, calendars, workflows, workflow_runs, workflow_steps, assets"
)
_READABLE = (
    "cluster, node, cordon, offer, queue, concurrency_limit, timezone, schedule, cursor, "
    "schedule_version, schedule_preview, progress, occurrence, missed, occurrence_override, "
    "history, ended_runs, history_overflow, attempt, dead_letter, log, owned, retention, "
    "retention_rule, retention_sweep, reason, breaker, breaker_handler, diversion, fire_failure, "
    "failure_pause, "
    "backfill_run, overrun, calendar, outdated_plan, rate_window, waiting, workflow_definition, "
    "workflow_step, workflow_edge, workflow_run, step, step_outbox, step_signal"
)
_READABLE_OF_RUN = (
    f"id, uuid, {_RUN_OF_SCHEDULE}, scheduled_for, state, gate, attempt, overlap_slot, snoozes, "
    "lost_early, key_slot, owner, fence, claimed_at, started_at, cancel_at, cancel_reason, "
    "kill_at, last_error, created_at, awaited"
)

_READ = (
    f"GRANT SELECT ON {_VIEWS} TO",
    f"GRANT SELECT ON {_READABLE} TO",
    # All but the token, which says who holds a run. A grant of earlier versions included it.
    "REVOKE SELECT ON run FROM",
    f"GRANT SELECT ({_READABLE_OF_RUN}) ON run TO",
    # To find a run by its key; who reads the args of runs learns no more from their keys.
    "GRANT SELECT (key, run_id) ON idempotency TO",
    "GRANT SELECT ON unique_period TO",
    "GRANT EXECUTE ON FUNCTION scale_demand, calendars_of, ask_preview TO",
)
# What pgcron.enqueue remembers of keys, and how it replaces what has not begun.
_KEYS = (
    "GRANT SELECT, INSERT, UPDATE (run_id, expires_at) ON idempotency TO",
    "GRANT SELECT, INSERT, UPDATE (run_id, until) ON unique_period TO",
    "GRANT EXECUTE ON FUNCTION replace_run TO",
)
# Skips, moves or edits one fire to come.
_ONE_FIRE = "GRANT EXECUTE ON FUNCTION override_occurrence TO"
_STATEMENTS: dict[str, tuple[str, ...]] = {
    "producer": (
        f"GRANT INSERT (id, {_RUN}) ON run TO",
        # What RETURNING and the status of one's own run need; args of others stay unread.
        "GRANT SELECT (id, uuid, handler, queue, state, due_at, attempt, unique_key, unique_scope) "
        "ON run TO",
        *_KEYS,
        "GRANT USAGE ON SEQUENCE run_id_seq TO",
        # Whether a workflow exists that it starts.
        "GRANT SELECT (id, name, version, deleted_at) ON workflow_definition TO",
        # Its own runs with args and results, and their end.
        "GRANT SELECT ON own_runs TO",
        "GRANT EXECUTE ON FUNCTION cancel_own_run TO",
    ),
    "scheduler": (
        *_READ,
        f"GRANT INSERT ({_SCHEDULE}), UPDATE ({_SCHEDULE}), DELETE ON schedule TO",
        "GRANT EXECUTE ON FUNCTION put_calendar, delete_calendar, apply_calendars, "
        "prune_calendars TO",
        "GRANT EXECUTE ON FUNCTION put_workflow, delete_workflow, define_run TO",
        _ONE_FIRE,
    ),
    "operator": (
        *_READ,
        "GRANT UPDATE (enabled, paused_note, paused_until) ON schedule TO",
        _ONE_FIRE,
        f"GRANT INSERT (id, {_RUN_OF_SCHEDULE}), "
        "UPDATE (due_at, cancel_at, cancel_reason, kill_at) ON run TO",
        "GRANT USAGE ON SEQUENCE run_id_seq TO",
        "GRANT EXECUTE ON FUNCTION end_waiting_runs, stop_workflow, follow_workflow, signal, "
        "skip_step, succeed_step, clear_step, set_step_args, pause_workflow, resume_workflow TO",
        "GRANT UPDATE (redriven_as, closed_at, closed_by, note) ON dead_letter TO",
        "GRANT UPDATE (paused_at, paused_by, paused_note) ON cluster TO",
        "GRANT INSERT, UPDATE ON queue TO",
        # New limits forget what was counted by the old ones.
        "GRANT SELECT (kind, name), DELETE ON rate_window TO",
        "GRANT INSERT, UPDATE ON cordon TO",
        "GRANT INSERT, UPDATE, DELETE ON concurrency_limit, breaker, breaker_handler TO",
        "GRANT EXECUTE ON FUNCTION backfill, pause_backfill, resume_backfill, stop_backfill TO",
        # A form that is sent twice is one operation.
        *_KEYS,
    ),
    "viewer": _READ,
    # Who works for a run that a node executes: no table, and nothing without the claim's token.
    "service": ("GRANT EXECUTE ON FUNCTION assert_token, finish_run, previous_of, results_of TO",),
    # Whose updates of assets start schedules.
    "updater": ("GRANT EXECUTE ON FUNCTION update_asset TO",),
    # What serves the pages with login, beside the parts of viewer and operator.
    "login": (
        "GRANT EXECUTE ON FUNCTION begin_login, end_login, refuse_login, login_by_provider, "
        "note_user, user_of_session, user_of_token, grants_of_named, has_password, log_out, "
        "revoke_sessions, set_password, add_token, revoke_token, record_refusal TO",
        "GRANT SELECT ON web_session, api_token, role_grant TO",
    ),
    # What takes callbacks: no table, and nothing without a callback's token.
    "callbacks": ("GRANT EXECUTE ON FUNCTION answer_callback, known_callbacks TO",),
    # What starts and stops nodes learns one number.
    "autoscaler": ("GRANT EXECUTE ON FUNCTION scale_demand TO",),
}
PARTS = tuple(_STATEMENTS)
_MOST_CHARACTERS = 63


@click.command("grants")
@click.argument("part", type=click.Choice(PARTS))
@click.argument("role")
@click.option("--queue", "queues", multiple=True, help="a producer's: a name, or mail-* (repeat)")
@click.option("--handler", "handlers", multiple=True, help="a producer's: py:mail, or py:*")
def grants_command(
    part: str, role: str, queues: tuple[str, ...], handlers: tuple[str, ...]
) -> None:
    """Print the SQL that gives ROLE the rights of a part.

    producer: enqueue runs. scheduler: define schedules. operator: pause, run, cancel, retry and
    redrive. viewer: look. service: assert that a run's claim holds, and complete the run, in its
    own transaction. updater: say that assets were updated. login: let users in to the
    pages, which need viewer and operator, too. callbacks: take what called services
    say. autoscaler: read how many slots are wanted. A role may have several parts. Nodes connect as
    the role that migrated, which owns the tables and makes their partitions. A producer may enqueue
    anything, unless --queue or --handler says what.
    """
    if (queues or handlers) and part != "producer":
        raise click.UsageError("--queue and --handler say what a producer may enqueue")
    schema = command_context().load().schema
    printed = list(statements(part, role, schema))
    if queues or handlers:
        # The rules first, and nothing without them: a producer without rules may enqueue anything.
        rules = confinement(role, queues, handlers, schema)
        printed = ["BEGIN;", rules, *printed, "COMMIT;"]
    for statement in printed:
        echo(statement)


def statements(part: str, role: str, schema: str) -> Iterator[str]:
    """The GRANTs of a part, and what earlier ones gave too much; each ends with a semicolon."""
    in_schema("", schema)
    receiver = _quoted(role)
    yield f"GRANT USAGE ON SCHEMA {schema} TO {receiver};"
    yield f"GRANT SELECT ON {schema}.alembic_version TO {receiver};"
    for statement in _STATEMENTS[part]:
        verb, _, to = statement.rpartition(" ")
        grant, on, relations = verb.rpartition(" ON ")
        word = relations.partition(" ")[0]
        kind = f"{word} " if word in ("SEQUENCE", "FUNCTION") else ""
        names = relations.removeprefix(kind).split(", ")
        listed = ", ".join(f"{schema}.{name}" for name in names)
        yield f"{grant}{on}{kind}{listed} {to} {receiver};"


def confinement(role: str, queues: Sequence[str], handlers: Sequence[str], schema: str) -> str:
    """The call that lets a producer enqueue these and nothing else; an empty list means all. The
    database refuses what is no name of a queue or handler.
    """
    lists = (
        "ARRAY[" + ", ".join(literal(name) for name in names or ("*",)) + "]"
        for names in (queues, handlers)
    )
    return f"SELECT {schema}.confine_producer({literal(role)}, {', '.join(lists)});"


def _quoted(role: str) -> str:
    if not 1 <= len(role) <= _MOST_CHARACTERS or "\x00" in role:
        raise InvalidInput(
            f"role '{role[:100]}' is not the name of a role",
            f"A role's name has 1 to {_MOST_CHARACTERS} characters.",
            "Name a role that exists; `CREATE ROLE` makes one.",
        )
    if re.fullmatch(r"[a-z_][a-z0-9_]*", role) and role not in ("public", "user", "all"):
        return role
    return '"' + role.replace('"', '""') + '"'
