"""``pgcron-ha runs``: look at runs, end and repeat them."""

from __future__ import annotations

from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    limit_option,
    print_fields,
    print_json,
    print_rows,
    shown,
)
from pgcron_ha.cli.progress_bar import progress_of, progress_text
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.cli.watching import follow_to_end
from pgcron_ha.db.commands import breakers, functions
from pgcron_ha.db.queries import overview
from pgcron_ha.harmless import one_line
from pgcron_ha.model.run import RunOutcome, RunState

COLUMNS = (
    Column("ID", "id"),
    Column("HANDLER", "handler", 24),
    Column("SCHEDULE", "schedule", 16),
    Column("STATE", "shown_state"),
    Column("TRY", "tries"),
    Column("DUE", "due_at"),
    Column("NODE", "node", 12),
    Column("ERROR", "error", 30),
)
_STATES = [str(state) for state in (*RunState, *RunOutcome)]


@click.group("runs")
def runs_group() -> None:
    """List, show, cancel, kill, retry runs; read their logs."""


@runs_group.command("list")
@click.option("--state", type=click.Choice(_STATES), help="A live state or an outcome.")
@click.option("--handler", help="Runs of this handler.")
@click.option("--queue", help="Runs of this queue.")
@click.option("--schedule", help="Runs of the schedule of this name.")
@limit_option()
@json_option
def list_command(
    state: str | None,
    handler: str | None,
    queue: str | None,
    schedule: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, live and ended, newest first.

    Looks at the newest 20,000.
    """
    rows = on_database(
        lambda s: overview.runs(
            s.connection,
            state=state,
            handler=handler,
            queue=queue,
            schedule_name=schedule,
            limit=limit,
            schema=s.schema,
        )
    )
    print_runs(rows, as_json)


@runs_group.command("show")
@click.argument("run_id", type=arguments.RUN_ID)
@json_option
def show_command(run_id: int, as_json: bool) -> None:
    """Show one run with its attempts that did not succeed."""

    async def read(session: Session) -> tuple[overview.Row, list[overview.Row]]:
        found = await overview.run(session.connection, run_id, schema=session.schema)
        attempts = await overview.attempts(session.connection, run_id, schema=session.schema)
        found |= await breakers.reported_of_run(session.connection, run_id, schema=session.schema)
        return found, attempts

    found, attempts = on_database(read)
    reported = progress_of(found)
    if as_json:
        print_json({**found, "progress": reported and reported._asdict(), "attempts": attempts})
        return
    print_fields({**found, "progress": reported and progress_text(reported)}, as_json=False)
    for attempt in attempts:
        where = f"attempt {attempt['attempt']} {attempt['outcome']} on {shown(attempt['node'])}"
        echo(f"\n{where} at {shown(attempt['ended_at'])}: {shown(attempt['error'])}")
        if attempt["traceback"]:
            echo(attempt["traceback"].rstrip())


@runs_group.command("watch")
@click.argument("run_id", type=arguments.RUN_ID)
@click.option("--timeout", metavar="DURATION", help="Wait no longer. Default: until it ends.")
@click.option("--log", "with_log", is_flag=True, help="Print its log lines on stderr as they come.")
@json_option
def watch_command(run_id: int, timeout: str | None, with_log: bool, as_json: bool) -> None:
    """Follow a run until it ends, and print its result.

    Shows its progress on stderr meanwhile, on a terminal as a bar. Ctrl-C ends the showing and
    leaves the run alone. Exit code 0 means that it succeeded.
    """
    given = arguments.duration("--timeout", timeout)
    seconds = None if given is None else given.total_seconds()
    follow_to_end(run_id, timeout=seconds, with_log=with_log, as_json=as_json)


@runs_group.command("logs")
@click.argument("run_id", type=arguments.RUN_ID)
@click.option("--attempt", type=click.IntRange(1, 100), help="Only this attempt.")
@limit_option(1000)
@json_option
def logs_command(run_id: int, attempt: int | None, limit: int, as_json: bool) -> None:
    """Print what a run printed, in order."""

    async def read(session: Session) -> list[overview.Row]:
        await overview.run(session.connection, run_id, schema=session.schema)
        return await overview.lines(
            session.connection, run_id, attempt=attempt, limit=limit, schema=session.schema
        )

    lines = on_database(read)
    for line in lines:
        if as_json:
            print_json(line)
        else:
            text = one_line(line["line"])
            echo(f"{shown(line['at'])} {line['attempt']} {line['stream']:<6} {text}")
    if len(lines) == limit and not as_json:
        echo(f"there may be more than these {limit} lines: --limit", err=True)


@runs_group.command("cancel")
@click.argument("run_id", type=arguments.RUN_ID)
@click.option("--reason", help="Is kept with the run.")
@json_option
def cancel_command(run_id: int, reason: str | None, as_json: bool) -> None:
    """Cancel a run.

    One that waits ends now, one that runs is asked to stop.
    """
    verdict = on_database(
        lambda s: functions.cancel_run(s.connection, run_id, reason, actor=s.actor, schema=s.schema)
    )
    _print_stopped(run_id, verdict, "is asked to stop", as_json)


@runs_group.command("kill")
@click.argument("run_id", type=arguments.RUN_ID)
@click.option("--reason", help="Is kept with the run.")
@json_option
def kill_command(run_id: int, reason: str | None, as_json: bool) -> None:
    """Cancel a run without any grace.

    Its node kills its processes at once and ends its SQL session. A function in a thread of the
    node can't be killed: it is asked to stop, and its slot is free when it does.
    """
    verdict = on_database(
        lambda s: functions.cancel_run(
            s.connection, run_id, reason, by_force=True, actor=s.actor, schema=s.schema
        )
    )
    _print_stopped(run_id, verdict, "is ended by force where that can be", as_json)


@runs_group.command("retry")
@click.argument("run_id", type=arguments.RUN_ID)
@json_option
def retry_command(run_id: int, as_json: bool) -> None:
    """Run now what waits, or again what has ended.

    Prints the id: what waits keeps its own, what has ended runs under a new one.
    """
    new_id = on_database(
        lambda s: functions.retry_run(s.connection, run_id, actor=s.actor, schema=s.schema)
    )
    print_run_id(new_id, as_json)


def print_runs(rows: list[overview.Row], as_json: bool) -> None:
    """A listing of runs."""
    if not as_json:
        rows = [_with_shown_columns(row) for row in rows]
    print_rows(rows, COLUMNS, as_json, "no runs")


def _print_stopped(run_id: int, verdict: str, asked: str, as_json: bool) -> None:
    sentences = {"cancelled": "is cancelled", "requested": asked, "finished": "had already ended"}
    if as_json:
        print_json({"run_id": run_id, "verdict": verdict})
    else:
        echo(f"run {run_id} {sentences[verdict]}")


def print_run_id(run_id: int, as_json: bool) -> None:
    """The id alone, for shell scripts, or an object."""
    if as_json:
        print_json({"run_id": run_id})
    else:
        echo(run_id)


def _with_shown_columns(row: overview.Row) -> dict[str, Any]:
    more = "overruns" if row.get("overrun_after") is not None else row["hold"]
    state = f"{row['state']} ({more})" if more else row["state"]
    return {**row, "shown_state": state, "tries": f"{row['attempt']}/{row['max_attempts']}"}
