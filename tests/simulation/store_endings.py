"""The stand-in of ``endings.sql`` and ``take_over.sql``: how attempts and runs end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.simulation.retries import Failure, judge_attempt
from tests.simulation.tables import (
    Attempt,
    DeadLetter,
    Ended,
    Row,
    Run,
    Tables,
    concurrency_key_of,
    seconds,
)


class EndingStatements(Tables):
    def finish_runs(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        elapsed_seconds: Sequence[float],
        results: Sequence[str | None] | None,
        node: str,
    ) -> list[Row]:
        rows: list[Row] = []
        for run, elapsed, result in self._held(run_ids, tokens, elapsed_seconds, results):
            started = run.started_at or self.now() - seconds(elapsed)
            ended = Ended(replace(run), "succeeded", self.now(), None, result, started)
            self.end(run, ended)
            rows.append(Row(id=run.id))
        return rows

    def finish_runs_overflow(self, **parameters: object) -> list[Row]:
        raise AssertionError("the stand-in has a partition for every instant")

    def fail_runs(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        kinds: Sequence[str],
        retryables: Sequence[bool],
        retry_afters: Sequence[float | None],
        elapsed_seconds: Sequence[float | None],
        error_classes: Sequence[str | None],
        errors: Sequence[str | None],
        tracebacks: Sequence[str | None],
        causes: Sequence[str | None],
        fingerprints: Sequence[str | None],
        node: str,
    ) -> list[Row]:
        columns = (kinds, retryables, retry_afters, elapsed_seconds, error_classes, errors, causes)
        rows: list[Row] = []
        for run, kind, retryable, after, elapsed, error_class, error, cause in sorted(
            self._held(run_ids, tokens, *columns), key=lambda row: row[0].id
        ):
            if run.started_at is None and elapsed is not None:
                run.started_at = self.now() - seconds(elapsed)
            failure = Failure(kind, retryable, after, error_class, error, (cause or "").split())
            rows.append(self._end_attempt(run, failure))
        return rows

    def release_runs(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        weights: Sequence[int] | None,
    ) -> list[Row]:
        rows: list[Row] = []
        given = dict(zip(run_ids, weights or (), strict=False))
        for (run,) in self._held(run_ids, tokens):
            if run.cancel_at is not None:
                continue
            if run.attempt <= 1:
                run.overlap_slot = None
            run.attempt -= 1
            run.lost_early = run.lost_early and 1
            if run.id in given:
                run.weight = given[run.id]
                run.concurrency_key = concurrency_key_of(run.concurrency_key, run.weight)
            _put_back(run)
            rows.append(Row(id=run.id))
        return rows

    def prepare_runs(self, *, run_ids: Sequence[int], tokens: Sequence[UUID]) -> list[Row]:
        suspected = [run for (run,) in self._held(run_ids, tokens) if run.lost_early is not None]
        for run in suspected:
            run.lost_early = 2
        return [Row(id=run.id) for run in suspected]

    def mark_started(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        elapsed_seconds: Sequence[float],
    ) -> list[Row]:
        rows: list[Row] = []
        for run, elapsed in self._held(run_ids, tokens, elapsed_seconds):
            if run.started_at is None:
                run.started_at = self.now() - seconds(elapsed)
            rows.append(Row(id=run.id, is_marked=True, silence_timeout=None, give_up_in=None))
        return rows

    def ended_by_fence(self, *, run_ids: Sequence[int], fences: Sequence[int]) -> list[Row]:
        asked = set(zip(run_ids, fences, strict=True))
        ended = [(run, ended.run.fence) for run, ended in self.history.items()]
        ended += [(attempt.run_id, attempt.fence) for attempt in self.attempts]
        return [Row(id=run) for run, fence in ended if fence is not None and (run, fence) in asked]

    def finish_late(
        self,
        *,
        run_ids: Sequence[int],
        fences: Sequence[int],
        results: Sequence[str | None],
        node: str,
    ) -> list[Row]:
        """Here every such run is executed again."""
        return []

    def end_refused_run(
        self, *, run_id: int, token: UUID | None, reason: str, node: str | None
    ) -> list[Row]:
        """It refuses nothing."""
        return []

    def locked_runs(self, *, run_ids: Sequence[int], tokens: Sequence[UUID]) -> list[Row]:
        """Its statements come one after the other."""
        return []

    def reap_runs(self, *, at_most: int) -> list[Row]:
        orphaned = sorted(
            (run for run in self.runs.values() if run.state == "running" and self._is_orphan(run)),
            key=lambda run: run.id,
        )
        rows: list[Row] = []
        for run in orphaned[:at_most]:
            assert run.owner is not None
            node = self.nodes.get(run.owner)
            name = node.name if node else str(run.owner)
            because = node.ended_because if node else "its session is gone"
            error = f"Node '{name}' ended ({because}) while it executed this attempt."
            failure = Failure("lease_lost", True, None, "LeaseLost", error, ["LeaseLost"])
            rows.append(self._end_attempt(run, failure))
        return rows

    def orphaned_runs(self, *, at_most: int, but: Sequence[int]) -> list[Row]:
        """Asked for only where a statement was refused."""
        return []

    def reap_these(self, *, run_ids: Sequence[int]) -> list[Row]:
        """Asked for only where a statement was refused."""
        return []

    def end_waiting_runs(
        self, *, run_ids: Sequence[int] | None, outcome: str, reason: str
    ) -> list[Row]:
        rows: list[Row] = []
        for run in sorted({run for run in run_ids or () if run in self.runs}):
            waiting = self.runs[run]
            if waiting.state != "running" and (outcome != "expired" or waiting.attempt == 0):
                self._end_waiting(waiting, outcome, reason)
                rows.append(Row(run_id=run))
        return rows

    def append_lines(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        sequences: Sequence[int],
        times: Sequence[datetime],
        streams: Sequence[str],
        lines: Sequence[str],
    ) -> list[Row]:
        for run, sequence, line in self._held(run_ids, tokens, sequences, lines):
            self.lines.setdefault((run.id, run.attempt), []).append((sequence, line))
        return []

    def append_lines_again(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        fences: Sequence[int],
        sequences: Sequence[int],
        times: Sequence[datetime],
        streams: Sequence[str],
        lines: Sequence[str],
    ) -> list[Row]:
        known = {claim: max(line[0] for line in written) for claim, written in self.lines.items()}
        for run, sequence, line in self._held(run_ids, tokens, sequences, lines):
            if sequence > known.get((run.id, run.attempt), 0):
                self.lines.setdefault((run.id, run.attempt), []).append((sequence, line))
        return []

    def put_progress(
        self,
        *,
        run_ids: Sequence[int],
        tokens: Sequence[UUID],
        times: Sequence[datetime],
        dones: Sequence[float],
        totals: Sequence[float | None],
        notes: Sequence[str | None],
    ) -> list[Row]:
        for run, *reported in self._held(run_ids, tokens, times, dones, totals, notes):
            self.progress[run.id] = (run.attempt, *reported)
        return []

    def notice_overruns(self, *, at_most: int) -> list[Row]:
        """What it notes nobody decides by."""
        return []

    def forget_overruns(self, *, at_most: int) -> list[Row]:
        return []

    def forget_progress(self, *, at_most: int) -> list[Row]:
        for run in sorted(run for run in self.progress if run not in self.runs)[:at_most]:
            del self.progress[run]
        return []

    def forget_callbacks(self, *, at_most: int) -> list[Row]:
        return []  # no handler of the simulation waits for one

    def _held(
        self, run_ids: Sequence[int], tokens: Sequence[UUID], *columns: Sequence[Any] | None
    ) -> list[Any]:
        """The rows whose token is the one that holds the run, each with its columns."""
        found = []
        filled = [[None] * len(run_ids) if column is None else column for column in columns]
        for run_id, token, *rest in zip(run_ids, tokens, *filled, strict=True):
            run = self.runs.get(run_id)
            if run is not None and self.holds(run, token):
                found.append((run, *rest))
        return found

    def _is_orphan(self, run: Run) -> bool:
        node = self.nodes.get(run.owner) if run.owner else None
        return node is None or node.state == "dead"

    def _end_attempt(self, run: Run, failure: Failure) -> Row:
        judged = judge_attempt(run, failure, self.now(), self.part, self._begun(run))
        verdict, error = judged.verdict, failure.error
        if judged.because is not None:
            error = " ".join(filter(None, (error, f"(not retried: {judged.because})")))
        outcome = "cancelled" if verdict == "cancelled" else judged.recorded
        self.attempts.append(
            Attempt(
                run.id,
                run.attempt,
                outcome,
                run.owner,
                run.fence,
                run.claimed_at,
                run.started_at,
                self.now(),
                failure.error_class,
                error,
            )
        )
        if verdict in ("retry", "snooze"):
            if verdict == "snooze":
                run.snoozes = (run.snoozes or 0) + 1
                run.max_attempts = (run.max_attempts or 5) + 1
            run.due_at = self.now() + judged.delay
            run.expire_at, run.last_error = None, error
            is_early = failure.kind == "lease_lost" and run.started_at is None
            run.lost_early = 1 if is_early else None
            _put_back(run)
        else:
            if verdict == "cancelled":
                run.cancel_reason = run.cancel_reason or error
            if verdict in ("dead", "lost"):
                self.dead_letters[run.id] = DeadLetter(replace(run), verdict, self.now(), error)
            self.end(run, Ended(replace(run), verdict, self.now(), error, None, run.started_at))
        return Row(run_id=run.id, verdict=verdict)

    def _begun(self, run: Run) -> datetime | None:
        """When the first attempt was claimed."""
        earlier = [attempt.claimed_at for attempt in self.attempts if attempt.run_id == run.id]
        return min(filter(None, [*earlier, run.claimed_at]), default=None)

    def _end_waiting(self, run: Run, outcome: str, reason: str) -> None:
        if run.schedule_id is not None and run.scheduled_for is not None:
            occurrence = self.occurrences.get((run.schedule_id, run.scheduled_for))
            if occurrence is not None:
                occurrence.decision, occurrence.reason = outcome, reason
        self.end(run, Ended(replace(run), outcome, self.now(), reason))


def _put_back(run: Run) -> None:
    run.state = "ready"
    run.owner = run.token = run.fence = run.claimed_at = run.started_at = run.cancel_at = None
    run.key_slot = None
