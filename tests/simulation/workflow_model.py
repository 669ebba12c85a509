"""What must hold of a workflow, said of one look at it: each state has a reason in the states of
the steps before it and in what people and nodes did. No counter and no order of events is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

BAD: Final = frozenset({"dead", "lost", "cancelled", "expired", "upstream_failed"})
OPEN: Final = frozenset({"waiting", "ready", "running"})
WAITS: Final = frozenset({"signal", "approval", "timer"})
HARD_STOPS: Final = frozenset({"kill", "cancel", "abort"})
BY_PERSONS: Final = frozenset({"cancel", "abort"})
HANDS: Final = {"skipped": "skipped by", "succeeded": "marked as succeeded by"}


@dataclass(frozen=True)
class Step:
    """One step of a definition. kind: run, map, workflow, signal, approval or timer; phase: 0, or
    1 for compensations, 2 for what runs finally; condition: NULL, or whether it holds.
    """

    name: str
    kind: str = "run"
    after: tuple[str, ...] = ()
    rule: str = "all_succeeded"
    phase: int = 0
    undoes: str = ""
    is_optional: bool = False
    condition: bool | None = None
    items: int = 0
    at_once: int | None = None
    tolerate: int = 0
    at_most: int | None = None
    at_deadline: str | None = None
    is_once: bool = False

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Hypothesis shows what is not as usual."""
        given = [
            f"{each.name}={value!r}"
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default and each.name != "name"
        ]
        printer.text(f"Step({', '.join([repr(self.name), *given])})")

    def written(self) -> dict[str, Any]:
        """As a definition has it."""
        keys: dict[str, Any] = {"name": self.name}
        if self.kind in WAITS:
            keys["wait_for"] = self.kind
            if self.kind == "timer" or self.at_deadline:
                keys["deadline"] = "1 hour"
            if self.at_deadline:
                keys["at_deadline"] = self.at_deadline
        else:
            keys["handler"] = "workflow:inner" if self.kind == "workflow" else "py:work"
            keys["max_attempts"] = 2
            if self.is_once:
                keys |= {"delivery": "at_most_once", "max_attempts": 1}
        if self.kind == "workflow":
            keys["args"] = ARGS
        if self.kind == "map":
            keys |= {"for_each": f"$.args.list{self.items}", "tolerate": self.tolerate}
            keys |= {"max_parallel": self.at_once} if self.at_once else {}
        if self.at_most:
            again = {"while": "$.again == true", "at_most": self.at_most, "every": "1 microsecond"}
            keys["repeat"] = again
        if self.phase == 1:
            keys["compensates"] = self.undoes
        elif self.rule != ("all_ended" if self.phase == 2 else "all_succeeded"):
            keys["rule"] = self.rule
        keys |= {"finally": True} if self.phase == 2 else {}
        keys |= {"after": list(self.after)} if self.after else {}
        keys |= {"optional": True} if self.is_optional else {}
        if self.condition is not None:
            keys["when"] = f"$.args.yes == {int(self.condition)}"
        return keys


ARGS: Final = {"yes": 1, **{f"list{n}": list(range(n)) for n in range(5)}}


@dataclass(frozen=True)
class Flow:
    """A definition."""

    steps: tuple[Step, ...]
    on_failure: str = "continue"
    parallelism: int | None = None

    def written(self) -> dict[str, Any]:
        keys: dict[str, Any] = {"steps": [step.written() for step in self.steps]}
        keys |= {"on_failure": self.on_failure, "timeout": "1 day"}
        return keys | ({"parallelism": self.parallelism} if self.parallelism else {})

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def before(self, step: Step) -> list[Step]:
        """What it waits for when it names nothing: the phases before it, and of compensations those
        of later steps.
        """
        order = [each.name for each in self.steps]
        return [
            each
            for each in self.steps
            if each.phase < step.phase
            or (
                each.phase == step.phase == 1
                and order.index(each.undoes) > order.index(step.undoes)
            )
        ]

    def below(self, name: str) -> set[str]:
        """What runs again with it."""
        found = {name}
        for step in sorted(self.steps, key=lambda each: each.phase):
            before = step.after or [each.name for each in self.before(step)]
            if found & set(before):
                found.add(step.name)
        return found | {
            step.name for step in self.steps for each in self.before(step) if each.name in found
        }

    def again(self, name: str, undoing: set[str], *, is_cleared: bool) -> set[str]:
        """What runs again with it, or after it, when these compensations have succeeded."""
        found = self.below(name) - (set() if is_cleared else {name})
        if self.step(name).phase > 0:
            return found - (undoing - {name})
        return found.union(*(self.below(self.step(each).undoes) for each in undoing))

    def compensations(self, states: Mapping[str, str], *among: str) -> set[str]:
        return {s.name for s in self.steps if s.phase == 1 and states.get(s.name) in among}


@dataclass(frozen=True)
class Seen:
    """A step, or an item of one, as the views show it."""

    state: str
    run: int | None
    reason: str
    items_ended: int | None = None
    items_failed: int | None = None


@dataclass
class Facts:
    """What people and nodes did to one run of a workflow, and what became of the runs of steps."""

    asked: str = ""
    """cancel or abort: that a person asked for it."""
    is_paused: bool = False
    is_timed_out: bool = False
    is_redriven: bool = False
    above_stops: bool = False
    """The step that it is was to be ended."""
    hands: set[tuple[str, str]] = field(default_factory=set)
    """What people said that a step ended as."""
    answers: dict[str, bool] = field(default_factory=dict)
    """Signals and approvals; False: rejected."""
    is_overdue: set[str] = field(default_factory=set)
    """Waits whose deadline was over."""
    unsure: set[str] = field(default_factory=set)
    """Waits that were answered when they were cleared: for the first time, or for the second."""
    stopped: set[int] = field(default_factory=set)
    """Runs of steps that people stopped."""
    clears: list[set[str]] = field(default_factory=list)
    """What may be executed once more, for each time that somebody wanted it."""
    at_pause: set[int] | None = None
    """The runs that there were when it was paused; no others begin."""


@dataclass(frozen=True)
class Look:
    """One run of a workflow at one moment, with the runs of its steps."""

    flow: Flow
    outcome: str | None
    stopping: str | None
    counts: Mapping[str, int]
    steps: Mapping[str, Seen]
    items: Mapping[str, list[Seen]]
    facts: Facts
    alive: frozenset[int]
    """Runs, of whatever state."""
    ended: Mapping[int, str]
    """The outcomes of runs."""
    asks_again: frozenset[int]
    """Runs whose result says that the step is to be repeated."""

    def faults(self) -> Iterator[str]:
        for step in self.flow.steps:
            seen = self.steps[step.name]
            if not self._is_by_hand(step, seen):
                yield from (f"{step.name}: {each}" for each in self._faults_of(step, seen))
            if step.kind == "map":
                yield from (f"{step.name}: {each}" for each in self._faults_of_list(step, seen))
        yield from self._faults_of_stopping()
        yield from self._faults_of_end()

    # Of one step.

    def verdict(self, step: Step) -> str:
        """What its rule makes of the steps before it."""
        names = step.after or [each.name for each in self.flow.before(step)]
        before = [(self.flow.step(name), self.steps[name].state) for name in names]
        if not step.after:
            before = [(each, state) for each, state in before if state in OPEN]
            return "wait" if before else "go"
        counts = {_counts(each, state) for each, state in before}
        if step.rule == "one_succeeded" and "good" in counts:
            return "go"
        if step.rule == "one_failed" and "bad" in counts:
            return "go"
        if "open" in counts:
            return "wait"
        if (
            step.rule == "all_ended"
            or (step.rule == "none_failed" and "bad" not in counts)
            or (step.rule == "all_succeeded" and counts == {"good"})
        ):
            return "go"
        return "skip" if step.rule == "one_failed" or "bad" not in counts else "never"

    def _is_by_hand(self, step: Step, seen: Seen) -> bool:
        if seen.state == "succeeded" and seen.reason.startswith("kept from"):
            return self.facts.is_redriven and step.phase == 0
        said = (step.name, seen.state) in self.facts.hands
        return said and seen.reason.startswith(HANDS[seen.state])

    def _faults_of(self, step: Step, seen: Seen) -> Iterator[str]:
        verdict = self.verdict(step)
        wanted = {"waiting": "wait"}.get(seen.state, "go")
        if seen.state == "skipped" and verdict == "skip":
            return
        if seen.state == "upstream_failed" and verdict == "never":
            return
        if seen.state == "ready" and self._is_before_its_phase(step):
            return
        if verdict != wanted:
            yield f"it is {seen.state}, and its rule says {verdict}"
        elif seen.state == "waiting":
            return
        elif seen.state == "ready":
            if not (self._is_held() or (step.kind not in WAITS and self._is_full())):
                yield "it is ready, and nothing keeps it from beginning"
        elif step.phase == 1 and seen.state == "skipped" and self._stops_late():
            # There was nothing to undo when it could have begun.
            return
        elif not self._begins(step):
            if seen.state not in {"skipped"} | self._stopped_as(step):
                yield f"it is {seen.state}, and may not begin"
        elif seen.state not in self._ends(step, seen) | self._stopped_as(step):
            yield f"it is {seen.state}, of {sorted(self._ends(step, seen))}"

    def _is_before_its_phase(self, step: Step) -> bool:
        """What it comes after was ended by hand."""
        return any(self.steps[each.name].state in OPEN for each in self.flow.before(step))

    def _begins(self, step: Step) -> bool:
        if step.condition is False:
            return False
        return step.phase != 1 or (
            self.steps[step.undoes].state == "succeeded"
            and (bool(self.stopping) or any(self._failed(phases=(0, 1))))
        )

    def _stops_late(self) -> bool:
        """For other reasons than what failed in it."""
        facts = self.facts
        return bool(facts.asked) or facts.is_timed_out or facts.above_stops

    def _stopped_as(self, step: Step) -> set[str]:
        """How it ends without having begun. A person may have stopped it after a failure did."""
        ends = {"upstream_failed"} if self.stopping and step.phase == 0 else set()
        if self.stopping == "abort" or (self.stopping == "cancel" and step.phase == 0):
            ends.add("cancelled")
        return ends

    def _ends(self, step: Step, seen: Seen) -> set[str]:
        """The states that a step may have which has begun."""
        if step.kind == "map":
            return self._ends_of_list(step, seen)
        if step.kind in WAITS:
            return self._ends_of_wait(step)
        if seen.run is None or seen.run in self.alive:
            known = self.facts.at_pause if self._is_held() else None
            is_new = known is not None and seen.run not in known
            return {"not running, as the workflow is paused"} if is_new else {"running"}
        outcome = self.ended.get(seen.run, "no run")
        if outcome == "cancelled" and not self._is_stopped(step, seen.run):
            return {"no reason to be cancelled"}
        if step.at_most and outcome == "succeeded" and seen.run in self.asks_again:
            return {"cancelled"} if self.stopping else {"dead"}
        return {outcome}

    def _is_stopped(self, step: Step, run: int) -> bool:
        return run in self.facts.stopped or self._stops_what_runs(step)

    def _ends_of_wait(self, step: Step) -> set[str]:
        facts = self.facts
        if step.name in facts.unsure:
            return {"running", "succeeded", "dead", "skipped", "cancelled"}
        is_stopped = self._stops_what_runs(step)
        ends = {"cancelled"} if is_stopped else set()
        if self.stopping == "stop" and step.phase == 0:
            ends.add("upstream_failed")
        if step.name in facts.answers:
            is_good = facts.answers[step.name] or step.kind == "signal"
            ends.add("succeeded" if is_good else "dead")
        if step.name in facts.is_overdue:
            then = step.at_deadline or ("succeed" if step.kind == "timer" else "fail")
            ends.add({"fail": "dead", "skip": "skipped", "succeed": "succeeded"}[then])
        return ends or {"running"}

    def _stops_what_runs(self, step: Step) -> bool:
        return self.stopping == "abort" or (self.stopping in HARD_STOPS and step.phase == 0)

    def _ends_of_list(self, step: Step, seen: Seen) -> set[str]:
        items = self.items.get(step.name, [])
        if any(item.state in OPEN for item in items):
            return {"running"}
        failed = step.items - sum(item.state == "succeeded" for item in items)
        if failed <= step.tolerate:
            if len(items) < step.items:
                return {"cancelled"}
            # The stop may have come after the end of the list.
            is_cancelled = self.stopping and any(item.state == "cancelled" for item in items)
            return {"succeeded", "cancelled"} if is_cancelled else {"succeeded"}
        return {"cancelled", "dead"} if self.stopping else {"dead"}

    def _faults_of_list(self, step: Step, seen: Seen) -> Iterator[str]:
        items = self.items.get(step.name, [])
        if seen.state == "running":
            running = sum(item.state == "running" for item in items)
            ended = sum(item.state not in OPEN for item in items)
            if running > (step.at_once or 10000):
                yield f"{running} of its items execute at once"
            if seen.items_ended != ended:
                yield f"{ended} items are over, and it counts {seen.items_ended}"
            failed = sum(item.state in BAD - {"cancelled"} for item in items)
            if seen.items_failed != failed and not self.stopping:
                yield f"{failed} items failed, and it counts {seen.items_failed}"
        # What executes of a list that a person has ended is asked to stop.
        elif {i.state for i in items} & OPEN - (
            {"running"} if self._is_by_hand(step, seen) else set()
        ):
            yield "it is over, and an item of it is not"
        for item in items:
            if item.state == "running" and item.run not in self.alive:
                yield "an item is running without a run"
            known = self.facts.at_pause if self._is_held() else None
            if item.state == "running" and known is not None and item.run not in known:
                yield "an item began while the workflow is paused"
            outcome = self.ended.get(item.run or 0, item.state)
            if item.state != outcome:
                yield f"an item is {item.state}, and its run {outcome}"

    def _is_held(self) -> bool:
        """A workflow that is ended goes on to its end."""
        return self.facts.is_paused and self.stopping in (None, "stop")

    def _is_full(self) -> bool:
        if self.flow.parallelism is None:
            return False
        return self.executing() >= self.flow.parallelism

    def executing(self) -> int:
        """How many runs of it count for its parallelism."""
        every = [*self.steps.values(), *(one for each in self.items.values() for one in each)]
        return sum(seen.state == "running" and seen.run in self.alive for seen in every)

    # Of all of it.

    def _failed(self, *, phases: tuple[int, ...] = (0, 1, 2)) -> Iterator[str]:
        for step in self.flow.steps:
            state = self.steps[step.name].state
            if state in BAD and not step.is_optional and step.phase in phases:
                yield state

    def _faults_of_stopping(self) -> Iterator[str]:
        facts, policy = self.facts, self.flow.on_failure
        failed = policy != "continue" and set(self._failed(phases=(0,))) - {"upstream_failed"}
        wanted = facts.asked or ("kill" if facts.is_timed_out else policy if failed else "")
        allowed = {wanted or None}
        if facts.is_timed_out and not facts.asked:
            allowed |= {"kill", "stop"}
        if facts.above_stops:
            allowed |= {"cancel", "abort"}
        if self.outcome is None and self.stopping not in allowed:
            yield f"its stopping is {self.stopping}, and not of {allowed}"

    def _faults_of_end(self) -> Iterator[str]:
        states = [seen.state for seen in self.steps.values()]
        is_over = not set(states) & OPEN
        if is_over != (self.outcome is not None):
            yield f"its outcome is {self.outcome}, and its steps are {states}"
        elif is_over:
            wanted = "cancelled" if self.stopping in BY_PERSONS else "succeeded"
            if self.stopping not in BY_PERSONS and (any(self._failed()) or self.stopping):
                wanted = "dead"
            if self.outcome != wanted:
                yield f"its outcome is {self.outcome}, and should be {wanted}"
        tally = {state: states.count(state) for state in ("waiting", "ready", "running")}
        tally |= {
            "succeeded": states.count("succeeded"),
            "failed": sum(state in BAD for state in states),
            "skipped": states.count("skipped") + states.count("superseded"),
        }
        if tally != self.counts:
            yield f"it counts {self.counts}, and should {tally}"


def _counts(step: Step, state: str) -> str:
    if state in OPEN:
        return "open"
    if state in ("skipped", "superseded"):
        return "skipped"
    return "bad" if state in BAD and not step.is_optional else "good"
