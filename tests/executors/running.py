"""What the executors' tests share: contexts, and an engine's stand-in that only records."""

from __future__ import annotations

import os
import pwd
import threading
import uuid
from collections import deque
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Any

from pgcron_ha.executors.contract.base import Context, ExecutorServices, Outcome, Stream
from tests.product.config import ShellTemplate
from tests.product.db import Link
from tests.product.executors import Attempt, Progress
from tests.waiting import DEADLINE_SECONDS

NOWHERE = "postgresql://127.0.0.1:1/nobody"
"""Where no database is."""


def no_link() -> Link:
    """For executors of which no run asks for the one before it."""
    return Link(NOWHERE)


class Record:
    """The outcomes and lines of runs, and the contexts that wait to be fed."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.outcomes: dict[int, Outcome] = {}
        self.lines: list[tuple[int, Stream, str]] = []
        self.waiting: deque[Context] = deque()
        self.doubled: list[int] = []
        self.reports: list[Progress] = []

    def services(self, slots: int = 64, **more: Any) -> ExecutorServices:
        return ExecutorServices(self.done, self.feed, self, slots, **more)

    def done(self, context: Context, outcome: Outcome) -> None:
        with self.changed:
            if context.run_id in self.outcomes:
                self.doubled.append(context.run_id)
            self.outcomes[context.run_id] = outcome
            self.changed.notify_all()

    def feed(self) -> Context | None:
        with self.changed:
            return self.waiting.popleft() if self.waiting else None

    def write(self, context: Attempt, stream: Stream, line: str) -> None:
        with self.changed:
            self.lines.append((context.run_id, stream, line))
            self.changed.notify_all()

    def progress(self, context: Attempt, progress: Progress) -> None:
        with self.changed:
            self.reports.append(progress)
            self.changed.notify_all()

    def beat(self, context: Attempt) -> None: ...

    def lines_of(self, context: Context, stream: Stream | None = None) -> list[str]:
        with self.changed:
            return [
                line
                for run, name, line in self.lines
                if run == context.run_id and stream in (None, name)
            ]

    def outcome(self, context: Context, deadline: float = DEADLINE_SECONDS) -> Outcome:
        """Wait for it."""
        with self.changed:
            ended = self.changed.wait_for(lambda: context.run_id in self.outcomes, deadline)
            assert ended, f"{context} has no outcome after {deadline} s"
            assert not self.doubled, f"done() was called twice for {self.doubled}"
            return self.outcomes[context.run_id]

    def wait_for_line(
        self, context: Context, line: str, deadline: float = DEADLINE_SECONDS
    ) -> None:
        wanted = (context.run_id, line)
        with self.changed:
            seen = self.changed.wait_for(
                lambda: wanted in [(run, text) for run, _, text in self.lines], deadline
            )
            assert seen, f"{context} wrote no line {line!r}: {self.lines[-20:]}"


def context(
    run_id: int,
    handler: str,
    args: dict[str, Any] | str = "{}",
    *,
    schedule: str | None = None,
    fire_time: datetime | None = None,
    timeout: float | None = None,
    origin: str = "enqueued",
) -> Context:
    run = uuid.uuid5(uuid.NAMESPACE_OID, str(run_id))
    token = uuid.uuid4()
    return Context(
        run_id, run, handler, args, 1, 3, "default", 0, schedule, fire_time, token, run_id + 7,
        timeout=timeout, origin=origin,
    )  # fmt: skip


class Turn:
    """Awaited in a handler, it lets the loop do something else once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def readable_pid(path: Path) -> bool:
    """Whether a process has written its id there, completely."""
    return path.exists() and path.read_text().endswith("\n")


def template(*argv: str, name: str = "t", **settings: Any) -> ShellTemplate:
    """One that runs as the tests' own user, who may be root."""
    settings.setdefault("user", pwd.getpwuid(os.geteuid()).pw_name)
    settings.setdefault("placeholders", {})
    return ShellTemplate(name=name, argv=argv, **settings)
