"""``pgcron-ha schedules backfill`` starts one; ``pgcron-ha backfills`` lists, shows, pauses and
stops them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import click

from pgcron_ha.cli import arguments, output
from pgcron_ha.cli.arguments import LOCAL_INSTANT, flag, option
from pgcron_ha.cli.options import label_filters
from pgcron_ha.cli.output import columns, echo, plural, shown
from pgcron_ha.cli.session import Session, act, call, on_database
from pgcron_ha.cli.watching import LOOK_SECONDS, Screen, goes_on
from pgcron_ha.config.values import WrittenTime
from pgcron_ha.db.commands import backfills
from pgcron_ha.db.driver.pool import tried
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.backfill import count, following
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.spec.text import in_number

COLUMNS: Final = columns(
    "ID SCHEDULE:24 STATE SINCE UNTIL PLANNED ALREADY CREATED OPEN SUCCEEDED FAILED"
    " LEFT=remaining BY=created_by:16"
)
_RUN_COLUMNS: Final = columns(
    "RUN=id FIRE_TIME=fire_at STATE ATTEMPT NODE:20 WHY:60",
    WHY=lambda row: row["waits_detail"] or row["error"],
)
_SHOWN_RUNS: Final = 20
_backfill: Final = click.argument("backfill", type=arguments.RUN_ID)


@click.command("backfill", cls=arguments.JsonCommand)
@click.argument("name")
@option("--since", "Start of the range (inclusive).", LOCAL_INSTANT, required=True)
@option("--until", "End of the range (exclusive). Default: now.", LOCAL_INSTANT)
@option("--direction", "Oldest or newest fires first.", backfills.DIRECTIONS, default="forward")
@option("--parallelism", "Maximum runs of it at the same time.", int, default=1)
@option("--overlap POLICY", "Overlap policy of its runs. Default: the schedule's.")
@option(
    "--if-ran",
    "Fires that ran already: skip them, rerun failed ones, or rerun all.",
    backfills.IF_RAN,
    default="skip",
)
@arguments.args_option("Arguments instead of the schedule's.")
@option("--note", "Why; kept with the backfill.")
@flag("--dry-run", "Show what would run, and change nothing; it needs the right to backfill.")
@flag("--wait", "Wait until it ends; exit code 1 if a run failed.")
def backfill_command(
    name: str,
    since: WrittenTime,
    until: WrittenTime | None,
    dry_run: bool,
    wait: bool,
    **given: Any,
) -> None:
    """Run a range of instants that have passed.

    The range begins with --since and ends before --until. An INSTANT is ISO 8601, or 18:30,
    yesterday 03:00, 2h (ago); without an offset it is local time in the schedule's zone. Nodes make
    the runs, a few at a time; edits of the schedule do not change them. Prints the backfill's id.

    Of the schedule's policies jitter and the start deadline are about fires on time: no run of a
    backfill is delayed or expires by them. With depends_on_previous the runs are made one after the
    other, the oldest first, each after the success of the one before; a failure pauses the backfill
    until it is resumed. The first one runs whatever the fire before the range came to.
    """

    async def start(session: Session) -> int | None:
        found = await session.call(overview.schedule, name)
        begin = arguments.in_zone(since, found["timezone"])
        end = until and arguments.in_zone(until, found["timezone"])
        now, spec = await session.call(overview.database_time), spec_of(found)
        over = min(end or now, now)  # an end to come is refused below
        planned = sum(count(spec, begin, over))
        async with tried(session.connection, keep=not dry_run):
            made = await session.act(backfills.backfill, name, begin, end, planned=planned, **given)
        if dry_run:
            first, _ = following(spec, None, begin, over, "forward", 1)
            last, _ = following(spec, None, begin, over, "backward", 1)
            decided = await session.call(backfills.decided_between, found["id"], begin, over)
            _print_plan(planned, [*first, *last], decided)
            return None
        if not wait:
            output.print_result({"backfill": made, "planned": planned}, made)
        return made

    made = on_database(start)
    if made is not None and wait:
        _follow(made)


@click.group("backfills", cls=arguments.JsonGroup)
def backfills_group() -> None:
    """Show, pause, resume and stop backfills of schedules."""


@backfills_group.command("list")
@option("--schedule", "Those of this schedule.")
@option("--state", "Those in this state.", backfills.STATES)
@label_filters
@arguments.limit_option()
def list_command(schedule: str | None, **given: Any) -> None:
    """List backfills, the newest first."""
    rows = call(backfills.backfills_of, schedule, **given)
    output.print_rows(rows, COLUMNS, "no backfills")


@backfills_group.command("show")
@_backfill
async def show_command(session: Session, backfill: int) -> None:
    """Show a backfill with its runs.

    Those that are open, and the last ones that did not succeed.
    """
    found = await session.call(backfills.one_backfill, backfill)
    runs = await session.call(backfills.runs_of_backfill, backfill, limit=_SHOWN_RUNS)
    output.report({**found, "runs": runs})
    output.print_fields(found)
    echo()
    output.print_table(runs, _RUN_COLUMNS, "no open runs, and none that failed")


@backfills_group.command("pause")
@_backfill
def pause_command(backfill: int) -> None:
    """Make no more runs of BACKFILL until it is resumed.

    Those that were made go on.
    """
    act(backfills.pause_backfill, backfill)
    _say(backfill, "paused")


@backfills_group.command("resume")
@_backfill
def resume_command(backfill: int) -> None:
    """Go on with BACKFILL."""
    act(backfills.resume_backfill, backfill)
    _say(backfill, "resumed")


@backfills_group.command("stop")
@_backfill
@option("--note", "Why; kept with the runs that are cancelled.")
def stop_command(backfill: int, note: str | None) -> None:
    """End BACKFILL: what waits is cancelled, what runs goes on."""
    cancelled = act(backfills.stop_backfill, backfill, note)
    output.print_result(
        {"backfill": backfill, "done": "stopped", "cancelled": cancelled},
        f"backfill {backfill} is stopped; waiting runs that were cancelled: {cancelled}",
    )


def _print_plan(planned: int, ends: Sequence[datetime], decided: int) -> None:
    first, last = ends or (None, None)
    output.report({"planned": planned, "first": first, "last": last, "decided": decided})
    if not ends:
        echo("the range has no instant of the schedule")
    else:
        echo(f"{plural(planned, 'instant')}, from {shown(first)} to {shown(last)}")
        were = f"{plural(decided, 'instant')} of the range {in_number(decided, 'was', 'were')}"
        echo(f"{were} decided already, each by itself")


def _follow(backfill: int) -> None:
    echo(f"backfill {backfill}", err=True)
    again = f"`pgcron-ha backfills show {backfill}` shows how far it is"
    with goes_on(f"backfill {backfill}", again):
        row = on_database(lambda session: _until_over(session, backfill))
    output.report(row)
    output.print_fields(row)
    if row["state"] != "done" or row["failed"]:
        raise PgcronError(
            f"backfill {backfill} is {row['state']}; runs that did not succeed: {row['failed']}",
            (row["error"] or {}).get("message") or "An instant counts as filled in by a success.",
            f"`pgcron-ha backfills show {backfill}` names them; --if-ran failed runs them again.",
        )


async def _until_over(session: Session, backfill: int) -> overview.Row:
    with Screen() as screen:
        while True:
            row = await session.call(backfills.one_backfill, backfill)
            if row["ended_at"] is not None:
                return row
            over = row["already"] + row["created"] - row["open"]
            note = f"{plural(row['open'], 'open run')}, {row['failed']} failed"
            note += ", paused" if row["state"] == "paused" else ""
            screen.show_progress(f"backfill {backfill}", over, row["planned"], note)
            await asyncio.sleep(LOOK_SECONDS)


def _say(backfill: int, done: str) -> None:
    output.print_result({"backfill": backfill, "done": done}, f"backfill {backfill} is {done}")
