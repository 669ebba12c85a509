"""``pgcron-ha runs``: look at runs, end and repeat them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from pgcron_ha.cli import output
from pgcron_ha.cli.arguments import DURATION, INSTANT, RUN_ID, JsonGroup, flag, limit_option, option
from pgcron_ha.cli.options import label_filters
from pgcron_ha.cli.output import columns, echo, shown, with_class
from pgcron_ha.cli.session import Session, Statement, call, on_database
from pgcron_ha.cli.watching import follow_to_end, log_line, progress_of, progress_text
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.cluster import fallback_of_run, fallback_words
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages.runs import STATE_GROUPS, STATE_WORDS
from pgcron_ha.model.formats import state_words
from pgcron_ha.spec.text import duration_text


def _shown_state(row: overview.Row) -> str:
    more = "overruns" if row.get("overrun_after") is not None else row["waits_for"]
    return f"{row['word']} ({state_words(more)})" if more else str(row["word"])


def _never_began(row: overview.Row) -> bool:
    return row["finished_at"] is not None and row["started_at"] is None


def _started(row: overview.Row) -> str:
    is_due = row["started_at"] is None and row["finished_at"] is None
    return f"due {shown(row['due_at'])}" if is_due else shown(row["started_at"])


def duration_of(row: overview.Row) -> str:
    """How long it took, or takes so far."""
    if row["duration"] is None:
        return shown(None)
    seconds = row["duration"].total_seconds()
    return duration_text(seconds if seconds < 10 else round(seconds))


RUN_COLUMNS = columns(
    "ID HANDLER:24 SCHEDULE:16 STATE TRY STARTED DURATION NODE:12 WHY:30",
    STATE=_shown_state,
    TRY=lambda row: shown(None) if _never_began(row) else f"{row['attempt']}/{row['max_attempts']}",
    STARTED=_started,
    DURATION=duration_of,
    WHY=lambda row: row["waits_detail"] or row["error"],
)

_run_ids = click.argument("run_ids", type=RUN_ID, nargs=-1, required=True, metavar="RUN_ID...")
_note = option("--note", "Why; kept with the run.")


@click.group("runs", cls=JsonGroup)
def runs_group() -> None:
    """List, show, cancel, kill, retry runs; read their logs."""


@runs_group.command("list")
@option(
    "--state",
    "A state, an outcome or a group (attention, waiting, ended); else all but scheduled ones.",
    tuple(dict.fromkeys((*STATE_GROUPS, *STATE_WORDS))),
    also="--outcome",
    into="states",
    multiple=True,
)
@option("--handler", "Runs of this handler.")
@option("--queue", "Runs of this queue.")
@option("--node", "Runs that this node executes, or executed last.")
@option("--error TEXT", "Runs with this text in their error.")
@label_filters
@option("--since", "Not before: 2h (ago), 18:30, ISO.", INSTANT)
@option("--until", "Only before: 2h (ago), 18:30, ISO.", INSTANT)
@option("--schedule", "Runs of the schedule of this name.", into="schedule_name")
@limit_option()
def list_command(**given: Any) -> None:
    """List runs, live and ended, newest first.

    --since and --until compare the end of a run, its start while it runs, or when it is due while
    it waits. Looks at the newest 20,000. What is only scheduled so far is listed by --state
    scheduled.
    """
    output.print_rows(call(overview.runs, **given), RUN_COLUMNS, "no runs")


@runs_group.command("show")
@click.argument("run_id", type=RUN_ID)
async def show_command(session: Session, run_id: int) -> None:
    """Show one run with its attempts that did not succeed."""
    found = await session.call(overview.run, run_id)
    if fallback := await session.call(fallback_of_run, run_id):
        found["fallback"] = fallback_words(fallback)
    attempts = (await session.call(overview.attempts, run_id))[::-1]
    reported = progress_of(found)
    output.report({**found, "progress": reported and reported._asdict(), "attempts": attempts})
    output.print_fields({**found, "progress": reported and progress_text(reported)})
    for attempt in attempts:
        outcome = state_words(attempt["outcome"])
        where = f"attempt {attempt['attempt']} {outcome} on {shown(attempt['node'])}"
        echo(f"\n{where} at {shown(attempt['ended_at'])}: {shown(with_class(attempt))}")
        if attempt["traceback"]:
            echo(attempt["traceback"].rstrip())


@runs_group.command("watch")
@click.argument("run_id", type=RUN_ID)
@option("--timeout", "Wait no longer. Default: until it ends.", DURATION)
@flag("--log", "Print its log lines on stderr as they come.", "with_log")
def watch_command(run_id: int, timeout: timedelta | None, with_log: bool) -> None:
    """Follow a run until it ends, and print its result.

    Shows its progress on stderr meanwhile, on a terminal as a bar. Ctrl-C ends the showing and
    leaves the run alone. Exit code 0 means that it succeeded.
    """
    seconds = None if timeout is None else timeout.total_seconds()
    follow_to_end(run_id, timeout=seconds, with_log=with_log)


@runs_group.command("logs")
@click.argument("run_id", type=RUN_ID)
@option("--attempt", "Only this attempt.", click.IntRange(1, 100))
@limit_option(1000)
async def logs_command(session: Session, run_id: int, attempt: int | None, limit: int) -> None:
    """Print what a run printed, in order."""
    await session.call(overview.run, run_id)
    lines = await session.call(overview.lines, run_id, attempt=attempt, limit=limit)
    for line in lines:
        output.print_result(line, log_line(line))
    if len(lines) == limit and not output.is_json():
        echo(f"there may be more than these {limit} lines: --limit", err=True)


@runs_group.command("cancel")
@_run_ids
@_note
def cancel_command(run_ids: tuple[int, ...], note: str | None) -> None:
    """Cancel runs, one or several.

    One that waits ends now, one that runs is asked to stop. Many at once: `runs list --json`, and
    xargs.
    """
    _stop(functions.cancel_run, run_ids, note, "is asked to stop")


@runs_group.command("kill")
@_run_ids
@_note
def kill_command(run_ids: tuple[int, ...], note: str | None) -> None:
    """Cancel runs, one or several, without any grace.

    Their nodes kill their processes at once and end their SQL sessions. A function in a thread of
    the node can't be killed: it is asked to stop, and its slot is free when it does.
    """
    _stop(functions.kill_run, run_ids, note, "is ended by force where that can be")


@runs_group.command("retry")
@_run_ids
@option("--note", "Why; kept in the audit.")
async def retry_command(session: Session, run_ids: tuple[int, ...], note: str | None) -> None:
    """Run now what waits, or again what has ended: one run or several.

    Prints the id of each: what waits keeps its own, what has ended runs under a new one.
    """
    for run_id in run_ids:
        print_run_id(await session.act(functions.retry_run, run_id, note))


def print_run_id(run_id: int) -> None:
    """The id alone, for shell scripts, or an object."""
    output.print_result({"run_id": run_id}, run_id)


def _stop(stop: Statement[str], run_ids: tuple[int, ...], note: str | None, asked: str) -> None:
    sentences = {"cancelled": "is cancelled", "requested": asked, "finished": "had already ended"}

    async def stop_each(session: Session) -> None:
        for run_id in run_ids:
            verdict = await session.act(stop, run_id, note)
            document = {"run_id": run_id, "verdict": verdict}
            output.print_result(document, f"run {run_id} {sentences[verdict]}")

    on_database(stop_each)
