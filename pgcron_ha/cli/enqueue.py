"""``pgcron-ha enqueue``: one run, or those of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

import click

from pgcron_ha.cli.arguments import JsonCommand, flag, instant, option, unreadable
from pgcron_ha.cli.options import run_options
from pgcron_ha.cli.output import note, shown
from pgcron_ha.cli.runs import print_run_id
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.cli.watching import follow_to_end, note_what_nobody_offers
from pgcron_ha.client.checks import args_text, json_or_text, mapping, parsed_json
from pgcron_ha.client.run_request import EXAMPLE, RunRequest, request_new_run, send_runs
from pgcron_ha.db.queries.overview import may_read_history
from pgcron_ha.errors import InvalidInput, Mistakes, PgcronError

# A batch is one statement. All of a file is one transaction, whose ids are kept until it is over.
BATCH: Final = 1000
_JUST_NOW: Final = timedelta(minutes=1)


@click.command("enqueue", cls=JsonCommand)
@click.argument("handler", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@option(
    "--file FILE",
    'Runs as JSON lines: {"handler": …, "args": …}; - reads stdin.',
    click.File(encoding="utf-8"),
)
@run_options
@flag("--wait", "Wait until the run ends, and print its result.")
@flag("--log", "With --wait: print its log on stderr.", "with_log")
def enqueue_command(
    pairs: tuple[str, ...], file: TextIO | None, wait: bool, with_log: bool, **given: Any
) -> None:
    """Enqueue one run of HANDLER (such as py:report or shell:backup) and print its id.

    Its args are --args, or KEY=VALUE pairs: a value is JSON, or text if it is none (day=monday).

    With --file it enqueues a run for each line, all or none. A line has the keys
    handler, args, queue, priority, due_at, idempotency_key, key_lifetime, timeout, max_attempts,
    delivery, retry, concurrency_key, requires, start_within, give_up_after, silence_timeout,
    unique_key, unique_scope, unique_for, on_conflict, debounce, debounce_max, weight and tags;
    what it leaves out is as HANDLER and the options say. Prints the ids in order.
    """
    if with_log and not wait:
        raise click.UsageError("--log goes with --wait; `runs logs` prints what a run printed")
    if file is None and given["handler"] is None:
        raise click.UsageError("Missing argument 'HANDLER' (or --file).")
    if file is not None and wait:
        raise click.UsageError("--wait follows one run; `runs watch` follows each of a file")
    if file is not None and given["idempotency_key"] is not None:
        raise click.UsageError("--idempotency-key names one run; in a file each line has its own")
    mistakes = Mistakes()
    given["args"] = mistakes.tried(args_of, pairs, given["args"])
    given["due_at"] = mistakes.tried(due_instant, given["due_at"])
    requests: Iterable[tuple[str, RunRequest]] = ()
    if file is None:
        requests = [("", mistakes.tried(request_new_run, given))]
    mistakes.raise_any()
    if file is not None:
        requests = _requests(file, given)
        if not Path(getattr(file, "name", "")).is_file():
            # No transaction is to stay open while a slow program writes.
            requests = list(requests)
    run_ids = on_database(lambda session: _send(session, requests, wait))
    for run_id in run_ids:
        print_run_id(run_id)
    if wait:
        follow_to_end(run_ids[0], with_log=with_log)


def due_instant(text: str | None) -> datetime | None:
    """What --due-at says. InvalidInput."""
    due = None if text is None else instant("--due-at", text, direction=1)
    if due is not None and due < datetime.now(UTC) - _JUST_NOW:
        note(f"--due-at {shown(due)} is over: it runs now")
    return due


def args_of(pairs: Sequence[str], args: str | None) -> str | None:
    """The args as JSON text, from KEY=VALUE pairs or --args; None: none are given."""
    if not pairs:
        return args
    if args is not None:
        raise click.UsageError("--args has all args: leave KEY=VALUE pairs out")
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InvalidInput(
                f"'{pair[:60]}' is no KEY=VALUE pair",
                "A value is JSON, or text if it is none.",
                "Write for example day=monday.",
            )
        found[name] = json_or_text(text)
    return args_text(found)


async def _send(
    session: Session, requests: Iterable[tuple[str, RunRequest]], is_awaited: bool
) -> list[int]:
    """Each request comes with its place (``line 7: ``), with which an error about it begins. A role
    that may read only its own runs is itself recorded as who enqueued them, and gets no note about
    handlers.
    """
    ids: list[int] = []
    wanted: dict[tuple[str, str, Sequence[str]], None] = {}
    # Before: what is read after the runs are there must not look as if they were not.
    reads_all = await session.call(may_read_history)
    # So it can wait for its runs. The user of this machine may have the name of another role.
    actor = session.actor if reads_all else None
    left = iter(requests)
    async with session.connection.transaction():
        while batch := list(islice(left, BATCH)):
            lines = [each.as_json() for _, each in batch]
            try:
                ids += await send_runs(session.connection, lines, session.schema, actor)
            except PgcronError as error:
                if place := re.match(r"run (\d+) of \d+: ", error.message):
                    error.message = batch[int(place[1]) - 1][0] + error.message[place.end() :]
                raise
            for _, each in batch:
                queue, requires = each.options.get("queue"), each.options.get("requires")
                wanted[each.handler, queue or "default", requires or ()] = None
    if reads_all:
        remedy = f"`pgcron-ha runs cancel {ids[0]}` ends the wait." if is_awaited else None
        await note_what_nobody_offers(session, wanted, remedy)
    return ids


def _requests(file: TextIO, defaults: Mapping[str, Any]) -> Iterator[tuple[str, RunRequest]]:
    number = 0
    try:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"line {number}: ", request_new_run({**defaults, **_options(line)})
    except PgcronError as error:
        raise error.about(f"line {number}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise unreadable(f"line {number + 1}", error) from None


def _options(line: str) -> dict[str, Any]:
    read = parsed_json("", line.strip(), EXAMPLE)
    said = mapping("it", read, "A line is one run: a JSON object.", EXAMPLE)
    options = {key: value for key, value in said.items() if value is not None}
    if isinstance(options.get("due_at"), str):
        options["due_at"] = instant("due_at", options["due_at"], direction=1)
    return options
