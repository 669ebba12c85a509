"""A run that is followed until it ends: its progress on stderr, its result on stdout."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from pgcron_ha.cli.output import echo, is_json, note, print_json, report, shown
from pgcron_ha.cli.screen import Screen
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.previews import not_offered
from pgcron_ha.client.run_status import RunStatus, read_status, require_success, timed_out
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.queries.overview import database_time, lines
from pgcron_ha.db.queries.pages.run import what_run_waits_for
from pgcron_ha.db.queries.pages.schedules import offered
from pgcron_ha.errors import PgcronError, Refused
from pgcron_ha.harmless import one_line

FIRST_LOOK_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""Between two looks; the first ones follow each other faster, for runs that are short."""

LINES_AT_ONCE: Final = 1000
MOST_NOTES: Final = 100


def follow_to_end(run_id: int, *, timeout: float | None = None, with_log: bool = False) -> None:
    """Shows a run until it ends, then its result; Ctrl-C ends the showing.

    Raises NotFound, WaitTimedOut, RunFailed, RunCancelled, RunNotStarted.
    """
    hint = f"`pgcron-ha runs watch {run_id}` follows it again, `runs cancel {run_id}` ends it"
    with goes_on(f"run {run_id}", hint):
        status = on_database(lambda session: follow(session, run_id, timeout, with_log))
    document = {"run_id": status.id, "state": status.state, "attempt": status.attempt}
    report({**document, "result": status.result, "error": status.error})
    require_success(status)
    if not is_json() and status.result is not None:
        print_json(status.result)


@contextmanager
def goes_on(what: str, hint: str) -> Iterator[None]:
    """Ctrl-C ends the showing alone, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        echo(f"{what} goes on; {hint}", err=True)
        raise


async def follow(
    session: Session, run_id: int, timeout: float | None = None, with_log: bool = False
) -> RunStatus:
    """Until the run has ended; how it ended. Raises NotFound, WaitTimedOut."""
    ahead = await session.call(database_time) - datetime.now(UTC)
    ahead = ahead if abs(ahead) > timedelta(seconds=1) else timedelta(0)
    printed: dict[str, int] = {}
    pause = FIRST_LOOK_SECONDS
    end = math.inf if timeout is None else time.monotonic() + timeout
    with Screen(ahead) as screen:
        while True:
            left = end - time.monotonic()
            status = await read_status(session.connection, run_id, session.schema)
            if with_log:
                printed = await _print_lines(session, run_id, printed, screen)
            if status.is_ended:
                return status
            waits = status.state != "running" and (left <= 0 or pause == LOOK_SECONDS)
            why = await what_it_waits_for(session, run_id) if waits else {}
            screen.show(status, why.get("waits_detail"))
            if left <= 0:
                raise timed_out(run_id, timeout)
            await asyncio.sleep(min(pause, left))
            pause = min(LOOK_SECONDS, pause * 1.5)


async def what_it_waits_for(session: Session, run_id: int) -> dict[str, str]:
    """As `what_run_waits_for`; nothing for a role that may not read nodes."""
    with suppress(Refused):  # of a role that may only enqueue
        return await session.call(what_run_waits_for, run_id)
    return {}


async def note_what_nobody_offers(
    session: Session, wanted: Iterable[tuple[str, str, Sequence[str]]], remedy: str | None = None
) -> None:
    """A note on stderr, with the remedy, for each handler and queue, with the labels that they
    require, whose runs no living node takes; none while no node lives. What can't be read is no
    error: the change is made.
    """
    noted = set()
    with suppress(PgcronError), answers():
        for handler, queue, requires in islice(wanted, MOST_NOTES):
            found = await session.call(offered, handler=handler, queue=queue, requires=requires)
            lacking = not_offered(handler, queue, found) if found["handlers"] else None
            if lacking is not None and lacking not in noted:
                noted.add(lacking)
                note(f"{lacking} {remedy}" if remedy else lacking)


async def _print_lines(
    session: Session, run_id: int, after: dict[str, int], screen: Screen
) -> dict[str, int]:
    """Its new lines; where the last one is, as `lines` takes it."""
    is_more = True
    while is_more:
        found = await session.call(lines, run_id, **after, limit=LINES_AT_ONCE)
        for line in found:
            after = {"after_attempt": line["attempt"], "after_sequence": line["sequence"]}
            screen.print_line(log_line(line))
        is_more = len(found) == LINES_AT_ONCE
    return after


def log_line(row: Mapping[str, Any]) -> str:
    """A line that a run printed: when, in which attempt, and to which stream."""
    return f"{shown(row['at'])} {row['attempt']} {row['stream']:<6} {one_line(row['line'])}"
