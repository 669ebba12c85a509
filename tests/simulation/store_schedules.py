"""The stand-in of ``materialize.sql`` and of what happens when schedules are written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pgcron_ha.errors import Conflict, InvalidInput, NotFound
from tests.simulation.store_endings import EndingStatements
from tests.simulation.tables import (
    Cursor,
    Missed,
    Occurrence,
    Row,
    Run,
    Schedule,
    concurrency_key_of,
    seconds,
)

# Columns whose change decides nothing that is already materialized.
_HARMLESS: Final = {
    *("catchup", "catchup_window", "paused_note", "paused_by", "paused_until"),
    *("after_pause", "managed_by"),
}
_WRITTEN: Final = {one.name for one in fields(Schedule)} - {"id", "name"}


class ScheduleStatements(EndingStatements):
    def due_cursors(self, *, refill: float, at_most: int, aside: Sequence[int]) -> list[Row]:
        soon = self.now() + seconds(refill)
        due = [
            cursor
            for cursor in self.cursors.values()
            if cursor.status != "invalid"
            and not cursor.is_paused
            and not cursor.edit_is_pending
            and (cursor.next_fire is None or cursor.next_fire <= soon)
            and self.schedules[cursor.schedule_id].enabled
        ]
        new = [cursor for cursor in due if cursor.next_fire is None]
        known = sorted((c for c in due if c.next_fire), key=lambda c: c.next_fire or c.watermark)
        turns = itertools.zip_longest(new, known)
        ordered = [cursor for turn in turns for cursor in turn if cursor is not None]
        return [self._due_row(cursor) for cursor in ordered[:at_most]]

    def materialize(
        self,
        *,
        schedule_ids: Sequence[int],
        generations: Sequence[int],
        watermarks: Sequence[datetime],
        new_watermarks: Sequence[datetime],
        next_fires: Sequence[datetime | None],
        canonicals: Sequence[str],
        max_runs: Sequence[int | None],
        counted_ids: Sequence[int],
        counted_fires: Sequence[datetime],
        delays: Sequence[timedelta],
        dropped_ids: Sequence[int],
        dropped_firsts: Sequence[datetime],
        dropped_lasts: Sequence[datetime],
        dropped_counts: Sequence[int | None],
        dropped_reasons: Sequence[str],
        fire_ids: Sequence[int],
        fires: Sequence[datetime],
        tzdata: str,
    ) -> list[Row]:
        moved: set[int] = set()
        planned = zip(
            schedule_ids,
            generations,
            watermarks,
            new_watermarks,
            next_fires,
            canonicals,
            strict=True,
        )
        for schedule, generation, watermark, new_watermark, next_fire, canonical in planned:
            cursor = self.cursors.get(schedule)
            if (
                cursor is not None
                and self.is_undecided(cursor, generation, watermark)
                and new_watermark >= watermark
            ):
                cursor.watermark, cursor.next_fire = new_watermark, next_fire
                cursor.status, cursor.error, cursor.canonical = "valid", None, canonical
                moved.add(schedule)
        dropped = zip(
            dropped_ids, dropped_firsts, dropped_lasts, dropped_counts, dropped_reasons, strict=True
        )
        missed = 0
        for schedule, first, last, count, reason in dropped:
            if schedule in moved:
                missed += self._miss(Missed(schedule, first, last, count, str(reason)))
        made = 0
        for schedule, fire in zip(fire_ids, fires, strict=True):
            if schedule in moved and (schedule, fire) not in self.occurrences:
                made += self._fire(self.schedules[schedule], fire)
        return [Row(moved=sorted(moved), schedules=len(moved), runs=made, skipped=0, missed=missed)]

    def is_undecided(self, cursor: Cursor, generation: int, watermark: datetime) -> bool:
        """The compare-and-set."""
        return (
            cursor.generation == generation
            and cursor.watermark == watermark
            and not cursor.edit_is_pending
        )

    def mark_invalid(
        self, *, schedule_id: int, generation: int, error: str, retry_after: float | None
    ) -> list[Row]:
        cursor = self.cursors.get(schedule_id)
        if cursor is None or cursor.generation != generation or cursor.status == "invalid":
            return []
        cursor.status, cursor.error = "invalid", error
        return [Row(schedule_id=schedule_id)]

    def recheck_invalid(self, *, judge: str) -> list[Row]:
        found = [cursor for cursor in self.cursors.values() if cursor.status == "invalid"]
        for cursor in found:
            cursor.status, cursor.error, cursor.next_fire = "unchecked", None, None
        return [Row(schedule_id=cursor.schedule_id) for cursor in found]

    def schedules_to_preview(self, **parameters: Any) -> list[Row]:
        """What nodes compute for readers decides nothing, and nobody reads it here."""
        return []

    def put_previews(self, **parameters: Any) -> list[Row]:
        return []

    def given_back(self, *, at_most: int, aside: Sequence[int]) -> list[Row]:
        return []

    def take_given_back(self, *, schedule_ids: Sequence[int]) -> list[Row]:
        return []

    def reopen_ledger(self, *, instants: Sequence[datetime]) -> list[Row]:
        return []

    def pending_edits(self, *, at_most: int, aside: Sequence[int]) -> list[Row]:
        pending = sorted(c.schedule_id for c in self.cursors.values() if c.edit_is_pending)
        return [Row(schedule_id=one, name=self.schedules[one].name) for one in pending[:at_most]]

    def apply_edit(self, *, schedule_id: int) -> list[Row]:
        return self._apply_edit(schedule_id, timing_changes=False)

    def _apply_edit(self, schedule_id: int, *, timing_changes: bool) -> list[Row]:
        cursor, schedule = self.cursors.get(schedule_id), self.schedules.get(schedule_id)
        if cursor is None or schedule is None:
            return [Row(apply_edit=None)]
        now = self.now()
        self._forget_future(schedule_id, {"schedule"})
        unrecorded = self._untold(cursor, now)
        recorded_until = now
        if timing_changes:
            if not schedule.enabled and (unrecorded, schedule.after_pause) != ("paused", "catchup"):
                unrecorded = None
        elif unrecorded == "edited" or not schedule.enabled:
            unrecorded = None
        elif unrecorded == "paused" and schedule.after_pause == "catchup":
            recorded_until = cursor.watermark
        elif unrecorded == "paused":
            end = min(cursor.paused_until or now, now)
            recorded_until = max(end, cursor.watermark, cursor.since)
        if unrecorded is not None and recorded_until > cursor.watermark:
            self._report_missed(cursor, recorded_until, unrecorded)
        if unrecorded is not None:
            cursor.watermark = recorded_until
        else:
            owes_nothing = self._owes_nothing(cursor, now)
            cursor.watermark = now if owes_nothing else min(cursor.watermark, now)
        cursor.generation += 1
        cursor.since, cursor.next_fire, cursor.status = now, None, "unchecked"
        cursor.error = cursor.canonical = cursor.pause_note = None
        cursor.is_paused, cursor.edit_is_pending = not schedule.enabled, False
        self._report_pause(cursor, schedule)
        return [Row(apply_edit=None)]

    def _report_pause(self, cursor: Cursor, schedule: Schedule) -> None:
        words = ": ".join(filter(None, (schedule.paused_by, schedule.paused_note)))
        cursor.pause_note = None if schedule.enabled else words
        cursor.paused_until = schedule.paused_until

    def put_schedule(
        self, *, name: str, actor: str | None, interface: str | None, **given: Any
    ) -> list[Row]:
        """NULL leaves a column as it is, or gives it its default."""
        found = self._schedule_named(name)
        written = {key: value for key, value in given.items() if value is not None}
        for never_said in ("max_running", "max_queued", "queue_drops"):
            assert not written.pop(never_said, None)
        if "concurrency_key" in written:
            written["concurrency_key"] = written["concurrency_key"] or None
        if "requires" in written:
            written["requires"] = written["requires"] or None
        if found is None:
            self.last_schedule += 1
            schedule = Schedule(id=self.last_schedule, name=name, **written)
            if not schedule.enabled:
                schedule.paused_by = actor
            self.schedules[schedule.id] = schedule
            now = self.now()
            cursor = Cursor(schedule.id, now, now, is_paused=not schedule.enabled)
            self._report_pause(cursor, schedule)
            self.cursors[schedule.id] = cursor
            self._report_schedule()
            return [Row(schedule_id=schedule.id)]
        self._write(found, actor, **written)
        return [Row(schedule_id=found.id)]

    def pause_schedule(
        self,
        *,
        name: str,
        note: str | None,
        until: datetime | None,
        pause: float | None,
        actor: str | None,
        interface: str | None,
    ) -> list[Row]:
        if until is None and pause is not None:
            until = self.now() + seconds(pause)
        schedule = self._require(name)
        if until is not None and until <= self.now() and until != schedule.paused_until:
            raise InvalidInput("the pause would be over")
        self._write(schedule, actor, enabled=False, paused_note=note, paused_until=until)
        return [Row(pause_schedule=None)]

    def control_duties(self, *, horizon: float, tzdata: str) -> list[Row]:
        names = ("pending_edits", "overdue_pauses", "failing_schedules", "early_fires")
        return [Row(duties=[*names, "due_probes", "given_back"])]

    def take_tzdata(self, **parameters: Any) -> list[Row]:
        raise AssertionError("all nodes here have the same tzdata")

    def deciding_tzdata(self) -> list[Row]:
        raise AssertionError("all nodes here have the same tzdata")

    def note_outdated_plans(self, **parameters: Any) -> list[Row]:
        raise AssertionError("all nodes here have the same tzdata")

    def replan(self, **parameters: Any) -> list[Row]:
        raise AssertionError("all nodes here have the same tzdata")

    def overdue_pauses(self, *, at_most: int, aside: Sequence[int]) -> list[Row]:
        ends = sorted(
            (one.paused_until, one.id)
            for one in self.schedules.values()
            if one.paused_until is not None and one.paused_until <= self.now()
        )
        return [Row(schedule_id=one, name=self.schedules[one].name) for _, one in ends[:at_most]]

    def resume_overdue(self, *, schedule_id: int) -> list[Row]:
        schedule = self.schedules.get(schedule_id)
        is_over = (
            schedule is not None
            and not schedule.enabled
            and schedule.paused_until is not None
            and schedule.paused_until <= self.now()
        )
        if schedule is not None and is_over:
            self._write(schedule, "pgcron_ha", enabled=True)
        return [Row(is_resumed=is_over)]

    def early_fires(self, *, horizon: float, at_most: int, aside: Sequence[int]) -> list[Row]:
        return []  # nobody moves a fire here

    def failing_schedules(self, *, at_most: int, aside: Sequence[int]) -> list[Row]:
        return []  # no schedule here pauses after failures

    def judge_failures(self, *, schedule_id: int) -> list[Row]:
        return [Row(verdict=None)]

    def due_probes(self, *, at_most: int, aside: Sequence[int]) -> list[Row]:
        return []

    def choose_probe(
        self, *, schedule_id: int, fire: datetime | None, horizon: float, probe_at: datetime
    ) -> list[Row]:
        return []

    def mark_probe(self, *, schedule_id: int) -> list[Row]:
        return []

    def forget_fire_failures(self, *, at_most: int) -> list[Row]:
        return []

    def forget_overrides(self, **parameters: object) -> list[Row]:
        return []

    def rename_schedule(
        self, *, name: str, new_name: str, actor: str | None, interface: str | None
    ) -> list[Row]:
        schedule = self._require(name)
        if new_name != name:
            if self._schedule_named(new_name) is not None:
                raise Conflict(f"there is a schedule '{new_name}' already")
            schedule.name = new_name
            self.cursors[schedule.id].generation += 1
            for run in self.runs.values():
                if run.schedule_id == schedule.id and run.state != "running":
                    run.schedule = new_name
            self._report_schedule()
        return [Row(rename_schedule=None)]

    def resume_schedule(self, *, name: str, actor: str | None, interface: str | None) -> list[Row]:
        self._write(self._require(name), actor, enabled=True)
        return [Row(resume_schedule=None)]

    def delete_schedule(self, *, name: str, actor: str | None, interface: str | None) -> list[Row]:
        schedule = self._require(name)
        self._forget_future(schedule.id, None)
        waiting = [
            run.id
            for run in self.runs.values()
            if run.schedule_id == schedule.id and run.state != "running" and run.attempt == 0
        ]
        self.end_waiting_runs(run_ids=waiting, outcome="cancelled", reason="schedule was deleted")
        cursor, now = self.cursors[schedule.id], self.now()
        unrecorded = self._untold(cursor, now)
        if unrecorded is not None:
            self._report_missed(cursor, now, "paused" if unrecorded == "paused" else "deleted")
        del self.schedules[schedule.id], self.cursors[schedule.id]
        return [Row(delete_schedule=None)]

    def run_now(
        self,
        *,
        name: str,
        args: str | None,
        actor: str | None,
        overlap: None = None,
        fire_time: datetime | None = None,
    ) -> list[Row]:
        schedule = self._require(name)
        run = self._run_of(schedule, args)
        run.origin, run.nominal_for = "manual", fire_time or self.now()
        self.insert_run(run)
        return [Row(run_id=run.id)]

    def _write(self, schedule: Schedule, actor: str | None, **changes: Any) -> None:
        """What the triggers of the table do."""
        before = replace(schedule)
        for key, value in changes.items():
            setattr(schedule, key, json.dumps(json.loads(value)) if key == "args" else value)
        pause = (schedule.paused_note, schedule.paused_until)
        if schedule.enabled:
            schedule.paused_note = schedule.paused_by = schedule.paused_until = None
        elif before.enabled or pause != (before.paused_note, before.paused_until):
            schedule.paused_by = actor
        changed = {key for key in _WRITTEN if getattr(before, key) != getattr(schedule, key)}
        if not schedule.enabled and not before.enabled:
            self._report_pause(self.cursors[schedule.id], schedule)
        if changed - _HARMLESS:
            timing_changes = bool(changed & {"spec", "timezone", "dst"})
            self._apply_edit(schedule.id, timing_changes=timing_changes)
        self._report_schedule()

    def _owes_nothing(self, cursor: Cursor, now: datetime) -> bool:
        """Whether it is known that no fire lies between the watermark and now."""
        return cursor.status == "valid" and cursor.next_fire is not None and cursor.next_fire > now

    def _untold(self, cursor: Cursor, now: datetime) -> str | None:
        if cursor.watermark >= now:
            return None
        if cursor.is_paused:
            return "paused"
        return None if self._owes_nothing(cursor, now) else "edited"

    def _report_missed(self, cursor: Cursor, now: datetime, reason: str) -> None:
        first = cursor.watermark + timedelta(microseconds=1)
        missed = Missed(cursor.schedule_id, first, now, None, reason, cursor.pause_note)
        self.missed.setdefault((cursor.schedule_id, first), missed)

    def _report_schedule(self) -> None:
        if any(node.state == "alive" for node in self.nodes.values()):
            self.notify("schedule")

    def _schedule_named(self, name: str) -> Schedule | None:
        return next((one for one in self.schedules.values() if one.name == name), None)

    def _require(self, name: str) -> Schedule:
        schedule = self._schedule_named(name)
        if schedule is None:
            raise NotFound(f"schedule '{name}' does not exist")
        return schedule

    def _forget_future(self, schedule: int, origins: set[str] | None) -> None:
        """Runs that nobody has begun and that lie after now, and their places in the ledger."""
        now = self.now()
        gone: set[datetime] = set()
        for run in list(self.runs.values()):
            if (
                run.schedule_id == schedule
                and (origins is None or run.origin in origins)
                and run.state == "ready"
                and run.attempt == 0
                and run.scheduled_for is not None
                and run.scheduled_for > now
                and run.due_at > now
            ):
                gone.add(run.scheduled_for)
                del self.runs[run.id]
        for key, occurrence in list(self.occurrences.items()):
            is_unrun = origins is not None and occurrence.run_id is None and key[1] > now
            if key[0] == schedule and (key[1] in gone or is_unrun):
                del self.occurrences[key]

    def _due_row(self, cursor: Cursor) -> Row:
        schedule = self.schedules[cursor.schedule_id]
        return Row(
            schedule_id=schedule.id,
            generation=cursor.generation,
            watermark=cursor.watermark,
            status=cursor.status,
            name=schedule.name,
            uuid=UUID(int=schedule.id),
            spec=schedule.spec,
            timezone=schedule.timezone,
            dst=schedule.dst,
            calendars=None,
            catchup=schedule.catchup,
            catchup_window=schedule.catchup_window,
            jitter=None,
            max_runs=None,
            runs_made=0,
            now=self.now(),
        )

    def _miss(self, dropped: Missed) -> int:
        known = self.missed.setdefault((dropped.schedule_id, dropped.first_at), dropped)
        known.last_at = max(known.last_at, dropped.last_at)
        return 1000 if known.fires is None else known.fires

    def _fire(self, schedule: Schedule, fire: datetime) -> int:
        run = self._run_of(schedule, None)
        run.origin, run.scheduled_for = "schedule", fire
        run.due_at = max(fire, self.now())
        if schedule.start_deadline is not None:
            run.expire_at = fire + seconds(schedule.start_deadline)
        self.occurrences[schedule.id, fire] = Occurrence(schedule.id, fire, "run", None, run.id)
        is_new = all(
            (other.schedule_id, other.scheduled_for) != (schedule.id, fire)
            for other in self.runs.values()
        )
        if is_new:
            self.insert_run(run)
        return int(is_new)

    def _run_of(self, schedule: Schedule, args: str | None) -> Run:
        return Run(
            self.next_run(),
            schedule.handler,
            self.now(),
            self.now(),
            schedule_id=schedule.id,
            schedule=schedule.name,
            queue=schedule.queue,
            priority=schedule.priority,
            args=schedule.args if args is None else args,
            delivery=schedule.delivery,
            max_attempts=schedule.max_attempts,
            timeout=schedule.timeout,
            retry_base=schedule.retry_base,
            retry_cap=schedule.retry_cap,
            retry=schedule.retry,
            overlap=None if schedule.overlap == "allow" else schedule.overlap,
            concurrency_key=concurrency_key_of(schedule.concurrency_key, schedule.weight),
            requires=schedule.requires,
            weight=schedule.weight if schedule.weight > 1 else None,
        )
