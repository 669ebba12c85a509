"""The stand-in of ``claims.sql``: who gets which run, keys, and what nobody offers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from tests.simulation.store_endings import EndingStatements
from tests.simulation.tables import FIRST_INSTANT, Row, Run

_SKIPPED_AT_ONCE: Final = 1000
_APART: Final = ("key", "placed")


class ClaimStatements(EndingStatements):
    def claim_runs(
        self,
        *,
        incarnation: UUID,
        queues: Sequence[str],
        priorities: Sequence[int],
        bound_dues: Sequence[datetime],
        bound_ids: Sequence[int],
        handlers: Sequence[str],
        limit: int,
    ) -> list[Row]:
        bounds = list(zip(bound_dues, bound_ids, strict=True))
        if not self.is_alive(incarnation) or self.is_paused:
            return []
        due = self._due()
        found: list[Run] = []
        for path, bound in zip(zip(queues, priorities, strict=True), bounds, strict=True):
            found += self._claimable(due.get(path, []), handlers, "at_least_once", limit, bound)
        return self._claim(found[:limit], incarnation)

    def claim_at_most_once(
        self,
        *,
        incarnation: UUID,
        queues: Sequence[str],
        priorities: Sequence[int],
        bound_dues: Sequence[datetime],
        bound_ids: Sequence[int],
        handlers: Sequence[str],
        limit: int,
    ) -> list[Row]:
        bounds = list(zip(bound_dues, bound_ids, strict=True))
        if not self.is_alive(incarnation) or self.is_paused:
            return []
        due = self._due()
        found: list[Run] = []
        for path, bound in zip(zip(queues, priorities, strict=True), bounds, strict=True):
            found += self._claimable(due.get(path, []), handlers, "at_most_once", limit, bound)
        return self._claim(found[:limit], incarnation)

    def let_waiting_go(self, *, beyond: int, most: int) -> list[Row]:
        """No schedule of these stories has an overlap policy under which runs wait."""
        return [Row(let_go=0, ended_at=None)]

    def claim_overlapping(
        self,
        *,
        incarnation: UUID,
        queues: Sequence[str],
        priorities: Sequence[int],
        handlers: Sequence[str],
        free: int,
        ahead: int,
        look: int,
    ) -> list[Row]:
        """Statements are atomic here: every key's lock can be had."""
        keys = self._keys_with_due_runs(queues, priorities, handlers, look)
        firsts = [
            first
            for concurrency_key in keys
            if (first := self._first_of(concurrency_key, queues, handlers)) is not None
            and self.may_take_key(concurrency_key, first)
        ]
        firsts.sort(key=lambda run: (run.priority, *run.order))
        if not self.is_alive(incarnation) or self.is_paused:
            firsts = []
        ranked = list(enumerate(firsts[: free + ahead]))
        chosen = [r for place, r in ranked if place < free or r.delivery == "at_least_once"]
        waits = [r for place, r in ranked if place >= free and r.delivery != "at_least_once"]
        claimed = self._claim(chosen, incarnation)
        for run in chosen:
            run.overlap_slot = 1
        skipped = [
            run
            for run in sorted(self.runs.values(), key=lambda run: run.id)
            if run.overlap_key in keys
            and run.kind == "concurrency_key"
            and run.is_waiting
            and run.due_at <= self.now()
            and run.overlap_slot is None
            and self.holder_of(run.overlap_key) is not None
        ][:_SKIPPED_AT_ONCE]
        for run in skipped:
            self._end_waiting(run, "skipped", "the last run is not over")
        return (
            [Row(verdict="claim", **row) for row in claimed]
            + [verdict("skip", run) for run in skipped]
            + [verdict("wait", run) for run in waits]
        )

    def may_take_key(self, concurrency_key: int, first: Run) -> bool:
        """Nobody holds it, or this run does, between two attempts."""
        return first.overlap_slot is not None or self.holder_of(concurrency_key) is None

    def holder_of(self, concurrency_key: int | None) -> Run | None:
        """The run that holds the key, executing or between two attempts."""
        for run in self.runs.values():
            if run.schedule_id == concurrency_key and run.overlap_slot is not None:
                return run
        return None

    def next_due(
        self,
        *,
        queues: Sequence[str],
        bound_queues: Sequence[str],
        bound_priorities: Sequence[int],
        bound_dues: Sequence[datetime],
        bound_ids: Sequence[int],
    ) -> list[Row]:
        now = self.now()
        bounds = dict(
            zip(
                zip(bound_queues, bound_priorities, strict=True),
                zip(bound_dues, bound_ids, strict=True),
                strict=True,
            )
        )
        due_index: dict[tuple[str, int, bool, bool], Run] = {}
        for run in self.runs.values():
            if run.is_waiting and run.kind not in _APART and self.is_looked_at(run.queue, queues):
                bound = bounds.get((run.queue, run.priority))
                if run.kind == "plain" and bound is not None and run.order < bound:
                    continue
                kind = (run.queue, run.priority, run.kind != "plain", run.kind == "once")
                head = due_index.get(kind)
                if head is None or run.order < head.order:
                    due_index[kind] = run
        return [
            Row(
                queue=queue,
                priority=priority,
                is_careful=is_careful,
                is_once=is_once,
                is_limited=not self.is_plain(queue),
                due_at=run.due_at,
                is_due=run.due_at <= now,
                seconds=(run.due_at - now).total_seconds(),
            )
            for (queue, priority, is_careful, is_once), run in sorted(
                due_index.items(), key=lambda item: (item[0][1], item[0][0], *item[0][2:])
            )
        ] + [_of_keys(queue) for queue in queues if self._has_keys(queue, queues)]

    def is_plain(self, queue: str) -> bool:
        """Whether its runs can be claimed without a look at what runs."""
        return queue not in self.paused_queues and queue not in self.queue_limits

    def is_looked_at(self, queue: str, queues: Sequence[str]) -> bool:
        return queue in queues and queue not in self.paused_queues

    def _has_keys(self, queue: str, queues: Sequence[str]) -> bool:
        return self.is_looked_at(queue, queues) and any(
            run.is_waiting and run.kind in _APART and run.queue == queue
            for run in self.runs.values()
        )

    def park_unserved(
        self, *, queues: Sequence[str], priorities: Sequence[int], look: int, **parameters: object
    ) -> list[Row]:
        due_by_path = self._due()
        parked: list[Row] = []
        for path in zip(queues, priorities, strict=True):
            for kind in ("plain", "concurrency_key", "once"):
                due = [run for run in due_by_path.get(path, []) if run.kind == kind]
                for run in due[:look]:
                    if not self.is_offered(run.handler, run.queue):
                        run.hold = "unserved"
                        parked.append(Row(id=run.id))
        return parked

    def park_unplaced(self, *, queues: Sequence[str], look: int) -> list[Row]:
        due = self._due()
        found: list[Run] = []
        for queue in queues:
            for (requires, priority), first in self.requirements(queue).items():
                if first <= self.now():
                    runs = [
                        run
                        for run in due[queue, priority]
                        if run.kind == "placed" and run.requires == list(requires)
                    ]
                    found += [
                        run
                        for run in runs[:look]
                        if not self.is_offered(run.handler, queue, requires)
                    ]
        for run in found[:look]:
            run.hold = "unserved"
        return [Row(id=run.id) for run in found[:look]]

    def requirements(self, queue: str) -> dict[tuple[tuple[str, ...], int], datetime]:
        """What is required in the queue, with its priority, in order: when the first is due."""
        first: dict[tuple[tuple[str, ...], int], datetime] = {}
        for run in self.runs.values():
            if run.is_waiting and run.kind == "placed" and run.queue == queue:
                place = (tuple(run.requires or ()), run.priority)
                first[place] = min(run.due_at, first.get(place, run.due_at))
        return dict(sorted(first.items()))

    def unpark_served(self, *, at_most: int) -> list[Row]:
        held = [
            run
            for run in self.runs.values()
            if run.hold and self.is_offered(run.handler, run.queue, run.requires)
        ]
        for run in held[:at_most]:
            run.hold = None
        return [Row(id=run.id) for run in held[:at_most]]

    def _due(self) -> dict[tuple[str, int], list[Run]]:
        """What is due, in its order, by queue and priority."""
        now = self.now()
        found: dict[tuple[str, int], list[Run]] = {}
        for run in self.runs.values():
            if run.state == "ready" and run.due_at <= now and run.hold is None:
                found.setdefault((run.queue, run.priority), []).append(run)
        for runs in found.values():
            runs.sort(key=_in_order)
        return found

    def _claimable(
        self,
        due: list[Run],
        handlers: Sequence[str],
        delivery: str,
        limit: int,
        bound: tuple[datetime, int] | None,
    ) -> list[Run]:
        now = self.now()
        return [
            run
            for run in due
            if run.kind == ("plain" if delivery == "at_least_once" else "once")
            and self.is_plain(run.queue)
            and run.handler in handlers
            and (run.expire_at is None or run.expire_at > now)
            and (bound is None or run.order >= bound)
        ][:limit]

    def _keys_with_due_runs(
        self, queues: Sequence[str], priorities: Sequence[int], handlers: Sequence[str], look: int
    ) -> list[int]:
        paths = sorted(
            zip(queues, priorities, strict=True), key=lambda path: not self.is_plain(path[0])
        )
        due_index: list[int] = []
        due_by_path = self._due()
        for path in paths:
            due = [run for run in due_by_path.get(path, []) if run.handler in handlers]
            due_index += [
                r.overlap_key for r in due if r.overlap_key and r.kind == "concurrency_key"
            ][:look]
        return list(dict.fromkeys(due_index[:look]))

    def _first_of(
        self, concurrency_key: int, queues: Sequence[str], handlers: Sequence[str]
    ) -> Run | None:
        now = self.now()
        due = [
            run
            for run in self.runs.values()
            if run.overlap_key == concurrency_key
            and run.kind == "concurrency_key"
            and run.is_waiting
            and run.due_at <= now
            and run.queue in queues
            and self.is_plain(run.queue)
            and run.handler in handlers
            and (run.expire_at is None or run.expire_at > now)
        ]
        return min(due, key=lambda r: (r.overlap_slot is None, r.priority, *r.order), default=None)

    def _claim(self, runs: Iterable[Run], incarnation: UUID) -> list[Row]:
        rows: list[Row] = []
        for run in runs:
            run.state, run.owner, run.token = "running", incarnation, self.new_token(run.id)
            run.fence = self.next_fence()
            run.attempt += 1
            run.claimed_at = self.now()
            rows.append(_claimed(run))
        return rows


def _in_order(run: Run) -> tuple[datetime, int]:
    return run.due_at, run.id


def _claimed(run: Run) -> Row:
    return Row(
        id=run.id,
        uuid=UUID(int=run.id),
        handler=run.handler,
        args=run.args,
        attempt=run.attempt,
        max_attempts=run.max_attempts or (1 if run.delivery == "at_most_once" else 5),
        queue=run.queue,
        priority=run.priority,
        schedule=run.schedule,
        fire_time=run.scheduled_for or run.nominal_for,
        token=run.token,
        fence=run.fence,
        timeout=run.timeout,
        delivery=run.delivery,
        due=run.due_at.timestamp(),
        origin=run.origin,
        lost_early=run.lost_early,
    )


def verdict(word: str, run: Run | None) -> Row:
    """Nothing is said of a run that is not claimed."""
    return Row(verdict=word, id=run and run.id, **dict.fromkeys(_COLUMNS[1:]))


def _of_keys(queue: str) -> Row:
    """Runs with keys wait in the queue: when the first is due is not said."""
    nothing = dict.fromkeys(("priority", "due_at", "is_due", "seconds"))
    return Row(queue=queue, is_careful=True, is_once=False, is_limited=True, **nothing)


_COLUMNS: Final = list(_claimed(Run(0, "", FIRST_INSTANT, FIRST_INSTANT)))[:-1]
