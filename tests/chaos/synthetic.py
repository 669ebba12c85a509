"""Histories that never happened: valid ones by a seed, for the tests of the checkers.

A small world without a product: schedules with fires that run, are skipped, or are missed
together; runs that fail, are reaped, are cancelled; clients that are answered, refused, or never
told. Everything holds that the checkers promise to check.
"""

from __future__ import annotations

import json
import random
from typing import Any

from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.oracle import is_fire
from tests.chaos.gates import GATES, RUNS
from tests.chaos.schedules import SPECS
from tests.chaos.stage import zone_of
from tests.chaos.workflows import SHAPES, workflow_of

WALL = 1_795_000_000.0
"""Wall clock minus boottime."""

END = 90.0
NODES = {"n1": 101, "n2": 102}


class World:
    """Writes down what a chaos run would."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.events: list[Facts] = []
        self.tables: dict[str, list[Facts]] = {
            name: []
            for name in (
                *("live", "ended", "attempts", "occurrences", "missed", "versions", "cursors"),
                *("letters", "keys", "nodes", "effects"),
                *("workflows", "steps", "defined", "edges", "outbox", "wrong"),
            )
        }
        self.runs = self.fences = self.operations = 0

    def event(self, kind: str, at: float, **facts: Any) -> None:
        self.events.append({"kind": kind, "at": at, "pid": 1, **facts})

    def history(self) -> History:
        """What all of it comes to."""
        for name, at in (("start", 0.0), ("before", 1.0), ("faults", 5.0), ("recovery", 70.0)):
            self.event("phase", at, name=name, ttl=2.0)
        self.event("phase", 75.0, name="after")
        self.event("phase", 80.0, name="drain")
        self.event("phase", END, name="over", drained=True)
        for second in range(1, int(END)):
            self.look(second)
        for name, pid in NODES.items():
            self.event("left", END + 1, node=name, of=pid, code=0)
        return History(self.events, self.tables)

    def look(self, second: int) -> None:
        self.event(
            "look",
            second + 0.5,
            **{"offset": WALL, "orphaned": 0.0, "waiting": 0.1, "hoarders": []},
            **{"crowded_schedules": 0, "live": 3, "blocked": 0, "deadlocks": 0},
            waiting_at_gates=0.2,
        )

    # Schedules.

    def schedule(self, number: int) -> None:
        """Created, perhaps edited and paused, with its ledger."""
        spec = self.chance.choice(SPECS)
        edits = [(2.0, spec, True)]
        if self.chance.random() < 0.7:
            edits.append((30.25, self.chance.choice(SPECS), True))
        if self.chance.random() < 0.7:
            edits.append((45.25, edits[-1][1], False))
            edits.append((55.25, edits[-1][1], True))
            self.missed(number, 45.250001, 55.25, "paused")
        edits.append((79.0, edits[-1][1], False))
        for version, (at, text, is_enabled) in enumerate(edits, 1):
            self.version(number, version, at, text, is_enabled)
        key = f"s{number}" if self.chance.random() < 0.6 else None
        outage = range(60, 65) if self.chance.random() < 0.5 else range(0)
        if outage:
            self.missed(number, 60, 64, "catchup_latest")
        busy_until = 0.0
        for second in range(3, 79):
            spec, is_enabled = [edit[1:] for edit in edits if edit[0] <= second][-1]
            if is_enabled and second not in outage and is_fire(spec, "UTC", int(WALL) + second):
                busy_until = self.fire(number, second, key, busy_until)
        self.tables["cursors"].append({"schedule_id": number, "watermark": WALL + 79.0})

    def version(self, number: int, version: int, at: float, spec: str, is_enabled: bool) -> None:
        self.operations += 1
        what = "create" if version == 1 else "edit"
        self.ask(what, at, "ok", number, name=f"s{number}")
        content = {
            "spec": spec,
            "timezone": "UTC",
            "enabled": is_enabled,
            "args": {"op": self.operations},
        }
        self.tables["versions"].append(
            {
                **{"schedule_id": number, "version": version, "at": WALL + at},
                **{"operation": what, "content": json.dumps(content)},
            }
        )

    def ask(self, what: str, at: float, result: str, value: Any, **facts: Any) -> None:
        self.event("ask", at - 0.005, op=self.operations, what=what, **facts)
        if result != "silence":
            self.event("answer", at + 0.005, op=self.operations, result=result, value=value)

    def missed(self, number: int, first: float, last: float, reason: str) -> None:
        self.tables["missed"].append(
            {
                **{"schedule_id": number, "first_at": WALL + first, "last_at": WALL + last},
                **{"fires": None, "reason": reason, "note": None},
            }
        )

    def fire(self, number: int, second: int, key: str | None, busy_until: float) -> float:
        """Runs it, or skips it while its key is held; returns until when the key is."""
        row = self.run_row("py:work", second, schedule=number)
        decision = "run"
        if key is not None and busy_until > second:
            decision = "skipped"
            self.end(row, "skipped", second + 0.1)
        else:
            busy_until = self.execute(row, second + 0.02, key)
        self.tables["occurrences"].append(
            {
                **{"schedule_id": number, "fire_at": WALL + second, "decision": decision},
                **{"run_id": row["id"], "reason": None},
            }
        )
        return busy_until

    # Runs.

    def run_row(self, handler: str, due: float, schedule: int | None = None, **facts: Any) -> Facts:
        self.runs += 1
        return {
            **{"id": self.runs, "schedule_id": schedule, "handler": handler},
            "scheduled_for": None if schedule is None else WALL + due,
            "origin": "enqueued" if schedule is None else "schedule",
            **{"delivery": "at_least_once", "max_attempts": 100, "attempt": 0, "args": "{}"},
            **{"fence": None, "cancel_reason": None, "due_at": WALL + due},
            **facts,
        }

    def execute(
        self,
        row: Facts,
        at: float,
        key: str | None = None,
        gate: str | None = None,
        step: str | None = None,
    ) -> float:
        """Attempt after attempt until it ends; returns when."""
        while True:
            row["attempt"] += 1
            self.fences += 1
            row["fence"] = self.fences
            seconds = self.chance.uniform(0.05, 1.5)
            manner = self.chance.random()
            is_last = row["delivery"] == "at_most_once" or manner > 0.25
            how = "end" if manner > 0.15 else self.chance.choice(["stopped", "dies"])
            if not is_last:
                how = self.chance.choice(["stopped", "dies", "frozen"])
            row["claimed_at"] = WALL + at
            self.claim(row, at, at + seconds, how, key, gate, step)
            ended = at + seconds + 0.01
            if how == "end":
                self.end(row, "succeeded", ended)
                return ended
            if row["delivery"] == "at_most_once":
                self.end(row, "lost", ended + 2)
                return ended + 2
            self.tables["attempts"].append(
                {
                    **{"run_id": row["id"], "attempt": row["attempt"], "outcome": "lease_lost"},
                    **{"started_at": WALL + at, "ended_at": WALL + ended},
                    **{"fence": row["fence"], "claimed_at": WALL + at},
                }
            )
            at = ended + self.chance.uniform(0.01, 2.0)
            row["due_at"] = WALL + at

    def claim(
        self,
        row: Facts,
        at: float,
        until: float,
        how: str,
        key: str | None = None,
        gate: str | None = None,
        step: str | None = None,
    ) -> None:
        zone = GATES[gate].zone if gate is not None else None
        nodes = [each for each in sorted(NODES.items()) if zone in (None, zone_of(each[0]))]
        name, pid = self.chance.choice(nodes)
        facts = {"run": row["id"], "fence": row["fence"], "pid": pid}
        given = {
            "attempt": row["attempt"],
            "node": name,
            "concurrency_key": key,
            "gate": gate,
            "step": step,
            "key": f"k{row['id']}",
        }
        self.event("start", at, **facts, **given, handler=row["handler"], fire=None, schedule=None)
        tick = at + 0.1
        while tick < until:
            self.event("tick", tick, **facts)
            tick += 0.1
        if how in ("end", "stopped"):
            self.event(how, until, **facts)
        if how == "frozen":
            # It was frozen while others went on, and notices it just after it wakes up.
            pid = 900 + row["fence"]
            for event in self.events:
                if event.get("fence") == row["fence"]:
                    event["pid"] = pid
            self.event("freeze", until - 0.01, of=pid, seconds=5.0)
            self.event("stopped", until + 5.1, **{**facts, "pid": pid})

    def end(self, row: Facts, outcome: str, at: float) -> None:
        self.tables["ended"].append({**row, "outcome": outcome, "finished_at": WALL + at})

    def gated(self, gate: str) -> None:
        """Runs of one gate, one after the other, each a second after the last: no limit is near."""
        at = 3.0
        while at < 70:
            delivery = "transactional" if gate == "money" else "at_least_once"
            row = self.run_row("py:gated", at, delivery=delivery)
            at = self.execute(row, at + 0.02, gate=gate) + 1.0
            if gate == "money":
                effect = {"run": row["id"], "key": f"k{row['id']}", "fence": row["fence"]}
                self.tables["effects"].append(effect)

    def dependent(self) -> None:
        """A schedule each of whose fires needs the success of the one before it."""
        at, failed = 3.0, False
        while at < 60:
            row = self.run_row("py:gated", at, origin="schedule")
            row |= {"schedule_id": 900, "scheduled_for": WALL + at}
            if failed:
                self.end(row, "upstream_failed", at + 0.1)
                # Somebody runs it by hand, which succeeds.
                by_hand = self.run_row("py:gated", at + 1, origin="manual") | {"schedule_id": 900}
                at = self.execute(by_hand, at + 1.02, gate="g-previous")
                failed = False
            elif self.chance.random() < 0.2:
                self.operations += 1
                self.ask("cancel", at + 0.4, "ok", "cancelled", run=row["id"])
                self.end(row, "cancelled", at + 0.5)
                failed = True
            else:
                at = self.execute(row, at + 0.02, gate="g-previous")
            at += 2.0

    # Workflows.

    def workflow(self, name: str) -> None:
        """One of these shapes, with steps that nobody meddles with; its items one by one."""
        began = 72.0  # when the runs of gates are over: nodes have few slots
        root = self.run_row(f"workflow:{workflow_of(name)}", began)
        numbers = {".end": len(SHAPES[name].steps) + 1}
        over: dict[str, float] = {}
        for number, step in enumerate(SHAPES[name].steps, 1):
            numbers[step["name"]] = number
            self.tables["edges"] += [
                {"definition": root["id"], "parent": numbers[parent], "child": number}
                for parent in step["after"]
            ]
            begin = max(over.values(), default=began) + 0.05  # one by one
            over[step["name"]] = self.step(root["id"], number, step, begin)
        self.defined(root["id"], numbers[".end"], {"name": ".end"}, "barrier")
        ended_at = max(over.values()) + 0.02
        self.end(root, "succeeded", ended_at)
        self.tables["workflows"].append(
            {
                **{"run": root["id"], "definition": root["id"], "name": workflow_of(name)},
                **{"started_at": WALL + began, "ended_at": WALL + ended_at, "redrive_of": None},
                **{"outcome": "succeeded", "stopping": None, "parallelism": None},
            }
        )

    def step(self, root: int, number: int, step: Facts, at: float) -> float:
        """Its run, or those of four items; returns when it is over."""
        items = range(4) if "for_each" in step else None
        self.defined(root, number, step, "run" if items is None else "map")
        for item in (-1,) if items is None else items:
            row = self.run_row("py:step", at, origin="step") | {"parent_run": root}
            args = {"step": step["name"]} | ({} if items is None else {"item": item})
            row["args"] = json.dumps(args)
            at = self.execute(row, at + 0.02, step=step["name"]) + 0.05
            self.told(root, number, item, row["id"], at)
        if items is not None:
            self.told(root, number, -1, 0, at, items=len(items))
        return at

    def defined(self, root: int, number: int, step: Facts, kind: str) -> None:
        self.tables["defined"].append(
            {
                **{"definition": root, "number": number, "name": step["name"], "kind": kind},
                **{"phase": 0, "handler": step.get("handler"), "is_optional": False},
                **{"rule": "all_succeeded", "max_parallel": step.get("max_parallel")},
                **{"tolerate": 0, "repeat_at_most": None},
            }
        )

    def told(
        self, root: int, number: int, item: int, run: int, at: float, items: int | None = None
    ) -> None:
        self.tables["steps"].append(
            {
                **{"workflow": root, "number": number, "item": item, "definition": root},
                **{"run": run, "state": "succeeded", "turns": None, "reason": None},
                **{"items": items, "items_failed": 0, "ended_at": WALL + at},
            }
        )

    # Clients.

    def enqueued(self) -> None:
        """One operation of a client, and what came of it."""
        self.operations += 1
        at = self.chance.uniform(3, 70)
        result = self.chance.choice(["ok", "ok", "ok", "refused", "unknown", "silence"])
        happens = result == "ok" or (result != "refused" and self.chance.random() < 0.5)
        delivery = self.chance.choice(["at_least_once", "at_most_once"])
        row = self.run_row("py:work", at, delivery=delivery)
        row["args"] = json.dumps({"op": self.operations})
        if delivery == "at_most_once":
            row["max_attempts"] = 1
        key = f"key{self.operations}" if self.chance.random() < 0.5 else None
        self.ask("enqueue", at, result, row["id"] if result == "ok" else None, key=key)
        if not happens:
            return
        if result == "ok" and key is not None and self.chance.random() < 0.5:
            self.operations += 1
            self.ask("enqueue", at + 1, "ok", row["id"], key=key)
        if self.chance.random() < 0.15:
            self.operations += 1
            self.ask("cancel", at + 0.5, "ok", "cancelled", run=row["id"])
            self.end(row, "cancelled", at + 0.6)
        else:
            self.execute(row, at + 0.02)


def valid_history(seed: int) -> History:
    """One in which every promise was kept."""
    world = World(seed)
    for number in range(1, world.chance.randint(2, 4)):
        world.schedule(number)
    for _ in range(world.chance.randint(5, 40)):
        world.enqueued()
    gates = world.chance.sample(sorted(RUNS), 3)
    heavy = [gate for gate in gates if GATES[gate].weight > 1]
    for gate in gates:
        if gate not in heavy[1:]:  # two kinds of heavy runs may be more than a node has slots
            world.gated(gate)
    world.dependent()
    world.workflow(world.chance.choice(["joins", "list"]))
    return world.history()
