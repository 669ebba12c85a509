"""What nodes and people do to workflows, in any order: the steps of a stateful test."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.db.control import Row
from tests.simulation.workflow_definitions import flows
from tests.simulation.workflow_model import ARGS, OPEN, WAITS, Facts, Flow, Look, Seen, Step
from tests.simulation.workflow_real import (
    RealWorkflows,
    advance_all,
    finish,
    finish_as_service,
    put,
)

Key = tuple[int, str, int]
some = st.integers(0, 9)
ends = st.sampled_from(["good", "good", "good", "again", "retry", "dead"])
AGAIN: Final = '{"again": true}'


@dataclass
class Executing:
    """A run of a step that a node executes."""

    row: Row
    key: Key
    node: int
    is_lost: bool = False
    is_ending: bool = False
    """In a transaction that is open."""


class Workflows(RuleBasedStateMachine):
    """`real` is set by whoever plays it."""

    real: ClassVar[RealWorkflows]

    def __init__(self) -> None:
        super().__init__()
        self.real.begin()
        self.facts: dict[int, Facts] = defaultdict(Facts)
        self.executing: dict[int, Executing] = {}
        self.begun: dict[Key, set[int]] = defaultdict(set)
        self.asks_again: set[int] = set()
        self.accepted: dict[int, str] = {}

    @initialize(outer=flows(nested=True), inner=flows(nested=False))
    def a_workflow_is_started(self, outer: Flow, inner: Flow) -> None:
        self.flows = {"outer": outer, "inner": inner}
        for name, flow in self.flows.items():
            self.real.do(put(self.real.main, name, flow.written()))
        self.root = self.real.ask(
            "SELECT pgcron.start_workflow('outer'::text, $1)", json.dumps(ARGS)
        )
        self.first = self.root
        self.nodes_begin(0, 1)

    # What nodes do.

    @rule(node=st.integers(0, 1), most=st.sampled_from([1, 2, 20]))
    def nodes_begin(self, node: int, most: int) -> None:
        rows = self.real.claim(node, most)
        found = self.real.rows(
            "SELECT step_run, run_id, name, item FROM pgcron.workflow_steps"
            " WHERE step_run = ANY($1)",
            [row["id"] for row in rows],
        )
        keys = {each["step_run"]: (each["run_id"], each["name"], each["item"]) for each in found}
        for row in rows:
            assert row["id"] in keys, f"run {row['id']} is no step's any more, and began"
            key = keys[row["id"]]
            others = [one for one in self.executing.values() if one.key == key]
            assert not others, f"step {key} executes twice at once"
            self.begun[key].add(row["id"])
            self.executing[row["id"]] = Executing(row, key, node)
            self._executes_with_reason(key)

    def _executes_with_reason(self, key: Key) -> None:
        workflow, name, _ = key
        facts = self.facts[workflow]
        [found] = self.real.rows(
            "SELECT name FROM pgcron.workflow_runs WHERE run_id = $1", workflow
        )
        most = 1 + sum(name in cleared for cleared in facts.clears)
        most *= self.flows[found["name"]].step(name).at_most or 1
        assert len(self.begun[key]) <= most, f"step {key} was executed {len(self.begun[key])} times"

    @precondition(lambda self: self._free())
    @rule(number=some, how=ends)
    def a_run_ends(self, number: int, how: str) -> None:
        one = self._pick(number)
        if how in ("good", "again"):
            self._finished(one, AGAIN if how == "again" else None)
            return
        verdict = self.real.fail(one.row, retryable=how == "retry")
        assert verdict, f"run {one.row['id']} could not end"
        self._is_over(one, verdict)

    def _finished(self, one: Executing, result: str | None) -> None:
        was_service = self.real.is_open and self.real.is_service
        self.real.waited = False
        ended = self.real.finish([one.row], result)
        assert ended, f"run {one.row['id']} could not end"
        assert not (was_service and self.real.waited), "an end waits for a service's transaction"
        self._is_over(one, "succeeded", result)

    def _is_over(self, one: Executing, verdict: str, result: str | None = None) -> None:
        run = one.row["id"]
        del self.executing[run]
        if verdict not in ("retry", "snooze"):
            self.accepted[run] = verdict
            if result == AGAIN:
                self.asks_again.add(run)

    @rule(number=some, ends=st.lists(ends, min_size=1, max_size=4), goes_on=st.booleans())
    def nodes_work(self, number: int, ends: list[str], goes_on: bool) -> None:
        """Several of these things, as otherwise little is reached."""
        for how in ends:
            self.nodes_begin(number % 2, 20)
            if self._free():
                self.a_run_ends(number, how)
        if goes_on:
            self.nodes_go_on()

    @precondition(lambda self: self._free() and not self.real.is_open)
    @rule(
        number=some,
        how=st.sampled_from(["good", "good", "again"]),
        commits=st.booleans(),
        is_service=st.booleans(),
    )
    def a_run_ends_in_an_open_transaction(
        self, number: int, how: str, commits: bool, is_service: bool
    ) -> None:
        one = self._pick(number)
        one.is_ending = True
        result = AGAIN if how == "again" else None

        def closed(committed: bool) -> None:
            one.is_ending = False
            if committed:
                self._is_over(one, "succeeded", result)

        self.real.is_service = is_service
        self.real.open(
            (lambda connection: finish_as_service(connection, one.row, result))
            if is_service
            else (lambda connection: finish(connection, [one.row], result)),
            commits=commits,
            on_close=closed,
        )

    @precondition(lambda self: not self.real.is_open)
    @rule(commits=st.booleans())
    def the_other_node_goes_on_without_a_commit(self, commits: bool) -> None:
        self.real.is_service = False
        self.real.open(advance_all, commits=commits, on_close=lambda _: None)

    @precondition(lambda self: self.real.is_open)
    @rule()
    def the_transaction_ends(self) -> None:
        self.real.end_open()

    @rule(node=st.integers(0, 1), is_sure=some)
    def a_node_is_lost(self, node: int, is_sure: int) -> None:
        if is_sure < 3:
            self.real.lose(node)
            for one in self.executing.values():
                one.is_lost |= one.node == node
            self._reap()

    def _reap(self) -> None:
        for run, verdict in self.real.reap().items():
            if run in self.executing:
                self._is_over(self.executing[run], verdict)

    @rule()
    def nodes_go_on(self) -> None:
        for looks in range(40):
            is_held = self.real.is_open and looks > 2
            if is_held or not self.real.advance():
                break
        else:
            raise AssertionError(f"something is never done: {self._undone()}")
        if not self.real.is_open:
            self.all_rules_hold()

    @rule()
    def a_second_passes(self) -> None:
        self.real.rows("UPDATE pgcron.workflow_run SET look_at = now() WHERE look_at > now()")
        self._reap()
        self.nodes_go_on()

    @rule(is_sure=some)
    def deadlines_of_waits_are_over(self, is_sure: int) -> None:
        if is_sure > 3:
            return
        rows = self.real.rows(
            "WITH over AS (UPDATE pgcron.step SET due = now() WHERE due > now()"
            "  AND state = 'running' RETURNING workflow, number, definition)"
            " SELECT o.workflow, d.name FROM over o JOIN pgcron.workflow_step d"
            "  ON d.definition = o.definition AND d.number = o.number"
        )
        for row in rows:
            if row["workflow"] in self._clearing():
                self.facts[row["workflow"]].unsure.add(row["name"])
            else:
                self.facts[row["workflow"]].is_overdue.add(row["name"])

    # What people do.

    @rule(number=some, by_force=st.booleans())
    def a_run_is_stopped(self, number: int, by_force: bool) -> None:
        rows = self.real.rows(
            "SELECT id, parent_run, gate FROM pgcron.run WHERE origin = 'step' ORDER BY id"
        )
        if rows:
            row = rows[number % len(rows)]
            self._is_asked_to_stop(row["id"], by_force, row["gate"] == "workflow")
            self.facts[row["parent_run"]].stopped.add(row["id"])

    def _is_asked_to_stop(self, run: int, by_force: bool, is_workflow: bool) -> None:
        verb = "kill_run" if by_force else "cancel_run"
        self.real.ask(f"SELECT pgcron.{verb}($1)", run)
        if is_workflow and not self._is_closed(run):
            facts = self.facts[run]
            facts.asked = "abort" if by_force or facts.asked == "abort" else "cancel"

    def _is_closed(self, workflow: int) -> bool:
        """Over, or not begun."""
        rows = self.real.rows(
            "SELECT FROM pgcron.workflow_runs WHERE run_id = $1 AND finished_at IS NULL", workflow
        )
        return not rows

    @rule(by_force=st.booleans(), is_sure=some)
    def the_workflow_is_stopped(self, by_force: bool, is_sure: int) -> None:
        if is_sure < 3 and not self._is_closed(self.root):
            self._is_asked_to_stop(self.root, by_force, True)

    @rule(is_sure=some)
    def the_timeout_is_over(self, is_sure: int) -> None:
        if is_sure < 2 and not self._is_closed(self.root):
            query = "UPDATE pgcron.workflow_run SET deadline = now() WHERE run = $1"
            self.real.rows(query, self.root)
            self.facts[self.root].is_timed_out = True

    @rule(is_sure=some)
    def the_workflow_is_paused_or_resumed(self, is_sure: int) -> None:
        facts = self.facts[self.root]
        if is_sure < 5 and not self._is_closed(self.root):
            facts.is_paused = not facts.is_paused
            verb = "pause_workflow" if facts.is_paused else "resume_workflow"
            known = None if self.real.is_open else {row["id"] for row in self._live()}
            self.real.ask(f"SELECT pgcron.{verb}($1)", self.root)
            facts.at_pause = known if facts.is_paused else None

    @rule(number=some, is_good=st.booleans())
    def somebody_answers(self, number: int, is_good: bool) -> None:
        for workflow, flow in self._open_workflows():
            waits = [step for step in flow.steps if step.kind in ("signal", "approval")]
            if waits:
                step = waits[number % len(waits)]
                said = self._answer(workflow, step, is_good)
                if said in ("ended", "kept"):
                    self._is_answered(workflow, step.name, is_good)

    def _answer(self, workflow: int, step: Step, is_good: bool) -> Any:
        if step.kind == "signal":
            return self.real.ask("SELECT pgcron.signal($1, $2)", workflow, step.name)
        query = "SELECT pgcron.approve_step($1, $2, $3)"
        return self.real.ask(query, workflow, step.name, is_good)

    def _is_answered(self, workflow: int, name: str, is_good: bool) -> None:
        """Perhaps for the last time, where its step is to be cleared."""
        if workflow in self._clearing():
            self.facts[workflow].unsure.add(name)
        else:
            self.facts[workflow].answers[name] = is_good

    def _clearing(self) -> set[int]:
        """Of which people wanted something that has not happened yet."""
        rows = self.real.rows(
            "SELECT run FROM pgcron.workflow_run WHERE clearing IS NOT NULL"
            " UNION SELECT workflow FROM pgcron.step_outbox WHERE is_command"
        )
        return {row["run"] for row in rows}

    @rule(number=some, outcome=st.sampled_from(["skipped", "succeeded"]))
    def a_step_is_ended_by_hand(self, number: int, outcome: str) -> None:
        self._is_done_by_hand(number, outcome)

    @rule(number=some)
    def a_step_is_cleared(self, number: int) -> None:
        self._is_done_by_hand(number, "")

    def _is_done_by_hand(self, number: int, outcome: str) -> None:
        for workflow, flow in self._open_workflows():
            step = flow.steps[number % len(flow.steps)]
            states = self._states(workflow)
            facts = self.facts[workflow]
            [row] = self.real.rows(
                "SELECT stopping FROM pgcron.workflow_runs WHERE run_id = $1", workflow
            )
            # If it is over by then, one that is ended by hand is corrected, and what is below it
            # runs again. Compensations that are open may succeed before.
            below, at_most = (
                flow.again(step.name, flow.compensations(states, *among), is_cleared=not outcome)
                for among in (("succeeded",), ("succeeded", *OPEN))
            )
            if outcome:
                verb = "skip_step" if outcome == "skipped" else "succeed_step"
                said = self.real.ask(f"SELECT pgcron.{verb}($1, $2)", workflow, step.name)
                facts.hands.add((step.name, outcome))
                facts.stopped |= self._runs_of(workflow, step.name)
            else:
                said = self.real.ask("SELECT pgcron.clear_step($1, $2)", workflow, step.name)
                if said != "PC011":
                    is_right = said == len(below) or (row["stopping"] and said > len(below))
                    assert is_right, f"clear_step says {said} of {sorted(below)}"
            if said == "PC011":
                continue
            if row["stopping"] is not None or flow.on_failure != "continue":
                # What was stopped runs again, too.
                facts.clears.append({each.name for each in flow.steps})
            else:
                facts.clears.append(below | at_most)
            for each in below | at_most:
                facts.stopped |= self._runs_of(workflow, each)
                is_sure = each in below and (not outcome or states.get(step.name) not in OPEN)
                has_begun = states.get(each) not in ("waiting", "ready")
                self._is_answered_anew(facts, each, is_sure and has_begun)

    def _is_answered_anew(self, facts: Facts, name: str, is_over: bool) -> None:
        """What was said of a wait that has begun is void; of another one both answers may count."""
        if name in facts.answers or name in facts.is_overdue:
            if not is_over:
                facts.unsure.add(name)
            facts.answers.pop(name, None)
            facts.is_overdue.discard(name)

    @precondition(lambda self: not self.real.is_open)
    @rule()
    def a_dead_workflow_is_redriven(self) -> None:
        if self.real.ask("SELECT state FROM pgcron.runs WHERE id = $1", self.root) == "dead":
            new = self.real.ask("SELECT pgcron.redrive($1)", self.root)
            assert isinstance(new, int), f"redrive says {new}"
            self.root = new
            self.facts[new].is_redriven = True
            self.nodes_begin(0, 20)

    # What is looked at.

    def _undone(self) -> list[dict[str, object]]:
        rows = self.real.rows("SELECT * FROM pgcron.step_outbox")
        rows += self.real.rows("SELECT * FROM pgcron.workflow_run")
        rows += self.real.rows(
            "SELECT d.name, s.* FROM pgcron.step s JOIN pgcron.workflow_step d USING"
            " (definition, number) ORDER BY s.workflow, s.number"
        )
        return [{key: value for key, value in row.items() if value is not None} for row in rows]

    def _free(self) -> list[Executing]:
        return [one for one in self.executing.values() if not one.is_ending and not one.is_lost]

    def _pick(self, number: int) -> Executing:
        free = self._free()
        return free[number % len(free)]

    def _live(self) -> list[Row]:
        return self.real.rows("SELECT * FROM pgcron.run ORDER BY id")

    def _open_workflows(self) -> Iterator[tuple[int, Flow]]:
        rows = self.real.rows(
            "SELECT run_id, name FROM pgcron.workflow_runs WHERE finished_at IS NULL"
            " ORDER BY run_id LIMIT 2"
        )
        for row in rows:
            yield row["run_id"], self.flows[row["name"]]

    def _states(self, workflow: int) -> dict[str, str]:
        rows = self.real.rows(
            "SELECT name, state FROM pgcron.workflow_steps WHERE run_id = $1 AND item < 0", workflow
        )
        return {row["name"]: row["state"] for row in rows}

    def _runs_of(self, workflow: int, name: str) -> set[int]:
        rows = self.real.rows(
            "SELECT step_run FROM pgcron.workflow_steps WHERE run_id = $1 AND name = $2",
            workflow,
            name,
        )
        return {row[0] for row in rows if row[0]}

    def looks(self) -> dict[int, Look]:
        every: dict[int, dict[str, Seen]] = defaultdict(dict)
        items: dict[int, dict[str, list[Seen]]] = defaultdict(lambda: defaultdict(list))
        for row in self.real.rows(
            "SELECT run_id, name, item, state, step_run, reason, items, items_ended, items_failed"
            " FROM pgcron.workflow_steps ORDER BY run_id, number, item"
        ):
            seen = Seen(
                row["state"],
                row["step_run"],
                row["reason"] or "",
                row["items_ended"],
                row["items_failed"],
            )
            if row["item"] < 0:
                every[row["run_id"]][row["name"]] = seen
            else:
                items[row["run_id"]][row["name"]].append(seen)
        alive = frozenset(row["id"] for row in self._live())
        ended = {
            row["id"]: row["outcome"]
            for row in self.real.rows(
                "SELECT id, outcome FROM pgcron.history WHERE id >= $1", self.first
            )
        }
        found = {}
        for row in self.real.rows("SELECT * FROM pgcron.workflow_runs ORDER BY run_id"):
            run = row["run_id"]
            found[run] = Look(
                self.flows[row["name"]],
                None if row["state"] == "running" else row["state"],
                row["stopping"],
                {name: row[name] for name in COUNTED},
                every[run],
                items[run],
                self.facts[run],
                alive,
                ended,
                frozenset(self.asks_again),
            )
        return found

    def all_rules_hold(self) -> None:
        """When nothing is left to be done at the moment."""
        problems = [
            str(dict(row)) for row in self.real.rows("SELECT * FROM pgcron.check_workflows()")
        ]
        looks = self.looks()
        clearing = self._clearing()
        above = {row["id"]: row["parent_run"] for row in self._live() if row["origin"] == "step"}
        for run, look in looks.items():
            parent = looks.get(above.get(run, 0))
            if parent is not None:
                facts = self.facts[run]
                is_stopped = run in parent.facts.stopped or parent.stopping is not None
                facts.above_stops |= is_stopped
                facts.is_paused = parent.facts.is_paused
                facts.at_pause = parent.facts.at_pause
                if parent.stopping == "abort" and look.stopping != "abort":
                    problems.append(f"{run}: its workflow is killed, and it is not")
            if run not in clearing:
                problems += [f"{run}: {each}" for each in look.faults()]
                limit = look.flow.parallelism
                if limit and look.executing() > limit:
                    problems.append(f"{run}: {look.executing()} steps execute of {limit}")
        problems += self._orphans(looks)
        for run, outcome in self.accepted.items():
            if next(iter(looks.values())).ended.get(run) != outcome:
                problems.append(f"run {run} ended {outcome}, and history has another outcome")
        assert not problems, "\n".join(problems)

    def _orphans(self, looks: dict[int, Look]) -> Iterator[str]:
        """Runs that are no step's, and were not asked to stop."""
        current = {
            seen.run
            for look in looks.values()
            for seen in [*look.steps.values(), *(i for each in look.items.values() for i in each)]
            if seen.state == "running"
        }
        for row in self._live():
            if row["origin"] == "step" and row["id"] not in current and row["cancel_at"] is None:
                inner = looks.get(row["id"])
                if inner is None or inner.stopping is None:
                    yield f"run {row['id']} is alive, and its step is over"

    # How all ends.

    def teardown(self) -> None:
        try:
            if hasattr(self, "root"):
                self._settle()
        finally:
            self.real.commits = False
            self.real.end_open()

    def _settle(self) -> None:
        self.real.end_open()
        for _ in range(60):
            for workflow, flow in list(self._open_workflows()):
                if self.facts[workflow].is_paused:
                    self.real.ask("SELECT pgcron.resume_workflow($1)", workflow)
                    self.facts[workflow].is_paused = False
                states = self._states(workflow)
                for step in flow.steps:
                    if step.kind in WAITS - {"timer"} and states.get(step.name) == "running":
                        self._answer(workflow, step, True)
                        self._is_answered(workflow, step.name, True)
            self.deadlines_of_waits_are_over(0)
            self.nodes_begin(0, 50)
            for one in self._free():
                self._finished(one, None)
            self.a_second_passes()
            if not self._live():
                break
        assert not self._live(), f"it never ends: {self._live()}"
        assert self.real.rows("SELECT * FROM pgcron.step_outbox") == []
        state = self.real.ask("SELECT state FROM pgcron.runs WHERE id = $1", self.root)
        letters = self.real.ask("SELECT count(*) FROM pgcron.dead_letter WHERE closed_at IS NULL")
        assert letters == (state == "dead"), f"{letters} dead letters of a workflow that is {state}"


COUNTED: Final = ("waiting", "ready", "running", "succeeded", "failed", "skipped")
