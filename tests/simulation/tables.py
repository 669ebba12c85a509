"""The stand-in's tables: the columns that decide anything, on plain Python objects.

Times are aware datetimes of the stand-in's own clock, durations are seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

FIRST_INSTANT = datetime(2020, 1, 1, tzinfo=UTC)


class Row(dict[Any, Any]):
    """What a statement returns: by name, and by position as the driver's records are."""

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(key)


@dataclass(slots=True)
class NodeRow:
    incarnation: UUID
    name: str
    home: str | None
    lease_ttl: float
    lease_until: datetime
    slots: int
    queues: list[str]
    state: str = "alive"
    beat_sequence: int = 0
    slots_used: int = 0
    is_idle: bool = False
    ended_at: datetime | None = None
    ended_because: str | None = None
    labels: str = "{}"

    def satisfies(self, requires: Sequence[str] | None) -> bool:
        labels = json.loads(self.labels)
        words = {*labels, *(f"{name}={value}" for name, value in labels.items())}
        return words >= set(requires or ())


@dataclass(slots=True)
class Schedule:
    id: int
    name: str
    spec: str
    handler: str
    args: str = "{}"
    timezone: str = "UTC"
    dst: str = "vixie"
    queue: str = "default"
    priority: int = 5
    enabled: bool = True
    overlap: str = "skip"
    catchup: str = "latest"
    catchup_window: float = 3600.0
    start_deadline: float | None = None
    timeout: float = 3600.0
    max_attempts: int | None = None
    retry_base: float = 2.0
    retry_cap: float = 3600.0
    retry: str | None = None
    delivery: str = "at_least_once"
    concurrency_key: str | None = None
    requires: list[str] | None = None
    weight: int = 1
    managed_by: str = "sql"
    paused_note: str | None = None
    paused_by: str | None = None
    paused_until: datetime | None = None
    after_pause: str = "drop"
    pause_after_failures: int | None = None
    probe_after: float | None = None


@dataclass(slots=True)
class Cursor:
    schedule_id: int
    since: datetime
    watermark: datetime
    generation: int = 1
    next_fire: datetime | None = None
    status: str = "unchecked"
    error: str | None = None
    canonical: str | None = None
    is_paused: bool = False
    pause_note: str | None = None
    paused_until: datetime | None = None
    edit_is_pending: bool = False


def concurrency_key_of(concurrency_key: str | None, weight: int | None) -> str | None:
    """Where a run waits: what takes more than one slot of a node has a key."""
    return f"*weight {weight}" if concurrency_key is None and (weight or 1) > 1 else concurrency_key


@dataclass(slots=True)
class Run:
    id: int
    handler: str
    due_at: datetime
    created_at: datetime
    origin: str = "enqueued"
    schedule_id: int | None = None
    schedule: str | None = None
    scheduled_for: datetime | None = None
    nominal_for: datetime | None = None
    parent_run: int | None = None
    queue: str = "default"
    priority: int = 5
    args: str = "{}"
    delivery: str = "at_least_once"
    state: str = "ready"
    hold: str | None = None
    expire_at: datetime | None = None
    attempt: int = 0
    lost_early: int | None = None
    max_attempts: int | None = None
    timeout: float = 3600.0
    retry_base: float = 2.0
    retry_cap: float = 3600.0
    retry: str | None = None
    overlap: str | None = None
    overlap_slot: int | None = None
    snoozes: int | None = None
    concurrency_key: str | None = None
    key_slot: int | None = None
    requires: list[str] | None = None
    weight: int | None = None
    owner: UUID | None = None
    token: UUID | None = None
    fence: int | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    cancel_at: datetime | None = None
    cancel_reason: str | None = None
    last_error: str | None = None

    @property
    def overlap_key(self) -> int | None:
        """The schedule whose last run must be over before it may run."""
        return self.schedule_id if self.overlap is not None else None

    @property
    def kind(self) -> str:
        """Which way to the claim it has."""
        if self.concurrency_key is not None:
            return "key"
        if self.requires is not None:
            return "placed"
        if self.overlap is not None:
            return "concurrency_key"
        return "plain" if self.delivery == "at_least_once" else "once"

    @property
    def is_waiting(self) -> bool:
        return self.state == "ready" and self.hold is None

    @property
    def order(self) -> tuple[datetime, int]:
        return self.due_at, self.id


@dataclass(slots=True)
class Occurrence:
    schedule_id: int
    fire_at: datetime
    decision: str
    reason: str | None
    run_id: int | None


@dataclass(slots=True)
class Missed:
    schedule_id: int
    first_at: datetime
    last_at: datetime
    fires: int | None
    reason: str
    note: str | None = None


@dataclass(slots=True)
class Ended:
    """A row of history: the run as it was, and how it ended."""

    run: Run
    outcome: str
    finished_at: datetime
    error: str | None = None
    result: str | None = None
    started_at: datetime | None = None


@dataclass(slots=True)
class Attempt:
    run_id: int
    attempt: int
    outcome: str
    owner: UUID | None
    fence: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime
    error_class: str | None
    error: str | None


@dataclass(slots=True)
class DeadLetter:
    run: Run
    outcome: str
    died_at: datetime
    error: str | None
    requeued_as: int | None = None
    requeued_at: datetime | None = None


class TwoEnds(AssertionError):
    """A run ended although it has ended."""


@dataclass
class Tables:
    """The data, the clock, and the sources of what is not decided by the data."""

    clock: Callable[[], datetime]
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    offers: set[tuple[UUID, str]] = field(default_factory=set)
    paused_queues: set[str] = field(default_factory=set)
    cordons: set[str] = field(default_factory=set)
    queue_limits: dict[str, float] = field(default_factory=dict)
    key_limits: dict[str, int | None] = field(default_factory=dict)
    rates: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    starts: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    schedules: dict[int, Schedule] = field(default_factory=dict)
    cursors: dict[int, Cursor] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    history: dict[int, Ended] = field(default_factory=dict)
    occurrences: dict[tuple[int, datetime], Occurrence] = field(default_factory=dict)
    missed: dict[tuple[int, datetime], Missed] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    dead_letters: dict[int, DeadLetter] = field(default_factory=dict)
    keys: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    lines: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=dict)
    progress: dict[int, tuple[object, ...]] = field(default_factory=dict)
    is_paused: bool = False
    listeners: list[Callable[[str], None]] = field(default_factory=list)
    last_run: int = 0
    last_fence: int = 0
    last_schedule: int = 0

    def now(self) -> datetime:
        return self.clock()

    def part(self) -> float:
        """What ``random()`` answers."""
        return self.chance.random()

    def new_token(self, run: int) -> UUID:
        """One of its own for each run of a claim."""
        return UUID(int=self.chance.getrandbits(128), version=4)

    def next_run(self) -> int:
        self.last_run += 1
        return self.last_run

    def next_fence(self) -> int:
        self.last_fence += 1
        return self.last_fence

    def notify(self, payload: str) -> None:
        for listener in list(self.listeners):
            listener(payload)

    def is_alive(self, incarnation: UUID) -> bool:
        """May this session claim."""
        node = self.nodes.get(incarnation)
        return node is not None and node.state == "alive" and node.lease_until > self.now()

    def is_offered(self, handler: str, queue: str, requires: Sequence[str] | None = None) -> bool:
        return any(
            node.state == "alive"
            and node.satisfies(requires)
            and queue in node.queues
            and (node.incarnation, handler) in self.offers
            for node in self.nodes.values()
        )

    def holds(self, run: Run | None, token: UUID) -> bool:
        """The fence: whether this token is the one that holds the run."""
        return run is not None and run.token == token

    def insert_run(self, run: Run) -> None:
        self.runs[run.id] = run
        self.wake_idle()

    def wake_idle(self) -> None:
        if any(node.is_idle and node.state == "alive" for node in self.nodes.values()):
            self.notify("run")

    def end(self, run: Run, ended: Ended) -> None:
        """Into history, in one step."""
        if run.id in self.history:
            raise TwoEnds(
                f"run {run.id} ends as {ended.outcome} after {self.history[run.id].outcome}"
            )
        self.history[run.id] = ended
        del self.runs[run.id]


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
