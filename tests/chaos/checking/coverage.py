"""C14: what must have happened at least once, or the run has proved nothing ("sometimes")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tests.chaos.checking.history import History
from tests.chaos.gates import GATES
from tests.chaos.workflows import SHAPES, workflow_of


def _events(name: str, **facts: object) -> Callable[[History], int]:
    def count(history: History) -> int:
        return sum(
            1
            for event in history.node_events
            if event.get("event") == name
            and all(str(event.get(key, "")).find(str(value)) >= 0 for key, value in facts.items())
        )

    return count


def _records(kind: str, **facts: object) -> Callable[[History], int]:
    def count(history: History) -> int:
        return sum(
            1
            for event in history.of(kind)
            if all(event.get(key) == value for key, value in facts.items())
        )

    return count


def _outcome(*outcomes: str) -> Callable[[History], int]:
    return lambda history: sum(1 for row in history.table("ended") if row["outcome"] in outcomes)


def _least_passed(history: History) -> int:
    passed = Counter(execution.gate for execution in history.executions)
    return min(passed[gate] for gate in GATES)


def _least_ended(history: History) -> int:
    ended = Counter(row["name"] for row in history.table("workflows") if row["ended_at"])
    return min(ended[workflow_of(name)] for name in SHAPES)


def _asked(what: str) -> Callable[[History], int]:
    return lambda history: sum(
        facts["what"] == what and facts["result"] == "ok" for facts in history.answers().values()
    )


def _steps(state: str, prefix: str) -> Callable[[History], int]:
    def count(history: History) -> int:
        names = {
            (row["definition"], row["number"])
            for row in history.table("defined")
            if row["name"].startswith(prefix)
        }
        return sum(
            row["state"] == state and (row["definition"], row["number"]) in names
            for row in history.table("steps")
        )

    return count


SOMETIMES: Final[Mapping[str, Callable[[History], int]]] = {
    "a completion was fenced out": _events("RunFenced"),
    "a claim without an owner was given back": _events("RunsReleased", reason="never came"),
    "the answer to a claim was lost": lambda h: sum(
        1 for e in h.of("lost") if e["statement"].startswith("claim")
    ),
    "the answer to a completion was lost": _records("lost", statement="finish_runs"),
    "a node stopped its handlers before its lease was over": _events(
        "LeaseEndangered", phase="lost"
    ),
    "a node found itself declared dead": _events("NodeFenced"),
    "a peer was declared dead": _events("PeerDied"),
    "runs of a dead node were reaped": _events("RunsReaped"),
    "a run succeeded after an attempt that failed": lambda h: sum(
        1 for row in h.table("ended") if row["outcome"] == "succeeded" and row["attempt"] > 1
    ),
    "a fire was skipped": _outcome("skipped"),
    "a decision was made late": _records("slow", statement="materialize"),
    "a fire was missed": lambda h: len(h.table("missed")),
    "a run was lost": _outcome("lost"),
    "a fire was superseded": _outcome("superseded"),
    "a fire was not run as the one before it had failed": _outcome("upstream_failed"),
    "a circuit breaker opened": _events("CircuitOpened"),
    "each gate was passed": _least_passed,
    "each kind of workflow ended": _least_ended,
    "a step was cleared": _asked("clear"),
    "a step was ended by hand": _asked("end step"),
    "a step got its signal": _asked("signal"),
    "a dead workflow was redriven": _asked("redrive"),
    "a compensation was executed": _steps("succeeded", "undo_"),
    "a step was told that one before it had failed": _steps("upstream_failed", ""),
    "a workflow was cancelled": lambda history: sum(
        row["outcome"] == "cancelled" for row in history.table("workflows")
    ),
    "a client got no answer": lambda h: sum(
        1 for facts in h.answers().values() if facts["result"] == "unknown"
    ),
}
"""What each is called, and how often a history shows it."""


CORE: Final = frozenset(list(SOMETIMES)[:10])
"""What a few seconds of faults must show; the others need luck or time."""


def coverage(history: History) -> Counter[str]:
    """How often each rare thing happened; what never did counts 0."""
    return Counter({name: count(history) for name, count in SOMETIMES.items()})


def uncovered(counts: Mapping[str, int], wanted: Iterable[str] = SOMETIMES) -> list[str]:
    """What never happened."""
    return [name for name in wanted if not counts.get(name)]
