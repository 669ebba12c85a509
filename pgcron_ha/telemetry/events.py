"""One class for each thing that happens in a node: its facts, its level and its sentence."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """What happened. `level` is one of logging's; `text` is for people, with the names of
    facts in braces. Each subclass is a frozen dataclass.
    """

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def sentence(self) -> str:
        """What happened, in words."""
        return self.text.format_map(self.fields())

    def fields(self) -> dict[str, Any]:
        """The facts, for machines."""
        return dict(vars(self))


class WarningEvent(Event):
    """An event that operators should see."""

    level = logging.WARNING


class ErrorEvent(Event):
    """An event that operators should investigate."""

    level = logging.ERROR


class NodeJoined(Event):
    """A session began."""

    node: str
    incarnation: str
    handlers: int
    predecessors: int

    def sentence(self) -> str:
        """Also the incarnation."""
        freed = f", freed {self.predecessors} dead predecessor(s)" if self.predecessors else ""
        offered = "1 handler" if self.handlers == 1 else f"{self.handlers} handlers"
        return f"node {self.node!r} joined as {self.incarnation} with {offered}{freed}"


class NodeCordoned(Event):
    """The node was cordoned or uncordoned."""

    node: str
    is_cordoned: bool

    def sentence(self) -> str:
        """Cordoned or not."""
        if self.is_cordoned:
            return f"node {self.node!r} is cordoned: it takes nothing new and ends what it holds"
        return f"node {self.node!r} is not cordoned any more: it takes runs again"


class NodeHasATwin(WarningEvent):
    """Another running node of this name uses the folder; this node uses another one."""

    text = (
        "another node named {node!r} runs on this host: this one keeps its state in "
        "{directory!r}; give each a node.name of its own"
    )
    node: str
    directory: str


class NodeLeft(Event):
    """A session ended in order."""

    text = "node {node!r} left: {reason}"
    node: str
    reason: str


class LeaseEndangered(WarningEvent):
    """The lease was not renewed in time; handlers are stopped."""

    text = "the lease was last renewed {seconds:.1f} s ago: {phase}"
    seconds: float
    phase: str


class NodeFenced(WarningEvent):
    """This incarnation was declared dead; all its statements are refused from now on."""

    text = "incarnation {incarnation} was declared dead: its handlers stop and it joins again"
    incarnation: str


class PeerDied(WarningEvent):
    """Another node's lease ran out and this one declared it dead."""

    text = "node {incarnation} did not renew its lease and was declared dead"
    incarnation: str


class RunsReaped(WarningEvent):
    """Runs of dead nodes were ended or made ready again."""

    verdicts: dict[str, int]

    def sentence(self) -> str:
        """Counts by verdict."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return f"runs of dead nodes: {counts}"


class RunRefused(ErrorEvent):
    """The database refuses to let a run be claimed: it ended as a dead letter."""

    text = "run {run} can't be claimed and is dead: {error}"
    run: int
    error: str


class RunFenced(WarningEvent):
    """A completion was refused: the run is no longer this node's."""

    text = "run {run}: the end of attempt {attempt} was refused, the run is no longer this node's"
    run: int
    attempt: int


class RunFailed(WarningEvent):
    """An attempt did not succeed."""

    text = "run {run} ({handler}) attempt {attempt}: {error} -> {verdict}"
    run: int
    handler: str
    attempt: int
    verdict: str
    error: str


class MoreRunsFailed(WarningEvent):
    """More attempts failed at once than are logged one by one."""

    text = "{runs} more run(s) failed in the same moment; `pgcron-ha runs list` has them"
    runs: int


class LinesDropped(WarningEvent):
    """Output lines of runs were dropped: too many at once, or refused by the database."""

    text = "{lines} line(s) of runs were dropped"
    lines: int


class RunsReleased(Event):
    """Claimed runs were given back unstarted."""

    text = "gave back {runs} run(s) that had not begun: {reason}"
    runs: int
    reason: str


class RunsBlocked(WarningEvent):
    """Due runs that no node may take were set aside."""

    text = "{runs} run(s) are blocked: no node offers their handler; `pgcron-ha status` names it"
    runs: int


class CircuitOpened(WarningEvent):
    """A handler failed so often that no node executes it for a while."""

    text = "the circuit of {breaker} is open for {seconds:.0f} s: {reason}, last: {error:.300}"
    breaker: str
    reason: str
    error: str
    seconds: float


class CircuitClosed(Event):
    """A probe succeeded, or the breaker was reset: the handler is executed again."""

    text = "the circuit of {breaker} is closed again"
    breaker: str


class RunsGivenUp(WarningEvent):
    """Waiting runs ended as dead because their total time was over."""

    text = "gave up {runs} run(s) that waited for another attempt: their time is over"
    runs: int


class RunOverruns(WarningEvent):
    """A run takes longer than its schedule's history suggests; reported once for each run."""

    text = "run {run} of schedule '{schedule}' takes {taken:.0f} s; expected about {expected:.0f} s"
    run: int
    schedule: str | None
    expected: float
    taken: float


class RunIsStuck(ErrorEvent):
    """A handler ignores a stop request and can't be killed."""

    text = "run {run} ({handler}) does not stop though asked to ({reason}); it keeps its slot"
    run: int
    handler: str
    reason: str


class NodeEndsItself(ErrorEvent):
    """The node's process ends because a handler can't be stopped."""

    text = (
        "run {run} ({handler}) goes on though asked to stop; this node lets its "
        "other runs end, then ends itself (node.on_unresponsive_handler)"
    )
    run: int
    handler: str


class ServiceFailed(WarningEvent):
    """A pass of a service failed and is tried again after `pause` seconds; or something that it
    does by the way failed, and `pause` is 0.
    """

    text = "{service}: {error}"
    service: str
    error: str
    pause: float = 0.0

    def sentence(self) -> str:
        """Also when it is tried again."""
        again = f"; trying again in {self.pause:.1f} s" if self.pause else ""
        return super().sentence() + again


class ProfileIsRisky(WarningEvent):
    """A SQL profile can't be used, or its role has more rights than its statements need."""

    text = "{warning}"
    warning: str


class DatabaseUnprotected(WarningEvent):
    """A setting leads to a server on another machine and does not ask for TLS."""

    setting: str
    host: str

    text = (
        "{setting} does not ask for TLS to {host}, so who is on the way can read and change"
        " everything: add sslmode=verify-full to it, or sslmode=disable on a network of your own"
    )


class WasSetAside(WarningEvent):
    """A service has set aside a run, a schedule or another row that makes its statements fail."""

    text = "{service} goes on without {what}, and tries it again: {error}"
    service: str
    what: str
    error: str


class IsNoLongerAside(Event):
    """What a service had set aside succeeded, or no longer exists."""

    text = "{service}: {what} is settled after {seconds:.1f} s"
    service: str
    what: str
    seconds: float


class NotificationsAreLost(WarningEvent):
    """No notification reaches the node: it polls for work."""

    text = (
        "{why}: no notification arrives, work is looked for every node.poll_interval; "
        "a listen_dsn that leads to the server itself lets it begin at once"
    )
    service: str
    why: str


class NotificationsArrive(Event):
    """Notifications reach the node again."""

    text = "notifications arrive again: work begins at once"
    service: str


class EndsAreNotNotified(WarningEvent):
    """No notification reaches a client that waits for runs: it polls."""

    text = (
        "no notification arrived within {waited:g} s (through a pooler in transaction "
        "mode none does): results are looked for twice a second; a listen_dsn that leads "
        "to the server itself brings them at once"
    )
    waited: float


class HistoryThinned(Event):
    """The retention rules have been applied to a day of history."""

    text = "{partition}: {removed} run(s) removed so far by retention, {remaining} kept"
    partition: str
    removed: int
    remaining: int


# Schedules and backfills.


class ScheduleIsInvalid(ErrorEvent):
    """This version can't read a schedule, or the database refuses its runs."""

    text = "schedule {schedule!r} is marked invalid: {error}"
    schedule: str
    error: str


class SchedulePausedItself(WarningEvent):
    """A schedule is paused because its runs failed."""

    text = "schedule {schedule} is {note}"
    schedule: int
    note: str


class TzdataTaken(Event):
    """The cluster uses this node's tzdata from now on."""

    tzdata: str
    before: str | None

    def sentence(self) -> str:
        """What happens to fires that are materialized already."""
        if self.before is None:
            return f"schedules follow tzdata {self.tzdata}"
        return (
            f"schedules follow tzdata {self.tzdata} instead of {self.before}: "
            "those with a time zone have their fires ahead made anew"
        )


class BackfillIsOver(Event):
    """A backfill is done, or has stopped: its last run has ended."""

    text = "backfill {backfill} of schedule {schedule!r} is {state}"
    backfill: int
    schedule: str
    state: str


class BackfillCantGoOn(ErrorEvent):
    """The instants of a backfill can't be computed by this version, or are too many."""

    text = "backfill {backfill} of schedule {schedule!r} can't go on: {error}"
    backfill: int
    schedule: str
    error: str


class BackfillIsPaused(WarningEvent):
    """A run that the next one depends on failed: an operator has to decide."""

    text = "backfill {backfill} of schedule {schedule!r} is paused: {error}"
    backfill: int
    schedule: str
    error: str
