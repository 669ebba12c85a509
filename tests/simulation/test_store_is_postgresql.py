"""Whatever is called, in whatever order: the stand-in says and holds what PostgreSQL does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pgcron_ha.engine.materializer import _columns, decide
from tests.simulation.both import Both, LedStore
from tests.simulation.playing import play
from tests.simulation.real import RealStore
from tests.simulation.tables import Row, seconds

SEQUENCES, STEPS = 100, 50

HANDLERS = ("py:work", "py:rare")
QUEUES = ("default", "other")
NAMES = ("hourly", "often")
PATHS = [(queue, priority) for priority in (4, 5) for queue in QUEUES]

few = st.integers(0, 9)
# As PostgreSQL writes them.
POLICIES = (
    None,
    '{"jitter": false, "backoff": "linear"}',
    '{"snoozes": 1, "retry_for": 30, "snooze_on": {"exit:75": 5}}',
    '{"backoff": [1, 3], "discard_on": ["ValueError"]}',
    '{"cap": 3, "base": 2, "jitter": true, "retry_on": ["exit:75", "timed_out"]}',
)


class Calls(RuleBasedStateMachine):
    """What nodes and people send. `numbers` choose among what there is at that moment."""

    real: ClassVar[RealStore]
    lanes: ClassVar[tuple[str | None, ...]] = (None,)
    schedule_lanes: ClassVar[tuple[str | None, ...]] = (None,)
    requirements: ClassVar[tuple[list[str] | None, ...]] = (None,)

    def __init__(self) -> None:
        super().__init__()
        self.both = Both(self.real)
        self.nodes: list[uuid.UUID] = []
        self.claims: list[Row] = []
        self.cursors: list[Row] = []
        self.runs: list[int] = []
        self.made = 0

    def teardown(self) -> None:
        try:
            self.both.compare_tables()
        finally:
            self.both.end()

    @initialize(rare=st.booleans())
    def there_is_work(self, rare: bool) -> None:
        """Where something can happen: two nodes, a schedule with due fires, a run."""
        self.a_node_joins(ttl=300, home="a", rare=rare)
        self.a_node_joins(ttl=300, home=None, rare=False)
        self.a_schedule_is_put(
            *(NAMES[1], "*/7 * * * * *", "skip", "latest", None, QUEUES[0], None, None, False, 0)
        )
        self.a_run_is_enqueued(HANDLERS[0], QUEUES[0], 5, None, None, None, False, 0)
        self.a_node_materializes(stale=9, keeps=True)
        self.time_passes(15)

    # Time and sessions.

    @rule(passed=st.sampled_from([0.001, 0.3, 1, 1, 2, 7, 7, 20, 65]))
    def time_passes(self, passed: float) -> None:
        self.both.pass_time(passed)

    @rule(
        ttl=st.sampled_from([5, 300]),
        home=st.sampled_from([None, "a", "b"]),
        rare=st.booleans(),
        labelled=st.booleans(),
    )
    def a_node_joins(
        self, ttl: float, home: str | None, rare: bool, labelled: bool = False
    ) -> None:
        self.made += 1
        incarnation = uuid.UUID(int=self.made)
        self.both.call(
            "join_node",
            incarnation=incarnation,
            name=f"n{self.made}",
            host="here",
            process_id=1,
            version="0",
            tzdata="2026a",
            home=home,
            lease_ttl=float(ttl),
            slots=4,
            queues=list(QUEUES),
            labels='{"gpu": "a100"}' if labelled else "{}",
        )
        handlers = list(HANDLERS[: 2 if rare else 1])
        self.both.call("offer_handlers", incarnation=incarnation, handlers=handlers)
        if home is not None:
            self.both.call("bury_predecessors", home=home, incarnation=incarnation)
        self.nodes.append(incarnation)
        self.both.compare_tables()

    @precondition(lambda self: self.nodes)
    @rule(which=few, draining=st.sampled_from([False, False, False, True]))
    def a_node_beats(self, which: int, draining: bool) -> None:
        self.both.call(
            "beat",
            incarnation=self._node(which),
            slots_used=which,
            is_draining=draining,
            health=None,
        )

    @precondition(lambda self: self.nodes)
    @rule(which=few)
    def a_burial_comes_late(self, which: int) -> None:
        node = self.both.store.nodes[self._node(which)]
        if node.home is not None:
            self.both.call("bury_predecessors", home=node.home, incarnation=node.incarnation)
        self.both.compare_tables()

    @precondition(lambda self: self.nodes)
    @rule(which=few, late=st.sampled_from([0, 0, 1]), by=st.booleans())
    def a_node_is_declared_dead(self, which: int, late: int, by: bool) -> None:
        node = self._node(which)
        sequence = self.both.store.nodes[node].beat_sequence - late
        if by:
            self.both.call("declare_dead", incarnation=node, beat_sequence=sequence)
        elif which < 3:
            self.both.call("leave", incarnation=node, reason="stopped in order")
        self.both.call("reap_runs", at_most=100)
        self.both.compare_tables()

    # People.

    @rule(
        handler=st.sampled_from(HANDLERS),
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from([4, 5]),
        due=st.sampled_from([None, -3, 2, 30]),
        key=st.sampled_from([None, None, "k"]),
        attempts=st.sampled_from([None, 1, 3]),
        once=st.booleans(),
        lane=few,
        needs=few,
    )
    def a_run_is_enqueued(
        self,
        handler: str,
        queue: str,
        priority: int,
        due: int | None,
        key: str | None,
        attempts: int | None,
        once: bool,
        lane: int = 0,
        retry: str | None = None,
        needs: int = 0,
    ) -> None:
        rows = self.both.call(
            "enqueue",
            handler=handler,
            args="{}",
            queue=queue,
            priority=priority,
            due_at=None if due is None else self.both.real.now + seconds(due),
            idempotency_key=key,
            key_lifetime=10.0,
            timeout=60.0,
            max_attempts=1 if once else attempts,
            delivery="at_most_once" if once else "at_least_once",
            retry=retry,
            actor="me",
            lane=self.lanes[lane % len(self.lanes)],
            requires=self.requirements[needs % len(self.requirements)],
            start_within=None,
            give_up_after=None,
            silence_timeout=None,
            weight=None,
        )
        self.runs.append(rows[0]["run_id"])

    @rule(
        name=st.sampled_from(NAMES),
        spec=st.sampled_from(["*/7 * * * * *", "* * * * *", "every 11s"]),
        overlap=st.sampled_from(["skip", "skip", "allow"]),
        catchup=st.sampled_from(["latest", "none"]),
        deadline=st.sampled_from([None, 3.0]),
        queue=st.sampled_from(QUEUES),
        attempts=st.sampled_from([None, 1, 2]),
        enabled=st.sampled_from([None, None, True, False]),
        once=st.sampled_from([False, False, True]),
        retry=st.sampled_from(POLICIES),
        lane=few,
        needs=few,
        after_pause=st.sampled_from([None, "drop", "catchup"]),
    )
    def a_schedule_is_put(
        self,
        name: str,
        spec: str,
        overlap: str,
        catchup: str,
        deadline: float | None,
        queue: str,
        attempts: int | None,
        enabled: bool | None,
        once: bool,
        lane: int = 0,
        retry: str | None = None,
        needs: int = 0,
        after_pause: str | None = None,
    ) -> None:
        if catchup == "none":
            after_pause = "drop"
        self.both.call(
            "put_schedule",
            name=name,
            spec=spec,
            handler=HANDLERS[0],
            args=None,
            timezone=None,
            dst=None,
            queue=queue,
            priority=None,
            enabled=enabled,
            overlap=overlap,
            catchup=catchup,
            catchup_window=20.0,
            start_deadline=deadline,
            timeout=60.0,
            max_attempts=1 if once else attempts,
            retry_base=1.0,
            retry_cap=4.0,
            delivery="at_most_once" if once else "at_least_once",
            lane=self.schedule_lanes[lane % len(self.schedule_lanes)],
            requires=self.requirements[needs % len(self.requirements)],
            give_up_after=None,
            silence_timeout=None,
            weight=None,
            max_running=None,
            max_queued=None,
            queue_drops=None,
            after_pause=after_pause,
            pause_after_failures=None,
            probe_after=None,
            retry=retry,
            managed_by=None,
            expected_version=None,
            jitter=None,
            spread_window=None,
            max_runs=None,
            depends_on_previous=None,
            actor="me",
            door="sql",
        )
        self.both.compare_tables()

    @rule(name=st.sampled_from(NAMES), verb=few)
    def a_schedule_is_changed(self, name: str, verb: int) -> None:
        who = {"actor": "you", "door": "sql"}
        if verb < 3:
            end = {"until": None, "pause": (None, 5.0, 40.0)[verb]}
            self.both.call("pause_schedule", name=name, note="a note", **end, **who)
        elif verb < 7:
            self.both.call("resume_schedule", name=name, **who)
        elif verb < 8:
            self.both.call("delete_schedule", name=name, **who)
        else:
            asked = {"args": '{"day": 1}', "actor": "you", "overlap": None, "fire_time": None}
            rows = self.both.call("run_now", name=name, **asked)
            self.runs += [row["run_id"] for row in rows]
        self.both.compare_tables()

    @rule(which=few, verb=st.sampled_from(["cancel_run", "cancel_run", "retry_run", "redrive"]))
    def somebody_asks_for_a_run(self, which: int, verb: str) -> None:
        known = sorted({*self.both.store.runs, *self.both.store.history, 999_999_999})
        run = known[which % len(known)]
        more: dict[str, Any] = {"reason": "a reason"} if verb == "cancel_run" else {}
        if verb == "redrive":
            more["args"] = '{"n": 1}' if which % 2 else None
        self.both.call(verb, run_id=run, actor="you", **more)
        self.both.compare_tables()

    @rule(queue=st.sampled_from(QUEUES), verb=st.sampled_from(["pause_queue", "resume_queue"]))
    def a_queue_is_paused_or_not(self, queue: str, verb: str) -> None:
        note = {"note": None} if verb == "pause_queue" else {}
        self.both.call(verb, name=queue, actor="you", **note)

    @precondition(lambda self: self.nodes)
    @rule(which=few, verb=st.sampled_from(["cordon_node", "uncordon_node"]), by_name=st.booleans())
    def a_node_is_cordoned_or_not(self, which: int, verb: str, by_name: bool) -> None:
        incarnation = self._node(which)
        given = {"reason": None} if verb == "cordon_node" else {}
        node = f"n{incarnation.int}" if by_name else str(incarnation)
        self.both.call(verb, node=node, actor="you", **given)
        self.both.compare_tables()

    # What nodes do.

    @precondition(lambda self: self.nodes)
    @rule(
        which=few,
        statement=st.sampled_from(["claim_runs", "claim_at_most_once"]),
        limit=st.integers(1, 4),
    )
    def a_node_claims(self, which: int, statement: str, limit: int) -> None:
        paths: dict[str, Any] = self._paths()
        if statement == "claim_runs":
            bound = self.both.real.now - seconds(2 if which > 7 else 1000)
            paths |= {"bound_dues": [bound] * len(PATHS), "bound_ids": [0] * len(PATHS)}
        self.claims += self.both.call(
            statement,
            incarnation=self._node(which),
            handlers=list(HANDLERS[: 1 + which % 2]),
            limit=limit,
            **paths,
        )

    @precondition(lambda self: self.nodes)
    @rule(which=few, free=few, ahead=st.sampled_from([0, 1, 3]), look=st.sampled_from([1, 20]))
    def a_node_decides_lanes(self, which: int, free: int, ahead: int, look: int) -> None:
        verdicts = self.both.call(
            "claim_lanes",
            incarnation=self._node(which),
            handlers=list(HANDLERS[: 1 + which % 2]),
            free=free % 3,
            ahead=ahead,
            look=look,
            **self._paths(),
        )
        self.claims += [row for row in verdicts if row["verdict"] == "claim"]
        self.both.compare_tables()

    @precondition(lambda self: self.claims)
    @rule(
        which=st.sets(few, min_size=1, max_size=3),
        kind=few,
        after=st.sampled_from([None, 0.0, 2.0]),
        cause=st.sampled_from([None, "ValueError Exception", "pgcron_ha.Retry Retry", "exit:75"]),
    )
    def claims_end(
        self, which: set[int], kind: int, after: float | None, cause: str | None
    ) -> None:
        claims = {row["id"]: row for row in (self._claim(number) for number in which)}.values()
        held: dict[str, Any] = {
            "run_ids": [row["id"] for row in claims],
            "tokens": [row["token"] for row in claims],
        }
        elapsed = {"elapsed_seconds": [0.5 for _ in claims]}
        if kind < 3:
            results = ['{"a": 1}' for _ in claims]
            self.both.call("finish_runs", results=results, node="n", **held, **elapsed)
        elif kind == 3:
            self.both.call("release_runs", **held)
        elif kind == 4:
            self.both.call("mark_started", **held, **elapsed)
        else:
            kinds = ("failed", "timed_out", "lease_lost", "cancelled")
            last = "snoozed" if cause is None else "failed"
            self.both.call(
                "fail_runs",
                kinds=[(*kinds, last)[kind - 5] for _ in claims],
                retryables=[kind < 9 for _ in claims],
                retry_afters=[after for _ in claims],
                error_classes=["ValueError" for _ in claims],
                errors=["it went wrong" for _ in claims],
                tracebacks=[None for _ in claims],
                causes=[cause for _ in claims],
                fingerprints=[None for _ in claims],
                node="n",
                **held,
                **elapsed,
            )
        fences = [row["fence"] for row in claims]
        self.both.call("ended_by_fence", run_ids=held["run_ids"], fences=fences)
        self.both.compare_tables()

    @rule(stale=few, keeps=st.booleans())
    def a_node_materializes(self, stale: int, keeps: bool) -> None:
        rows = self.both.call("due_cursors", refill=30.0, at_most=10, aside=[])
        self.cursors += rows
        if stale < 2 and self.cursors:
            rows = [self.cursors[stale % len(self.cursors)]]
        if rows and keeps:
            decisions: list[Any] = [(row, *decide(row, 60.0)) for row in rows]
            columns = _columns(decisions)
            self.both.call("materialize", **columns)
            self.both.compare_tables()

    @rule(duty=few)
    def a_node_does_a_duty(self, duty: int) -> None:
        paths = {"queues": [p[0] for p in PATHS], "priorities": [p[1] for p in PATHS]}
        duties: list[Callable[[], object]] = [
            lambda: self.both.call("park_unserved", look=10, **paths),
            lambda: self._park_and_unpark(),
            lambda: self._expire(),
            lambda: self.both.call("expire_runs", at_most=100, reason="late"),
            lambda: self.both.call("unaccounted", at_most=100),
            lambda: self.both.call("next_due", queues=list(QUEUES), **self._bounds()),
            lambda: self.both.call("recheck_invalid", judge="newer"),
            lambda: self._mark_invalid(),
            lambda: self.both.call("forget_keys", at_most=100),
            lambda: self.both.call("reap_runs", at_most=100),
        ]
        duties[duty]()
        self.both.compare_tables()

    def _park_and_unpark(self) -> None:
        self.both.call("park_unplaced", queues=list(QUEUES), look=10)
        self.both.compare_tables()
        self.both.call("unpark_served", at_most=100)

    def _expire(self) -> None:
        rows = self.both.call("expired_runs", at_most=100)
        self.both.call(
            "end_waiting_runs",
            run_ids=[row["id"] for row in rows],
            outcome="expired",
            reason="late",
        )

    def _mark_invalid(self) -> None:
        for row in self.cursors[-1:]:
            self.both.call(
                "mark_invalid",
                schedule_id=row["schedule_id"],
                generation=row["generation"],
                error='{"judge": "older", "message": "no such zone"}',
                retry_after=None,
            )

    def _node(self, which: int) -> uuid.UUID:
        return self.nodes[-1 - which % min(3, len(self.nodes))]

    def _claim(self, which: int) -> Row:
        return self.claims[-1 - which % len(self.claims)]

    def _paths(self) -> dict[str, list[Any]]:
        return {"queues": [path[0] for path in PATHS], "priorities": [path[1] for path in PATHS]}

    def _bounds(self) -> dict[str, Any]:
        bounded = PATHS[::2]
        return {
            "bound_queues": [path[0] for path in bounded],
            "bound_priorities": [path[1] for path in bounded],
            "bound_dues": [self.both.real.now - seconds(2) for _ in bounded],
            "bound_ids": [0 for _ in bounded],
        }


class CallsWithLimits(Calls):
    """The same, with lanes by key and limited queues."""

    lanes = (None, "a-1", "a-1", "a-2", "b")
    schedule_lanes = (None, None, "a-1", "")
    requirements = (None, None, None, ["gpu"], ["gpu=a100"], ["gpu=h100", "ssd"], [])

    @initialize()
    def runs_of_one_lane_wait(self) -> None:
        for _ in range(3):
            self.a_run_is_enqueued(HANDLERS[0], QUEUES[0], 5, None, None, None, False, 1)

    @rule(
        queue=st.sampled_from(QUEUES),
        lane=st.sampled_from(["a-1", "a-*", "*"]),
        most=st.sampled_from([None, 1, 2, 2]),
        rate=st.sampled_from([None, None, 1, 3]),
        verb=st.sampled_from(["set_queue", "set_lane", "set_lane", "forget_lane"]),
    )
    def a_limit_is_set(
        self, queue: str, lane: str, most: int | None, rate: int | None, verb: str
    ) -> None:
        given: dict[str, dict[str, Any]] = {
            "set_queue": {"name": queue, "max_running": most, "actor": "you"},
            "set_lane": {"lane": lane, "slots": most, "actor": "you"},
            "forget_lane": {"lane": lane},
        }
        per = None if rate is None else 7.0 if most is None else 30.0
        rated = {} if verb == "forget_lane" else {"rate": rate, "per": per}
        self.both.call(verb, **given[verb], **rated)

    @precondition(lambda self: self.nodes)
    @rule(
        which=few,
        free=few,
        beyond=st.sampled_from(["", "", "a-1"]),
        ahead=st.sampled_from([0, 0, 2]),
        look=st.sampled_from([1, 2, 20]),
        aged=st.booleans(),
    )
    def a_node_decides_limits(
        self, which: int, free: int, beyond: str, ahead: int, look: int, aged: bool
    ) -> None:
        verdicts = self.both.call(
            "claim_limited",
            incarnation=self._node(which),
            queues=list(QUEUES),
            beyond=["", beyond],
            handlers=list(HANDLERS[: 1 + which % 2]),
            free=free % 4,
            ahead=ahead,
            look=look,
            aged=aged,
        )
        self.claims += [row for row in verdicts if row["verdict"] == "claim"]
        self.both.compare_tables()


@pytest.mark.parametrize("calls", [Calls, CallsWithLimits])
def test_the_stand_in_answers_as_postgresql_does(real: RealStore, calls: type[Calls]) -> None:
    play(calls, real, SEQUENCES, STEPS)


@pytest.mark.parametrize(
    ("guard", "otherwise"),
    [
        ("may_take_lane", lambda self, lane, first: True),
        ("lane_room", lambda self, lane: 2),
        ("holds", lambda self, run, token: run is not None and run.state == "running"),
        ("is_undecided", lambda self, cursor, generation, watermark: True),
    ],
    ids=["lane", "key", "token", "cursor"],
)
def test_a_stand_in_that_does_otherwise_is_found(
    real: RealStore, monkeypatch: pytest.MonkeyPatch, guard: str, otherwise: Callable[..., Any]
) -> None:
    monkeypatch.setattr(LedStore, guard, otherwise)

    calls = CallsWithLimits if guard == "lane_room" else Calls
    with pytest.raises(AssertionError):
        play(calls, real, 1000, STEPS, finds=False)
