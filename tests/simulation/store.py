"""The stand-in for PostgreSQL: every statement a node sends, each atomic, on plain objects.

It is addressed by the names and parameters of the named statements and returns rows of the same
shape. It shows what may happen between statements, thousands of histories a minute; what happens
inside one is shown by tests against the real server. `test_pairs` holds the endings of runs to the
real SQL.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pgcron_ha.errors import Conflict, NotFound
from tests.simulation.store_limits import LimitStatements
from tests.simulation.store_nodes import NodeStatements
from tests.simulation.store_schedules import ScheduleStatements
from tests.simulation.tables import Row, Run, concurrency_key_of, seconds


class Store(NodeStatements, LimitStatements, ScheduleStatements):
    """`call` is the one door; each statement is a method of its name."""

    def call(self, name: str, /, **parameters: Any) -> list[Row]:
        """The rows of one named statement; raises the error of ours that it would raise."""
        rows: list[Row] = getattr(self, name)(**parameters)
        return rows

    def enqueue(
        self,
        *,
        handler: str,
        args: str | None,
        queue: str | None,
        priority: int | None,
        due_at: datetime | None,
        idempotency_key: str | None,
        key_lifetime: float | None,
        timeout: float | None,
        max_attempts: int | None,
        delivery: str | None,
        retry: str | None,
        actor: str | None,
        concurrency_key: str | None = None,
        requires: list[str] | None = None,
        start_within: None = None,
        give_up_after: None = None,
        silence_timeout: None = None,
        weight: int | None = None,
    ) -> list[Row]:
        now = self.now()
        if idempotency_key is not None:
            known = self.keys.get(idempotency_key)
            if known is not None and known[1] > now:
                return [Row(run_id=known[0])]
        run = Run(self.next_run(), handler, due_at or now, now)
        run.args, run.queue = args or "{}", queue or "default"
        run.priority = 5 if priority is None else priority
        run.timeout, run.max_attempts = timeout or 3600.0, max_attempts
        run.delivery = delivery or "at_least_once"
        run.retry, run.concurrency_key, run.requires = (
            retry,
            concurrency_key_of(concurrency_key, weight),
            requires or None,
        )
        run.weight = weight if weight != 1 else None
        if idempotency_key is not None:
            lifetime = 86400.0 if key_lifetime is None else key_lifetime
            self.keys[idempotency_key] = (run.id, now + seconds(lifetime))
        self.insert_run(run)
        return [Row(run_id=run.id)]

    def cancel_run(self, *, run_id: int, reason: str | None, actor: str | None) -> list[Row]:
        run = self.runs.get(run_id)
        why = ": ".join(filter(None, (f"cancelled by {actor}", reason)))
        if run is None:
            self._require_ended(run_id)
            return [Row(verdict="finished")]
        if run.state == "running":
            run.cancel_at = run.cancel_at or self.now()
            run.cancel_reason = run.cancel_reason or why
            self.notify("cancel")
            return [Row(verdict="requested")]
        self.end_waiting_runs(run_ids=[run_id], outcome="cancelled", reason=why)
        return [Row(verdict="cancelled")]

    def retry_run(self, *, run_id: int, actor: str | None) -> list[Row]:
        run = self.runs.get(run_id)
        if run is not None and run.state == "ready":
            run.due_at = min(run.due_at, self.now())
            return [Row(run_id=run_id)]
        if run is not None:
            raise Conflict(f"run {run_id} is {run.state}")
        ended = self._require_ended(run_id)
        again = self._again(ended, "rerun")
        self.insert_run(again)
        return [Row(run_id=again.id)]

    def redrive(self, *, run_id: int, args: str | None, actor: str | None) -> list[Row]:
        letter = self.dead_letters.get(run_id)
        if letter is None:
            raise NotFound(f"dead letter {run_id} does not exist")
        if letter.requeued_as is not None:
            raise Conflict(f"dead letter {run_id} was already redriven")
        again = self._again(letter.run, "redrive")
        again.nominal_for = letter.run.scheduled_for
        again.args = letter.run.args if args is None else args
        self.insert_run(again)
        letter.requeued_as, letter.requeued_at = again.id, self.now()
        return [Row(run_id=again.id)]

    def pause_queue(self, *, name: str, note: str | None, actor: str | None) -> list[Row]:
        self.paused_queues.add(name)
        return [Row(pause_queue=None)]

    def resume_queue(self, *, name: str, actor: str | None) -> list[Row]:
        self.paused_queues.discard(name)
        self.notify("run")
        return [Row(resume_queue=None)]

    # What the janitor does.

    def ensure_partitions(self) -> list[Row]:
        return [Row(made=0)]

    def outlived_partitions(self) -> list[Row]:
        return []

    def stray_partitions(self) -> list[Row]:
        return []

    def sweep_history(self, *, pages: int) -> list[Row]:
        return []

    def spent_partitions(self) -> list[Row]:
        return []

    def note_given_back(self, *, partition: str) -> list[Row]:
        return [Row(is_smaller=False)]

    def overflowed(self, *, aside: list[int], at_most: int) -> list[Row]:
        return []

    def drain_overflow(self, *, run_ids: list[int]) -> list[Row]:
        return []

    def forget_missed(self, **parameters: object) -> list[Row]:
        return []

    def forget_versions(self, *, at_most: int) -> list[Row]:
        return []

    def forget_keys(self, *, at_most: int) -> list[Row]:
        for key, (_, expires_at) in list(self.keys.items()):
            if expires_at <= self.now():
                del self.keys[key]
        return []

    def forget_periods(self, *, at_most: int) -> list[Row]:
        return []

    def give_up_runs(self, *, at_most: int) -> list[Row]:
        """No run here has time limits in all."""
        return []

    def expired_runs(self, *, at_most: int) -> list[Row]:
        now = self.now()
        expired = [
            (run.expire_at, run.id)
            for run in self.runs.values()
            if run.state == "ready"
            and run.expire_at is not None
            and run.expire_at <= now
            and run.attempt == 0
        ]
        return [Row(id=run) for _, run in sorted(expired)[:at_most]]

    def expire_runs(self, *, at_most: int, reason: str) -> list[Row]:
        late = [row["id"] for row in self.expired_runs(at_most=at_most)]
        soon = self.now() + timedelta(minutes=1)
        ended = self.end_waiting_runs(run_ids=late, outcome="expired", reason=reason)
        waiting = [
            run.expire_at
            for run in self.runs.values()
            if run.state == "ready" and run.attempt == 0 and run.expire_at is not None
        ]
        first = min((each for each in waiting if self.now() < each < soon), default=None)
        seconds = None if first is None else (first - self.now()).total_seconds()
        return [*ended, Row(run_id=None, seconds=seconds)]

    def is_chosen_by_lot(self) -> list[Row]:
        return [Row(is_chosen=True)]

    def unaccounted(self, *, at_most: int) -> list[Row]:
        now = self.now()
        return [
            Row(schedule_id=each.schedule_id, fire_at=each.fire_at, run_id=each.run_id)
            for each in self.occurrences.values()
            if each.decision == "run"
            and now - timedelta(days=1) < each.fire_at <= now
            and each.run_id not in self.runs
            and each.run_id not in self.history
        ][:at_most]

    def _require_ended(self, run_id: int) -> Run:
        ended = self.history.get(run_id)
        if ended is None:
            raise NotFound(f"run {run_id} does not exist")
        return ended.run

    def _again(self, ended: Run, origin: str) -> Run:
        return Run(
            self.next_run(),
            ended.handler,
            self.now(),
            self.now(),
            origin=origin,
            schedule_id=ended.schedule_id,
            schedule=ended.schedule,
            nominal_for=ended.scheduled_for or ended.nominal_for,
            parent_run=ended.id,
            queue=ended.queue,
            priority=ended.priority,
            args=ended.args,
            delivery=ended.delivery,
            max_attempts=ended.max_attempts and ended.max_attempts - (ended.snoozes or 0),
            timeout=ended.timeout,
            retry_base=ended.retry_base,
            retry_cap=ended.retry_cap,
            retry=ended.retry,
            concurrency_key=ended.concurrency_key,
            requires=ended.requires,
            weight=ended.weight,
        )
