"""Compares the rows of a beat with the runs that this node holds: pure.

The rows name this incarnation. The comparison finds a claim whose answer was lost, a run that was
taken away, a cancel request, and a completion that did not arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Beat:
    """One acknowledged renewal. `sent_at` and all other instants here are CLOCK_BOOTTIME
    seconds.
    """

    sent_at: float
    received_at: float
    runs: Mapping[int, UUID]
    cancelled: frozenset[int]
    peers: Mapping[UUID, tuple[int, float]] = field(default_factory=dict)
    """incarnation → (beat sequence, time to live in seconds)"""
    breakers: tuple[str, ...] = ()
    """Names of the circuit breakers that are not closed."""
    killed: frozenset[int] = frozenset()
    """Those of the cancelled that shall end by force."""
    revision: str | None = None
    """The schema's."""


@dataclass(frozen=True, slots=True)
class Held:
    """A run this node holds: its token, when the claim's answer came, and whether its end is
    being reported.
    """

    token: UUID
    since: float
    is_ending: bool


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What to do: run ids, by reason; `unknown` is kept for the next beat."""

    to_stop: list[int]
    to_cancel: list[int]
    to_release: list[tuple[int, UUID]]
    unknown: dict[int, tuple[UUID, float]]
    to_kill: list[int] = field(default_factory=list)


def reconcile(
    beat: Beat,
    held: Mapping[int, Held],
    unknown: Mapping[int, tuple[UUID, float]],
    claims_settled_at: float,
) -> Reconciliation:
    """Compares `beat` with what is `held`.

    A row that is unknown here is given back only when every claim that was under way when the first
    beat with it was answered is settled (`claims_settled_at`: all claims sent before this instant
    are): that beat may be executed after a claim that was sent after it. A run that is held but not
    in the rows was taken away, unless its claim was answered after the beat was sent, or its end is
    on its way.
    """
    orphans: dict[int, tuple[UUID, float]] = {}
    release: list[tuple[int, UUID]] = []
    known = {run for run, mine in held.items() if beat.runs.get(run) == mine.token}
    for run, token in beat.runs.items():
        if run in known:
            continue
        first = unknown.get(run)
        first_seen = first[1] if first is not None and first[0] == token else beat.received_at
        if first is not None and first_seen < beat.sent_at and claims_settled_at > first_seen:
            release.append((run, token))
        else:
            orphans[run] = (token, first_seen)
    stop = [
        run
        for run, mine in held.items()
        if run not in known and mine.since < beat.sent_at and not mine.is_ending
    ]
    cancel = [run for run in beat.cancelled if run in known]
    kill = [run for run in cancel if run in beat.killed]
    return Reconciliation(stop, cancel, release, orphans, kill)


class PeerWatch:
    """Since when each peer's beat has not moved, by this node's own clock."""

    def __init__(self, unbroken: float) -> None:
        """`unbroken`: seconds between two beats beyond which the watch begins afresh, since the
        database may have been away for everybody.
        """
        self._seen: dict[UUID, tuple[int, float, float]] = {}
        self._unbroken = unbroken
        self._observed_at = float("-inf")

    def observe(self, beat: Beat) -> None:
        """Takes the peers of a beat; what is not among them is forgotten."""
        if beat.received_at - self._observed_at > self._unbroken:
            self._seen = {}
        self._observed_at = beat.received_at
        fresh: dict[UUID, tuple[int, float, float]] = {}
        for incarnation, (sequence, ttl) in beat.peers.items():
            known = self._seen.get(incarnation)
            since = known[1] if known is not None and known[0] == sequence else beat.received_at
            fresh[incarnation] = (sequence, since, ttl)
        self._seen = fresh

    def forget(self) -> None:
        """After the database was away: everybody gets a whole lease to renew."""
        self._seen = {}

    def bury(self, incarnation: UUID) -> None:
        """This peer was declared dead: nothing more is expected of it."""
        self._seen.pop(incarnation, None)

    def silent(self, now: float) -> list[tuple[UUID, int]]:
        """(incarnation, beat sequence) of peers that have been silent for their whole lease."""
        if now - self._observed_at > self._unbroken:
            return []
        return [
            (peer, sequence)
            for peer, (sequence, since, ttl) in self._seen.items()
            if now - since >= ttl
        ]

    def next_verdict(self) -> float | None:
        """The instant at which the next silent peer's lease ends, if it is not renewed."""
        return min((since + ttl for _, since, ttl in self._seen.values()), default=None)
