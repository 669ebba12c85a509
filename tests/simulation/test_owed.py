"""Edits, pauses, deaths and time in any order: a simple model says which fires are owed, and after
each step the ledger has exactly one answer for each of them.

The SQL is the real one under the test's own clock. The model knows nothing but when each timing was
written and how often it fires.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pgcron_ha.engine import materializer
from tests.simulation.real import RealStore
from tests.simulation.tables import FIRST_INSTANT, Row

SEQUENCES, STEPS = 150, 40
HORIZON: Final = 60.0
PERIODS: Final = (20, 60, 700, 3600)
NAMES: Final = ("first", "second")
PATHS: Final = {"queues": ["default"], "priorities": [5]}

some = st.integers(0, 9)


@dataclass
class Schedule:
    """What the model keeps of a schedule."""

    id: int
    writings: list[tuple[datetime, int]] = field(default_factory=list)
    """From an instant on it fires at the whole multiples of so many seconds."""

    def owed(self, until: datetime) -> list[datetime]:
        found: list[datetime] = []
        ends = [*(at for at, _ in self.writings[1:]), until]
        for (at, period), end in zip(self.writings, ends, strict=True):
            step = timedelta(seconds=period)
            fire = FIRST_INSTANT + ((at - FIRST_INSTANT) // step + 1) * step
            while fire <= min(end, until):
                found.append(fire)
                fire += step
        return found


class Owed(RuleBasedStateMachine):
    """What people and nodes do. `real` is set by the test."""

    real: ClassVar[RealStore]

    def __init__(self) -> None:
        super().__init__()
        self.schedules: dict[str, Schedule] = {}
        self.cursors: list[Row] = []
        self.claims: list[Row] = []
        self.nodes: list[uuid.UUID] = []
        self.early: set[tuple[int, datetime]] = set()
        """Fires that somebody settled before their time: an edit may write a range around one."""
        self.real.begin()

    def teardown(self) -> None:
        self.real.undo()

    @initialize(period=st.sampled_from(PERIODS))
    def there_is_a_schedule_and_a_node(self, period: int) -> None:
        self.a_node_joins()
        self.a_schedule_is_written("first", period, "latest", "skip")

    # People.

    @rule(
        name=st.sampled_from(NAMES),
        period=st.sampled_from(PERIODS),
        catchup=st.sampled_from(["latest", "latest 3", "all", "none"]),
        overlap=st.sampled_from(["skip", "allow"]),
    )
    def a_schedule_is_written(self, name: str, period: int, catchup: str, overlap: str) -> None:
        overlap = "allow" if catchup in ("latest 3", "all") else overlap
        spec = f"every {period}s from {FIRST_INSTANT:%Y-%m-%dT%H:%M:%SZ}"
        known = self.schedules.get(name)
        if known is None:
            rows = self._sql(
                "INSERT INTO pgcron.schedule (name, spec, handler, catchup, overlap,"
                " catchup_window) VALUES ($1, $2, 'py:work', $3, $4, '2 hours') RETURNING id",
                *(name, spec, catchup, overlap),
            )
            self.schedules[name] = known = Schedule(rows[0]["id"])
        else:
            self._sql(
                "UPDATE pgcron.schedule SET spec = $2, catchup = $3, overlap = $4 WHERE name = $1",
                *(name, spec, catchup, overlap),
            )
        if not known.writings or known.writings[-1][1] != period:
            known.writings.append((self.real.now, period))

    @rule(name=st.sampled_from(NAMES), number=some)
    def what_it_does_is_edited(self, name: str, number: int) -> None:
        self._sql(
            "UPDATE pgcron.schedule SET args = jsonb_build_object('n', $2::int) WHERE name = $1",
            *(name, number),
        )

    @rule(name=st.sampled_from(NAMES), resumes=st.booleans())
    def it_is_paused_or_resumed(self, name: str, resumes: bool) -> None:
        if name in self.schedules:
            verb = "resume_schedule($1)" if resumes else "pause_schedule($1, 'a note')"
            self._sql(f"SELECT pgcron.{verb}", name)

    @rule(name=st.sampled_from(NAMES), is_sure=some)
    def it_is_deleted(self, name: str, is_sure: int) -> None:
        if name in self.schedules and is_sure == 0:
            self._sql("SELECT pgcron.delete_schedule($1)", name)
            del self.schedules[name]

    @rule(name=st.sampled_from(NAMES))
    def it_is_run_now(self, name: str) -> None:
        if name in self.schedules:
            self._sql("SELECT pgcron.run_now($1)", name)

    @rule(which=some)
    def a_waiting_run_is_cancelled(self, which: int) -> None:
        rows = self._sql(
            "SELECT id, schedule_id, scheduled_for FROM pgcron.run WHERE state = 'ready'"
            " AND attempt = 0 ORDER BY id LIMIT 10"
        )
        if rows:
            row = rows[which % len(rows)]
            self._sql("SELECT pgcron.cancel_run($1)", row["id"])
            if row["scheduled_for"] is not None:
                self.early.add((row["schedule_id"], row["scheduled_for"]))

    # Time and nodes.

    @rule(passed=st.sampled_from([0.5, 3, 15, 15, 61, 61, 1000, 4000, 100_000]))
    def time_passes(self, passed: float) -> None:
        self.real.set_clock(self.real.now + timedelta(seconds=passed))

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

    @rule(refill=st.sampled_from([0.0, HORIZON / 2]))
    def a_node_looks_and_is_slow(self, refill: float) -> None:
        """What it has read it decides later, if it does not die before."""
        self.cursors += self.real.call("due_cursors", refill=refill, at_most=10)[:2]

    @rule()
    def a_node_materializes(self) -> None:
        self._materialize(self.real.call("due_cursors", refill=HORIZON / 2, at_most=10))

    @precondition(lambda self: self.cursors)
    @rule(which=some)
    def the_slow_one_decides(self, which: int) -> None:
        self._materialize([self.cursors[which % len(self.cursors)]])

    @rule(which=some, free=st.integers(0, 3))
    def a_node_claims(self, which: int, free: int) -> None:
        node = self.nodes[which % len(self.nodes)]
        self.real.call("beat", incarnation=node, slots_used=0, is_draining=False)
        common: dict[str, Any] = {"incarnation": node, "handlers": ["py:work"], **PATHS}
        self.claims += [
            row
            for row in self.real.call("claim_lanes", free=free, ahead=0, look=20, **common)
            if row["verdict"] == "claim"
        ]
        bounds: dict[str, Any] = {"bound_dues": [FIRST_INSTANT], "bound_ids": [0]}
        self.claims += self.real.call("claim_runs", limit=1 + free, **bounds, **common)

    @precondition(lambda self: self.claims)
    @rule(which=some, succeeds=st.booleans())
    def a_run_ends(self, which: int, succeeds: bool) -> None:
        claim = self.claims.pop(which % len(self.claims))
        held: dict[str, Any] = {
            "run_ids": [claim["id"]],
            "tokens": [claim["token"]],
            "elapsed_seconds": [0.5],
            "node": "n",
        }
        if succeeds:
            self.real.call("finish_runs", results=[None], **held)
            return
        failures = ("error_classes", "errors", "tracebacks", "causes", "fingerprints")
        self.real.call(
            "fail_runs",
            kinds=["failed"],
            retryables=[which < 5],
            retry_afters=[None],
            **{name: [None] for name in failures},
            **held,
        )

    # What must be true.

    @invariant()
    def each_fire_has_one_answer(self) -> None:
        for schedule in self.schedules.values():
            watermark, rows, ranges = self._ledger(schedule.id)
            owed = schedule.owed(watermark)
            for fire in owed:
                inside = sum(first <= fire <= last for first, last in ranges)
                decided = int(fire in rows)
                if (schedule.id, fire) not in self.early or not decided:
                    decided += inside
                assert decided == 1, (schedule, fire, decided)
            for fire in rows.keys() - set(owed):
                assert (schedule.id, fire) in self.early, f"{fire} is decided, but nobody owed it"

    @invariant()
    def no_run_is_lost(self) -> None:
        lost = self._sql(
            "SELECT o.schedule_id, o.fire_at FROM pgcron.occurrence o WHERE o.run_id IS NOT NULL"
            " AND (SELECT count(*) FROM pgcron.run r WHERE r.id = o.run_id)"
            " + (SELECT count(*) FROM pgcron.history h WHERE h.id = o.run_id) <> 1"
        )
        assert not lost

    # How it is done.

    def _materialize(self, rows: list[Row]) -> None:
        if rows:
            decisions: list[Any] = [(row, *materializer.decide(row, HORIZON)) for row in rows]
            self.real.call("materialize", **materializer._columns(decisions)[0])

    def _ledger(
        self, schedule: int
    ) -> tuple[datetime, dict[datetime, str], list[tuple[datetime, datetime]]]:
        [cursor] = self._sql("SELECT watermark FROM pgcron.cursor WHERE schedule_id = $1", schedule)
        rows = self._sql(
            "SELECT fire_at, decision FROM pgcron.occurrence WHERE schedule_id = $1", schedule
        )
        missed = self._sql(
            "SELECT first_at, last_at FROM pgcron.missed WHERE schedule_id = $1", schedule
        )
        return (
            cursor["watermark"],
            {row["fire_at"]: row["decision"] for row in rows},
            [(row["first_at"], row["last_at"]) for row in missed],
        )

    def _sql(self, query: str, *arguments: Any) -> list[Any]:
        return list(self.real.wait(self.real.connection.fetch(query, *arguments)))


@pytest.fixture
def real(database: str) -> Iterator[RealStore]:
    """PostgreSQL under the test's own clock."""
    store = RealStore(database)
    yield store
    store.close()


def play(real: RealStore, sequences: int, *, finds: bool = True) -> None:
    """Random sequences of steps, the first violation raised."""

    class Played(Owed):
        pass

    Played.real = real
    run_state_machine_as_test(
        Played,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=finds,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink] if finds else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(300)
def test_each_owed_fire_has_one_answer_after_each_step(real: RealStore) -> None:
    play(real, SEQUENCES)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "guard",
    [
        "untold := pgcron.untold(cursor_before, edit_time);",
        "AND due_at > edit_time",
        "CASE WHEN untold IS NOT NULL THEN told_until",
    ],
    ids=["what nobody had decided", "what lies ahead", "the watermark"],
)
def test_an_edit_without_one_of_its_guards_is_found(real: RealStore, guard: str) -> None:
    otherwise = {
        "untold": "untold := NULL;",
        "AND": "AND false",
        "CASE": "CASE WHEN true THEN told_until",
    }[guard.split()[0]]
    _replace(real, "apply_edit", guard, otherwise)

    with pytest.raises(AssertionError):
        play(real, 1000, finds=False)


def _replace(real: RealStore, function: str, text: str, otherwise: str) -> None:
    query = "SELECT pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p WHERE p.proname = $1"
    [row] = real.wait(real.connection.fetch(query, function))
    assert text in row[0]
    real.wait(real.connection.execute(row[0].replace(text, otherwise)))
