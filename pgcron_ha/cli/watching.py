"""A run that is followed until it ends: how far it is, on stderr; what it comes to, on stdout."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgcron_ha.cli.output import echo, is_json, print_json, shown
from pgcron_ha.cli.screen import Screen
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.run_status import RunStatus, read_status
from pgcron_ha.client.waiting import require_success, timed_out
from pgcron_ha.db.commands.breakers import why_run_waits
from pgcron_ha.db.queries.overview import database_time, lines
from pgcron_ha.errors import Refused
from pgcron_ha.harmless import one_line

FIRST_LOOK_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""Between two looks; the first ones follow each other faster, for runs that are short."""

LINES_AT_ONCE: Final = 1000


def follow_to_end(run_id: int, *, timeout: float | None = None, with_log: bool = False) -> None:
    """Shows a run until it ends, then its result; Ctrl-C ends the showing.

    Raises NotFound, WaitTimedOut, RunFailed, RunCancelled, RunNotStarted.
    """
    try:
        status = on_database(lambda session: follow(session, run_id, timeout, with_log))
    except KeyboardInterrupt:
        again = f"`pgcron-ha runs watch {run_id}` follows it again"
        echo(f"run {run_id} goes on; {again}", err=True)
        raise
    print_end(status)


async def follow(
    session: Session, run_id: int, timeout: float | None = None, with_log: bool = False
) -> RunStatus:
    """Until the run has ended; how it ended. Raises NotFound, WaitTimedOut."""
    ahead = await session.call(database_time) - datetime.now(UTC)
    screen = Screen(ahead if abs(ahead) > timedelta(seconds=1) else timedelta(0))
    followed = _Followed(session, run_id, screen, with_log)
    pause, end = FIRST_LOOK_SECONDS, math.inf
    if timeout is not None:
        end = time.monotonic() + timeout
    try:
        while True:
            left = end - time.monotonic()
            status = await followed.look(is_patient=left <= 0 or pause == LOOK_SECONDS)
            if status.is_ended:
                return status
            if left <= 0:
                raise timed_out(run_id, timeout)
            await asyncio.sleep(min(pause, left))
            pause = min(LOOK_SECONDS, pause * 1.5)
    finally:
        screen.clear()


def print_end(status: RunStatus) -> None:
    """The result, or the error of how it ended: RunFailed, RunCancelled, RunNotStarted."""
    if is_json():
        print_json(
            {
                "run_id": status.id,
                "state": status.state,
                "attempt": status.attempt,
                "result": status.result,
                "error": status.error,
            }
        )
    require_success(status)
    if not is_json() and status.result is not None:
        print_json(status.result)


class _Followed:
    """One run, looked at now and then; what is new is shown."""

    def __init__(self, session: Session, run_id: int, screen: Screen, with_log: bool) -> None:
        self._session = session
        self._run_id = run_id
        self._screen = screen
        self._with_log = with_log
        self._after = (0, -1)

    async def look(self, is_patient: bool) -> RunStatus:
        """How it stands, which is shown; with why it is not taken if it waits and `is_patient`."""
        waits_for = None
        session = self._session
        status = await read_status(session.connection, self._run_id, session.schema)
        if self._with_log:
            await self._print_lines()
        if status.state == "ready" and is_patient:
            try:
                waits_for = await self._session.call(why_run_waits, self._run_id)
            except Refused:
                pass  # who may only enqueue is not told of nodes
        if not status.is_ended:
            self._screen.show(status, waits_for)
        return status

    async def _print_lines(self) -> None:
        is_more = True
        while is_more:
            found = await self._session.call(
                lines, self._run_id, after=self._after, limit=LINES_AT_ONCE
            )
            for line in found:
                self._after = (line["attempt"], line["sequence"])
                self._screen.print_line(log_line(line))
            is_more = len(found) == LINES_AT_ONCE


def log_line(row: Mapping[str, Any]) -> str:
    """A line that a run printed: when, in which attempt, and to which stream."""
    return f"{shown(row['at'])} {row['attempt']} {row['stream']:<6} {one_line(row['line'])}"
