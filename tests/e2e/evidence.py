"""What handlers write down outside the product, and how it is judged.

One line an event, each one append: ``run attempt token event boottime pid``. The clock is one for
all processes of the machine, so who executed when can be compared without asking the database.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgcron_ha import Context
from pgcron_ha.operating_system import boottime

VARIABLE = "EVIDENCE"


@dataclass(frozen=True)
class Event:
    """`kind` is start, tick, end (the work is complete) or stopped (it was cut short)."""

    run: int
    attempt: int
    token: str
    kind: str
    at: float
    pid: int


@dataclass(frozen=True)
class Execution:
    """From the start to its end, or to its process's known death; `heard`: its last line."""

    run: int
    attempt: int
    token: str
    pid: int
    began: float
    heard: float
    ended: float | None


def write(run: int | str, attempt: int | str, token: object, kind: str) -> None:
    """Append one line to the file that the environment names."""
    line = f"{run} {attempt} {token} {kind} {boottime():.6f} {os.getpid()}\n"
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@contextmanager
def executing(context: Context) -> Iterator[None]:
    """A start, and an end or a stop, around what a handler does."""
    claim = (context.run_id, context.attempt, context.token)
    write(*claim, "start")
    try:
        yield
    except BaseException:
        write(*claim, "stopped")
        raise
    write(*claim, "end")


class Evidence:
    """The file of one test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        path.chmod(0o666)  # shell runs may be another user

    def events(self, kind: str | None = None, run: int | None = None) -> list[Event]:
        """In the order in which they were written; a line that is being written does not count."""
        *complete, _ = self.path.read_text().split("\n")
        found = []
        for line in complete:
            number, attempt, token, what, at, pid = line.split(" ")
            event = Event(int(number), int(attempt), token, what, float(at), int(pid))
            if kind in (None, event.kind) and run in (None, event.run):
                found.append(event)
        return found

    def processes(self, kind: str, run: int | None = None) -> set[int]:
        """Which processes wrote such lines."""
        return {event.pid for event in self.events(kind, run)}

    def count(self, kind: str) -> int:
        return len(self.events(kind))

    def executions(self, deaths: Mapping[int, float] | None = None) -> list[Execution]:
        """Each claim that began. ``deaths``: when processes were killed, by process id."""
        claims: dict[tuple[int, str, int], list[Event]] = defaultdict(list)
        for event in self.events():
            claims[event.run, event.token, event.pid].append(event)
        return [_execution(events, deaths or {}) for events in claims.values()]

    def overlaps(self, deaths: Mapping[int, float] | None = None) -> list[tuple[object, object]]:
        """Pairs of executions of one run at the same time."""
        runs: dict[int, list[Execution]] = defaultdict(list)
        for execution in self.executions(deaths):
            runs[execution.run].append(execution)
        return [pair for executions in runs.values() for pair in overlapping(executions)]


def overlapping(executions: list[Execution]) -> list[tuple[object, object]]:
    """Neighbours in time of which the second began before the first was over."""
    ordered = sorted(executions, key=lambda each: each.began)
    return [
        (one, next_one)
        for one, next_one in itertools.pairwise(ordered)
        if one.ended is None or next_one.began < one.ended
    ]


def _execution(events: list[Event], deaths: Mapping[int, float]) -> Execution:
    first, last = events[0], events[-1]
    assert first.kind == "start", f"the first line of a claim is its start: {first}"
    assert sum(1 for event in events if event.kind == "start") == 1, f"began twice: {events}"
    is_over = last.kind in ("end", "stopped")
    ended = last.at if is_over else deaths.get(first.pid)
    if last.kind == "tick":  # a program that was killed; what it did until then is seen
        ended = last.at
    return Execution(first.run, first.attempt, first.token, first.pid, first.at, last.at, ended)
