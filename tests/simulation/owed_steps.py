"""What people and nodes do to schedules, in any order, on the real SQL: the steps of a stateful
test. The rules that hold after each of them are in `tests.simulation.owed_rules`.
"""

from __future__ import annotations

import json
import uuid
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final

import asyncpg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pgcron_ha.errors import Conflict, InvalidInput, NotFound
from tests.product.client import verdict_of
from tests.product.db import broken_rows, ledger_of
from tests.simulation import owed_rules
from tests.simulation.owed import (
    INSTANT,
    Backfill,
    Bound,
    Change,
    Pause,
    Schedule,
    Seen,
    Timing,
    look,
)
from tests.simulation.passes import Pass, filling_in, materializing, whole
from tests.simulation.real import FIRST_INSTANT, RealStore

HORIZON: Final = 60.0
PERIODS: Final = (30, 60, 700, 3600)
NAMES: Final = ("first", "second")
NEW_NAMES: Final = ("first", "second", "third")
CLOSED: Final = ("2020-12-24", "2020-01-01", "2020-01-02", "2020-01-01..2020-01-02")
OVERLAPS: Final = ("skip", "skip", "allow", "queue", "replace", "depends")
PATHS: Final = {"queues": ["default"], "priorities": [5]}
BEGIN: Final = FIRST_INSTANT + timedelta(hours=22)
"""Shortly before a day that a calendar may close."""

some = st.integers(0, 9)
names = st.sampled_from(NAMES)
soon = st.sampled_from([0, 15, 61, 61, 1000])


class People(RuleBasedStateMachine):
    """What people do. `real` is set by whoever plays it."""

    real: ClassVar[RealStore]

    def __init__(self) -> None:
        super().__init__()
        self.schedules: dict[str, Schedule] = {}
        self.backfills: list[Backfill] = []
        self.closed = CLOSED[0]
        self.made = 0
        self.seen: Seen | None = None
        self.real.begin()
        self.real.set_clock(BEGIN)

    # How schedules are written.

    @rule(
        name=names,
        period=st.sampled_from(PERIODS),
        catchup=st.sampled_from(["latest", "latest 3", "all", "none"]),
        overlap=st.sampled_from(OVERLAPS),
        runs=st.sampled_from([None, None, 1, 4]),
        after_pause=st.sampled_from(["drop", "drop", "catchup"]),
        kind=some,
    )
    def a_schedule_is_written(
        self,
        name: str,
        period: int,
        catchup: str,
        overlap: str,
        runs: int | None,
        after_pause: str,
        kind: int,
    ) -> None:
        """What kind it is (its jitter, a calendar, whether failures pause it) stays as it is."""
        depends = overlap == "depends"
        overlap = "queue" if depends else overlap
        if overlap in ("skip", "replace") and catchup in ("latest 3", "all"):
            catchup = "latest"
        after_pause = "drop" if catchup == "none" else after_pause
        known = self.schedules.get(name)
        uses_calendar = known.uses_calendar if known else kind % 2 == 0
        spec = f"every {period}s from {FIRST_INSTANT:%Y-%m-%dT%H:%M:%SZ}"
        spec += "\nnot in holidays" if uses_calendar else ""
        policies = (name, spec, catchup, overlap, runs, after_pause, depends)
        if known is None:
            known = self._is_created(policies, kind)
        else:
            self.sql(
                "UPDATE pgcron.schedule SET spec = $2, catchup = $3, overlap = $4, max_runs = $5,"
                " after_pause = $6, depends_on_previous = $7 WHERE name = $1",
                *policies,
            )
        known.after_pause, known.depends = after_pause, depends
        known.is_edited(self.real.now)
        known.is_timed(Timing(self.real.now, period, self._closed_days(known)))
        if runs is None:
            known.bound = None
        elif known.bound is None:
            known.bound = Bound(self.real.now, runs, runs)
        else:
            known.bound.runs, known.bound.most = runs, max(runs, known.bound.most)

    def _is_created(self, policies: tuple[Any, ...], kind: int) -> Schedule:
        pauses_itself = kind in (1, 2, 3)
        self.made += 1
        rows = self.sql(
            "INSERT INTO pgcron.schedule (name, spec, handler, catchup, overlap, max_runs,"
            " after_pause, depends_on_previous, catchup_window, jitter, pause_after_failures,"
            " probe_after, uuid) VALUES ($1, $2, 'py:work', $3, $4, $5, $6, $7, '20 minutes', $8,"
            " $9, $10, $11) RETURNING id",
            *policies,
            timedelta(seconds=40) if kind in (3, 4, 5) else None,
            owed_rules.ENOUGH_FAILURES if pauses_itself else None,
            owed_rules.SHORTEST_PAUSE if pauses_itself else None,
            uuid.UUID(int=self.made),
        )
        made = Schedule(rows[0]["id"], policies[0], kind % 2 == 0, pauses_itself)
        self.schedules[policies[0]] = made
        return made

    @rule(name=names, number=some)
    def what_it_does_is_edited(self, name: str, number: int) -> None:
        if name in self.schedules:
            self.schedules[name].args = f'{{"n": {number}}}'
            self.schedules[name].is_edited(self.real.now)
            self.sql(
                "UPDATE pgcron.schedule SET args = $2::text::jsonb WHERE name = $1",
                *(name, self.schedules[name].args),
            )

    @rule(closed=st.sampled_from(CLOSED))
    def the_calendar_is_edited(self, closed: str) -> None:
        self.closed = closed
        self.sql("SELECT pgcron.put_calendar('holidays', $1)", closed)
        for schedule in self.schedules.values():
            schedule.is_edited(self.real.now)
            timing = schedule.timing
            closed_days = self._closed_days(schedule)
            schedule.is_timed(Timing(self.real.now, timing.period, closed_days))

    @rule(name=names, new_name=st.sampled_from(NEW_NAMES))
    def it_is_renamed(self, name: str, new_name: str) -> None:
        if name in self.schedules and new_name not in self.schedules:
            self.sql("SELECT pgcron.rename_schedule($1, $2)", name, new_name)
            self.schedules[new_name] = renamed = self.schedules.pop(name)
            renamed.name = new_name

    @rule(name=names, is_sure=some)
    def it_is_deleted(self, name: str, is_sure: int) -> None:
        if name in self.schedules and is_sure == 0:
            self.sql("SELECT pgcron.delete_schedule($1)", name)
            gone = self.schedules.pop(name)
            self.backfills = [one for one in self.backfills if one.schedule is not gone]

    # Pauses.

    @rule(name=names, lasts=st.sampled_from([None, None, 40, 5000]))
    def it_is_paused(self, name: str, lasts: int | None) -> None:
        schedule = self.schedules.get(name)
        if schedule is None:
            return
        until = None if lasts is None else self.real.now + timedelta(seconds=lasts)
        self.sql("SELECT pgcron.pause_schedule($1, 'a note', until => $2)", name, until)
        if schedule.pause is None:
            schedule.pauses.append(Pause(self.real.now))
        schedule.pauses[-1].until = until
        schedule.forgotten_at = self.real.now

    @rule(name=names)
    def it_is_resumed(self, name: str) -> None:
        schedule = self.schedules.get(name)
        if schedule is not None:
            self.sql("SELECT pgcron.resume_schedule($1)", name)
            if schedule.pause is not None:
                schedule.pause.ended = schedule.forgotten_at = self.real.now

    # Single fires and runs.

    @rule(
        name=names,
        verb=st.sampled_from(["skip", "skip", "move", "move", "edit", "restore"]),
        which=st.integers(0, 3),
        by=st.sampled_from([-25, 10, 45, 700]),
    )
    def a_fire_is_changed(self, name: str, verb: str, which: int, by: int) -> None:
        schedule = self.schedules.get(name)
        fire = None if schedule is None else self._coming_fire(schedule, verb, which)
        if schedule is None or fire is None:
            return
        known = schedule.changes.get(fire)
        moved_to = fire + timedelta(seconds=by)
        try:
            if verb == "skip":
                self.sql("SELECT pgcron.skip_occurrence($1, $2)", name, fire)
                schedule.changes[fire] = Change("skip")
            elif verb == "move":
                self.sql("SELECT pgcron.move_occurrence($1, $2, $3)", name, fire, moved_to)
                schedule.changes[fire] = Change("move", moved_to, known.args if known else None)
            elif verb == "edit":
                given = '{"by": "hand"}'
                self.sql(
                    "SELECT pgcron.edit_occurrence($1, $2, $3::text::jsonb)", name, fire, given
                )
                due_at = known.due_at if known else None
                schedule.changes[fire] = Change("edit", due_at, given)
            else:
                self.sql("SELECT pgcron.restore_occurrence($1, $2)", name, fire)
                del schedule.changes[fire]
        except (Conflict, InvalidInput, NotFound):
            return
        schedule.is_edited(self.real.now)
        schedule.by_hand.add(fire)

    def _coming_fire(self, schedule: Schedule, verb: str, which: int) -> datetime | None:
        if verb == "restore":
            changed = sorted(schedule.changes)
            return changed[-1 - which % len(changed)] if changed else None
        end = self.real.now + timedelta(days=3)
        ahead = list(islice(schedule.timing.fires(self.real.now, end), 4))
        return ahead[which] if which < len(ahead) else None

    @rule(name=names, overlap=st.sampled_from([None, "allow", "skip"]), back=some)
    def it_is_run_now(self, name: str, overlap: str | None, back: int) -> None:
        """For whatever instant: the ledger has no word of it."""
        if name in self.schedules:
            fire = self.real.now - timedelta(seconds=back * 30) if back else None
            self.sql(
                "SELECT pgcron.run_now($1, overlap => $2, fire_time => $3)", name, overlap, fire
            )

    @rule(which=some)
    def a_waiting_run_is_cancelled(self, which: int) -> None:
        rows = self.sql(
            "SELECT id, schedule_id, scheduled_for FROM pgcron.run WHERE state = 'ready'"
            " AND attempt = 0 ORDER BY id LIMIT 10"
        )
        if rows:
            row = rows[which % len(rows)]
            self.sql("SELECT pgcron.cancel_run($1)", row["id"])
            for schedule in self.schedules.values():
                if schedule.id == row["schedule_id"] and row["scheduled_for"] is not None:
                    schedule.by_hand.add(row["scheduled_for"])

    # Backfills.

    @rule(
        name=names,
        back=st.sampled_from([1, 3, 8]),
        parallelism=st.sampled_from([1, 1, 3]),
        direction=st.sampled_from(["forward", "backward"]),
        if_ran=st.sampled_from(["skip", "failed", "all"]),
    )
    def a_backfill_is_asked_for(
        self, name: str, back: int, parallelism: int, direction: str, if_ran: str
    ) -> None:
        schedule = self.schedules.get(name)
        if schedule is None:
            return
        until = self.real.now
        since = until - back * timedelta(seconds=schedule.timing.period)
        overlap = "allow" if parallelism > 1 else None
        try:
            rows = self.sql(
                "SELECT pgcron.backfill($1, $2, $3, $4, $5, $6, $7) AS id",
                *(name, since, until, direction, parallelism, overlap, if_ran),
            )
        except Conflict:  # another one has a part of the range
            return
        except InvalidInput:
            assert schedule.depends, "only where each waits for the one before"
            assert direction == "backward" or parallelism > 1
            return
        instants = list(schedule.timing.fires(since - INSTANT, until - INSTANT))
        instants = instants if direction == "forward" else instants[::-1]
        asked = Backfill(rows[0]["id"], schedule, instants, parallelism, if_ran)
        self.backfills.append(asked)
        self.seen = look(self.real)

    @precondition(lambda self: self.backfills)
    @rule(which=some, verb=st.sampled_from(["pause", "resume", "resume", "stop"]))
    def a_backfill_is_controlled(self, which: int, verb: str) -> None:
        backfill = self.backfills[-1 - which % len(self.backfills)]
        try:
            self.sql(f"SELECT pgcron.{verb}_backfill($1)", backfill.id)
        except Conflict:  # it is over
            return
        backfill.state = {"pause": "paused", "resume": "open", "stop": "stopping"}[verb]

    # How it is done.

    def sql(self, query: str, *arguments: Any) -> list[Any]:
        """The rows; raises errors of ours."""
        return self.real.ask(query, *arguments)

    def _closed_days(self, schedule: Schedule) -> frozenset[date]:
        if not schedule.uses_calendar:
            return frozenset()
        return frozenset(date.fromisoformat(day) for day in self.closed.split(".."))


class Owed(People):
    """The same, with time and nodes, and what must be true after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[Pass] = []
        self.claims: list[asyncpg.Record] = []
        self.nodes: list[uuid.UUID] = []

    def teardown(self) -> None:
        try:
            for one in self.passes:
                one.dies()
            self.the_ledger_is_verified()
        finally:
            self.real.undo()

    @initialize(period=st.sampled_from(PERIODS), kind=some)
    def there_is_a_schedule_and_a_node(self, period: int, kind: int) -> None:
        self.the_calendar_is_edited(CLOSED[0])
        self.a_node_joins()
        self.a_schedule_is_written("first", period, "latest", "skip", None, "drop", kind)
        self.nodes_decide(0)

    @rule(passed=st.sampled_from([0.5, 3, 15, 15, 61, 61, 1000, 4000, 30_000]))
    def time_passes(self, passed: float) -> None:
        self.real.set_clock(self.real.now + timedelta(seconds=passed))

    # Nodes.

    @rule()
    def a_node_joins(self) -> None:
        incarnation = uuid.UUID(int=len(self.nodes) + 1)
        self.real.call(
            "join_node",
            incarnation=incarnation,
            name=f"n{len(self.nodes)}",
            host="here",
            process_id=1,
            version="0",
            tzdata="2026a",
            home=None,
            lease_ttl=300.0,
            slots=4,
            queues=["default"],
            labels="{}",
        )
        self.real.call("offer_handlers", incarnation=incarnation, handlers=["py:work"])
        self.nodes.append(incarnation)

    @rule(which=some)
    def a_node_dies(self, which: int) -> None:
        node = self.nodes[which % len(self.nodes)]
        self.real.call("leave", incarnation=node, reason="killed")
        self.real.call("reap_runs", at_most=100)
        if self.passes:
            self.passes.pop(which % len(self.passes)).dies()

    @rule(passed=soon)
    def nodes_decide(self, passed: float) -> None:
        self.time_passes(passed)
        whole(self.real, materializing(HORIZON))

    @precondition(lambda self: self.backfills)
    @rule(passed=soon)
    def nodes_fill_in(self, passed: float) -> None:
        self.time_passes(passed)
        whole(self.real, filling_in)

    @rule(fills_in=st.booleans(), statements=st.integers(0, 3))
    def a_slow_node_begins(self, fills_in: bool, statements: int) -> None:
        """What it has read it decides later, if it does not die before."""
        self.passes = [one for one in self.passes if not one.is_over]
        if len(self.passes) == 3:
            self.passes.pop(0).dies()
        fills_in = fills_in and bool(self.backfills)
        begun = Pass(self.real, filling_in if fills_in else materializing(HORIZON))
        self.passes.append(begun)
        for _ in range(statements):
            begun.go_on()

    @precondition(lambda self: self.passes)
    @rule(which=some, statements=st.integers(1, 3))
    def a_slow_node_goes_on(self, which: int, statements: int) -> None:
        for _ in range(statements):
            self.passes[which % len(self.passes)].go_on()

    @precondition(lambda self: self.passes)
    @rule(which=some, after_commit=st.booleans())
    def a_node_is_cut_off(self, which: int, after_commit: bool) -> None:
        """It does not know whether its statement happened, and begins anew."""
        self.passes[which % len(self.passes)].is_cut(after_commit=after_commit)

    @rule(which=some, free=st.integers(0, 3), is_answered=some, passed=soon)
    def a_node_claims(self, which: int, free: int, is_answered: int, passed: float) -> None:
        """A claim whose answer is lost is executed by nobody, until its node is dead."""
        self.time_passes(passed)
        node = self.nodes[which % len(self.nodes)]
        self.real.call(
            "beat",
            incarnation=node,
            slots_used=0,
            is_draining=False,
            **{"is_unresponsive": False, "health": None},
        )
        common: dict[str, Any] = {"incarnation": node, "handlers": ["py:work"], **PATHS}
        schedules = [row["id"] for row in self.sql("SELECT id FROM pgcron.schedule")]
        self.real.call("admit_previous", schedules=schedules)
        self.real.call("admit_overlap", schedules=schedules)
        bounds: dict[str, Any] = {"onces": [False], "bound_dues": [FIRST_INSTANT], "bound_ids": [0]}
        claims = self.real.call("claim", plain=1 + free, **bounds, **common)
        if is_answered:
            self.claims += claims

    @precondition(lambda self: self.claims)
    @rule(which=some, end=st.sampled_from(["good", "good", "dead", "dead", "again"]), twice=some)
    def a_run_ends(self, which: int, end: str, twice: int) -> None:
        """Now and then the answer is lost, and its node says it again."""
        claim = self.claims.pop(which % len(self.claims))
        held = {"run_ids": [claim["id"]], "tokens": [claim["token"]], "elapsed_seconds": [0.5]}
        failed = {"run_id": claim["id"], "token": str(claim["token"]), "elapsed": 0.5}
        failed |= {"kind": "failed", "retryable": end == "again", "node_name": "n"}
        for _ in range(1 if twice else 2):
            if end == "good":
                kept = {"results": [None], "without_args": None}
                self.real.call("finish_runs", node="n", **kept, **held)
            else:
                self.real.call("fail_runs", ends=json.dumps([failed]))

    # What must be true.

    @invariant()
    def all_rules_hold(self) -> None:
        before, self.seen = self.seen, look(self.real)
        owed_rules.no_run_is_lost(self.seen)
        for schedule in self.schedules.values():
            owed_rules.it_stands_as_people_want(schedule, self.seen)
            self._note_what_nodes_did(schedule, self.seen)
            owed_rules.each_fire_has_one_answer(schedule, self.seen)
            owed_rules.pauses_are_kept(schedule, self.seen)
            owed_rules.waiting_runs_are_as_wanted(schedule, self.seen)
            owed_rules.bounds_are_kept(schedule, self.seen)
            owed_rules.none_executes_beside_another(schedule, self.seen)
        for backfill in self.backfills:
            assert before is not None
            owed_rules.a_backfill_does_what_it_was_asked_for(backfill, before, self.seen)

    def _note_what_nodes_did(self, schedule: Schedule, seen: Seen) -> None:
        node_snapshot = seen.schedules[schedule.id]
        if schedule.pause is None and not node_snapshot["enabled"]:
            schedule.pauses.append(Pause(seen.now, node_snapshot["paused_until"]))
        elif schedule.pause is not None and node_snapshot["enabled"]:
            schedule.pause.ended = seen.now
        if schedule.pause is not None and schedule.after_pause == "catchup":
            schedule.pause.drops = False

    def the_ledger_is_verified(self) -> None:
        """What `schedules verify` would find: nothing."""
        connection = self.real.connection
        broken = self.real.wait(broken_rows(connection, since=FIRST_INSTANT))
        assert not broken, broken
        for schedule in self.schedules.values():
            read = self.real.wait(ledger_of(connection, schedule.id, FIRST_INSTANT, most=100_000))
            assert read is not None
            verdict = verdict_of(read, 100_000)
            assert not verdict.breaks, verdict.breaks
