"""Following one run until it ends: a line that is written over itself, on stderr."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Final

import click

from pgcron_ha.cli.output import print_json
from pgcron_ha.cli.progress_bar import bar
from pgcron_ha.cli.session import Session
from pgcron_ha.client.run_status import RunStatus, read_status
from pgcron_ha.client.waiting import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    require_success,
    timed_out,
)
from pgcron_ha.db.overview import why_parked

_CLEAR: Final = "\r\x1b[K"


async def follow(session: Session, run_id: int, timeout: float | None = None) -> RunStatus:
    """Until the run has ended; how it ended. Raises NotFound, WaitTimedOut."""
    end = None if timeout is None else time.monotonic() + timeout
    screen = _Screen()
    pause = FIRST_PAUSE_SECONDS
    try:
        while True:
            status = await read_status(session.connection, run_id, session.schema)
            if status.is_ended:
                return status
            is_over = end is not None and time.monotonic() >= end
            waits_for = None
            if status.state == "ready" and (is_over or pause == LONGEST_PAUSE_SECONDS):
                waits_for = await why_parked(session.connection, run_id, schema=session.schema)
            screen.show(status, waits_for)
            if is_over:
                raise timed_out(run_id, timeout)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, pause * 1.5)
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
        return
    require_success(status)
    if status.result is not None:
        click.echo(json.dumps(status.result, ensure_ascii=False))


class _Screen:
    """On a terminal one line that changes; elsewhere a line for each change of state."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, status: RunStatus, waits_for: str | None = None) -> None:
        line = f"run {status.id} {status.state}"
        if status.attempt:
            line += f", attempt {status.attempt}"
        if waits_for is not None:
            line += f": {waits_for}"
        if self._is_terminal and status.progress is not None:
            line = f"run {status.id} {bar(status.progress)}"
        if line != self._shown:
            self._shown = line
            click.echo(
                _CLEAR + line if self._is_terminal else line, err=True, nl=not self._is_terminal
            )

    def clear(self) -> None:
        if self._is_terminal and self._shown:
            click.echo(_CLEAR, err=True, nl=False)
