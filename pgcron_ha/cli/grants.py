"""``pgcron-ha grants``: the SQL that gives a role its rights; printed, never executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from pgcron_ha.cli.arguments import ReadBy, flag, option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.client.options import POLICIES
from pgcron_ha.db.driver.statements import literal
from pgcron_ha.errors import InvalidInput

# Column lists, so that nobody forges a state, an owner, a token or an attempt.
_RUN = (
    "handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, "
    "concurrency_key, weight, requires, expire_at, time_limits, tags, created_by"
)
_SCHEDULE = ", ".join(("name, spec, handler, paused_note, paused_until, source", *POLICIES))
_VIEWS = (
    "runs, schedules, schedule_versions, occurrences, nodes, queues, dead_letters, error_groups, "
    "backfills, calendars, workflows, workflow_runs, workflow_steps, assets"
)
# Tables that nodes write and viewers may read.
_SHOWN_WORK = (
    "attempt, backfill_run, breaker, breaker_handler, cluster, concurrency_limit, cordon, cursor, "
    "dead_letter, fallback_run, fire_failure, history, history_overflow, log, missed, node, "
    "occurrence, occurrence_override, offer, outdated_plan, overrun, progress, queue, rate_window, "
    "retention_sweep, schedule, schedule_preview, schedule_version, step, step_outbox, "
    "step_signal, timezone, workflow_definition, workflow_edge, workflow_run, workflow_step"
)
_READABLE = (
    f"{_SHOWN_WORK}, audit_export, calendar, decided_fire, ended_runs, every_run, owned, reason, "
    "retention, retention_rule, waiting"
)
_READABLE_OF_RUN = (
    f"id, uuid, {_RUN}, origin, schedule_id, schedule, nominal_for, parent_run, overlap, "
    "unique_key, unique_scope, namespace, created_login, scheduled_for, state, gate, attempt, "
    "overlap_slot, snoozes, lost_early, key_slot, owner, fence, claimed_at, started_at, cancel_at, "
    "cancel_reason, kill_at, last_error, created_at, awaited"
)
# All that nodes write: not who may do what, how long records are kept, and what a calendar says.
_WORKED_ON = (
    f"{_SHOWN_WORK}, assertion, asset, asset_update, backfill, callback, given_back, "
    "idempotency, schedule_asset, unique_period"
)

_READ = (
    f"SELECT ON {_VIEWS}",
    f"SELECT ON {_READABLE}",
    # All but the token, which says who holds a run.
    f"SELECT ({_READABLE_OF_RUN}) ON run",
    # To find a run by its key; who reads the args of runs learns no more from their keys.
    "SELECT (namespace, key, run_id, expires_at) ON idempotency",
    "SELECT ON unique_period",
    "SELECT ON producer",
    "EXECUTE ON FUNCTION scale_demand, calendars_of, ask_preview",
)
_PAUSES = "EXECUTE ON FUNCTION pause_schedule, resume_schedule"
# Skips, moves or edits one fire to come.
_ONE_FIRE = "EXECUTE ON FUNCTION override_occurrence"
_STATEMENTS: dict[str, tuple[str, ...]] = {
    "producer": (
        "EXECUTE ON FUNCTION enqueue, enqueue_many, judge_start",
        f"INSERT ({_RUN}) ON run",
        # What RETURNING needs: the rest of others stays unread.
        "SELECT (id) ON run",
        # Its own runs with args and results, and their end.
        "SELECT ON own_runs",
        "EXECUTE ON FUNCTION cancel_own_run",
    ),
    "scheduler": (
        *_READ,
        f"INSERT ({_SCHEDULE}), UPDATE ({_SCHEDULE}), DELETE ON schedule",
        _PAUSES,
        "EXECUTE ON FUNCTION put_calendar, delete_calendar, apply_calendars, prune_calendars",
        "EXECUTE ON FUNCTION put_workflow, delete_workflow, define_run",
        _ONE_FIRE,
    ),
    "operator": (
        *_READ,
        _PAUSES,
        _ONE_FIRE,
        # No table: what it changes, functions change and record.
        "EXECUTE ON FUNCTION enqueue, enqueue_many, judge_start, begin_operation, end_operation, "
        "run_now, cancel_run, kill_run, retry_run, redrive, redrive_many, hold_letters, "
        "archive_dead_letters",
        "EXECUTE ON FUNCTION signal, approve_step, skip_step, succeed_step, clear_step, "
        "set_step_args, pause_workflow, resume_workflow",
        "EXECUTE ON FUNCTION pause_cluster, resume_cluster, pause_queue, resume_queue, "
        "set_queue, set_concurrency, delete_concurrency, set_breaker, reset_breaker, "
        "delete_breaker, cordon_node, uncordon_node",
        "EXECUTE ON FUNCTION backfill, pause_backfill, resume_backfill, stop_backfill",
    ),
    "viewer": _READ,
    # Who did what, and who may; updates how far the audit is complete, and nothing else.
    "auditor": (
        "SELECT ON audit, role_grant, owned",
        "SELECT (id, name, owner, expires_at) ON api_token",
        "EXECUTE ON FUNCTION settle_audit",
    ),
    # It works, and owns nothing: partitions are made and dropped by functions of the owner.
    "node": (
        *_READ,
        f"SELECT, INSERT, UPDATE, DELETE ON {_WORKED_ON}",
        "SELECT ON claiming_node, due_without_slot",
        # Who may empty it is not judged as a producer is.
        "SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON run",
        "USAGE ON SEQUENCE asset_update_id_seq, backfill_id_seq, fence, given_back_id_seq, "
        "run_id_seq, schedule_id_seq, step_outbox_id_seq, workflow_definition_id_seq",
        # Its handlers enqueue; and it sends the audit to a webhook.
        "EXECUTE ON FUNCTION enqueue, enqueue_many, judge_start, settle_audit",
        "SELECT ON audit",
        "UPDATE ON audit_export",
        "EXECUTE ON FUNCTION ensure_partitions, reopen_ledger, drop_outlived, sweep_history, "
        "apply_edit, take_calendars, replace_run, end_waiting_runs, step_ended, stop_workflow, "
        "follow_workflow, define_run, put_workflow, delete_workflow, update_asset, assert_token, "
        "finish_run, previous_of, results_of, answer_callback, known_callbacks, skip_lost_numbers",
    ),
    # Who works for a run that a node executes: no table, and nothing without the claim's token.
    "service": ("EXECUTE ON FUNCTION assert_token, finish_run, previous_of, results_of",),
    # Whose updates of assets start schedules.
    "updater": ("EXECUTE ON FUNCTION update_asset",),
    # Who removes what is personal from runs that are over.
    "eraser": ("EXECUTE ON FUNCTION erase",),
    # Who shows secret args and results, on a host that has the key.
    "revealer": ("EXECUTE ON FUNCTION reveal",),
    # What serves the pages with login, beside the parts of its buttons.
    "login": (
        "EXECUTE ON FUNCTION begin_login, end_login, note_user, user_of_session, user_of_token, "
        "user_of_proxy, log_out, revoke_sessions, set_password, add_token, revoke_token, "
        "record_refusal",
        "SELECT ON web_session, api_token, role_grant",
    ),
    # What takes callbacks: no table, and nothing without a callback's token.
    "callbacks": ("EXECUTE ON FUNCTION answer_callback, known_callbacks",),
    # What starts and stops nodes learns one number.
    "autoscaler": ("EXECUTE ON FUNCTION scale_demand",),
}
PARTS = tuple(_STATEMENTS)
_MOST_CHARACTERS = 63


# What `--everything` is, where nothing else is said.
EVERYTHING: dict[str, Any] = {
    "queues": ("*",),
    "handlers": ("*",),
    "concurrency_keys": ("*",),
    "largest_weight": 1000,
    "highest_priority": 0,
}


def _pattern(option: str, text: str) -> str:
    """A name, or how names begin: as the database judges it (confine_producer)."""
    if not re.fullmatch(r"[A-Za-z0-9_.:-]*\*?", text) or not text:
        raise click.UsageError(
            f"{option} is a name, or how names begin and a star: not '{text[:99]}'"
        )
    if option == "--handler" and not re.search("[:*]", text):
        raise click.UsageError(f"--handler needs the handler's kind: py:{text[:99]}")
    return text


def _several(noun: str, words: str, kind: Any = None) -> Callable[[Any], Any]:
    """The option for one of several queues, handlers or keys."""
    return option(f"--{noun}", words, kind, into=f"{noun}s".replace("-", "_"), multiple=True)


@click.command("grants")
@click.argument("part", type=click.Choice(PARTS), metavar="PART")
@click.argument("role")
@_several("queue", "A producer's: a name, or mail-*.", ReadBy("queue", _pattern))
@_several("handler", "A producer's: py:mail, or py:*.", ReadBy("handler", _pattern))
@flag("--everything", "Any queue, handler, key, weight and priority.")
@_several("concurrency-key", "A producer's: a key, or mail/*; else those that begin with ROLE/.")
@option("--largest-weight", "Of a producer's runs. Default: 1.", click.IntRange(1, 1000))
@option("--highest-priority", "Of a producer's runs: 0 is first. Default: 5.", click.IntRange(0, 9))
@option("--largest-args", "Bytes of the args of a producer's run.", click.IntRange(2, 262_144))
@option(
    "--backlog", "How many of a producer's runs may wait or execute.", click.IntRange(1, 1_000_000)
)
@option(
    "--largest-log",
    "Bytes of the log of an attempt of a producer's run.",
    click.IntRange(1, 81_920_000),
)
def grants_command(part: str, role: str, everything: bool, **options: Any) -> None:
    """Print the SQL that gives ROLE the rights of PART.

    producer: enqueue runs. scheduler: define schedules. operator: pause, run, cancel, retry and
    redrive. viewer: look. service: assert that a run's claim holds, and complete the run, in its
    own transaction. updater: say that assets were updated. eraser: erase args, results and logs.
    revealer: show secret args, where the key is. callbacks: take what called services say.
    autoscaler: read how many slots are wanted. auditor: read who did what, and who may. node:
    execute runs, and do all that nodes do. login: let users in to the pages. A role may have
    several parts: pages read as a viewer and auditor, and change as an operator and scheduler,
    with login and callbacks where there are. A producer may enqueue what --queue and --handler
    name; with --everything it may enqueue anything, also shell commands and SQL.
    """
    limits = {name: value for name, value in options.items() if value not in (None, ())}
    schema = command_context().load().schema
    printed = list(statements(part, role, schema))
    if part != "producer" and (limits or everything):
        raise click.UsageError("only a producer has queues, handlers and limits")
    if part == "producer":
        named = limits.keys() & {"queues", "handlers"}
        if everything and named:
            raise click.UsageError("--everything leaves no queue or handler to name")
        if not everything and len(named) < 2:
            raise click.UsageError(
                "say what the producer may enqueue: --queue and --handler, for example "
                "--queue mail --handler 'py:mail.*', or --everything"
            )
        # The rules first, and nothing without them.
        given = {**EVERYTHING, **limits} if everything else limits
        printed = ["BEGIN;", confinement(role, schema, **given), *printed, "COMMIT;"]
    for statement in printed:
        echo(statement)


def statements(part: str, role: str, schema: str) -> Iterator[str]:
    """The GRANTs of a part; each ends with a semicolon."""
    receiver = _quoted(role)
    yield f"GRANT USAGE ON SCHEMA {schema} TO {receiver};"
    yield f"GRANT SELECT ON {schema}.alembic_version TO {receiver};"
    for statement in _STATEMENTS[part]:
        rights, _, relations = statement.rpartition(" ON ")
        listed = re.sub(r"\b[a-z]\w*", rf"{schema}.\g<0>", relations)  # not FUNCTION, SEQUENCE
        yield f"GRANT {rights} ON {listed} TO {receiver};"


def confinement(role: str, schema: str, **limits: Sequence[str] | int) -> str:
    """The call that lets a producer enqueue within these limits and nothing else. The database
    refuses what is no name of a queue or handler, and what is out of range.
    """
    given = ", ".join(
        f"{name} => {value}"
        if isinstance(value, int)
        else f"{name} => ARRAY[{', '.join(literal(one) for one in value)}]"
        for name, value in limits.items()
    )
    return f"SELECT {schema}.confine_producer({literal(role)}, {given});"


def _quoted(role: str) -> str:
    if not 1 <= len(role) <= _MOST_CHARACTERS or "\x00" in role:
        raise InvalidInput(
            f"role '{role[:100]}' is not the name of a role",
            f"A role's name has 1 to {_MOST_CHARACTERS} characters.",
            "Name a role that exists; `CREATE ROLE` makes one.",
        )
    # Always: which words the server takes for others than names depends on its version.
    return '"' + role.replace('"', '""') + '"'
