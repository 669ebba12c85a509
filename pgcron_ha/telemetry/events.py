"""One class for each thing that happens in a node: its facts, its level and its sentence."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """Something that happened. `level` is one of logging's; `text` is for people, with the names of
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
    """Something that people should see."""

    level = logging.WARNING


class ErrorEvent(Event):
    """Something that people should look into."""

    level = logging.ERROR


class NodeJoined(Event):
    """A session began."""

    node: str
    incarnation: str
    handlers: int
    predecessors: int

    def sentence(self) -> str:
        """Says under which incarnation."""
        freed = f", freed {self.predecessors} dead predecessor(s)" if self.predecessors else ""
        offered = "1 handler" if self.handlers == 1 else f"{self.handlers} handlers"
        return f"node {self.node!r} joined as {self.incarnation} with {offered}{freed}"


class NodeCordoned(Event):
    """Somebody wants the node to take nothing new, or no longer does."""

    node: str
    is_cordoned: bool

    def sentence(self) -> str:
        """Says which of both."""
        if self.is_cordoned:
            return f"node {self.node!r} is cordoned: it takes nothing new and ends what it holds"
        return f"node {self.node!r} is not cordoned any more: it takes runs again"


class NodeHasATwin(WarningEvent):
    """A living node of this name has the folder; this one took another."""

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
    """This incarnation was declared dead; everything it does is refused from now on."""

    text = (
        "incarnation {incarnation} was declared dead; its handlers are stopped and it joins again"
    )
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
    """The database refuses what happens to every run: it ended as a dead letter."""

    text = "run {run} can't be claimed and is dead: {error}"
    run: int
    error: str


class RunFenced(WarningEvent):
    """A completion was refused: the run is not this node's any more."""

    text = (
        "run {run}: the end of attempt {attempt} was refused, "
        "the run belongs to somebody else by now"
    )
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
    """More attempts failed at once than are told singly."""

    text = "{runs} more run(s) failed in the same moment; `pgcron-ha runs list` has them"
    runs: int


class LinesDropped(WarningEvent):
    """Lines of runs were not kept: too many at once, or refused by the database."""

    text = "{lines} line(s) of runs were dropped"
    lines: int


class RunsReleased(Event):
    """Claimed runs were given back unstarted."""

    text = "gave back {runs} run(s) that had not begun: {reason}"
    runs: int
    reason: str


class RunsParked(WarningEvent):
    """Due runs whose handler nobody offers were set aside."""

    text = "parked {runs} run(s): no live node offers their handler; `pgcron-ha status` names it"
    runs: int


class CircuitOpened(WarningEvent):
    """A handler fails so often that the cluster leaves it alone for a while."""

    breaker: str
    reason: str
    error: str
    seconds: float

    def sentence(self) -> str:
        """Says why, and for how long."""
        return (
            f"the circuit of {self.breaker} is open for {max(0.0, self.seconds):.0f} s: "
            f"{self.reason}, last: {self.error[:300]}"
        )


class CircuitClosed(Event):
    """A probe succeeded, or somebody reset the breaker: the handler's runs go again."""

    text = "the circuit of {breaker} is closed again"
    breaker: str


class RunsGivenUp(WarningEvent):
    """Waiting runs died because their time in all was over."""

    text = "gave up {runs} run(s) that waited for another attempt: their time is over"
    runs: int


class RunOverruns(WarningEvent):
    """A run executes for longer than its schedule's history lets expect; told once for each run."""

    text = (
        "run {run} of schedule '{schedule}' executes for {taken:.0f} s; "
        "expected about {expected:.0f} s"
    )
    run: int
    schedule: str | None
    expected: float
    taken: float


class RunIsStuck(ErrorEvent):
    """A handler ignores that it was asked to stop and can't be ended by force."""

    text = "run {run} ({handler}) does not stop though asked to ({reason}); it keeps its slot"
    run: int
    handler: str
    reason: str


class NodeEndsItself(ErrorEvent):
    """A handler that nothing can end costs the node its process."""

    text = (
        "run {run} ({handler}) goes on though asked to stop; this node lets its "
        "other runs end, then ends itself (node.on_unresponsive_handler)"
    )
    run: int
    handler: str


class ServiceFailed(WarningEvent):
    """One pass of a service failed; it will be tried again."""

    text = "{service}: {error}; trying again in {pause:.1f} s"
    service: str
    error: str
    pause: float


class ProfileIsRisky(WarningEvent):
    """A SQL profile can't be used, or its role may do more than its statements need."""

    text = "{warning}"
    warning: str


class WasSetAside(WarningEvent):
    """A service goes on without a run, a schedule or another row that stops its statements."""

    text = "{service} goes on without {what}, and tries it again: {error}"
    service: str
    what: str
    error: str


class IsNoLongerAside(Event):
    """What a service went on without went through, or is gone."""

    text = "{service}: {what} is settled after {seconds:.1f} s"
    service: str
    what: str
    seconds: float


class NotificationsAreLost(WarningEvent):
    """No notification reaches the node: it looks for work instead."""

    text = (
        "{why}: no notification arrives, work is looked for every node.poll_interval; "
        "a listen_dsn that leads to the server itself lets it begin at once"
    )
    service: str
    why: str


class NotificationsArrive(Event):
    """They reach the node again."""

    text = "notifications arrive again: work begins at once"
    service: str


class EndsAreNotHeard(WarningEvent):
    """Who waits for runs is not reached by notifications, and looks instead."""

    text = (
        "no notification arrived within {waited:g} s (through a pooler in transaction "
        "mode none does): results are looked for twice a second; a listen_dsn that leads "
        "to the server itself brings them at once"
    )
    waited: float


class HistoryThinned(Event):
    """The rules of retention have gone through a day of history."""

    text = (
        "{partition}: {removed} run(s) removed so far by the rules of retention, {remaining} kept"
    )
    partition: str
    removed: int
    remaining: int
