"""A run that is followed until it ends: how far it is, on stderr; what it comes to, on stdout."""

from __future__ import annotations

import asyncio
import math
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from pgcron_ha.cli.output import echo, print_json, shown
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.run_status import RunStatus, read_status
from pgcron_ha.client.waiting import require_success, timed_out
from pgcron_ha.db.commands.breakers import why_run_waits
from pgcron_ha.db.queries.overview import database_time, lines
from pgcron_ha.errors import Refused
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.harmless import one_line

FIRST_LOOK_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""Between two looks; the first ones follow each other faster, for runs that are short."""

LINES_AT_ONCE: Final = 1000
PLAIN_SECONDS: Final = 2.0
"""Between two plain lines that differ in the progress only."""

_CLEAR: Final = "\r\x1b[K"
_BAR_WIDTH: Final = 24


def follow_to_end(
    run_id: int, *, timeout: float | None = None, with_log: bool = False, as_json: bool = False
) -> None:
    """Shows a run until it ends, then its result; Ctrl-C ends the showing.

    Raises NotFound, WaitTimedOut, RunFailed, RunCancelled, RunNotStarted.
    """
    try:
        status = on_database(lambda session: follow(session, run_id, timeout, with_log))
    except KeyboardInterrupt:
        again = f"`pgcron-ha runs watch {run_id}` follows it again"
        echo(f"run {run_id} goes on; {again}", err=True)
        raise
    print_end(status, as_json)


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


def print_end(status: RunStatus, as_json: bool) -> None:
    """The result, or the error of how it ended: RunFailed, RunCancelled, RunNotStarted."""
    if as_json:
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
    if not as_json and status.result is not None:
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


class Screen:
    """Shows how one run stands. `clock_ahead` is how far the database's clock is ahead of ours."""

    def __init__(self, clock_ahead: timedelta = timedelta(0)) -> None:
        self._clock_ahead = clock_ahead
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""
        self._state = ""
        self._reported_at = 0.0

    def show(self, status: RunStatus, waits_for: str | None = None) -> None:
        """How it stands now; `waits_for` is why nobody takes it."""
        state = f"run {status.id} {status.state}"
        if status.attempt:
            state += f", attempt {status.attempt}"
        if waits_for is not None:
            state += f": {waits_for}"
        if self._is_terminal:
            self._redraw(self._line(status, state))
        else:
            self._report(status, state)

    def print_line(self, line: str) -> None:
        """A line that stays, above the one that changes."""
        click.echo(_CLEAR + line if self._is_terminal else line, err=True)
        if self._is_terminal and self._shown:
            click.echo(self._shown, err=True, nl=False)

    def clear(self) -> None:
        """Leaves nothing of the line that changes."""
        if self._is_terminal and self._shown:
            self._shown = ""
            click.echo(_CLEAR, err=True, nl=False)

    def _line(self, status: RunStatus, state: str) -> str:
        if status.progress is not None:
            state = f"run {status.id} {bar(status.progress)}"
        if status.state == "running" and status.started_at is not None:
            passed = datetime.now(UTC) + self._clock_ahead - status.started_at
            state += f" · {elapsed(passed.total_seconds())}"
        return state

    def _redraw(self, line: str) -> None:
        most = shutil.get_terminal_size().columns - 1
        line = "".join(each if each.isprintable() else "?" for each in line)[:most]
        if line != self._shown:
            self._shown = line
            click.echo(_CLEAR + line, err=True, nl=False)

    def _report(self, status: RunStatus, state: str) -> None:
        line = state
        if status.progress is not None:
            line += f": {progress_text(status.progress)}"
        now = time.monotonic()
        if line == self._shown or (
            state == self._state and now - self._reported_at < PLAIN_SECONDS
        ):
            return
        self._shown, self._state, self._reported_at = line, state, now
        click.echo(one_line(line), err=True)


def elapsed(seconds: float) -> str:
    """Such as ``0:07`` or ``1:02:03``."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_of(row: Mapping[str, Any]) -> Progress | None:
    """What a row with ``done``, ``total`` and ``note`` says."""
    if row["done"] is None:
        return None
    return Progress(row["done"], row["total"], row["note"])


def progress_text(reported: Progress) -> str:
    """Such as ``30 % (3 of 10) copying orders``; without a total ``3 copying orders``."""
    amount = f"{reported.done:.10g}"
    if reported.total is not None:
        amount = f"{_share(reported):.0%} ({amount} of {reported.total:.10g})".replace("%", " %")
    return amount if reported.note is None else f"{amount} {reported.note}"


def bar(reported: Progress) -> str:
    """The text behind a bar, when there is a total."""
    if reported.total is None:
        return progress_text(reported)
    full = int(_BAR_WIDTH * _share(reported))
    return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {progress_text(reported)}"


def _share(reported: Progress) -> float:
    return min(1.0, reported.done / reported.total) if reported.total else 0.0
