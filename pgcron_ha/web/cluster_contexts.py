"""What the templates of nodes, queues, dead letters and ledgers receive as ``view``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pgcron_ha.db.queries.reasons import Reason
from pgcron_ha.web.contexts import FilterChip
from pgcron_ha.web.formats import Mark


@dataclass(frozen=True)
class NodeRow:
    """One node incarnation; the facts are a row of `pgcron_ha.db.queries.pages.nodes`."""

    facts: dict[str, Any]
    href: str
    state: str
    """alive, cordoned, draining, silent (its lease ran out), gone (left in order) or died."""
    lease_left: float | None
    """Seconds, at least 0; None for the dead."""
    handlers: tuple[tuple[str, str], ...]
    """The first of them, each with the address of the nodes that offer it."""
    more_handlers: int
    has_other_version: bool
    """Whether most living nodes have another version."""
    sentence: str | None
    """Why it ended, or what happens to it now."""
    labels: tuple[str, ...] = ()
    """Each as key=value."""
    troubles: tuple[str, ...] = ()
    """What is wrong with its services, a sentence for each."""


@dataclass(frozen=True)
class NodesView:
    """``nodes.html``."""

    living: tuple[NodeRow, ...]
    dead: tuple[NodeRow, ...]
    slots: int
    free_slots: int
    """Of the nodes that are alive."""
    versions: Sequence[str]
    """Of the living; more than one: the cluster is mixed."""
    chips: tuple[FilterChip, ...]
    states: Sequence[tuple[str, str, bool]]
    """Word, address, and whether it is chosen."""
    is_cut: bool
    dead_is_cut: bool
    shows_living: bool
    shows_dead: bool


@dataclass(frozen=True)
class NodeView:
    """``node.html``."""

    row: NodeRow
    runs: Sequence[dict[str, Any]]
    """What it executes or holds ahead: rows of `nodes.node_runs`."""
    queues: tuple[tuple[str, str], ...]
    """Each with its address."""
    cordon: str | None = None
    """By whom and why it takes nothing new; None: it does."""


@dataclass(frozen=True)
class Parked:
    """Runs of one handler (with the labels they require) that no living node can take."""

    handler: str
    runs: int
    oldest_due: datetime
    href: str
    """The nodes that offer the handler for any queue."""


@dataclass(frozen=True)
class Broken:
    """Runs of one handler that wait for its circuit breaker."""

    handler: str
    runs: int
    oldest_due: datetime
    why: str
    reset_href: str


@dataclass(frozen=True)
class QueueRow:
    """One queue: is work flowing, what blocks it."""

    name: str
    href: str
    mark: Mark
    why: str
    """The sentence behind the mark's word."""
    due: int
    later: int
    """Waiting runs: those that are due, and those to come."""
    is_cut: bool
    """Whether `due` and `later` are lower bounds."""
    oldest_due: datetime | None
    running: int
    parked: tuple[Parked, ...]
    broken: tuple[Broken, ...]
    nodes: int
    slots: int
    free_slots: int
    dead: int
    is_paused: bool
    paused_at: datetime | None
    paused_note: str | None
    max_running: int | None
    """So many of its runs execute at once; None is no limit."""
    set_by: str | None
    """Who said its limits last."""
    rate: str | None
    """So many start in a time, such as ``10 in 1 m``; None is no limit."""
    next_at: datetime | None
    """When the next run may start, if as many as may have started."""

    @property
    def waiting(self) -> int:
        """All that has not begun, the parked aside."""
        return self.due + self.later

    @property
    def parked_runs(self) -> int:
        """All that is put aside."""
        unserved = sum(group.runs for group in self.parked)
        return unserved + sum(group.runs for group in self.broken)


@dataclass(frozen=True)
class Kept:
    """How long something is kept."""

    what: str
    keep: str
    note: str | None
    """What else there is to know."""


@dataclass(frozen=True)
class QueuesView:
    """``queues.html``."""

    rows: tuple[QueueRow, ...]
    cluster_pause: str | None
    """By whom and why everything is paused."""
    kept: tuple[Kept, ...]
    """How long records are kept: tables, then rules, the first that is about a run counts."""


@dataclass(frozen=True)
class HeadRun:
    """One of the first runs of a queue, and what stands in its way."""

    facts: dict[str, Any]
    why: str
    tone: str
    waits_for: int | None
    """The run that has to end first."""


@dataclass(frozen=True)
class QueueView:
    """``queue.html``."""

    row: QueueRow
    head: tuple[HeadRun, ...]
    later: Sequence[dict[str, Any]]
    """The first of those to come: rows of `pgcron_ha.db.queries.pages.queues.head`."""
    running: Sequence[dict[str, Any]]
    cluster_pause: str | None


@dataclass(frozen=True)
class LetterGroup:
    """A cause: the dead letters of one handler that died in the same way."""

    facts: dict[str, Any]
    """A row of `pgcron_ha.db.queries.pages.dead_letters.groups`."""
    href: str
    """Its letters."""
    redrive_href: str | None
    """Redrives the newest open one; None: all were."""
    redrive_all_href: str | None
    """Redrives all open ones that were not lost; None: there are less than two."""
    is_chosen: bool


@dataclass(frozen=True)
class Letter:
    """One dead letter."""

    facts: dict[str, Any]
    """A row of `pgcron_ha.db.queries.pages.dead_letters.letters`."""
    redrive_href: str | None
    schedule_href: str | None


@dataclass(frozen=True)
class DeadLettersView:
    """``dead_letters.html``."""

    groups: tuple[LetterGroup, ...]
    letters: tuple[Letter, ...]
    states: Sequence[tuple[str, str, bool]]
    """Word, address, and whether it is chosen."""
    state: str
    chips: tuple[FilterChip, ...]
    clear_href: str
    open: int
    """Open ones, whatever the filters."""
    is_cut: bool
    """Whether there are more open ones than were counted."""
    last_at: datetime | None
    """When the newest of all died."""
    looked_at: int
    """Groups are counted among so many of the newest."""
    rates: Sequence[str]
    """How many of a cause may become due in a minute."""
    next_href: str | None
    first_href: str | None
    """The first page, if this is another."""


@dataclass(frozen=True)
class LedgerRow:
    """What was decided about a fire, or about a range of them, and what came of it."""

    facts: dict[str, Any]
    """A row of `pgcron_ha.db.queries.pages.ledger.occurrences`."""
    reason: str | None
    """Why it did not run, in words."""
    outcome: str | None
    """A word of `formats.STATES` for its run; None: it has none, or retention removed it."""
    delay: float | None
    """Seconds from the fire time to the start."""


@dataclass(frozen=True)
class Answer:
    """Why an instant of a schedule ran or did not."""

    instant: datetime
    mark: Mark
    sentence: str
    run: int | None
    outcome: str | None
    clock_note: str | None
    """What the zone's clock did then: a wall time that was skipped, or the first of two."""
    reported: Reason
    said_by: str | None
    """Who decided it, and their note, unless the sentence says so."""


@dataclass(frozen=True)
class NearFire:
    """A fire of the schedule near an instant that it does not name."""

    at: datetime
    word: str
    """before or after"""
    href: str


@dataclass(frozen=True)
class LedgerView:
    """``ledger.html``."""

    name: str
    zone: ZoneInfo
    """The schedule's."""
    utc: ZoneInfo
    rows: tuple[LedgerRow, ...]
    decisions: Sequence[tuple[str, str, bool]]
    """Word, address, and whether it is chosen."""
    decision: str | None
    asked: str
    """What the form asked, as it was given."""
    clock: str
    """The chosen clock: schedule, utc or mine."""
    clocks: Sequence[tuple[str, str]]
    """Word and label of the clocks to choose from."""
    answers: tuple[Answer, ...]
    near: tuple[NearFire, ...]
    """The fires about an instant that is none."""
    around_href: str | None
    """The ledger up to the instant that was asked about."""
    looked_at: int
    is_first_page: bool
    first_href: str
    next_href: str | None
