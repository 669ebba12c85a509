"""C17: a step begins when its dependencies allow it, is made once, and no workflow is left lying.

When a step executed is what it has recorded by itself; what it depends on, and how it ended, is
known from the tables. What a workflow must come to is said beside its definition.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, TypeAlias

from tests.chaos.checking.gated import FAILED, most_at_once
from tests.chaos.checking.history import Execution, Facts, History
from tests.chaos.checking.runs import CLOCK_SLACK, overlapping
from tests.chaos.workflows import shape_of

_BY_HAND: Final = ("clear", "cancel", "redrive", "end step")
_AT_ONCE: Final = ("all_succeeded", "all_ended", "none_failed")
"""Rules by which a step begins when all that it depends on is over."""

_ENDED_BY_HAND: Final = ("skipped by ", "marked as succeeded by ")

Key: TypeAlias = tuple[int, str, int | None]
"""A workflow, the name of its step, and the item of its list."""


class Workflows:
    """What of a history is of workflows, by what it belongs to."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.runs: dict[int, Facts] = {row["run"]: row for row in history.table("workflows")}
        self.ended: dict[int, Facts] = {row["id"]: row for row in history.table("ended")}
        self.steps: dict[int, list[Facts]] = defaultdict(list)
        for row in history.table("steps"):
            self.steps[row["workflow"]].append(row)
        self.defined: dict[int, dict[int, Facts]] = defaultdict(dict)
        for row in history.table("defined"):
            self.defined[row["definition"]][row["number"]] = row
        self.edges: dict[int, list[tuple[Facts, Facts]]] = defaultdict(list)
        for row in history.table("edges"):
            defined = self.defined[row["definition"]]
            self.edges[row["definition"]].append((defined[row["parent"]], defined[row["child"]]))
        self.made: dict[Key, list[Facts]] = defaultdict(list)
        self.of_none: list[int] = []
        for row in itertools.chain(history.table("ended"), history.table("live")):
            if row["origin"] == "step" and row["parent_run"] not in self.runs:
                self.of_none.append(row["id"])
            elif row["origin"] == "step":
                args = json.loads(row["args"])
                self.made[row["parent_run"], args["step"], args.get("item")].append(row)
        self.asked: dict[int, Counter[str]] = defaultdict(Counter)
        # Who cancels the run of a step meddles with its workflow.
        self.root_of: dict[int, int] = {
            row["id"]: key[0] for key, rows in self.made.items() for row in rows
        }
        for facts in history.answers().values():
            if facts["what"] in _BY_HAND and facts["result"] != "refused":
                run: int = facts["run"]
                self.asked[self.root_of.get(run, run)][facts["what"]] += 1
                self.asked[run][facts["what"]] += run in self.root_of

    @cached_property
    def executions(self) -> dict[int, dict[str, list[Execution]]]:
        """By workflow and step, by their beginning."""
        found: dict[int, dict[str, list[Execution]]] = defaultdict(lambda: defaultdict(list))
        for execution in self.history.executions:
            if execution.step is not None and execution.run in self.root_of:
                found[self.root_of[execution.run]][execution.step].append(execution)
        return found

    @cached_property
    def broken_by_nodes(self) -> set[int]:
        """Workflows with a run, in them or within one of their steps, that died as two of its nodes
        ended before it had begun.
        """
        losses = Counter(
            row["run_id"]
            for row in self.history.table("attempts")
            if row["outcome"] == "lease_lost" and row["started_at"] is None
        )
        runs = {run for run, count in losses.items() if count >= 2}
        found = {key[0] for key, rows in self.made.items() for row in rows if row["id"] in runs}
        found |= {run for run in runs if run in self.runs}
        return {above for run in found for above in self.above(run)}

    def above(self, run: int) -> Iterator[int]:
        """A workflow, and those that it is a step of."""
        at: int | None = run
        while at is not None:
            yield at
            row = self.ended.get(at)
            at = row["parent_run"] if row is not None and row["origin"] == "step" else None

    def is_touched(self, run: int) -> bool:
        """Whether somebody meddled with it, or a node could not but end a run of it."""
        return (
            any(self.asked[each] for each in self.above(run))
            or self.runs[run]["redrive_of"] is not None
            or run in self.broken_by_nodes
        )

    def has_ends_by_hand(self, run: int) -> bool:
        """Of it, or of the run that it redrives."""
        earlier = self.runs[run]["redrive_of"]
        return bool(self.asked[run]["end step"]) or (
            earlier is not None and self.has_ends_by_hand(earlier)
        )

    def name_of(self, step: Facts) -> str:
        """Of a step's row."""
        name: str = self.defined[step["definition"]][step["number"]]["name"]
        return name


def check_workflows(history: History) -> Iterator[str]:
    """All of it."""
    workflows = Workflows(history)
    yield from _check_over(workflows)
    yield from _check_ends_of_steps(workflows)
    yield from _check_made(workflows)
    yield from _check_dependencies(workflows)
    yield from _check_together(workflows)
    yield from _check_limits(workflows)
    yield from _check_cancelled(workflows)
    yield from _check_states(workflows)


def _check_over(workflows: Workflows) -> Iterator[str]:
    """Every workflow that has begun is over, everybody was told, and it ended as its steps say."""
    for row in workflows.history.table("wrong"):
        yield f"C17: workflow {row['run_id']}, step {row['step']}: {row['problem']}"
    for row in workflows.history.table("outbox"):
        yield f"C17: workflow {row['workflow']} has something in its outbox"
    for run, row in workflows.runs.items():
        if row["started_at"] is None:
            continue
        ended = workflows.ended.get(run)
        if row["ended_at"] is None or ended is None:
            yield f"C17: workflow {run} ({row['name']}) is not over"
            continue
        defined = workflows.defined[row["definition"]]
        bad = any(
            step["item"] == -1
            and step["state"] in FAILED
            and not defined[step["number"]]["is_optional"]
            for step in workflows.steps[run]
        )
        outcome = "dead" if bad or row["stopping"] is not None else "succeeded"
        if row["stopping"] in ("cancel", "abort"):
            outcome = "cancelled"
        if (ended["outcome"], row["outcome"]) != (outcome, outcome):
            yield f"C17: workflow {run} ({row['name']}) ended {ended['outcome']}, not {outcome}"


def _check_ends_of_steps(workflows: Workflows) -> Iterator[str]:
    """A step ended as its run did; what succeeded has a run that did, or was kept."""
    slack = CLOCK_SLACK + workflows.history.slack
    for run, steps in workflows.steps.items():
        for step in steps:
            defined = workflows.defined[step["definition"]][step["number"]]
            if defined["kind"] not in ("run", "map") or (
                defined["kind"] == "map" and step["item"] == -1
            ):
                continue
            row = workflows.ended.get(step["run"])
            what = f"C17: workflow {run}: step {defined['name']} ({step['item']})"
            is_kept = (step["reason"] or "").startswith("kept from run ")
            if (step["reason"] or "").startswith(_ENDED_BY_HAND):
                continue
            if step["state"] == "succeeded" and row is None and not is_kept:
                yield f"{what} succeeded, and its run {step['run']} is nowhere"
            elif row is None:
                continue
            elif step["ended_at"] is None or row["finished_at"] > step["ended_at"] + slack:
                yield f"{what} was over before its run {step['run']} was"
            elif row["outcome"] != step["state"] and (
                row["outcome"] != "succeeded" or defined["repeat_at_most"] is None
            ):
                yield f"{what} is {step['state']}, and its run ended {row['outcome']}"


def _check_made(workflows: Workflows) -> Iterator[str]:
    """A step has one run, and one more each time that it, or one before it, is cleared or ended by
    hand; never two at once.
    """
    for each in workflows.of_none:
        yield f"C17: run {each} is that of a step, and of no workflow that goes on"
    repeated = {row["name"] for row in workflows.history.table("defined") if row["repeat_at_most"]}
    for key, rows in workflows.made.items():
        asked = workflows.asked[key[0]]
        allowed = 1 + asked["clear"] + asked["end step"]
        if len(rows) > allowed and key[1] not in repeated:
            runs = sorted(row["id"] for row in rows)
            yield f"C17: workflow {key[0]}: step {key[1]} ({key[2]}) has the runs {runs}"
        if len(rows) > 1:
            runs_of = workflows.history.executions_of
            executions = [one for row in rows for one in runs_of.get(row["id"], [])]
            for first, second in overlapping(workflows.history, executions):
                if first.run != second.run:
                    yield (
                        f"C17: workflow {key[0]}: step {key[1]} executed twice at once,"
                        f" as run {first.run} and {second.run}"
                    )


def _check_dependencies(workflows: Workflows) -> Iterator[str]:
    """What needs the success of others begins after it; what was kept has succeeded before."""
    for run, executions in workflows.executions.items():
        if workflows.has_ends_by_hand(run):
            continue
        for parent, child in workflows.edges[workflows.runs[run]["definition"]]:
            if child["rule"] != "all_succeeded" or parent["is_optional"]:
                continue
            if parent["kind"] not in ("run", "map") or not executions.get(child["name"]):
                continue
            first = executions[child["name"]][0]
            wanted = 1
            if parent["kind"] == "map":
                items = next(
                    step["items"]
                    for step in workflows.steps[run]
                    if step["number"] == parent["number"] and step["item"] == -1
                )
                wanted = (items or 0) - parent["tolerate"]
            if _completed(workflows, run, parent, first.began) < wanted:
                yield (
                    f"C17: workflow {run}: step {child['name']} began (run {first.run}) before"
                    f" {parent['name']}, which it comes after, had succeeded"
                )


def _completed(workflows: Workflows, run: int, parent: Facts, before: float) -> int:
    """How many runs of a step, or items of its list, had completed before that instant."""
    if parent["handler"].startswith("workflow:"):
        return sum(
            row.get("outcome") == "succeeded"
            and workflows.history.boottime_of(row["finished_at"]) < before + 0.05
            for row in workflows.made.get((run, parent["name"], None), [])
        ) or _completed_before(workflows, run, parent, before)
    found = {
        execution.run
        for execution in workflows.executions.get(run, {}).get(parent["name"], [])
        if execution.has_completed and execution.heard <= before
    }
    earlier = _completed_before(workflows, run, parent, before)
    if parent["kind"] != "map":
        return len(found) or earlier
    kept = sum(
        1
        for step in workflows.steps[run]
        if step["number"] == parent["number"]
        and (step["reason"] or "").startswith("kept from run ")
    )
    return len(found) + min(kept, earlier)


def _completed_before(workflows: Workflows, run: int, parent: Facts, before: float) -> int:
    """What a redrive keeps, in the run that it redrives."""
    earlier = workflows.runs[run]["redrive_of"]
    return 0 if earlier is None else _completed(workflows, earlier, parent, before)


def _check_together(workflows: Workflows) -> Iterator[str]:
    """A step does not execute while one does that it depends on, cleared or not."""
    for run, executions in workflows.executions.items():
        if workflows.has_ends_by_hand(run):
            continue  # what executes of such a step is asked to stop, and not waited for
        apart = {
            (parent["name"], child["name"])
            for parent, child in workflows.edges[workflows.runs[run]["definition"]]
            if child["rule"] in _AT_ONCE
        }
        own = list(itertools.chain.from_iterable(executions.values()))
        for first, second in overlapping(workflows.history, own):
            names = (first.step or "", second.step or "")
            if names in apart or names[::-1] in apart:
                yield (
                    f"C17: workflow {run}: {names[1]} (run {second.run}) began while {names[0]}"
                    f" (run {first.run}) executed, and one of them depends on the other"
                )


def _check_limits(workflows: Workflows) -> Iterator[str]:
    """No more steps of a workflow, or items of a list, execute at once than may."""
    for run, executions in workflows.executions.items():
        row = workflows.runs[run]
        own = itertools.chain.from_iterable(executions.values())
        if row["parallelism"] is not None:
            yield from _check_limit(workflows, run, "steps", own, row["parallelism"])
        for step in workflows.defined[row["definition"]].values():
            if step["max_parallel"] is not None:
                items = executions.get(step["name"], [])
                yield from _check_limit(workflows, run, step["name"], items, step["max_parallel"])


def _check_limit(
    workflows: Workflows, run: int, what: str, executions: Iterable[Execution], limit: int
) -> Iterator[str]:
    most, at = most_at_once(workflows.history, executions)
    if most > limit:
        yield f"C17: workflow {run}: {most} of {what} executed at once, {limit} may, at {at:.3f}"


def _check_cancelled(workflows: Workflows) -> Iterator[str]:
    """A step is cancelled with its workflow, with its list, or when it is to run again."""
    lists = {
        (step["workflow"], workflows.name_of(step)): step["items_failed"]
        for run in workflows.runs
        for step in workflows.steps[run]
        if step["items"] is not None
    }
    for (run, name, item), rows in workflows.made.items():
        is_wanted = any(
            workflows.asked[each] or workflows.runs[each]["stopping"] is not None
            for each in workflows.above(run)
            if each in workflows.runs
        )
        if is_wanted or (item is not None and lists.get((run, name))):
            continue
        for row in rows:
            if row.get("outcome") == "cancelled":
                yield f"C17: workflow {run}: step {name} was cancelled by nobody"


def _check_states(workflows: Workflows) -> Iterator[str]:
    """What nobody meddled with comes to what its definition is meant for."""
    for run, row in workflows.runs.items():
        shape = shape_of(row["name"])
        if shape is None or row["ended_at"] is None or workflows.is_touched(run):
            continue
        if row["outcome"] != shape.ends:
            yield f"C17: workflow {run} ({row['name']}) ended {row['outcome']}, not {shape.ends}"
        for step in workflows.steps[run]:
            name = workflows.name_of(step)
            if step["item"] == -1 and not name.startswith("."):
                yield from _check_state(run, name, step, shape.states)


def _check_state(run: int, name: str, step: Facts, states: Mapping[str, str]) -> Iterator[str]:
    wanted = states.get(name, "succeeded").split()
    if step["state"] not in wanted:
        yield f"C17: workflow {run}: step {name} is {step['state']}, not {' or '.join(wanted)}"
