"""What changes while one looks: a run that is followed until it ends, its progress on stderr, its
result on stdout; and the demo's tables. It changes in place on a terminal, and is printed anew
elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

import click

from pgcron_ha.cli.output import echo, is_json, note, print_json, report, shown, write
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.previews import not_offered
from pgcron_ha.client.run_status import RunStatus, read_status, require_success, timed_out
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.queries.overview import database_time, lines
from pgcron_ha.db.queries.pages.run import what_run_waits_for
from pgcron_ha.db.queries.pages.schedules import offered
from pgcron_ha.errors import PgcronError, Refused
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.harmless import one_line
from pgcron_ha.model.formats import state_words
from pgcron_ha.model.verdicts import run_word

PLAIN_SECONDS: Final = 2.0
"""Between two plain lines that differ in the progress only."""

TERMINAL_SECONDS: Final = 0.5
TABLE_SECONDS: Final = 5.0
"""Between two tables; elsewhere than on a terminal more seldom, as the output may be a log."""

_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"
_CLEAR: Final = f"\r{_REST_OF_LINE}"
_BAR_WIDTH: Final = 24

FIRST_LOOK_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""Between two looks; the first ones follow each other faster, for runs that are short."""

LINES_AT_ONCE: Final = 1000
MOST_NOTES: Final = 100


class Screen:
    """Shows how far one thing is, usually the state of a run: on a terminal a line that changes,
    else a line for each change. Leaving the `with` block clears the line that changes.

    `clock_ahead`: how far the database's clock is ahead of this machine's.
    """

    def __init__(self, clock_ahead: timedelta = timedelta(0)) -> None:
        self._clock_ahead = clock_ahead
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""
        self._state = ""
        self._reported_at = 0.0

    def __enter__(self) -> Screen:
        return self

    def show(self, status: RunStatus, why: str | None = None) -> None:
        """Its state now, and `why` no node takes it."""
        now = datetime.now(UTC) + self._clock_ahead
        state = f"run {status.id} {state_words(run_word(asdict(status), now))}"
        if status.attempt:
            state += f", attempt {status.attempt}"
        if why is not None:
            state += f": {why}"
        drawn = plain = state
        if status.progress is not None:
            drawn = f"run {status.id} {bar(status.progress)}"
            plain = f"{state}: {progress_text(status.progress)}"
        if status.state == "running" and status.started_at is not None:
            drawn += f" · {elapsed((now - status.started_at).total_seconds())}"
        self._show(drawn, plain, state)

    def show_progress(
        self, what: str, done: float, total: float | None = None, note: str | None = None
    ) -> None:
        """The progress of something that is not a run."""
        reported = Progress(done, total, note)
        plain = f"{what}: {progress_text(reported)}"
        self._show(f"{what} {bar(reported)}", plain, plain)

    def _show(self, drawn: str, plain: str, state: str) -> None:
        """On a terminal what is `drawn`; elsewhere the `plain` line, soon only if the state is
        another one.
        """
        line = one_line(plain)
        if self._is_terminal:
            most = shutil.get_terminal_size().columns - 1
            line = "".join(each if each.isprintable() else "?" for each in drawn)[:most]
        now = time.monotonic()
        is_soon = state == self._state and now - self._reported_at < PLAIN_SECONDS
        if line == self._shown or (is_soon and not self._is_terminal):
            return
        self._shown, self._state, self._reported_at = line, state, now
        write(_CLEAR + line if self._is_terminal else line, err=True, nl=not self._is_terminal)

    def print_line(self, line: str) -> None:
        """A line that stays, above the one that changes."""
        write(_CLEAR + line if self._is_terminal else line, err=True)
        if self._is_terminal and self._shown:
            write(self._shown, err=True, nl=False)

    def __exit__(self, *_: object) -> None:
        if self._is_terminal and self._shown:
            self._shown = ""
            write(_CLEAR, err=True, nl=False)


class TableScreen:
    """`say` adds lines; `draw` shows a table, over the last one on a terminal."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.seconds = TERMINAL_SECONDS if self.is_terminal else TABLE_SECONDS
        """How long to wait between two tables."""
        self._drawn = 0

    def say(self, *lines: str) -> None:
        """Print lines below what is there."""
        self._drawn = 0
        write("\n".join(lines))

    def draw(self, table: Sequence[str]) -> None:
        """Show the table; a line that a terminal has no room for is cut or left out."""
        if not self.is_terminal:
            self.say(*table, "")
            return
        size = shutil.get_terminal_size()
        lines = [_cut(line, size.columns) for line in table[: size.lines - 1]]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        write(f"{back}{drawn}{_REST_OF_SCREEN}", nl=False)
        self._drawn = len(lines)


def _cut(line: str, columns: int) -> str:
    """A line that is cut has no colours."""
    plain = click.unstyle(line)
    return line if len(plain) <= columns else f"{plain[: columns - 1]}…"


def elapsed(seconds: float) -> str:
    """Such as ``0:07`` or ``1:02:03``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_of(row: Mapping[str, Any]) -> Progress | None:
    """What a row with ``done``, ``total`` and ``note`` says."""
    return None if row["done"] is None else Progress(row["done"], row["total"], row["note"])


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
