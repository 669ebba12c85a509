"""The engine's side of an executor under test, which hands out runs and records what the executor
reports of them; and what the process has, so that a test sees what an executor leaves behind.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.base import Context, Outcome, Stream
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.operating_system import child_processes

DEADLINE_SECONDS = 20.0
"""Longer than anything a test waits for, also on a busy machine."""

_PAUSE_SECONDS = 0.02


class RecordingEngine:
    """Outcomes, lines and the order of calls."""

    def __init__(self) -> None:
        self.waiting: deque[Context] = deque()
        self.calls: list[str] = []
        self.lines: list[str] = []
        self.late_lines: list[str] = []
        self.at_done: Callable[[Context], None] = lambda context: None
        """Called before a `done` is kept, in the thread that says it."""
        self._changed = threading.Condition()
        self._outcomes: dict[int, list[Outcome]] = {}
        self._numbers = itertools.count(1)

    def new(self, handler: str, args: dict[str, Any] | str) -> Context:
        """A run, claimed and not begun. Args may be JSON text, as the engine has them."""
        number = next(self._numbers)
        return Context(
            *(number, uuid.uuid4(), handler, args, 1, 3, "default", 0, None, None),
            *(uuid.uuid4(), number + 1000),
        )

    def done(self, context: Context, outcome: Outcome) -> None:
        """As the engine's."""
        self.at_done(context)
        with self._changed:
            self.calls.append("done")
            self._outcomes.setdefault(context.run_id, []).append(outcome)
            self._changed.notify_all()

    def feed(self) -> Context | None:
        """As the engine's: the next of `waiting`."""
        with self._changed:
            self.calls.append("feed")
            self._changed.notify_all()
            return self.waiting.popleft() if self.waiting else None

    def write(self, context: Attempt, stream: Stream, line: str) -> None:
        """As the engine's recorder."""
        with self._changed:
            self.lines.append(line)
            if context.run_id in self._outcomes:
                self.late_lines.append(line)

    def progress(self, context: Attempt, progress: Progress) -> None:
        """As the engine's recorder; nothing is kept of it."""

    def beat(self, context: Attempt) -> None:
        """As the engine's recorder; nothing is kept of it."""

    def outcomes_of(self, context: Context) -> list[Outcome]:
        """All outcomes that were reported of the run; there must be one."""
        with self._changed:
            return list(self._outcomes.get(context.run_id, []))

    def outcome(self, context: Context) -> Outcome:
        """Wait for the end of the run; there must be one."""
        self.wait_until(lambda: context.run_id in self._outcomes, f"{context} ends")
        (outcome,) = self.outcomes_of(context)
        return outcome

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until it is true, by a report to this engine or by itself."""
        end = time.monotonic() + DEADLINE_SECONDS
        with self._changed:
            while not condition():
                assert time.monotonic() < end, f"not in {DEADLINE_SECONDS:g} s: {what}"
                self._changed.wait(_PAUSE_SECONDS)


def resources() -> set[str]:
    """What this process has: threads, and where there is a ``/proc`` children and as many
    descriptors, whatever they are.
    """
    return {
        *(f"thread {each.name}:{each.ident}" for each in threading.enumerate()),
        *(f"process {pid}" for pid in child_processes()),
        *(f"descriptor {n}" for n, _ in enumerate(Path("/proc/self/fd").glob("*"), 1)),
    }
