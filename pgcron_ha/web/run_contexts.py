"""What the templates of runs receive as ``view``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgcron_ha.web.contexts import FilterChip
from pgcron_ha.web.run_time import TimeBar


@dataclass(frozen=True)
class RunTab:
    """A group of states to choose with one click."""

    word: str
    href: str
    is_current: bool
    count: str | None
    """How many there are; None: nobody counts them."""


@dataclass(frozen=True)
class RunLine:
    """One row of the list of runs."""

    id: int
    state: str
    """The outcome, or how it is alive: running, ready, scheduled, retrying, parked, blocked."""
    schedule: str | None
    handler: str
    queue: str
    origin: str
    at: datetime
    """When it ended, began (running), or is due (waiting)."""
    seconds: float | None
    """How long it executed, or executes by now."""
    attempt: int
    max_attempts: int
    node: str | None
    error: str | None
    overruns: str | None
    """Of one that executes for longer than its schedule's history lets expect: what was expected.
    """


@dataclass(frozen=True)
class RunsView:
    """``runs.html``."""

    rows: tuple[RunLine, ...]
    tabs: tuple[RunTab, ...]
    filters: dict[str, str]
    """The values of the form, as they were given; an empty text where none was."""
    chips: tuple[FilterChip, ...]
    state_words: Sequence[str]
    choices: dict[str, Sequence[str]]
    """Suggestions for queue, handler, schedule and node."""
    next_href: str | None
    is_first_page: bool
    looked: int
    looked_to: datetime | None
    is_stopped: bool
    """Whether the page ends because enough was looked at: `looked` runs, back to `looked_to`."""
    is_empty: bool
    """No filter is set and there is no run at all."""


@dataclass(frozen=True)
class AttemptLine:
    """One attempt; the texts come from outside."""

    number: int
    outcome: str
    node: str | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    seconds: float | None
    error_class: str | None
    error: str | None
    traceback: str | None
    is_open: bool
    """Whether its traceback is unfolded: the newest one that has one."""


@dataclass(frozen=True)
class JsonText:
    """Args or a result, laid out."""

    text: str
    size: int
    """Bytes of the whole."""
    is_cut: bool


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `text` comes from outside."""

    anchor: str
    number: int
    at: datetime
    stream: str
    """out, err or log."""
    text: str
    is_cut: bool
    attempt: int
    is_first_of_attempt: bool


@dataclass(frozen=True)
class LogView:
    """A piece of a run's log."""

    lines: tuple[LogLine, ...]
    earlier_href: str | None
    later_href: str | None
    newest_href: str | None
    """The end, when this is not it."""
    download_href: str
    grows: bool
    """Whether the run executes and this is its end."""
    empty_note: str
    """Why there are no lines."""


@dataclass(frozen=True)
class ProgressBar:
    """How far an executing run says that it is; the note comes from outside."""

    amount: str
    """Such as 3 of 10."""
    percent: str | None
    """0 to 100; None: it named no total."""
    note: str | None
    at: datetime


@dataclass(frozen=True)
class ChildRun:
    """A run that was made from this one."""

    id: int
    what: str
    """rerun, redrive, …, and by whom."""
    state: str
    at: datetime | None


@dataclass(frozen=True)
class RunView:
    """``run.html``."""

    row: dict[str, Any]
    """A row of `pgcron_ha.db.queries.pages.run.run`."""
    word: str
    sentence: str
    what: str
    """The schedule's name, else the handler: the page's heading."""
    schedule_href: str | None
    facts: Sequence[tuple[str, str, str | None]]
    """Word, value, and an address if there is one."""
    instants: Sequence[tuple[str, datetime | None]]
    progress: ProgressBar | None
    bar: TimeBar | None
    attempts: Sequence[AttemptLine]
    hidden_attempts: int
    """Older ones that are not shown."""
    args: JsonText
    result: JsonText | None
    log: LogView
    slot_holder: int | None
    """The run that it waits for."""
    children: Sequence[ChildRun]
    cancel_word: str | None
    """What the button to cancel says; None: nothing is left to cancel."""
    may_kill: bool
    """Whether it was asked to stop, and its node may be asked to use force."""
    retry_word: str | None
    redrive_href: str | None
    """For an open dead letter: retrying it that way closes it."""
    note: str | None
    """Why there is less to see than usual."""
