"""What templates receive as ``view``: one dataclass for each page, every field documented.

A page fills it from what it read; the template shows it and decides nothing. Rows of plain
listings stay the dictionaries that `pgcron_ha.db.queries.pages` documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from pgcron_ha.db.queries.node_health import WELL, NodeHealth
from pgcron_ha.web.health import Health
from pgcron_ha.web.plots import SparkBar, Timeline, Trend


@dataclass(frozen=True)
class Tile:
    """One number of the overview."""

    label: str
    value: str
    """The big number, worded."""
    unit: str
    """What follows the number, small."""
    word: str
    """The state in a word: ok, failing, late, …"""
    glyph: str
    tone: str
    """The colour token of its edge: ok, late, fail, idle."""
    note: str
    """One line below: since when, which queue, how many causes."""
    href: str | None
    """The filtered list behind it."""


@dataclass(frozen=True)
class Action:
    """A button: a POST form."""

    label: str
    href: str


@dataclass(frozen=True)
class Attention:
    """One row of "needs attention": a cause, whatever number of things it touches."""

    glyph: str
    word: str
    tone: str
    what: str
    """A name from outside: shown as plain text."""
    href: str | None
    since: datetime | None
    why: str
    """First line of the newest error, or the reason why nothing runs."""
    hint: str | None
    """What to do now, if there is more to do than to look."""
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class QueueLine:
    """One queue on the overview."""

    name: str
    due: int
    oldest_due: datetime | None
    running: int
    is_cut: bool
    """Whether `due` is only a lower bound."""
    paused: str | None
    """By whom and why it is paused."""
    href: str


@dataclass(frozen=True)
class NodeLine:
    """One node on the overview."""

    name: str
    state: str
    """alive, cordoned, draining, silent (no lease any more), gone (left in order) or died."""
    lease_left: float | None
    """Seconds; None for the dead."""
    lease_ttl: float
    slots: int
    slots_used: int
    reason: str | None
    """Why it ended; of a cordoned one by whom it is, and why."""
    ended_at: datetime | None
    """For a silent one the end of its lease; None while it lives."""
    href: str
    cordoned_at: datetime | None = None
    unresponsive_runs: Sequence[int] = ()
    """The first that go on though it was told to stop them."""
    health: NodeHealth = WELL


@dataclass(frozen=True)
class OverviewView:
    """``overview.html``."""

    tiles: tuple[Tile, ...]
    attention: tuple[Attention, ...]
    more_attention: int
    """Causes that are not shown."""
    all_attention_href: str | None
    """The page that shows them; None: it is this one."""
    dead_letters: int
    """Open ones, also of schedules that have recovered."""
    problems: int
    """How many causes there are; the number in the page's title."""
    timeline: Timeline | None
    """None: no schedule has a next fire or a problem."""
    schedules: int
    """How many there are."""
    windows: Sequence[tuple[str, bool]]
    """Lengths of the timeline to choose from, and which is chosen."""
    queues: tuple[QueueLine, ...]
    nodes: tuple[NodeLine, ...]
    last_finished_at: datetime | None
    rate: float | None
    """Ended runs a second over the last minute; None: too few to say."""
    is_empty: bool
    """Neither schedules nor runs nor nodes: somebody has just installed it."""


@dataclass(frozen=True)
class ScheduleLine:
    """One row of the list of schedules."""

    name: str
    health: Health
    spec: str
    timezone: str
    handler: str
    queue: str
    enabled: bool
    next_fire: datetime | None
    last_outcome: str | None
    last_finished_at: datetime | None
    last_seconds: float | None
    running: int
    overruns: str | None
    """Of what runs for longer than its history lets expect: what was expected."""
    spark: tuple[SparkBar, ...]


@dataclass(frozen=True)
class FilterChip:
    """An active filter, and the address without it."""

    label: str
    href: str


@dataclass(frozen=True)
class SchedulesView:
    """``schedules.html``."""

    rows: tuple[ScheduleLine, ...]
    filters: dict[str, str]
    """The values of the form, as they were given; an empty text where none was."""
    chips: tuple[FilterChip, ...]
    queues: Sequence[str]
    """To choose from."""
    health_words: Sequence[str]
    total: int
    """All schedules, whatever the filters."""
    next_href: str | None
    """The next page, if there may be one."""
    is_first_page: bool


@dataclass(frozen=True)
class FutureFireLine:
    """One fire to come: in the schedule's zone, in UTC, and what the clock does to it."""

    at: datetime
    local: str
    """``2026-11-21 06:30:00 (+1)`` in the schedule's zone."""
    weekday: str
    utc: str
    note: str | None
    """What a gap or fold of the zone's clock does to it."""
    change: ChangedFire | None = None


class ChangedFire(NamedTuple):
    """What somebody did to one fire."""

    at: datetime
    words: str
    undo: str
    """The route that takes it back, which needs the right that the change needed."""
    undo_word: str


@dataclass(frozen=True)
class ErrorView:
    """``error.html``: what happened, the rule behind it, what to do now."""

    status: int
    heading: str
    message: str
    detail: str | None
    hint: str | None
    near: Sequence[tuple[str, str]]
    """Names and addresses that may have been meant."""


@dataclass(frozen=True)
class ScheduleView:
    """``schedule.html``."""

    row: dict[str, Any]
    """The definition: a row of `pgcron_ha.db.queries.pages.schedules.schedule`."""
    health: Health
    fires: tuple[FutureFireLine, ...]
    changed: Sequence[ChangedFire]
    """Fires that somebody changed and that are not among these: later ones, or none any more."""
    fires_note: str | None
    """Why there are none, or what the spec's notes say."""
    sentence: str | None
    """The spec and the policies in English."""
    shows_viewer_zone: bool
    """Whether a column with the viewer's own clock says something new."""
    ledger: Sequence[dict[str, Any]]
    """Rows of `pgcron_ha.db.queries.pages.schedules.ledger`; `reason` is a sentence that has the
    note, `run_state` a word of `formats`.
    """
    ledger_href: str | None
    """Earlier decisions."""
    runs: Sequence[dict[str, Any]]
    trend: Trend | None
    runs_href: str
    """All its runs."""
    occurrences_href: str
    """All its fires, and why one did not run."""
    median: float | None
    slowest: float | None
    """Seconds: half of the last runs took at most `median`, 95 of 100 at most `slowest`."""
    settings: Sequence[tuple[str, str]]
    """What else is set, as words."""
    owner: str | None
    """What becomes of an edit here, when the schedule is managed elsewhere."""
    calendars: Sequence[str] = ()
    """Names of those that the spec uses, and of their parts."""
