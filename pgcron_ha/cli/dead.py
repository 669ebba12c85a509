"""``pgcron-ha dead``: runs that ended dead or lost, their causes, sending them again, and closing
them.
"""

from __future__ import annotations

import json
from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.arguments import flag, option
from pgcron_ha.cli.options import label_filters
from pgcron_ha.cli.output import columns, echo, print_result, print_rows, with_class
from pgcron_ha.cli.session import Session, call, on_database
from pgcron_ha.cli.watching import Screen
from pgcron_ha.db.commands import functions
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages import dead_letters
from pgcron_ha.db.queries.rows import Row, Rows
from pgcron_ha.errors import NotFound

COLUMNS = columns(
    "RUN=run_id HANDLER:24 SCHEDULE:16 OUTCOME DIED=died_at AGAIN_AS=redriven_as ERROR:36",
    ERROR=with_class,
)
GROUP_COLUMNS = columns(
    "GROUP=fingerprint OPEN ALL=letters HANDLER:24 LAST=last_at CLASS=error_class:18 "
    "MESSAGE=cause:30"
)
_OPEN_OR_ALL = ("open", "all")

_kind_options = arguments.together(
    option("--group", "Those of this error group (`dead groups`).", into="fingerprint"),
    option("--handler", "Those of this handler."),
    option("--queue", "Those of this queue."),
    option("--class", "Those of this error class.", into="error_class"),
    option("--schedule", "Those of this schedule."),
    label_filters,
)
_filter_options = arguments.together(
    _kind_options,
    option("--since", "Died since then: 2h (ago), 18:30, ISO.", arguments.INSTANT),
    option("--until", "Died before then: now, 18:30, ISO.", arguments.INSTANT),
)


@click.group("dead", cls=arguments.JsonGroup)
def dead_group() -> None:
    """List dead letters and their causes; redrive or archive them."""


@dead_group.command("list")
@_filter_options
@flag("--all", "Include those redriven or archived.", "also_closed")
@arguments.limit_option()
def list_command(also_closed: bool, **given: Any) -> None:
    """List dead letters, newest first."""
    whole = {"look": overview.UNCUT, "text": overview.UNCUT, **given}
    letters = call(dead_letters.letters, state=_OPEN_OR_ALL[also_closed], **whole)
    for letter in letters:
        letter["args"] = json.loads(letter["args"])
    print_rows(letters, COLUMNS, "no dead letters")


@dead_group.command("groups")
@_kind_options
@flag("--all", "Include those redriven or archived.", "also_closed")
@arguments.limit_option()
def groups_command(also_closed: bool, **given: Any) -> None:
    """List the causes of dead letters, one line each.

    Among the newest 10,000, one for each handler, error class and way to die.
    """
    groups = call(dead_letters.groups, state=_OPEN_OR_ALL[also_closed], **given)
    print_rows(groups, GROUP_COLUMNS, "no dead letters")


@dead_group.command("redrive")
@click.argument("run_ids", type=arguments.RUN_ID, nargs=-1, metavar="[RUN_ID]...")
@_filter_options
@flag("--lost", "Include lost runs (they may have taken effect).", "also_lost")
@option("--rate", "Spread them: 10/1m makes 10 due each minute. Default: all now.", arguments.RATE)
@option("--limit", "At most this many, the oldest first.", click.IntRange(1))
@arguments.args_option("Arguments instead of theirs, a JSON object.")
@option("--note", "Why; kept in the audit.")
def redrive_command(
    run_ids: tuple[int, ...],
    also_lost: bool,
    rate: arguments.Rate | None,
    limit: int | None,
    args: str | None,
    note: str | None,
    **filters: Any,
) -> None:
    """Send dead letters again as new runs, each once.

    Those named: all of them, or none. Or all open ones that fit every filter, in batches.
    """
    _check_choice(run_ids, filters)
    if run_ids and (rate is not None or limit is not None):
        raise click.UsageError("--rate and --limit go with a filter")
    given: dict[str, Any] = {"args": args, "note": note}

    async def redrive(session: Session) -> list[tuple[int, int]]:
        if not run_ids:
            what = {**given, "also_lost": also_lost, **(rate._asdict() if rate else {}), **filters}
            found = await _in_batches(session, functions.redrive_many, "redriven", limit, **what)
            return [(row["dead_letter"], row["run_id"]) for row in found]
        async with session.connection.transaction():
            return [(one, await session.act(functions.redrive, one, **given)) for one in run_ids]

    sent = on_database(redrive)
    for run_id, new_id in sent:
        document = {"dead_letter": run_id, "run_id": new_id}
        print_result(document, f"dead letter {run_id} runs again as run {new_id}")
    if not sent:
        echo("no open dead letter fits")


@dead_group.command("archive")
@click.argument("run_ids", type=arguments.RUN_ID, nargs=-1, metavar="[RUN_ID]...")
@_filter_options
@option("--note", "Why nobody sends them again; kept with each.")
def archive_command(run_ids: tuple[int, ...], note: str | None, **filters: Any) -> None:
    """Close dead letters without sending them again.

    Those named, or all open ones that fit every filter. `dead redrive RUN_ID` still sends one.
    """
    _check_choice(run_ids, filters)
    options = {"run_ids": run_ids or None, "note": note, **filters}
    archive = functions.archive_dead_letters
    found = on_database(lambda session: _in_batches(session, archive, "archived", **options))
    archived = [row["dead_letter"] for row in found]
    for run_id in archived:
        print_result({"dead_letter": run_id}, f"dead letter {run_id} is archived")
    if left := [run_id for run_id in run_ids if run_id not in archived]:
        raise NotFound(
            f"dead letter {left[0]} is not open"
            if len(left) == 1
            else f"dead letters {', '.join(map(str, left))} are not open",
            "A dead letter is open until it is redriven or archived; one being redriven is left.",
            "`pgcron-ha dead list --all` shows what became of each.",
        )
    if not archived:
        echo("no open dead letter fits")


def _check_choice(run_ids: tuple[int, ...], filters: dict[str, Any]) -> None:
    """Dead letters are named by their ids, or chosen by filters."""
    is_filtered = any(value is not None for value in filters.values())
    if run_ids and is_filtered:
        raise click.UsageError("either name dead letters, or give filters")
    if not run_ids and not is_filtered:
        raise click.UsageError("name dead letters, or give a filter (--until now: all of them)")


async def _in_batches(
    session: Session, command: Rows, word: str, most: int | None = None, **options: Any
) -> list[Row]:
    """What the command has done, as the `word` says, until none is left of those open now."""
    done: list[Row] = []
    options["until"] = options["until"] or await session.call(overview.database_time)
    with Screen() as screen:
        async for batch in functions.in_batches(session.act, command, most, **options):
            done += batch
            if len(batch) == functions.MOST_AT_ONCE:
                screen.show_progress(f"dead letters {word}", len(done), most)
    return done
