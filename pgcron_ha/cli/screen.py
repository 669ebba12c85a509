"""What changes in place on a terminal, and is printed anew elsewhere: the line of a followed run
(on stderr) and the demo's tables.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from pgcron_ha.cli.output import write
from pgcron_ha.client.run_status import RunStatus
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
        print(*lines, sep="\n", flush=True)

    def draw(self, table: Sequence[str]) -> None:
        """Show the table; a line that a terminal has no room for is cut or left out."""
        if not self.is_terminal:
            self.say(*table, "")
            return
        size = shutil.get_terminal_size()
        lines = [_cut(line, size.columns) for line in table[: size.lines - 1]]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        print(f"{back}{drawn}{_REST_OF_SCREEN}", end="", flush=True)
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
