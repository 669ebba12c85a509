"""Every line of the matrix: a model under some defines, and the verdict it must have.

The protocol with all guards must be clean. With one guard removed the checker must find the promise
that the guard keeps; another one, or none, says that the guard or the model is not what we think.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.model.checker import CLEAN, MODELS, Verdict, check
from tests.model.moves import moves

TWICE: Final = "two handlers of one run at once"
SCHEDULE_TWICE: Final = "two handlers of one schedule at once"
ABOUT_TO: Final = "a node gets a run that it still executes, or is about to"
NOT_HELD: Final = "an attempt was ended by somebody who does not hold it"
STUCK: Final = "nothing more can happen, and a run has not ended"
ENDED_TWICE: Final = "a run ended twice"
ONCE_TWICE: Final = "an at_most_once run began twice"
TWO_HOLDERS: Final = "two runs hold one schedule: the unique index was hit"
SKIPPED_BETWEEN: Final = "a run between two attempts was skipped"
TOO_MANY: Final = "more runs of a key execute than it has slots"
TOO_SOON: Final = "more runs of a key start in a time than its rate says"
CLAIMED_TWICE: Final = "a run was claimed that was claimed before"
WAITING_HOLDER: Final = "a run that waits holds a slot of its key"
EARLY_JOIN: Final = "a join began before a step that it waits for was over"
TWO_RUNS: Final = "a step has two runs at once"
BESIDE: Final = "a step executes beside one that it comes after"
STEP_OPEN: Final = "nothing more can happen, and a step is not over"
DECIDED_TWICE: Final = "a fire is in the ledger and missed"
UNDECIDED: Final = "a fire is neither in the ledger nor missed"
OLD_GENERATION: Final = "a run of the old generation begins after the edit"
MADE: Final = "the change is made"


@dataclass(frozen=True, slots=True)
class Line:
    """One check. `tier`: 0 with the tests, 1 with `make model`, 2 with `make model FULL=1`; a
    define may name a state.
    """

    name: str
    model: str
    expected: str
    defines: Mapping[str, int | str] = field(default_factory=dict)
    tier: int = 1

    def check(self) -> Verdict:
        """What the checker says now. Raises CheckerFailed."""
        is_whole = self.expected == CLEAN
        return check(
            self.model,
            self.defines,
            is_large=is_whole and self.tier > 0 and self.model == "run",
            wants_shortest=not is_whole,
        )


def _full(name: str, model: str, tier: int = 1, **defines: int) -> Line:
    return Line(name, model, CLEAN, defines, tier)


def _without(guard: str, model: str, expected: str, tier: int = 1, **defines: int) -> Line:
    """`guard` is the define that is set to 0, or ``NAME=value``."""
    name, _, value = guard.partition("=")
    return Line(f"without {guard}", model, expected, {name: int(value or 0), **defines}, tier)


FAULTS: Final = {"LAPSES": 1, "DEATHS": 1, "LOST": 1}

WHOLE: Final = (
    _full("a lease, a death, a lost answer", "run", 0, **FAULTS),
    _full("frozen nodes", "run", 1, **FAULTS, TIMELY=0),
    _full("kill -9 and restart", "run", 1, **FAULTS, CRASHES=1),
    _full("cancel", "run", 1, **FAULTS, CANCELS=1),
    _full("statements executed late", "run", 1, **FAULTS, LATE=1),
    _full("beats that overtake and are overtaken", "run", 1, BEATS=2, LOST=1),
    _full("a node that stops, work given back", "run", 1, **FAULTS, STOPS=1, STALLS=1),
    _full("reapers that pause", "run", 1, **FAULTS, STALE=1),
    _full("at most once", "run", 0, **FAULTS, ONCE=1, STALLS=1),
    _full("at most once, statements executed late", "run", 1, **FAULTS, ONCE=1, LATE=1, STOPS=1),
    _full("at most once, frozen nodes", "run", 1, **FAULTS, ONCE=1, TIMELY=0),
    _full("start deadline", "run", 1, **FAULTS, EXPIRY=1),
    _full("a failover that loses commits", "run", 1, FAILOVER=1, DEATHS=1, LOST=1),
    _full("two fires of one schedule", "run", 1, RUNS=2, OVERLAP=1, LAPSES=1, LOST=1),
    _full("two runs, superseded and blocked", "run", 1, RUNS=2, OTHERS=1, LOST=1),
    _full("a schedule, statement by statement", "overlap_slot", 0),
    _full("a key, statement by statement", "key_slot", 0, DEATHS=1),
    _full("a key that loses a slot", "key_slot", 1, DEATHS=1, SHRINK=1),
    _full("a key with a rate", "key_slot", 1, DEATHS=1, RATE=2),
    _full("a key with one slot and a rate", "key_slot", 1, DEATHS=1, SLOTS=1, RATE=1),
    _full("two ends of a join, and a clear", "workflow_join", 0, CLEARS=1, LAPSES=1),
    _full("two clears of a join", "workflow_join", 1, CLEARS=2, LAPSES=1),
    _full("no edit, nothing late is run", "schedule", 1, EDIT=0, CATCHUP=0),
    _full("another timing", "schedule", 0, EDIT=1),
    _full("another timing, nothing late is run", "schedule", 1, EDIT=1, CATCHUP=0),
    _full("other args", "schedule", 1, EDIT=2),
    _full("pause and resume", "schedule", 1, EDIT=3),
    _full("pause and resume, nothing late is run", "schedule", 1, EDIT=3, CATCHUP=0),
    _full("an edit that a node finishes", "schedule", 1, EDIT=4),
    _full("beats, lease, death, lost answer", "run", 2, **FAULTS, BEATS=2),
    _full("beats and cancel", "run", 2, BEATS=2, CANCELS=1, LAPSES=1, LOST=1),
    _full("frozen nodes, cancel, restart", "run", 2, **FAULTS, TIMELY=0, CANCELS=1),
    _full("three attempts, two lapses", "run", 2, LAPSES=2, DEATHS=1, LOST=1, ATTEMPTS=3),
    _full("two lost answers, late statements", "run", 2, LAPSES=1, LOST=2, LATE=1, STOPS=1),
    _full("a failover, kill -9 and restart", "run", 2, FAILOVER=1, CRASHES=1),
    _full("a failover, frozen nodes", "run", 2, FAILOVER=1, TIMELY=0),
    _full("a schedule, all faults", "run", 2, **FAULTS, RUNS=2, OVERLAP=1),
    _full("a schedule, frozen nodes", "run", 2, RUNS=2, OVERLAP=1, LAPSES=1, LOST=1, TIMELY=0),
)

REMOVED: Final = (
    _without("TOKEN", "run", NOT_HELD, 0, TIMELY=0),
    _without("TOKEN=1", "run", NOT_HELD, STOPS=1, LOST=1),
    _without("LOOKUP", "run", "a node takes its recorded success for a fenced one", LOST=1),
    _without("RESEND", "run", ONCE_TWICE, ONCE=1, LATE=1),
    _without("RECONCILE", "run", STUCK, 0, LOST=1),
    _without("SETTLED", "run", ABOUT_TO, BEATS=1),
    _without("SETTLED=1", "run", ABOUT_TO, 0, BEATS=2),
    _without("STRANGER_CANCEL", "run", STUCK, 0, CANCELS=1, LOST=1),
    _without("SELF_FENCE", "run", TWICE, 0, LAPSES=1),
    _without("FROM_SENDING", "run", TWICE, BEATS=1, LAPSES=1),
    _without("MAY_START", "run", TWICE, LAPSES=1),
    _without("SAME_LIFE", "run", ABOUT_TO, LAPSES=1),
    _without("QUIET_JOIN", "run", ABOUT_TO, LAPSES=1),
    _without("SUPERVISOR", "run", TWICE, CRASHES=1),
    _without("OBSERVER", "run", TWICE),
    _without("BEAT_CAS", "run", TWICE, 0, LAPSES=1),
    _without("LEVEL", "run", STUCK, LAPSES=1, DEATHS=1),
    _without("REAP_TOKEN", "run", ABOUT_TO, LAPSES=1, STALE=1),
    _without("ONE_STATEMENT", "run", ENDED_TWICE),
    _without("ASK_ONLY", "run", SCHEDULE_TWICE, CANCELS=1, RUNS=2, OVERLAP=1),
    _without(
        "KEEP_CANCEL",
        "run",
        "a run was claimed again after its cancel request was accepted",
        CANCELS=1,
        LOST=1,
    ),
    _without("LOST_IS_LOST", "run", ONCE_TWICE, ONCE=1, DEATHS=1),
    _without("KEEP_SLOT", "run", SKIPPED_BETWEEN, RUNS=2, OVERLAP=1),
    _without("ONLY_UNTRIED", "run", "a run that was tried ended as expired", EXPIRY=1),
    _without("QUARANTINE", "run", ABOUT_TO, FAILOVER=1),
    _without("QUARANTINE=1", "run", ABOUT_TO, 0, FAILOVER=1),
    _without("ADVISORY", "overlap_slot", TWO_HOLDERS, 0),
    _without("FRESH", "overlap_slot", TWO_HOLDERS, 0),
    _without("KEEP_SLOT", "overlap_slot", SKIPPED_BETWEEN),
    _without("PLACES", "key_slot", TOO_MANY, 0, SLOTS=1),
    _without("COUNT", "key_slot", TOO_MANY, SHRINK=1),
    _without("AGAIN", "key_slot", CLAIMED_TWICE, 0),
    _without("ON_ROW", "key_slot", STUCK, 0, SLOTS=1, DEATHS=1),
    _without("FREES", "key_slot", WAITING_HOLDER),
    _without("RATE_LOCK", "key_slot", TOO_SOON, 0, RATE=2),
    _without("FRESH", "key_slot", TOO_SOON, RATE=1),
    _without("NEVER_BACK", "key_slot", TOO_SOON, RATE=1),
    _without("FENCE", "workflow_join", BESIDE, 0, LAPSES=1),
    _without("WITH_END", "workflow_join", STEP_OPEN, DEATHS=1),
    _without("LOCKED_COUNT", "workflow_join", STEP_OPEN, 0),
    _without("OUTBOX", "workflow_join", STEP_OPEN, 0),
    _without("ENDS_FIRST", "workflow_join", TWO_RUNS, CLEARS=1),
    _without("LOCK_FIRST", "workflow_join", TWO_RUNS, 0, CLEARS=1),
    _without("FORGET", "workflow_join", EARLY_JOIN, CLEARS=1),
    _without("ONE_SNAPSHOT", "workflow_join", EARLY_JOIN, 0, CLEARS=1),
    _without("CAS_WATERMARK", "schedule", DECIDED_TWICE, 0, EDIT=0),
    _without("CAS_GENERATION", "schedule", OLD_GENERATION, 0, EDIT=2),
    _without("LEDGER", "schedule", "a fire is run twice", 0),
    _without("CURSOR_FIRST", "schedule", OLD_GENERATION, EDIT=2),
    _without("CLOCK_LAST", "schedule", DECIDED_TWICE, 0, EARLY=0),
    _without("KEEP_DUE", "schedule", "a fire that somebody ran early is not run"),
    _without("TELL", "schedule", UNDECIDED, 0, EDIT=3, EARLY=0),
    _without("PENDING", "schedule", UNDECIDED, EDIT=4, EARLY=0),
    _without("ONE_STATEMENT", "schedule", ENDED_TWICE),
)

# What is not promised, so that nobody believes it is.
NOT_PROMISED: Final = (
    Line("run early, then edited, then late", "schedule", DECIDED_TWICE, {"STRICT": 1, "EDIT": 1}),
    Line("a failover that loses a reap", "run", TWICE, {"FAILOVER": 1, "LAPSES": 1}, tier=2),
)


def _reached() -> Iterator[Line]:
    """Each change of the model is made: a guard that is never reached would prove nothing."""
    faults: dict[str, dict[str, int]] = {
        "cancelled": {"CANCELS": 1},
        "skipped": {"RUNS": 2, "OVERLAP": 1},
        "superseded": {"RUNS": 2, "OTHERS": 1},
        "upstream_failed": {"RUNS": 2, "OTHERS": 1},
        "expired": {"EXPIRY": 1},
        "lost": {"ONCE": 1, "DEATHS": 1},
    }
    for start, end in sorted(moves((MODELS / "run.pml").read_text())):
        budget = faults["superseded"] if start == "blocked" else faults.get(end, {})
        yield Line(f"{start} -> {end}", "run", MADE, {"FROM": start, "TO": end, **budget})


def lines(tier: int) -> list[Line]:
    """All lines up to this tier: whole protocol first."""
    every = (*WHOLE, *REMOVED, *NOT_PROMISED, *_reached())
    return [line for line in every if line.tier <= tier]
