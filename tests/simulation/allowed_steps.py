"""What services, people and nodes do to runs with capacity gates, in any order, on the real SQL:
concurrency keys with slots and rates, limited and paused queues, weights and labels. What a claim
may take is judged after it by what the test itself remembers.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

import asyncpg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.real import FIRST_INSTANT, RealStore

SLOTS: Final = 4
PER: Final = timedelta(seconds=60)
# Starts are counted in 256 slices of this time.
SLICE: Final = PER / 256
HANDLERS: Final = ("py:work", "py:rare")
QUEUES: Final = ("default", "narrow")
ROUNDS: Final = 80
"""More than the runs of a sequence need, one after the other."""

some = st.integers(0, 9)
keys = st.sampled_from(["bank", "mail", "bulk"])
Row = asyncpg.Record


@dataclass(eq=False)
class Node:
    incarnation: uuid.UUID
    handlers: list[str]
    labels: dict[str, str]
    held: dict[int, Row] = field(default_factory=dict)
    """Claimed runs, also those of a claim whose answer was lost."""
    answered: set[int] = field(default_factory=set)

    @property
    def free(self) -> int:
        return SLOTS - sum(int(row["weight"]) for row in self.held.values())


class Allowed(RuleBasedStateMachine):
    """`real` is set by whoever plays it."""

    real: ClassVar[RealStore]

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.made = 0
        self.slots = {"bank": 1, "mail": 1, "bulk": 1}
        """What a key has that nobody has set."""
        self.by_weight: set[str] = set()
        self.rates: dict[str, int | None] = {}
        self.most: int | None = None
        self.is_paused = False
        self.runs: dict[int, Row] = {}
        self.starts: dict[str, list[datetime]] = {}
        self.real.begin()

    @initialize()
    def there_is_a_node(self) -> None:
        self.a_node_joins(offers_rare=True, has_label=False)

    def teardown(self) -> None:
        try:
            self.no_run_is_starved()
        finally:
            self.real.undo()

    # Services and people.

    @rule(
        number=st.integers(1, 4),
        key=st.sampled_from([None, "bank", "bank", "mail", "bulk", "bulk"]),
        queue=st.sampled_from(QUEUES),
        weight=st.sampled_from([1, 1, 1, 2, SLOTS]),
        kind=some,
        late=st.sampled_from([0, 0, 90]),
    )
    def runs_are_enqueued(
        self, number: int, key: str | None, queue: str, weight: int, kind: int, late: int
    ) -> None:
        requires = ["gpu=yes"] if kind in (1, 2) else None
        handler = HANDLERS[kind == 3]
        for _ in range(number):
            made = self.real.ask(
                "SELECT pgcron.enqueue($1, queue => $2, priority => $3, due_at => $4,"
                " concurrency_key => $5, requires => $6, weight => $7, max_attempts => 3)",
                *(handler, queue, kind, self.real.now + timedelta(seconds=late)),
                *(key, requires, weight),
            )
            [row] = self.real.ask("SELECT * FROM pgcron.run WHERE id = $1", made[0][0])
            self.runs[row["id"]] = row

    @rule(
        key=keys,
        slots=st.integers(1, 3),
        rate=st.sampled_from([None, 1, 1, 3]),
        by_weight=st.booleans(),
    )
    def a_key_is_limited(self, key: str, slots: int, rate: int | None, by_weight: bool) -> None:
        self.real.ask(
            "SELECT pgcron.set_concurrency($1, $2, $3, $4, by_weight => $5)",
            *(key, slots, rate, None if rate is None else PER, by_weight),
        )
        (self.by_weight.add if by_weight else self.by_weight.discard)(key)
        if self.rates.get(key) is None:
            self.starts[key] = []  # what had no rate was not counted
        self.slots[key], self.rates[key] = slots, rate

    @rule(most=st.sampled_from([None, 1, 2]))
    def a_queue_is_limited(self, most: int | None) -> None:
        self.real.ask("SELECT pgcron.set_queue('narrow', $1)", most)
        self.most = most

    @rule()
    def a_queue_is_paused_or_resumed(self) -> None:
        verb = "resume" if self.is_paused else "pause"
        self.real.ask(f"SELECT pgcron.{verb}_queue('narrow')")
        self.is_paused = not self.is_paused

    @rule(passed=st.sampled_from([1, 1, 15, 61, 1000]))
    def time_passes(self, passed: int) -> None:
        self.real.set_clock(self.real.now + timedelta(seconds=passed))

    # Nodes.

    @rule(offers_rare=st.booleans(), has_label=st.booleans())
    def a_node_joins(self, offers_rare: bool, has_label: bool) -> None:
        self.made += 1
        handlers = list(HANDLERS if offers_rare else HANDLERS[:1])
        labels = {"gpu": "yes"} if has_label else {}
        node = Node(uuid.UUID(int=self.made), handlers, labels)
        self.real.call(
            "join_node",
            incarnation=node.incarnation,
            name=f"n{self.made}",
            labels=json.dumps(labels),
            slots=SLOTS,
            queues=list(QUEUES),
            lease_ttl=300.0,
            home=None,
            **{"host": "here", "process_id": 1, "version": "0", "tzdata": "2026a"},
        )
        self.real.call("offer_handlers", incarnation=node.incarnation, handlers=handlers)
        self.nodes.append(node)
        self.real.call("unblock", at_most=1000)

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(which=some)
    def a_node_dies(self, which: int) -> None:
        node = self.nodes.pop(which % len(self.nodes))
        self.real.call("leave", incarnation=node.incarnation, reason="killed")
        orphans = self.real.call("orphaned_runs", at_most=100, but=[])
        assert {row["id"] for row in orphans} == set(node.held)
        self.real.call("reap_these", run_ids=[row["id"] for row in orphans])

    @rule(which=some, is_answered=st.sampled_from([True, True, True, False]))
    def a_node_claims(self, which: int, is_answered: bool) -> None:
        """A claim whose answer is lost is executed by nobody, until its node is dead."""
        node = self.nodes[which % len(self.nodes)]
        state = {"is_draining": False, "is_unresponsive": False, "health": None}
        used = SLOTS - node.free
        self.real.call("beat", incarnation=node.incarnation, slots_used=used, **state)
        for claim in (self._claims_gated, self._claims_plain):
            if node.free > 0:
                rows = claim(node)
                claimed = [row for row in rows if row["verdict"] == "claim"]
                self._judge(node, claimed)
                node.answered |= {row["id"] for row in claimed if is_answered}
                if any(row["verdict"] == "await" for row in rows):
                    break  # what gets free is kept for a heavy run
        self.real.call("block_unserved", queues=list(QUEUES), look=100)

    def _claims_gated(self, node: Node) -> list[Row]:
        return self.real.call(
            "claim_gated",
            **{"incarnation": node.incarnation, "handlers": node.handlers, "gated": node.free},
            **{"queues": list(QUEUES), "beyond": ["", ""], "look": 20, "ahead": 0},
            **{"since": FIRST_INSTANT, "aged": False, "probes": []},
        )

    def _claims_plain(self, node: Node) -> list[Row]:
        paths = [(queue, level, once) for queue in QUEUES for level in range(10) for once in (0, 1)]
        return self.real.call(
            "claim",
            incarnation=node.incarnation,
            handlers=node.handlers,
            plain=node.free,
            queues=[queue for queue, _, _ in paths],
            priorities=[level for _, level, _ in paths],
            onces=[bool(once) for _, _, once in paths],
            bound_dues=[FIRST_INSTANT for _ in paths],
            bound_ids=[0 for _ in paths],
        )

    @rule(which=some, run=some, ending=st.sampled_from(["good", "good", "dead", "again"]))
    def a_run_ends(self, which: int, run: int, ending: str) -> None:
        node = self.nodes[which % len(self.nodes)]
        if node.answered:
            ended = sorted(node.answered)[run % len(node.answered)]
            node.answered.discard(ended)
            self._ends(node.held.pop(ended), ending)

    def _ends(self, row: Row, ending: str) -> None:
        if ending == "good":
            held = {"run_ids": [row["id"]], "tokens": [row["token"]], "elapsed_seconds": [0.5]}
            kept = {"results": [None], "without_args": None}
            assert len(self.real.call("finish_runs", node="n", **kept, **held)) == 1
        else:
            failed = {"run_id": row["id"], "token": str(row["token"]), "elapsed": 0.5}
            failed |= {"kind": "failed", "retryable": ending == "again", "node_name": "n"}
            assert len(self.real.call("fail_runs", ends=json.dumps([failed]))) == 1

    # What must be true.

    def _judge(self, node: Node, claimed: list[Row]) -> None:
        """What was claimed may start, and no limit is exceeded by it."""
        elsewhere = {run for other in self.nodes for run in other.held}
        for row in claimed:
            run = self.runs[row["id"]]
            assert row["id"] not in elsewhere, f"{run} is executed twice"
            assert run["handler"] in node.handlers, f"{run} is offered by others"
            assert not run["requires"] or node.labels, f"{run} requires a label"
            assert run["due_at"] <= self.real.now, f"{run} is not due"
            assert run["queue"] != "narrow" or not self.is_paused, f"{run} is in a paused queue"
            node.held[row["id"]] = row
            if run["concurrency_key"] in self.slots:  # a weight has a key of its own
                self.starts.setdefault(run["concurrency_key"], []).append(self.real.now)
        assert node.free >= 0, f"{node} has more than its slots"
        running = [self.runs[run] for other in self.nodes for run in other.held]
        of_key: Counter[str | None] = Counter()
        for run in running:
            key = run["concurrency_key"]
            of_key[key] += (run["weight"] or 1) if key in self.by_weight else 1
        for key in {self.runs[row["id"]]["concurrency_key"] for row in claimed} & self.slots.keys():
            assert of_key[key] <= self.slots[key], f"too many of {key}"
            rate, begin = self.rates.get(key), self.real.now - PER + 2 * SLICE
            started = [at for at in self.starts[key] if at > begin]
            assert rate is None or len(started) <= rate, f"too many starts of {key}"
        if self.most is not None and any(
            self.runs[row["id"]]["queue"] == "narrow" for row in claimed
        ):
            narrow = [run for run in running if run["queue"] == "narrow"]
            assert len(narrow) <= self.most, f"{narrow} are too many"

    def no_run_is_starved(self) -> None:
        """With one node that may do all, and time, each run ends: no slot has leaked. What is too
        heavy for its whole key waits until the key has more slots.
        """
        for key in sorted(self.by_weight):
            self.a_key_is_limited(key, SLOTS, self.rates.get(key), True)
        if self.is_paused:
            self.a_queue_is_paused_or_resumed()
        self.a_node_joins(offers_rare=True, has_label=True)
        while len(self.nodes) > 1:
            self.a_node_dies(0)
        for _ in range(ROUNDS):
            self.time_passes(1000)
            self.a_node_claims(0, is_answered=True)
            for row in self.nodes[0].held.values():
                self._ends(row, "good")
            self.nodes[0].held.clear()
            self.nodes[0].answered.clear()
            left = self.real.ask("SELECT r.* FROM pgcron.run r")
            if not left:
                return
        raise AssertionError(f"these never start: {left}")
