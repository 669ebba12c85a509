"""One frozen dataclass for each thing that happens in a node: its fields, its level and its
sentence.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `level` is one of logging's; `sentence` is for people."""

    level: ClassVar[int] = logging.INFO

    def sentence(self) -> str:
        """What happened, in words."""
        raise TypeError(f"{type(self).__name__} has no sentence")

    def fields(self) -> dict[str, Any]:
        """The facts, for machines."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class NodeCordoned(Event):
    """Somebody wants the node to take nothing new, or no longer does."""

    node: str
    is_cordoned: bool

    def sentence(self) -> str:
        """Says which of both."""
        if self.is_cordoned:
            return f"node {self.node!r} is cordoned: it takes nothing new and ends what it holds"
        return f"node {self.node!r} is not cordoned any more: it takes runs again"


@dataclass(frozen=True, slots=True)
class NodeHasATwin(Event):
    """A living node of this name has the folder; this one took another."""

    level = logging.WARNING
    node: str
    directory: str

    def sentence(self) -> str:
        """Says what follows from it."""
        return (
            f"another node named {self.node!r} runs on this host: this one keeps its state in "
            f"{self.directory!r}; give each a node.name of its own"
        )


@dataclass(frozen=True, slots=True)
class NodeLeft(Event):
    """A session ended in order."""

    node: str
    reason: str

    def sentence(self) -> str:
        """Says why."""
        return f"node {self.node!r} left: {self.reason}"


@dataclass(frozen=True, slots=True)
class LeaseEndangered(Event):
    """The lease was not renewed in time; handlers are stopped."""

    level = logging.WARNING
    seconds: float
    phase: str

    def sentence(self) -> str:
        """Says for how long, and what is done."""
        return f"the lease was last renewed {self.seconds:.1f} s ago: {self.phase}"


@dataclass(frozen=True, slots=True)
class NodeFenced(Event):
    """This incarnation was declared dead; everything it does is refused from now on."""

    level = logging.WARNING
    incarnation: str

    def sentence(self) -> str:
        """Says which incarnation."""
        return (
            f"incarnation {self.incarnation} was declared dead; "
            "its handlers are stopped and it joins again"
        )


@dataclass(frozen=True, slots=True)
class PeerDied(Event):
    """Another node's lease ran out and this one declared it dead."""

    level = logging.WARNING
    incarnation: str

    def sentence(self) -> str:
        """Says which."""
        return f"node {self.incarnation} did not renew its lease and was declared dead"


@dataclass(frozen=True, slots=True)
class RunsReaped(Event):
    """Runs of dead nodes were ended or made ready again."""

    level = logging.WARNING
    verdicts: dict[str, int]

    def sentence(self) -> str:
        """Counts by verdict."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return f"runs of dead nodes: {counts}"


@dataclass(frozen=True, slots=True)
class RunRefused(Event):
    """The database refuses what happens to every run: it ended as a dead letter."""

    level = logging.ERROR
    run: int
    error: str

    def sentence(self) -> str:
        """Says which run, and the server's reason."""
        return f"run {self.run} can't be claimed and is dead: {self.error}"


@dataclass(frozen=True, slots=True)
class RunFenced(Event):
    """A completion was refused: the run is not this node's any more."""

    level = logging.WARNING
    run: int
    attempt: int

    def sentence(self) -> str:
        """Says which run."""
        return (
            f"run {self.run}: the end of attempt {self.attempt} was refused, "
            "the run belongs to somebody else by now"
        )


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """An attempt did not succeed."""

    level = logging.WARNING
    run: int
    handler: str
    attempt: int
    verdict: str
    error: str

    def sentence(self) -> str:
        """Says what became of it."""
        what = f"run {self.run} ({self.handler}) attempt {self.attempt}"
        return f"{what}: {self.error} -> {self.verdict}"


@dataclass(frozen=True, slots=True)
class MoreRunsFailed(Event):
    """More attempts failed at once than are told singly."""

    level = logging.WARNING
    runs: int

    def sentence(self) -> str:
        """Says how many."""
        return f"{self.runs} more run(s) failed in the same moment; `pgcron-ha runs list` has them"


@dataclass(frozen=True, slots=True)
class LinesDropped(Event):
    """Lines of runs were not kept: too many at once, or refused by the database."""

    level = logging.WARNING
    lines: int

    def sentence(self) -> str:
        """Says how many."""
        return f"{self.lines} line(s) of runs were dropped"


@dataclass(frozen=True, slots=True)
class RunsReleased(Event):
    """Claimed runs were given back unstarted."""

    runs: int
    reason: str

    def sentence(self) -> str:
        """Says how many and why."""
        return f"gave back {self.runs} run(s) that had not begun: {self.reason}"


@dataclass(frozen=True, slots=True)
class RunsParked(Event):
    """Due runs whose handler nobody offers were set aside."""

    level = logging.WARNING
    runs: int

    def sentence(self) -> str:
        """Says how many."""
        return (
            f"parked {self.runs} run(s): no live node offers their handler; "
            "`pgcron-ha status` names it"
        )


@dataclass(frozen=True, slots=True)
class CircuitOpened(Event):
    """A handler fails so often that the cluster leaves it alone for a while."""

    level = logging.WARNING
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


@dataclass(frozen=True, slots=True)
class CircuitClosed(Event):
    """A probe succeeded, or somebody reset the breaker: the handler's runs go again."""

    breaker: str

    def sentence(self) -> str:
        """Says whose."""
        return f"the circuit of {self.breaker} is closed again"


@dataclass(frozen=True, slots=True)
class RunsGivenUp(Event):
    """Waiting runs died because their time in all was over."""

    level = logging.WARNING
    runs: int

    def sentence(self) -> str:
        """Says how many."""
        return f"gave up {self.runs} run(s) that waited for another attempt: their time is over"


@dataclass(frozen=True, slots=True)
class RunOverruns(Event):
    """A run executes for longer than its schedule's history lets expect; told once for each run."""

    level = logging.WARNING
    run: int
    schedule: str | None
    expected: float
    taken: float

    def sentence(self) -> str:
        """Says for how long, and what was expected."""
        return (
            f"run {self.run} of schedule '{self.schedule}' executes for {self.taken:.0f} s; "
            f"expected about {self.expected:.0f} s"
        )


@dataclass(frozen=True, slots=True)
class RunIsStuck(Event):
    """A handler ignores that it was asked to stop and can't be ended by force."""

    level = logging.ERROR
    run: int
    handler: str
    reason: str

    def sentence(self) -> str:
        """Says which handler."""
        return (
            f"run {self.run} ({self.handler}) does not stop though asked to ({self.reason}); "
            "it keeps its slot"
        )


@dataclass(frozen=True, slots=True)
class NodeEndsItself(Event):
    """A handler that nothing can end costs the node its process."""

    level = logging.ERROR
    run: int
    handler: str

    def sentence(self) -> str:
        """Says because of whom."""
        return (
            f"run {self.run} ({self.handler}) goes on though asked to stop; this node lets its "
            "other runs end, then ends itself (node.on_unresponsive_handler)"
        )


@dataclass(frozen=True, slots=True)
class ScheduleIsInvalid(Event):
    """A schedule can't be read by this version, or the database refuses its runs."""

    level = logging.ERROR
    schedule: str
    error: str

    def sentence(self) -> str:
        """Says what is wrong."""
        return f"schedule {self.schedule!r} is marked invalid: {self.error}"


@dataclass(frozen=True, slots=True)
class ServiceFailed(Event):
    """One pass of a service failed; it will be tried again."""

    level = logging.WARNING
    service: str
    error: str
    pause: float

    def sentence(self) -> str:
        """Says what, and when it tries again."""
        return f"{self.service}: {self.error}; trying again in {self.pause:.1f} s"


@dataclass(frozen=True, slots=True)
class ProfileIsRisky(Event):
    """A SQL profile can't be used, or its role may do more than its statements need."""

    level = logging.WARNING
    warning: str

    def sentence(self) -> str:
        """Says which, and why."""
        return self.warning


@dataclass(frozen=True, slots=True)
class RepairWasNeeded(Event):
    """A sweep found what should never be found."""

    level = logging.ERROR
    what: str
    count: int

    def sentence(self) -> str:
        """Says what it found."""
        return f"repaired {self.count}: {self.what}"
