"""Writes the lines of runs, and how far they are, while they run: batches, bounded, fenced by
token.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Busy, Link, Unanswered
from pgcron_ha.engine.batches import first_batch, impatience, isolate
from pgcron_ha.engine.run.claims import claims_of
from pgcron_ha.engine.run.counters import count_dropped_lines, count_lines
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.base import Stream
from pgcron_ha.executors.contract.coroutines import post
from pgcron_ha.executors.contract.progress import Progress
from pgcron_ha.telemetry.events import LinesDropped
from pgcron_ha.telemetry.log import emit

BATCH: Final = 2000
"""Lines in one statement."""

BUFFER_LINES: Final = 50_000
"""Lines kept while the database is away or slow; what comes beyond is dropped and counted."""

FLUSH_SECONDS: Final = 0.2
"""How old a line may get before it is written: a log is read live."""

FLUSH_SECONDS_OF_ENDS: Final = 1.0
"""How long ends wait for the lines before them; later ones find their run by its fence."""

_LOCKED_SECONDS: Final = 1.0
"""For this time after the table of lines was locked, ends don't wait for it at all."""

_IMPATIENT_SECONDS: Final = 30.0
"""For this time after the table of lines was locked, statements wait for it only briefly."""

PROGRESS_SECONDS: Final = 1.0
"""Between two writes of progress: a loop may report each step, and the database learns the last."""

_IDLE_SECONDS: Final = 60.0

_Line = tuple[Attempt, int, datetime, Stream, str]
_Report = tuple[Attempt, datetime, Progress]


class Recorder(Service):
    """A `LogSink` that writes lines to the database, in the order in which each run wrote them."""

    name: ClassVar[str] = "recorder"

    def __init__(self, link: Link) -> None:
        super().__init__(interval=FLUSH_SECONDS)
        self._link = link
        self._lines: deque[_Line] = deque()
        self._sequences: Counter[tuple[int, int]] = Counter()
        self._is_awake = False
        self._writing = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._doubtful = 0
        """How many of the first lines may be written already, or belong to runs that are over."""
        self._locked_at = float("-inf")
        self._reported = 0
        self._reports: dict[int, _Report] = {}
        self._reporting = threading.Lock()
        self._report_at = float("-inf")
        self.dropped = 0
        """Lines that were not kept, since the node began."""

    def write(self, context: Attempt, stream: Stream, line: str) -> None:
        """Keeps one line. Thread-safe; never blocks, never raises."""
        if len(self._lines) >= BUFFER_LINES:
            self.dropped += 1
            count_dropped_lines("buffer_full", [line])
            return
        claim = (context.run_id, context.attempt)
        self._sequences[claim] += 1
        self._lines.append((context, self._sequences[claim], datetime.now(UTC), stream, line))
        self._awake()

    def progress(self, context: Attempt, progress: Progress) -> None:
        """Keeps a run's latest progress. Thread-safe; never blocks, never raises."""
        with self._reporting:
            is_first = not self._reports
            self._reports[context.run_id] = context, datetime.now(UTC), progress
        if is_first:  # later reports go with the first
            self._awake()

    def beat(self, context: Attempt) -> None:
        """Nothing is kept of it: the watch looks at the context itself."""

    async def run_once(self) -> float | None:
        """Writes one batch, then gathers for a moment what comes next."""
        self._is_awake = False
        await self._write_batch()
        await self._write_progress()
        if len(self._lines) < BATCH:
            await asyncio.sleep(FLUSH_SECONDS / 2)
        if self._lines:
            return 0
        return max(0.0, self._report_at - monotonic()) if self._reports else _IDLE_SECONDS

    def _awake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            post(self._loop, self.wake)

    async def _write_progress(self) -> None:
        """The latest progress, once a second. What is refused is forgotten."""
        if not self._reports or monotonic() < self._report_at:
            return
        self._report_at = monotonic() + PROGRESS_SECONDS
        with self._reporting:
            reports = dict(self._reports)
        self.aside.keep(set(reports))
        due = [each for run, each in reports.items() if not self.aside.waits(run)]
        await isolate(due, self._send_progress, self._forget_progress, self._delay_progress)

    async def _send_progress(self, reports: Sequence[_Report]) -> None:
        await self._link.rows(
            "put_progress",
            **claims_of(context for context, _, _ in reports),
            times=[at for _, at, _ in reports],
            dones=[progress.done for _, _, progress in reports],
            totals=[progress.total for _, _, progress in reports],
            notes=[progress.note for _, _, progress in reports],
        )
        for report in reports:
            await self._forget_progress(report)

    async def _forget_progress(self, report: _Report, refusal: PgcronError | None = None) -> None:
        """It is written, or refused: how far a run is must not keep its lines from being written.
        A report that came meanwhile is newer, and stays.
        """
        run = report[0].run_id
        self.aside.forget(run)
        with self._reporting:
            if self._reports.get(run) is report:
                del self._reports[run]

    def _delay_progress(self, report: _Report, error: PgcronError) -> None:
        self.aside.put(report[0].run_id, f"progress of run {report[0].run_id}", error)

    async def flush_lines_of(self, contexts: Sequence[Attempt]) -> None:
        """Before runs end their lines are written, so that they are there when the end is seen; but
        for a second only, and not while their table is locked: then the ends go first.
        """
        if self._reports:  # runs that end need no progress
            with self._reporting:
                for context in contexts:
                    self._reports.pop(context.run_id, None)
        if not self._sequences:
            return
        ending = self._sequences.keys() & {(each.run_id, each.attempt) for each in contexts}
        if not ending:
            return
        end = monotonic() + FLUSH_SECONDS_OF_ENDS
        while any((line[0].run_id, line[0].attempt) in ending for line in list(self._lines)):
            if not self._locked_at + _LOCKED_SECONDS < monotonic() < end:
                self._doubtful = len(self._lines)
                break
            try:
                await self._write_batch()
            except Busy:
                continue
        for claim in ending:
            self._sequences.pop(claim, None)

    def flush_from_thread(self, context: Attempt) -> Future[None]:
        """As `flush_lines_of`, asked for by another thread."""
        return asyncio.run_coroutine_threadsafe(self.flush_lines_of([context]), self._loop)

    async def _write_batch(self) -> None:
        async with self._writing:  # two writers would send the same lines twice
            # By index: handlers' threads append meanwhile.
            lines = (self._lines[at] for at in range(len(self._lines)))
            batch = first_batch(lines, BATCH, lambda line: len(line[4]))
            if not batch:
                return
            try:
                await self._send_lines(batch)
            except Busy:
                self._locked_at = monotonic()
                raise  # not written: the lines stay
            except DatabaseUnavailable:
                raise
            except PgcronError:
                # Lines that the database refuses must not stop the run's end, nor other lines.
                await isolate(_by_claim(batch), self._send_lines_of, None, self._drop)
            for _ in batch:
                self._lines.popleft()
            self._doubtful = max(0, self._doubtful - len(batch))
            if self.dropped > self._reported:
                emit(LinesDropped(self.dropped - self._reported))
                self._reported = self.dropped

    async def _send_lines(self, batch: Sequence[_Line]) -> None:
        parameters = {
            **claims_of(line[0] for line in batch),
            "sequences": [line[1] for line in batch],
            "times": [line[2] for line in batch],
            "streams": [line[3] for line in batch],
            "lines": [line[4] for line in batch],
        }
        statement = "append_lines_again" if self._doubtful else "append_lines"
        try:
            with impatience(monotonic() < self._locked_at + _IMPATIENT_SECONDS):
                await self._link.rows(statement, **parameters)
        except Unanswered:
            self._doubtful = max(self._doubtful, len(batch))
            raise
        count_lines([(line[0].queue, line[4]) for line in batch])

    async def _send_lines_of(self, claims: Sequence[Sequence[_Line]]) -> None:
        await self._send_lines([line for lines in claims for line in lines])

    def _drop(self, lines: Sequence[_Line], error: PgcronError) -> None:
        self.dropped += len(lines)
        count_dropped_lines("refused", [line[4] for line in lines])


def _by_claim(batch: Sequence[_Line]) -> list[list[_Line]]:
    """The lines of each run together, in their order."""
    lines: dict[tuple[int, int], list[_Line]] = {}
    for line in batch:
        lines.setdefault((line[0].run_id, line[0].fence), []).append(line)
    return list(lines.values())
